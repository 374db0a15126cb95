//! What a request says, in words that are the same for all wires: the script's conditions and templates look at this.
//!
//! It is read after the judge has passed the body, so a missing piece reads as empty here and never as an error.

#![deny(clippy::disallowed_methods)]

mod gemini;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::place::{Form, Place};
use super::template::Names;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    Openai,
    Anthropic,
    Gemini,
}

impl Wire {
    pub const ALL: [Wire; 3] = [Wire::Openai, Wire::Anthropic, Wire::Gemini];

    pub fn name(self) -> &'static str {
        match self {
            Wire::Openai => "openai",
            Wire::Anthropic => "anthropic",
            Wire::Gemini => "gemini",
        }
    }
}

#[derive(Debug, PartialEq)]
pub enum Turn {
    User(String),
    Assistant { text: String, calls: Vec<Called> },
    Result { id: String, tool: String, text: String },
}

#[derive(Debug, PartialEq)]
pub struct Called {
    pub id: String,
    pub tool: String,
    pub args: Value,
}

#[derive(Debug)]
pub struct Conversation {
    pub wire: Wire,
    pub model: String,
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<String>,
    pub form: Form,
    pub include_usage: bool,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Of the body, for the estimate of tokens where a rule gives none.
    pub body_bytes: usize,
}

impl Conversation {
    pub fn read(place: &Place, headers: &[(String, String)], body: &Value, body_bytes: usize) -> Conversation {
        let in_body = if body["stream"] == Value::Bool(true) { Form::Events } else { Form::Whole };
        let mut read = Conversation {
            wire: place.wire,
            model: place.model.clone().unwrap_or_else(|| word(&body["model"])),
            system: String::new(),
            turns: Vec::new(),
            tools: Vec::new(),
            form: place.form.unwrap_or(in_body),
            include_usage: body["stream_options"]["include_usage"] == Value::Bool(true),
            headers: headers.to_vec(),
            body_bytes,
        };
        let tools = list(&body["tools"]);
        match place.wire {
            Wire::Openai => {
                read.tools.extend(tools.iter().map(|tool| word(&tool["function"]["name"])));
                list(&body["messages"]).iter().for_each(|message| read.add_openai(message));
            }
            Wire::Anthropic => {
                read.tools.extend(tools.iter().map(|tool| word(&tool["name"])));
                read.system = text(&body["system"]);
                list(&body["messages"]).iter().for_each(|message| read.add_anthropic(message));
            }
            Wire::Gemini => read.add_gemini(body),
        }
        read
    }

    pub fn streams(&self) -> bool {
        self.form != Form::Whole
    }

