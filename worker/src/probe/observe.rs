//! What a probe saw, as evidence that holds without the probe.
//!
//! The raw answer is read a second time here, in the words of all providers at once and apart from the wires: what is
//! shown is what came, also where our conversion of it is wrong. Everything has its bound, and loses the key before it
//! is cut to it: half a key would pass any search for the whole.

#![deny(clippy::disallowed_methods)]

use std::sync::Arc;

use serde_json::Value;
use ukai_protocol::message::Args;
use ukai_protocol::probe::{Observation, Seen};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Mask;

use crate::provider::classify::Failure;
use crate::provider::wire::Definition;
use crate::provider::{Answered, Raw};

/// Of a request: all of a small one; a large one is filler.
const SENT_BYTES_MAX: usize = 16 * 1024;
/// Of what came: a short reply in events of half a kilobyte each.
const CAME_BYTES_MAX: usize = 64 * 1024;
/// Of a text, an argument, a header, a name.
const TEXT_BYTES_MAX: usize = 2 * 1024;
/// Of the lists in it: more than any provider sends, and little enough to read.
const SEEN_MAX: usize = 24;

pub(super) struct Evidence {
    key: Option<Secret>,
    mask: Arc<Mask>,
    observations: Vec<Observation>,
    /// To be sent with the next request.
    results: Vec<(String, String)>,
    exchange: Exchange,
}

/// The request under way.
#[derive(Default)]
struct Exchange {
    number: u32,
    tools: Vec<String>,
    came: Option<Cut>,
    events: u64,
    /// Ids that stand anywhere in the answer.
    ids: Vec<String>,
    model: bool,
    terminals: Vec<String>,
}

/// The beginning of something long, a little more than is shown of it.
struct Cut {
    bytes: Vec<u8>,
    more: bool,
}

impl Evidence {
    pub fn new(key: Option<&Secret>, mask: Mask) -> Self {
        let key = key.filter(|key| !key.expose().trim().is_empty()).cloned();
        let mask = Arc::new(mask);
        Evidence { key, mask, observations: Vec::new(), results: Vec::new(), exchange: Exchange::default() }
    }

    /// What nothing that is seen may hold, besides the key.
    pub fn mask(&self) -> Arc<Mask> {
        self.mask.clone()
    }

    /// Another request is made.
    pub fn begin(&mut self, tools: &[Definition]) {
        self.end();
        let number = self.exchange.number + 1;
        let tools = tools.iter().map(|tool| tool.name.clone()).collect();
        self.exchange = Exchange { number, tools, ..Exchange::default() };
    }

    /// The next request answers a call with this.
    pub fn result_next(&mut self, call: &str, text: &str) {
        if self.results.len() < SEEN_MAX {
            self.results.push((self.shown(call), self.shown(text)));
        }
    }

    pub fn raw(&mut self, raw: Raw<'_>) {
        match raw {
            Raw::Sent(body) => self.sent(body),
            Raw::Head { status, headers } => {
                let text = |value: &http::HeaderValue| self.shown(&String::from_utf8_lossy(value.as_bytes()));
                let content_type = headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
                let of_limits = headers.iter().filter(|(name, _)| tells_of_limits(name.as_str())).take(SEEN_MAX);
                let of_limits = of_limits.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
                self.push(Seen::Answered { status, content_type });
                self.push(Seen::LimitHeaders { headers: of_limits });
            }
            Raw::Event { name, data } => {
                self.exchange.events += 1;
                self.came(&[if name.is_empty() { "" } else { "event: " }, name, "\ndata: ", data, "\n\n"]);
                self.look(data);
            }
            Raw::Body(body) => {
                self.came(&[body]);
                self.look(body);
            }
        }
    }

    pub fn replied(&mut self, answered: &Answered) {
        let events = self.exchange.events;
        self.end();
        self.push(if events > 0 { Seen::Streamed { events } } else { Seen::Whole });
        for call in answered.reply.calls.iter().take(SEEN_MAX) {
            let arguments = match &call.args {
                Args::Whole(json) => Some(self.shown(&json.to_text())),
                Args::Broken { .. } => None,
            };
            let given = self.exchange.ids.contains(&call.id);
            self.push(Seen::Called { id: self.shown(&call.id), given, tool: self.shown(&call.tool), arguments });
        }
        if !answered.reply.text.trim().is_empty() {
            self.push(Seen::Text { text: self.shown(&answered.reply.text) });
        }
        if !answered.usage.estimated {
            self.push(Seen::UsageReported { usage: answered.usage });
        }
        for what in std::mem::take(&mut self.exchange.terminals) {
            self.push(Seen::Terminal { what });
        }
    }

    pub fn failed(&mut self, failure: &Failure) {
        self.end();
        self.push(Seen::Failed { why: self.shown(&format!("{} ({})", failure.detail, failure.signature)) });
    }

