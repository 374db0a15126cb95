//! Our conversation in a provider's words, and its reply in ours.
//!
//! Each wire is one file that converts by hand, both ways: structures shared between providers are how one provider's
//! oddity becomes everyone's. No IO here: bytes of a request out, events in, a reply at the end.

#![deny(clippy::disallowed_methods)]

pub mod anthropic;
pub mod clean;
pub mod draft;
pub mod gemini;
pub mod ids;
pub mod openai;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use ukai_protocol::lease::Wire;
use ukai_protocol::message::Message;
use ukai_protocol::secret::Secret;

pub use draft::{Reply, Reported, Trouble};
pub use ids::Ids;

/// A tool as it is offered to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub description: String,
    /// JSON schema of its arguments, an object.
    pub schema: Value,
}

/// One model call. The answer is always asked for as a stream.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub model: &'a str,
    pub system: Option<&'a str>,
    pub messages: &'a [Arc<Message>],
    pub tools: &'a [Definition],
    /// Tokens; 0 = whatever the provider allows.
    pub max_output: u64,
}

/// What one event brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Text to show while it streams.
    pub text: String,
    /// Text, a piece of a call or of thinking came: the model is at work.
    pub content: bool,
}

/// The body of the request, the same bytes for the same conversation.
pub fn body(wire: Wire, request: &Request<'_>, provider: &str, url: &str) -> serde_json::Result<Vec<u8>> {
    match wire {
        Wire::Openai => openai::body(request, provider, url),
        Wire::Anthropic => anthropic::body(request, provider),
        Wire::Gemini => gemini::body(request, provider),
    }
}

/// Where the request goes: `base` and the wire's path, a version part that stands in both only once.
#[must_use]
pub fn url(wire: Wire, base: &str, model: &str) -> String {
    let (version, path) = match wire {
        Wire::Openai => ("", "/chat/completions"),
        Wire::Anthropic => ("/v1", "/messages"),
        Wire::Gemini => return gemini::url(base, model),
    };
    let (place, query) = place_and_query(base);
    let place = place.strip_suffix(path).unwrap_or(place).trim_end_matches('/');
    let version = if place.ends_with(version) { "" } else { version };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{place}{version}{path}{query}")
}

/// The address without slashes at its end, and what stands behind `?`.
fn place_and_query(base: &str) -> (&str, Option<&str>) {
    let (place, query) = match base.trim().split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (base.trim(), None),
    };
    (place.trim_end_matches('/'), query)
}

#[derive(Debug, thiserror::Error)]
#[error("the key holds characters that no HTTP header may carry (a line break?); correct it where it is configured")]
pub struct BadKey;

pub fn headers(wire: Wire, key: Option<&Secret>) -> Result<HeaderMap, BadKey> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if wire == Wire::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(anthropic::VERSION));
    }
    if let Some(key) = key {
        let (name, text) = match wire {
            Wire::Openai => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            Wire::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
            Wire::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| BadKey)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Puts a reply together from the events of a stream, or from one whole body.
#[derive(Debug)]
pub enum Assembler {
    Openai(openai::Stream),
    Anthropic(anthropic::Stream),
    Gemini(gemini::Stream),
}

impl Assembler {
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Openai => Assembler::Openai(openai::Stream::default()),
            Wire::Anthropic => Assembler::Anthropic(anthropic::Stream::default()),
            Wire::Gemini => Assembler::Gemini(gemini::Stream::default()),
        }
    }

    /// One event of the stream.
    pub fn event(&mut self, name: &str, data: &str) -> Result<Delta, Trouble> {
        match self {
            Assembler::Openai(stream) => stream.event(name, data),
            Assembler::Anthropic(stream) => stream.event(name, data),
            Assembler::Gemini(stream) => stream.event(name, data),
        }
    }

    /// The whole reply at once, from a server that does not stream.
    pub fn whole(&mut self, body: &str) -> Result<Delta, Trouble> {
        match self {
            Assembler::Openai(stream) => stream.whole(body),
            Assembler::Anthropic(stream) => stream.whole(body),
            Assembler::Gemini(stream) => stream.whole(body),
        }
    }

    /// The last event came: nothing more is to be read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Assembler::Openai(stream) => stream.is_done(),
            Assembler::Anthropic(stream) => stream.is_done(),
            Assembler::Gemini(stream) => stream.is_done(),
        }
    }

    /// The reply has ended, though the stream may go on (usage, the last event).
    #[must_use]
    pub fn may_end(&self) -> bool {
        match self {
            Assembler::Openai(stream) => stream.may_end(),
            Assembler::Anthropic(stream) => stream.may_end(),
            Assembler::Gemini(stream) => stream.may_end(),
        }
    }

    /// The reply; [`Trouble::Cut`] if the stream never said that it was complete.
    pub fn finish(self, provider: &str, ids: &mut Ids<'_>) -> Result<Reply, Trouble> {
        if !self.may_end() {
            return Err(Trouble::Cut);
        }
        match self {
            Assembler::Openai(stream) => stream.finish(provider, ids),
            Assembler::Anthropic(stream) => stream.finish(provider, ids),
            Assembler::Gemini(stream) => stream.finish(provider, ids),
        }
    }
}

/// What stands under `key` as text; empty if there is none.
fn str_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A count as any server writes it.
fn count_at(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer);
    found.and_then(|v| v.as_u64().or_else(|| v.as_f64().map(|f| f.max(0.0) as u64))).unwrap_or(0)
}

/// The error that a document tells of, if it does.
fn error_in(event: &str, value: &Value) -> Option<Value> {
    // Google wraps one in a list, on its OpenAI endpoint too.
    let value = value.get(0).unwrap_or(value);
    let is_empty = |error: &Value| match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match value.get("error") {
        Some(error) if !is_empty(error) => return Some(error.clone()),
        _ if event == "error" || str_at(value, "type") == "error" => return Some(value.clone()),
        _ => {}
    }
    // MiniMax reports errors beside an empty reply, with status 200.
    let base = value.get("base_resp")?;
    (count_at(base, "/status_code") != 0).then(|| base.clone())
}