    fn add_openai(&mut self, message: &Value) {
        let said = text(&message["content"]);
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => {
                if !self.system.is_empty() {
                    self.system.push('\n');
                }
                self.system.push_str(&said);
            }
            "assistant" => {
                let calls = list(&message["tool_calls"]).iter().map(|call| Called {
                    id: word(&call["id"]),
                    tool: word(&call["function"]["name"]),
                    args: serde_json::from_str(&word(&call["function"]["arguments"])).unwrap_or(Value::Null),
                });
                self.turns.push(Turn::Assistant { text: said, calls: calls.collect() });
            }
            "tool" => self.add_result(word(&message["tool_call_id"]), said),
            _ => self.turns.push(Turn::User(said)),
        }
    }

    fn add_anthropic(&mut self, message: &Value) {
        let blocks = list(&message["content"]);
        let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
        let said = text(&message["content"]);
        if message["role"] == "assistant" {
            let calls = of("tool_use").map(|block| Called {
                id: word(&block["id"]),
                tool: word(&block["name"]),
                args: block["input"].clone(),
            });
            self.turns.push(Turn::Assistant { text: said, calls: calls.collect() });
            return;
        }
        for block in of("tool_result") {
            self.add_result(word(&block["tool_use_id"]), text(&block["content"]));
        }
        if of("tool_result").next().is_none() || !said.is_empty() {
            self.turns.push(Turn::User(said));
        }
    }

    fn add_result(&mut self, id: String, text: String) {
        let tool = self.calls().find(|call| call.id == id).map(|call| call.tool.clone()).unwrap_or_default();
        self.turns.push(Turn::Result { id, tool, text });
    }

    fn calls(&self) -> impl DoubleEndedIterator<Item = &Called> {
        self.turns.iter().flat_map(|turn| match turn {
            Turn::Assistant { calls, .. } => calls.as_slice(),
            _ => &[],
        })
    }

    /// The first text of the user.
    pub fn prompt(&self) -> &str {
        self.users().next().unwrap_or_default()
    }

    pub fn last_user(&self) -> &str {
        self.users().next_back().unwrap_or_default()
    }

    fn users(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.turns.iter().filter_map(|turn| if let Turn::User(text) = turn { Some(text.as_str()) } else { None })
    }

    /// The step that the answer will be: assistant turns so far, and one.
    pub fn step(&self) -> u64 {
        1 + self.turns.iter().filter(|turn| matches!(turn, Turn::Assistant { .. })).count() as u64
    }

    /// The results that stand at the end, those which the last reply's calls have brought: (id, tool, text).
    pub fn last_results(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let from = self.turns.iter().rposition(|turn| matches!(turn, Turn::Assistant { .. }));
        results(self.turns.get(from.map_or(0, |at| at + 1)..).unwrap_or_default())
    }

    pub fn results_of<'a>(&'a self, tool: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        results(&self.turns).filter(move |(_, of, _)| *of == tool).map(|(_, _, text)| text)
    }

    pub fn last_text(&self) -> &str {
        match self.turns.last() {
            Some(Turn::User(text) | Turn::Assistant { text, .. } | Turn::Result { text, .. }) => text,
            None => "",
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// What stays the same through all requests of one conversation, however it goes on.
    pub fn key(&self) -> String {
        digest(&[self.wire.name(), &self.model, self.prompt()])
    }

    /// Differs between any two conversations, and between any two points of one; the same for a request sent again.
    pub fn position(&self) -> String {
        let mut pieces = vec![self.model.as_str()];
        for turn in &self.turns {
            match turn {
                Turn::User(text) => pieces.extend(["user", text]),
                Turn::Assistant { text, calls } => {
                    pieces.extend(["assistant", text]);
                    pieces.extend(calls.iter().flat_map(|call| [call.id.as_str(), call.tool.as_str()]));
                }
                Turn::Result { id, text, .. } => pieces.extend(["result", id, text]),
            }
        }
        digest(&pieces)
    }
}

impl Names for Conversation {
    fn get(&self, name: &str) -> Option<String> {
        if let Some(header) = name.strip_prefix("header.") {
            return self.header(header).map(str::to_owned);
        }
        if let Some(tool) = name.strip_prefix("results.") {
            return Some(self.results_of(tool).count().to_string());
        }
        if let Some(which) = name.strip_prefix("result.") {
            let (word, n) = match which.split_once('.') {
                Some((word, n)) => (word, Some(n.parse::<usize>().ok()?.checked_sub(1)?)),
                None => (which, None),
            };
            return match (word, word.parse::<usize>(), n) {
                ("last", _, None) => results(&self.turns).next_back().map(|(_, _, text)| text.to_owned()),
                (_, Ok(at), None) => results(&self.turns).nth(at.checked_sub(1)?).map(|(_, _, text)| text.to_owned()),
                (tool, _, Some(n)) => self.results_of(tool).nth(n).map(str::to_owned),
                (tool, _, None) => self.results_of(tool).next_back().map(str::to_owned),
            };
        }
        if let Some(which) = name.strip_prefix("call.") {
            let (tool, key) = which.split_once('.')?;
            return match &self.calls().rfind(|call| call.tool == tool)?.args[key] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
        }
        Some(match name {
            "prompt" => self.prompt().to_owned(),
            "last_user" => self.last_user().to_owned(),
            "last" => self.last_text().to_owned(),
            "model" => self.model.clone(),
            "system" => self.system.clone(),
            "step" => self.step().to_string(),
            "wire" => self.wire.name().to_owned(),
            "tools" => self.tools.join("\n"),
            _ => return None,
        })
    }
}

fn results(turns: &[Turn]) -> impl DoubleEndedIterator<Item = (&str, &str, &str)> {
    turns.iter().filter_map(|turn| match turn {
        Turn::Result { id, tool, text } => Some((id.as_str(), tool.as_str(), text.as_str())),
        _ => None,
    })
}

/// 32 hexadecimal digits.
pub fn digest(pieces: &[&str]) -> String {
    const DIGITS: usize = 32;
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece.as_bytes());
    }
    hasher.finalize().to_hex()[..DIGITS].to_owned()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A string, or the text of a list of blocks, one below the other.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
pub mod tests;
