//! Anthropic Messages (<https://docs.anthropic.com/en/api/messages>, version 2023-06-01).
//!
//! Two rules shape the request: roles alternate, and all results of a turn stand in the one user message after it. So
//! entries of a role are merged, results first. Thinking goes back as it came, before everything else of its turn.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use ukai_protocol::message::{Message, Stop};

use super::draft::{Draft, Reply, Slot, Trouble};
use super::{Delta, Ids, Request, clean, count_at, error_in, str_at};

pub(super) const VERSION: &str = "2023-06-01";
/// The wire wants a limit; every current model grants this one.
const OUTPUT_TOKENS_DEFAULT: u64 = 8_192;
/// Of the four breakpoints that a request may set, system and tools take two: the end of the conversation and the end of
/// the turn before it have the others, so that the long common beginning is found again however many results came.
const MESSAGE_BREAKPOINTS: usize = 2;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: Cow<'a, str>,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CacheControl {
    Ephemeral,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Entry<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'a str,
        name: Cow<'a, str>,
        input: Cow<'a, Map<String, Value>>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A thinking block, which brings its own type.
    #[serde(untagged)]
    Kept(&'a Map<String, Value>),
}

pub(super) fn body(request: &Request<'_>, provider: &str) -> serde_json::Result<Vec<u8>> {
    let last = request.tools.len().saturating_sub(1);
    let tools = request.tools.iter().enumerate().map(|(place, tool)| Tool {
        name: clean::name(&tool.name),
        description: clean::text(&tool.description),
        input_schema: &tool.schema,
        cache_control: (place == last).then_some(CacheControl::Ephemeral),
    });
    let system = request.system.filter(|text| !text.trim().is_empty());
    let system =
        system.map(|text| Block::Text { text: clean::text(text), cache_control: Some(CacheControl::Ephemeral) });
    let mut messages: Vec<Entry<'_>> = Vec::new();
    for message in request.messages {
        let role = if matches!(**message, Message::Assistant { .. }) { Role::Assistant } else { Role::User };
        let blocks = blocks(message, provider);
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some(entry) if entry.role == role => entry.content.extend(blocks),
            _ => messages.push(Entry { role, content: blocks }),
        }
    }
    for entry in messages.iter_mut().rev().filter(|entry| entry.role == Role::User).take(MESSAGE_BREAKPOINTS) {
        if let Some(Block::Text { cache_control, .. } | Block::ToolResult { cache_control, .. }) =
            entry.content.last_mut()
        {
            *cache_control = Some(CacheControl::Ephemeral);
        }
    }
    serde_json::to_vec(&Body {
        model: request.model,
        max_tokens: if request.max_output == 0 { OUTPUT_TOKENS_DEFAULT } else { request.max_output },
        stream: true,
        tools: tools.collect(),
        system: system.into_iter().collect(),
        messages,
    })
}

/// Blank text is left out: the wire refuses it.
fn blocks<'a>(message: &'a Message, provider: &str) -> Vec<Block<'a>> {
    let text = |text: &'a str| {
        let block = Block::Text { text: clean::text(text), cache_control: None };
        (!text.trim().is_empty()).then_some(block)
    };
    match message {
        Message::User { text: said } => text(said).into_iter().collect(),
        Message::Result { call, ok, text, .. } => vec![Block::ToolResult {
            tool_use_id: call,
            content: clean::text(text),
            is_error: !ok,
            cache_control: None,
        }],
        // Thinking alone is no reply, and the wire refuses it at the end of a turn.
        Message::Assistant { text, calls, .. } if text.trim().is_empty() && calls.is_empty() => Vec::new(),
        Message::Assistant { text: said, calls, opaque } => {
            let own = opaque.iter().filter(|opaque| opaque.provider == provider);
            // A provider that is asked over another wire than before left what is no block here.
            let is_block = |data: &&Map<String, Value>| data.get("type").is_some_and(Value::is_string);
            let kept = own.map(|opaque| &opaque.data.0).filter(is_block).map(Block::Kept);
            let calls = calls.iter().map(|call| Block::ToolUse {
                id: &call.id,
                name: clean::name(&call.tool),
                input: clean::object(call.args.object()),
            });
            kept.chain(text(said)).chain(calls).collect()
        }
    }
}

/// A reply as its events arrive.
#[derive(Debug, Default)]
pub struct Stream {
    draft: Draft,
    /// The blocks that are open, by the index that the wire gave them.
    open: BTreeMap<u64, Open>,
    done: bool,
}

#[derive(Debug)]
enum Open {
    Text,
    /// A call, and its arguments if they came whole with its start.
    Call {
        place: usize,
        input: Option<Map<String, Value>>,
    },
    Thinking(Map<String, Value>),
    /// A kind of block that ukai did not ask for.
    Other,
}

impl Stream {
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// `message_stop`, or the reason to stop before it: a cut stream has neither.
    pub(super) fn may_end(&self) -> bool {
        self.done || self.draft.stop.is_some()
    }

    pub(super) fn event(&mut self, name: &str, data: &str) -> Result<Delta, Trouble> {
        // Some gateways close with OpenAI's word.
        if self.done || matches!(data.trim(), "" | "[DONE]") {
            return Ok(Delta::default());
        }
        let event = clean::parse(data)?;
        if let Some(error) = error_in(name, &event) {
            return Err(Trouble::Told(error));
        }
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(name);
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match kind {
            "message_start" => self.usage(event.pointer("/message/usage")),
            "content_block_start" => return self.start(index, event.get("content_block").unwrap_or(&Value::Null)),
            "content_block_delta" => return self.delta(index, event.get("delta").unwrap_or(&Value::Null)),
            "content_block_stop" => self.stop(index)?,
            "message_delta" => {
                self.usage(event.get("usage"));
                self.stop_reason(event.pointer("/delta/stop_reason"));
            }
            "message_stop" => self.done = true,
            // Pings, and whatever the version promises to add.
            _ => {}
        }
        Ok(Delta::default())
    }

