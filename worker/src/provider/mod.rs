//! One attempt at one provider: one request out, one reply or one failure back.
//!
//! Nothing is tried again here, whatever happens: two retry loops multiply, and failures that a loop swallows never
//! reach the breaker. What a failure means is the router's business; this only tells it apart.

pub mod classify;
pub mod retry_after;
pub mod script;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use ukai_protocol::lease::{Grant, LimitsSeen, Wait};
use ukai_protocol::message::Usage;

use crate::http::{Answer, Http, Post, TransportError};
use classify::{Clock, Failure};
use wire::draft::REPLY_BYTES_MAX;
use wire::{Assembler, Delta, Ids, Reply, Request, Trouble};

/// Of a refusal only its beginning is read: the error stands there, a page of a proxy has no end.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// A whole JSON body spells a reply with escapes around it.
const BODY_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;
/// The status has said most of it already.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(5);
/// After the last event only the body's end is due; it comes at once, or the connection is not worth keeping.
const DRAIN_DEADLINE: Duration = Duration::from_millis(50);
/// Usage and the last event follow the finish reason at once, where they follow at all.
const GOODBYE: Duration = Duration::from_secs(5);
const BYTES_PER_TOKEN: u64 = 4;

/// What is seen of a reply while it arrives. Provisional: the attempt may still fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// So many bytes came, comments and pings among them: a sign of life.
    Bytes(usize),
    Text(&'a str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub reply: Reply,
    /// As reported, or estimated where the provider said nothing.
    pub usage: Usage,
    pub limits_seen: LimitsSeen,
    /// A "not before" that came with the reply: a bucket that it emptied.
    pub wait: Option<Wait>,
}

/// Asks once. `used`: the ids of all calls in the conversation. Cancelling drops the connection.
pub async fn attempt<F>(
    http: &Http,
    grant: &Grant,
    request: Request<'_>,
    used: &HashSet<String>,
    on_progress: F,
    cancel: CancellationToken,
) -> Result<Answered, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let key = grant.key.as_ref().map(|key| key.expose());
    let asked = ask(http, grant, &request, used, on_progress);
    match cancel.run_until_cancelled(asked).await {
        Some(result) => result.map_err(|failure| failure.about(&grant.provider, key)),
        None => Err(Failure::withdrawn()),
    }
}

async fn ask<F>(
    http: &Http,
    grant: &Grant,
    request: &Request<'_>,
    used: &HashSet<String>,
    mut on_progress: F,
) -> Result<Answered, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let url = wire::url(grant.wire, &grant.url);
    let headers = wire::headers(grant.wire, grant.key.as_ref())
        .map_err(|error| Failure::closed("request:key", &error.to_string()))?;
    let body = wire::body(grant.wire, request, &grant.provider, &url)
        .map_err(|error| Failure::internal(&format!("the request could not be written: {error}")))?;
    let sent = body.len() as u64;

    let first_content = Duration::from_millis(grant.timeouts.first_content_ms);
    let deadline = Instant::now() + first_content;
    let connect_timeout = Duration::from_millis(grant.timeouts.connect_ms);
    let post = Post { url: &url, headers, body: body.into(), connect_timeout };
    let mut answer = match timeout_at(deadline, http.post(post)).await {
        Ok(answer) => answer.map_err(|error| Failure::transport(&error, connect_timeout))?,
        Err(_) => return Err(Failure::timed_out(Clock::FirstContent, first_content)),
    };
    let received_at = SystemTime::now();
    let answer_headers = answer.headers.clone();
    let told = |failure| classify::with_headers(failure, &answer_headers, received_at);

    if answer.status != 200 {
        let body = refusal(&mut answer).await;
        return Err(told(classify::refused(answer.status, &answer_headers, &body)));
    }
    let mut body = Body {
        answer,
        idle: Duration::from_millis(grant.timeouts.idle_ms),
        first_content,
        content_deadline: Some(deadline),
        last_byte: None,
    };
    let assembler = read(&mut body, Assembler::new(grant.wire), &mut on_progress).await.map_err(told)?;
    let mut fresh = || uuid::Uuid::new_v4().to_string();
    let reply = assembler
        .finish(&grant.provider, &mut Ids::new(used, &mut fresh))
        .map_err(|trouble| told(Failure::trouble(&trouble)))?;
    let usage = reply.usage.unwrap_or_else(|| estimated(sent, reply.bytes));
    Ok(Answered {
        reply,
        usage,
        limits_seen: retry_after::limits_seen(&answer_headers),
        wait: retry_after::wait(&answer_headers, received_at),
    })
}

