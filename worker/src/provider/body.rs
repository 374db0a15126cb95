//! The body of an answer, read under its clocks into a reply.
//!
//! What kind of body it is, is seen by its first byte: servers name streams `text/plain` and answer a request for a stream
//! with one JSON document (spec §5: that is a reply). Bytes are pulled one chunk at a time; nothing is read ahead.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use ukai_protocol::secret::fingerprint::Mask;

use super::classify::{Clock, Failure};
use super::wire::draft::REPLY_BYTES_MAX;
use super::wire::{Assembler, Delta, Trouble};
use super::{Progress, Raw, sse};
use crate::http::{Answer, TransportError};

/// Of a refusal only its beginning is read: a page of a proxy has no end. An error may quote the request before it says
/// when to come back, and only a document that is whole can be read.
const REFUSAL_BYTES_MAX: usize = 256 * 1024;
/// A whole JSON body spells a reply with escapes around it.
const BODY_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;
/// Of a stream, all bytes together: the longest replies of today in chunks of a kilobyte for each token. What does not
/// count as a part of the reply (comments, fields nobody asked for) has no other end.
pub(super) const STREAM_BYTES_MAX: usize = 256 * 1024 * 1024;
/// UTF-8's byte order mark, which some servers begin with.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// The status has said most of it already.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(5);
/// After the last event only the body's end is due; it comes at once, or the connection is not worth keeping.
const DRAIN_DEADLINE: Duration = Duration::from_millis(50);
/// Usage and the last event follow the finish reason at once, where they follow at all.
const GOODBYE: Duration = Duration::from_secs(5);

/// As much of a refusal's body as comes in time.
pub(super) async fn refusal(answer: &mut Answer) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < REFUSAL_BYTES_MAX {
            match answer.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // Late or broken, what came is what there is; the status stands.
    let _ = timeout(REFUSAL_DEADLINE, read).await;
    bytes.truncate(REFUSAL_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A 200's body under both clocks.
///
/// The idle clock starts with the first byte of the body: until then, a server that reads a long prompt has nothing to
/// send, and the clock for the first content is the one that knows how long that may take.
pub(super) struct Body<'a> {
    answer: Answer,
    secrets: &'a Mask,
    idle: Duration,
    first_content: Duration,
    /// Until the first content came.
    content_deadline: Option<Instant>,
    last_byte: Option<Instant>,
    /// The provider's clock when the answer began, and ours.
    begun: (SystemTime, Instant),
    /// Until what follows the reply has come. A moment, not a silence: pings would put that off for ever.
    goodbye: Option<Instant>,
    /// Bytes of the reply in the stream's events, as far as they were text; at least one for a piece of anything else.
    came: u64,
}

enum Silence {
    Clock(Clock, Duration),
    Transport(TransportError),
}

impl From<Silence> for Failure {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Clock(clock, after) => Failure::timed_out(clock, after),
            Silence::Transport(error) => Failure::transport(&error, Duration::ZERO),
        }
    }
}

impl<'a> Body<'a> {
    /// `content_deadline`: when the first content is due, `first_content` after the request began. `clock`: the provider's.
    pub(super) fn new(
        answer: Answer,
        clock: SystemTime,
        content_deadline: Instant,
        first_content: Duration,
        idle: Duration,
        secrets: &'a Mask,
    ) -> Self {
        Body {
            answer,
            secrets,
            idle,
            first_content,
            content_deadline: Some(content_deadline),
            last_byte: None,
            begun: (clock, Instant::now()),
            goodbye: None,
            came: 0,
        }
    }