    pub(super) fn whole(&mut self, body: &str) -> Result<Delta, Trouble> {
        let reply = clean::parse(body)?;
        if let Some(error) = error_in("", &reply) {
            return Err(Trouble::Told(error));
        }
        let Some(content) = reply.get("content").and_then(Value::as_array) else {
            return Err(Trouble::Unreadable("a JSON body without `content`".to_owned()));
        };
        let mut said = Delta::default();
        for (index, block) in (0..).zip(content) {
            let delta = self.start(index, block)?;
            said.text.push_str(&delta.text);
            said.content |= delta.content;
            self.stop(index)?;
        }
        self.usage(reply.get("usage"));
        self.stop_reason(reply.get("stop_reason"));
        self.done = true;
        Ok(said)
    }

    pub(super) fn finish(mut self, provider: &str, ids: &mut Ids<'_>) -> Result<Reply, Trouble> {
        // What was not closed is not clean: a call without arguments among it stays broken, thinking is not complete.
        for open in std::mem::take(&mut self.open).into_values() {
            if let Open::Call { place, input: Some(input) } = open {
                self.give_input(place, input)?;
            }
        }
        self.draft.finish(provider, ids)
    }

    fn start(&mut self, index: u64, block: &Value) -> Result<Delta, Trouble> {
        // An index that is still open is used twice: what stood there is closed, and both blocks count.
        self.stop(index)?;
        let mut delta = Delta::default();
        let open = match str_at(block, "type") {
            "text" => {
                delta.text = self.draft.add_text(str_at(block, "text"))?;
                delta.content = !delta.text.is_empty();
                Open::Text
            }
            "tool_use" => {
                delta.content = true;
                let id = Some(str_at(block, "id")).filter(|id| !id.is_empty()).map(str::to_owned);
                let slot = Slot { index: Some(index), id, name: str_at(block, "name").to_owned(), ..Slot::default() };
                let place = self.draft.add_slot(slot)?;
                let input = block.get("input").and_then(Value::as_object).filter(|input| !input.is_empty());
                Open::Call { place, input: input.cloned() }
            }
            "thinking" | "redacted_thinking" => {
                delta.content = true;
                self.draft.leave_call();
                self.draft.grow(block.to_string().len())?;
                Open::Thinking(block.as_object().cloned().unwrap_or_default())
            }
            _ => Open::Other,
        };
        self.open.insert(index, open);
        Ok(delta)
    }

    fn delta(&mut self, index: u64, delta: &Value) -> Result<Delta, Trouble> {
        let kind = str_at(delta, "type");
        match (self.open.get_mut(&index), kind) {
            // Text needs no start to be text.
            (_, "text_delta") => {
                let text = self.draft.add_text(str_at(delta, "text"))?;
                Ok(Delta { content: !text.is_empty(), text })
            }
            (Some(Open::Call { place, .. }), "input_json_delta") => {
                let (place, piece) = (*place, str_at(delta, "partial_json"));
                self.draft.add_args(place, piece)?;
                Ok(Delta { text: String::new(), content: true })
            }
            (Some(Open::Thinking(block)), "thinking_delta" | "signature_delta") => {
                let key = kind.trim_end_matches("_delta");
                let piece = str_at(delta, key);
                match block.get_mut(key) {
                    Some(Value::String(text)) => text.push_str(piece),
                    _ => drop(block.insert(key.to_owned(), piece.into())),
                }
                let grown = piece.len();
                self.draft.grow(grown)?;
                Ok(Delta { text: String::new(), content: true })
            }
            (None, "input_json_delta") => {
                Err(Trouble::Unreadable(format!("arguments for block {index}, which was never begun")))
            }
            _ => Ok(Delta::default()),
        }
    }

    fn stop(&mut self, index: u64) -> Result<(), Trouble> {
        match self.open.remove(&index) {
            Some(Open::Call { place, input }) => {
                if let Some(input) = input {
                    self.give_input(place, input)?;
                }
                self.draft.slots[place].closed = true;
            }
            Some(Open::Thinking(block)) => self.draft.opaque.push(block),
            Some(Open::Text | Open::Other) | None => {}
        }
        Ok(())
    }

    /// Arguments that came with the start count if no piece followed.
    fn give_input(&mut self, place: usize, input: Map<String, Value>) -> Result<(), Trouble> {
        if self.draft.slots[place].args.is_empty() {
            self.draft.add_args(place, &Value::Object(input).to_string())?;
        }
        Ok(())
    }

    fn stop_reason(&mut self, reason: Option<&Value>) {
        let stop = match reason.and_then(Value::as_str) {
            None | Some("") => return,
            Some("end_turn" | "stop_sequence") => Stop::End,
            Some("tool_use") => Stop::Calls,
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Filter,
            Some(_) => Stop::Unknown,
        };
        self.draft.stop.get_or_insert(stop);
    }

    /// Counts are cumulative; some servers give the input only at the end.
    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let tokens = &mut self.draft.usage;
        tokens.fresh = tokens.fresh.max(count_at(usage, "/input_tokens"));
        tokens.cache_read = tokens.cache_read.max(count_at(usage, "/cache_read_input_tokens"));
        tokens.cache_written = tokens.cache_written.max(count_at(usage, "/cache_creation_input_tokens"));
        tokens.output = tokens.output.max(count_at(usage, "/output_tokens"));
    }
}