fn estimated(sent: u64, came: u64) -> Usage {
    Usage { input: sent.div_ceil(BYTES_PER_TOKEN), cached: 0, output: came.div_ceil(BYTES_PER_TOKEN), estimated: true }
}

/// As much of a refusal's body as comes in time.
async fn refusal(answer: &mut Answer) -> String {
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
struct Body {
    answer: Answer,
    idle: Duration,
    first_content: Duration,
    /// Until the first content came.
    content_deadline: Option<Instant>,
    last_byte: Option<Instant>,
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

impl Body {
    async fn chunk(&mut self) -> Result<Option<Bytes>, Silence> {
        let idle = self.last_byte.map(|last| (last + self.idle, Clock::Idle, self.idle));
        let content = self.content_deadline.map(|at| (at, Clock::FirstContent, self.first_content));
        let next = self.answer.chunk();
        let Some((at, clock, after)) = idle.into_iter().chain(content).min_by_key(|(at, ..)| *at) else {
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
        b'{' => Shape::Json,
        _ if content_type.contains("event-stream") => Shape::Events,
        // data, event, id, retry, a comment: the beginnings of an event stream's lines.
        b'd' | b'e' | b'i' | b'r' | b':' => Shape::Events,
        _ => Shape::Neither,
    }
}

async fn read<F>(body: &mut Body, assembler: Assembler, on_progress: &mut F) -> Result<Assembler, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let content_type = body.answer.headers.get(::http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
    loop {
        let Some(chunk) = body.chunk().await? else { return Err(Failure::trouble(&Trouble::Cut)) };
        on_progress(Progress::Bytes(chunk.len()));
        let beginning = chunk.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&chunk);
        let Some(first) = beginning.iter().find(|byte| !byte.is_ascii_whitespace()) else { continue };
        return match shape(*first, &content_type) {
            Shape::Json => whole(body, chunk, assembler, on_progress).await,
            Shape::Events => stream(body, chunk, assembler, on_progress).await,
            Shape::Neither => Err(Failure::no_stream(&content_type)),
        };
    }
}

async fn whole<F>(
    body: &mut Body,
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
            return Err(Failure::trouble(&Trouble::TooLarge));
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let delta = assembler.whole(text.trim_start_matches('\u{FEFF}')).map_err(|trouble| Failure::trouble(&trouble))?;
    show(&delta, on_progress);
    Ok(assembler)
}

async fn stream<F>(
    body: &mut Body,
    first: Bytes,
    mut assembler: Assembler,
    on_progress: &mut F,
) -> Result<Assembler, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let mut decoder = sse::Decoder::default();
    let mut chunk = Some(first);
    loop {
        let ended = chunk.is_none();
        match chunk {
            Some(bytes) => decoder.push(bytes),
            None => decoder.end(),
        }
        loop {
            let event = decoder.next().map_err(|error| Failure::trouble(&Trouble::Unreadable(error.to_string())))?;
            let Some(event) = event else { break };
            let delta = assembler.event(&event.name, &event.data).map_err(|trouble| Failure::trouble(&trouble))?;
            if delta.content {
                body.content_deadline = None;
            }
            show(&delta, on_progress);
            if assembler.may_end() {
                body.idle = body.idle.min(GOODBYE);
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
        }
    }
}

fn show<F: FnMut(Progress<'_>)>(delta: &Delta, on_progress: &mut F) {
    if !delta.text.is_empty() {
        on_progress(Progress::Text(&delta.text));
    }
}

/// Reads to the end of the body, so that the connection serves the next step; one that goes on is dropped instead.
async fn drain(body: &mut Body) {
    let end = async { while let Ok(Some(_)) = body.answer.chunk().await {} };
    // Nothing is owed any more: in time or not, the reply is complete.
    let _ = timeout(DRAIN_DEADLINE, end).await;
}