    /// How much of a streamed reply came, in bytes; 0 where none had begun.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// Reads the reply into `assembler`, whichever shape it comes in.
    pub(super) async fn read<F>(&mut self, assembler: Assembler, on_progress: &mut F) -> Result<Assembler, Failure>
    where
        F: FnMut(Progress<'_>) + Send,
    {
        let content_type = self.answer.headers.get(::http::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
        let encoding = self.answer.headers.get(::http::header::CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Failure::encoded(encoding.to_str().unwrap_or_default()));
        }
        // What came of a byte order mark that is not whole yet.
        let mut begun = Vec::new();
        loop {
            let Some(chunk) = self.chunk().await? else { return Err(self.trouble(&Trouble::Cut)) };
            on_progress(Progress::Bytes(chunk.len()));
            begun.extend_from_slice(&chunk);
            if MARK.starts_with(&begun) {
                continue;
            }
            let said = begun.strip_prefix(MARK).unwrap_or(&begun).trim_ascii_start();
            let Some(first) = said.first() else {
                begun.clear();
                continue;
            };
            let said = Bytes::copy_from_slice(said);
            return match shape(*first, &content_type) {
                Shape::Json => whole(self, said, assembler, on_progress).await,
                Shape::Events => stream(self, said, assembler, on_progress).await,
                Shape::Neither => Err(Failure::no_stream(&content_type)),
            };
        }
    }

    /// A stream may be minutes old when its error comes.
    pub(super) fn trouble(&self, trouble: &Trouble) -> Failure {
        let (clock, since) = self.begun;
        let now = clock + since.elapsed();
        // Before its words are cut: most of a secret is as good as all of it.
        match trouble {
            Trouble::Told(value) => {
                let mut value = value.clone();
                self.secrets.mask_value(&mut value);
                Failure::trouble(&Trouble::Told(value), now)
            }
            Trouble::Unreadable(text) => {
                Failure::trouble(&Trouble::Unreadable(self.secrets.masked(text).into_owned()), now)
            }
            _ => Failure::trouble(trouble, now),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Silence> {
        let idle = self.last_byte.map(|last| (last + self.idle, Clock::Idle, self.idle));
        let content = self.content_deadline.map(|at| (at, Clock::FirstContent, self.first_content));
        let next = self.answer.chunk();
        let goodbye = self.goodbye.map(|at| (at, Clock::Idle, GOODBYE));
        let Some((at, clock, after)) = idle.into_iter().chain(content).chain(goodbye).min_by_key(|(at, ..)| *at) else {
            return next.await.map_err(Silence::Transport);
        };
        match timeout_at(at, next).await {
            Ok(chunk) => {
                self.last_byte = Some(Instant::now());
                chunk.map_err(Silence::Transport)
            }
            Err(_) => Err(Silence::Clock(clock, after)),
        }
    }
}

/// What kind of body this is, by its first byte that is not blank: content types are often wrong.
enum Shape {
    Json,
    Events,
    Neither,
}

fn shape(first: u8, content_type: &str) -> Shape {
    match first {
        // A list: Gemini's, where it does not stream events.
        b'{' | b'[' => Shape::Json,
        _ if content_type.contains("event-stream") => Shape::Events,
        // data, event, id, retry, a comment: the beginnings of an event stream's lines.
        b'd' | b'e' | b'i' | b'r' | b':' => Shape::Events,
        _ => Shape::Neither,
    }
}

async fn whole<F>(
    body: &mut Body<'_>,
    first: Bytes,
    mut assembler: Assembler,
    on_progress: &mut F,
) -> Result<Assembler, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    // A body is the content.
    body.content_deadline = None;
    let mut bytes = first.to_vec();
    while let Some(chunk) = body.chunk().await? {
        on_progress(Progress::Bytes(chunk.len()));
        bytes.extend_from_slice(&chunk);
        if bytes.len() > BODY_BYTES_MAX {
            return Err(body.trouble(&Trouble::TooLarge(BODY_BYTES_MAX)));
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{FEFF}');
    on_progress(Progress::Raw(Raw::Body(text)));
    let delta = assembler.whole(text).map_err(|trouble| body.trouble(&trouble))?;
    show(&delta, on_progress);
    Ok(assembler)
}

async fn stream<F>(
    body: &mut Body<'_>,
    first: Bytes,
    mut assembler: Assembler,
    on_progress: &mut F,
) -> Result<Assembler, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let mut decoder = sse::Decoder::default();
    let mut came = first.len();
    let mut chunk = Some(first);
    loop {
        let ended = chunk.is_none();
        match chunk {
            Some(bytes) => decoder.push(bytes),
            None => decoder.end(),
        }
        loop {
            let event = decoder.poll().map_err(|error| body.trouble(&Trouble::Unreadable(error.to_string())))?;
            let Some(event) = event else { break };
            on_progress(Progress::Raw(Raw::Event { name: &event.name, data: &event.data }));
            let delta = assembler.event(&event.name, &event.data).map_err(|trouble| body.trouble(&trouble))?;
            if delta.content {
                body.came += (delta.text.len() as u64).max(1);
                body.content_deadline = None;
            }
            show(&delta, on_progress);
            if assembler.may_end() {
                body.goodbye.get_or_insert_with(|| Instant::now() + GOODBYE);
            }
            if assembler.is_done() {
                drain(body).await;
                return Ok(assembler);
            }
        }
        if ended {
            return Ok(assembler);
        }
        chunk = match body.chunk().await {
            Ok(chunk) => chunk,
            // All was said; only the goodbye is missing.
            Err(_) if assembler.may_end() => return Ok(assembler),
            Err(silence) => return Err(silence.into()),
        };
        if let Some(chunk) = &chunk {
            on_progress(Progress::Bytes(chunk.len()));
            came += chunk.len();
            if came > STREAM_BYTES_MAX {
                return Err(body.trouble(&Trouble::TooLarge(STREAM_BYTES_MAX)));
            }
        }
    }
}

fn show<F: FnMut(Progress<'_>)>(delta: &Delta, on_progress: &mut F) {
    if !delta.text.is_empty() {
        on_progress(Progress::Text(&delta.text));
    }
}

/// Reads to the end of the body, so that the connection serves the next step; one that goes on is dropped instead.
async fn drain(body: &mut Body<'_>) {
    let end = async { while let Ok(Some(_)) = body.answer.chunk().await {} };
    // Nothing is owed any more: in time or not, the reply is complete.
    let _ = timeout(DRAIN_DEADLINE, end).await;
}
