//! Bytes of an event stream to events.
//!
//! The decoder is fed and asked in turn instead of wrapping the body: only so does whoever feeds it see each byte
//! arrive, also of comments and pings, which keep a stream alive without saying anything. What sse-stream does not do
//! is done here: a bound on one event (its own buffers grow without), invalid UTF-8 replaced instead of ending the
//! stream, blocks without data left out, and a last event whose blank line the server forgot.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use sse_stream::SseByteStream;

/// One event can hold a whole reply (`REPLY_BYTES_MAX`) in JSON's escapes; beyond that it is none.
pub const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum SseError {
    #[error("one event of the stream is larger than {EVENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the event stream could not be read: {0}")]
    Invalid(#[from] sse_stream::Error),
}

/// An event that carries data. `name` is empty where the server gave none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
}

pub struct Decoder {
    events: SseByteStream<Fed>,
    fed: Fed,
    /// The beginning of a character whose rest has not arrived.
    cut: Vec<u8>,
    since_event: usize,
}

/// What was pushed and not yet read. Never waited upon: empty is `Pending`, and the decoder is asked again by hand.
#[derive(Clone, Default)]
struct Fed(Arc<Mutex<VecDeque<Bytes>>>);

impl Stream for Fed {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
            .map_or(Poll::Pending, |b| Poll::Ready(Some(Ok(b))))
    }
}

impl Default for Decoder {
    fn default() -> Self {
        let fed = Fed::default();
        Decoder { events: SseByteStream::new(fed.clone()), fed, cut: Vec::new(), since_event: 0 }
    }
}

impl Decoder {
    /// Takes bytes as they arrived. Read [`Decoder::poll`] to its `None` before the next push.
    pub fn push(&mut self, chunk: Bytes) {
        self.since_event = self.since_event.saturating_add(chunk.len());
        let chunk = self.valid(chunk);
        self.feed(chunk);
    }

    /// The body has ended properly: an event that lacks only its blank line is one.
    pub fn end(&mut self) {
        if !self.cut.is_empty() {
            self.cut.clear();
            self.feed(Bytes::from_static("\u{FFFD}".as_bytes()));
        }
        self.feed(Bytes::from_static(b"\n\n"));
    }

    /// The next complete event; `None` when more bytes are needed.
    pub fn poll(&mut self) -> Result<Option<Event>, SseError> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut self.events).poll_next(&mut context) {
                Poll::Ready(Some(Ok(sse))) => {
                    self.since_event = 0;
                    if let Some(data) = sse.data {
                        return Ok(Some(Event { name: sse.event.unwrap_or_default(), data }));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                Poll::Ready(None) => return Ok(None),
                Poll::Pending if self.since_event > EVENT_BYTES_MAX => return Err(SseError::TooLarge),
                Poll::Pending => return Ok(None),
            }
        }
    }

    fn feed(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.fed.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(chunk);
        }
    }

    /// The chunk, its invalid bytes replaced; a character cut at its end waits for the next chunk.
    fn valid(&mut self, chunk: Bytes) -> Bytes {
        if self.cut.is_empty() && std::str::from_utf8(&chunk).is_ok() {
            return chunk;
        }
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(&chunk);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text.into();
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(length) = error.error_len() else {
                        self.cut = after.to_vec();
                        return text.into();
                    };
                    text.push('\u{FFFD}');
                    rest = &after[length..];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        let mut read = |decoder: &mut Decoder| {
            while let Some(event) = decoder.poll().expect("valid") {
                events.push((event.name, event.data));
            }
        };
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            read(&mut decoder);
        }
        decoder.end();
        read(&mut decoder);
        events
    }

    fn check(quirk: &str, stream: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        assert_eq!(decode(&[stream]), expected, "{quirk}, whole");
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&bytes), expected, "{quirk}, byte by byte");
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        check("plain", b"event: a\ndata: 1\n\ndata: 2\n\n", &[("a", "1"), ("", "2")]);
        check("byte order mark", b"\xEF\xBB\xBFdata: 1\n\n", &[("", "1")]);
        check("carriage returns", b"data: 1\r\rdata: 2\r\n\r\n", &[("", "1"), ("", "2")]);
        check("several data lines", b"data: 1\ndata: 2\n\n", &[("", "1\n2")]);
        check("no blank after the colon", b"data:1\n\n", &[("", "1")]);
        check("comments say nothing", b": ping\n\n:\n\ndata: 1\n\n: bye\n\n", &[("", "1")]);
        check("metadata alone is no event", b"event: ping\nid: 7\n\nretry: 5\n\ndata: 1\n\n", &[("", "1")]);
        check("split character", "data: 鵜飼🙂\n\n".as_bytes(), &[("", "鵜飼🙂")]);
        check("invalid UTF-8 is replaced", b"data: a\xFFb\xE9\n\n", &[("", "a\u{FFFD}b\u{FFFD}")]);
        check("no blank line at the end", b"data: 1\n\ndata: [DONE]", &[("", "1"), ("", "[DONE]")]);
        check("cut inside a character", b"data: a\xE9\xB5", &[("", "a\u{FFFD}")]);
        check("nothing", b"", &[]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut decoder = Decoder::default();
        let chunk = Bytes::from(vec![b'x'; 1024 * 1024]);
        decoder.push(Bytes::from_static(b"data: "));
        for _ in 0..EVENT_BYTES_MAX / chunk.len() {
            match decoder.poll() {
                Ok(None) => decoder.push(chunk.clone()),
                other => panic!("too early: {other:?}"),
            }
        }
        assert!(matches!(decoder.poll(), Err(SseError::TooLarge)));
    }

    #[test]
    fn many_events_in_one_chunk_are_not_one_large_event() {
        let mut decoder = Decoder::default();
        let event = format!("data: {}\n\n", "x".repeat(1024));
        decoder.push(event.repeat(2 * EVENT_BYTES_MAX / event.len()).into());
        let mut count = 0;
        while decoder.poll().expect("within bounds").is_some() {
            count += 1;
        }
        assert_eq!(count, 2 * EVENT_BYTES_MAX / event.len());
    }
}