    pub fn into_observations(mut self) -> Vec<Observation> {
        self.end();
        self.observations
    }

    fn sent(&mut self, body: &[u8]) {
        let mut cut = Cut { bytes: Vec::new(), more: false };
        cut.add(body, SENT_BYTES_MAX + self.key_bytes());
        self.push(Seen::Sent { body: self.readable(&cut, SENT_BYTES_MAX) });
        // What was meant to be in it is looked for in what went out.
        let has = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
        for tool in std::mem::take(&mut self.exchange.tools) {
            if has(&format!("\"name\":\"{tool}\"")) {
                self.push(Seen::ToolOffered { tool });
            }
        }
        for (call, text) in std::mem::take(&mut self.results) {
            if RESULT.iter().any(|mark| has(mark)) {
                self.push(Seen::ResultSent { call, text });
            }
        }
    }

    fn came(&mut self, pieces: &[&str]) {
        let bytes_max = CAME_BYTES_MAX + self.key_bytes();
        let cut = self.exchange.came.get_or_insert(Cut { bytes: Vec::new(), more: false });
        for piece in pieces {
            cut.add(piece.as_bytes(), bytes_max);
        }
    }

    /// Reads one document of an answer.
    fn look(&mut self, data: &str) {
        if data.trim() == "[DONE]" {
            return self.terminal("[DONE]".to_owned());
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else { return };
        collect_ids(&value, &mut self.exchange.ids);
        if !self.exchange.model
            && let Some(model) = MODEL.iter().find_map(|place| value.pointer(place)?.as_str())
        {
            self.exchange.model = true;
            self.push(Seen::ModelNamed { model: self.shown(model) });
        }
        for (place, name) in TERMINAL {
            if let Some(word) = value.pointer(place).and_then(Value::as_str) {
                self.terminal(format!("{name} {}", self.shown(word)));
            }
        }
        if value.get("type").and_then(Value::as_str) == Some("message_stop") {
            self.terminal("message_stop".to_owned());
        }
    }

    fn terminal(&mut self, what: String) {
        if self.exchange.terminals.len() < SEEN_MAX {
            self.exchange.terminals.push(what);
        }
    }

    /// What came is told once, when no more comes.
    fn end(&mut self) {
        if let Some(cut) = self.exchange.came.take() {
            self.push(Seen::Came { text: self.readable(&cut, CAME_BYTES_MAX) });
        }
    }

    fn push(&mut self, seen: Seen) {
        self.observations.push(Observation { request: self.exchange.number, seen });
    }

    fn shown(&self, text: &str) -> String {
        let mut cut = Cut { bytes: Vec::new(), more: false };
        cut.add(text.as_bytes(), TEXT_BYTES_MAX + self.key_bytes());
        self.readable(&cut, TEXT_BYTES_MAX)
    }

    fn key_bytes(&self) -> usize {
        // An escape before each of its characters is the longest that it is written.
        self.key.as_ref().map_or(0, |key| 2 * key.expose().len())
    }

    fn readable(&self, cut: &Cut, bytes_max: usize) -> String {
        let mut text = String::from_utf8_lossy(&cut.bytes).into_owned();
        if let Some(key) = &self.key {
            let key = key.expose().trim();
            for written in [key.to_owned(), key.replace('/', "\\/")] {
                text = text.replace(&written, "[key]");
            }
        }
        self.mask.mask(&mut text);
        // Where the end was cut, the beginning of a key may stand there.
        let bytes = if cut.more { bytes_max.min(text.len().saturating_sub(self.key_bytes())) } else { bytes_max };
        if text.len() > bytes {
            text.truncate(text.floor_char_boundary(bytes));
            text.push('…');
        }
        text
    }
}

impl Cut {
    fn add(&mut self, bytes: &[u8], bytes_max: usize) {
        let room = bytes_max.saturating_sub(self.bytes.len());
        self.more |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// How each wire marks the result of a call.
const RESULT: [&str; 3] = [r#""role":"tool""#, r#""type":"tool_result""#, r#""functionResponse":"#];
/// Where each wire names who answered.
const MODEL: [&str; 3] = ["/model", "/message/model", "/modelVersion"];
/// Where each wire says that a reply is complete.
const TERMINAL: [(&str, &str); 4] = [
    ("/choices/0/finish_reason", "finish_reason"),
    ("/delta/stop_reason", "stop_reason"),
    ("/stop_reason", "stop_reason"),
    ("/candidates/0/finishReason", "finishReason"),
];

fn tells_of_limits(header: &str) -> bool {
    header.contains("ratelimit") || header.contains("rate-limit") || header.starts_with("retry-after")
}

fn collect_ids(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(id) if key == "id" && ids.len() < SEEN_MAX => {
                        if !ids.contains(id) {
                            ids.push(id.clone());
                        }
                    }
                    value => collect_ids(value, ids),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_ids(value, ids)),
        _ => {}
    }
}
