//! OpenAI Chat Completions, and the many servers that speak it nearly
//! (<https://platform.openai.com/docs/api-reference/chat>).
//!
//! The hard part is to know which call a piece belongs to: `index` should say it, but servers send it missing or equal
//! for parallel calls, repeat or omit ids, and end a stream twice. See [`Stream::piece`].

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use ukai_protocol::message::{Call, Message, Stop};

use super::draft::{Draft, Reply, Slot, Trouble};
use super::{Definition, Delta, Ids, Request, clean, count_at, error_in, ids, str_at};

/// What some servers want back with the reply that it came in (DeepSeek and Moonshot while tools are called, OpenRouter
/// with signatures inside).
const KEPT_WITH_REPLY: [&str; 2] = ["reasoning_content", "reasoning_details"];
/// Beside a call: where Gemini's OpenAI endpoint keeps its thought signature.
const KEPT_WITH_CALL: &str = "extra_content";

/// OpenAI refuses a longer `tool_calls[].id`; the ids of other wires, which a conversation may bring along, are longer.
const ID_CHARS_MAX: usize = 40;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function { function: Function<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: Cow<'a, str>,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Entry<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: Cow<'a, str>,
    },
    Assistant {
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Asked<'a>>,
        #[serde(flatten)]
        kept: BTreeMap<&'static str, &'a Value>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct Asked<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: AskedFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct AskedFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

pub(super) fn body(request: &Request<'_>, provider: &str, url: &str) -> serde_json::Result<Vec<u8>> {
    let limit = (request.max_output > 0).then_some(request.max_output);
    // OpenAI's own models refuse the old name, most other servers do not know the new one.
    let (max_tokens, max_completion_tokens) = if is_openai(url) { (None, limit) } else { (limit, None) };
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    messages.extend(request.system.map(|text| Entry::System { content: clean::text(text) }));
    for message in request.messages {
        messages.extend(entry(message, provider)?);
    }
    serde_json::to_vec(&Body {
        model: request.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens,
        max_completion_tokens,
        tools: request.tools.iter().map(tool).collect(),
        messages,
    })
}

fn is_openai(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or_default().split(['/', ':']).next().unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".openai.azure.com")
}

fn tool(tool: &Definition) -> Tool<'_> {
    Tool::Function {
        function: Function {
            name: clean::name(&tool.name),
            description: clean::text(&tool.description),
            parameters: &tool.schema,
        },
    }
}

/// `None` for a reply that said nothing: servers refuse one.
fn entry<'a>(message: &'a Message, provider: &str) -> serde_json::Result<Option<Entry<'a>>> {
    Ok(Some(match message {
        Message::User { text } => Entry::User { content: clean::text(text) },
        Message::Result { call, text, .. } => {
            Entry::Tool { tool_call_id: ids::shortened(call, ID_CHARS_MAX), content: clean::text(text) }
        }
        Message::Assistant { text, calls, .. } if text.is_empty() && calls.is_empty() => return Ok(None),
        Message::Assistant { text, calls, opaque } => {
            let own = || opaque.iter().filter(|opaque| opaque.provider == provider).map(|opaque| &opaque.data.0);
            let kept = own().flat_map(|data| KEPT_WITH_REPLY.into_iter().filter_map(|key| Some((key, data.get(key)?))));
            let asked = calls.iter().enumerate().map(|(place, call)| {
                let extra = own().find(|data| data.get("call").and_then(Value::as_u64) == Some(place as u64));
                asked(call, extra.and_then(|data| data.get(KEPT_WITH_CALL)))
            });
            Entry::Assistant {
                content: (!text.is_empty()).then(|| clean::text(text)),
                kept: kept.collect(),
                tool_calls: asked.collect::<serde_json::Result<_>>()?,
            }
        }
    }))
}

fn asked<'a>(call: &'a Call, extra_content: Option<&'a Value>) -> serde_json::Result<Asked<'a>> {
    let arguments = serde_json::to_string(&*clean::object(call.args.object()))?;
    let function = AskedFunction { name: clean::name(&call.tool), arguments };
    Ok(Asked { id: ids::shortened(&call.id, ID_CHARS_MAX), r#type: "function", function, extra_content })
}

/// A reply as its chunks arrive.
#[derive(Debug, Default)]
pub struct Stream {
    draft: Draft,
    reasoning: String,
    details: Vec<Value>,
    /// By the place of the call.
    beside_calls: BTreeMap<usize, Value>,
    /// A finish reason came; deltas after it repeat what was said.
    finished: bool,
    done: bool,
}

impl Stream {
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// `[DONE]` or a finish reason: each is left out by some server, and a cut stream has neither.
    pub(super) fn may_end(&self) -> bool {
        self.done || self.finished
    }

    pub(super) fn event(&mut self, name: &str, data: &str) -> Result<Delta, Trouble> {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
        }
        if self.done || data.is_empty() {
            return Ok(Delta::default());
        }
        let chunk = clean::parse(data)?;
        if let Some(error) = error_in(name, &chunk) {
            return Err(Trouble::Told(error));
        }
        self.usage(&chunk);
        let Some(choice) = chunk.get("choices").and_then(|choices| choices.get(0)) else {
            return Ok(Delta::default());
        };
        if let Some(error) = broken_off(choice) {
            return Err(Trouble::Told(error));
        }
        let delta =
            if self.finished { Delta::default() } else { self.said(choice.get("delta").unwrap_or(&Value::Null))? };
        self.finish_reason(choice);
        Ok(delta)
    }

    pub(super) fn whole(&mut self, body: &str) -> Result<Delta, Trouble> {
        let reply = clean::parse(body)?;
        if let Some(error) = error_in("", &reply) {
            return Err(Trouble::Told(error));
        }
        let Some(choice) = reply.pointer("/choices/0") else {
            return Err(Trouble::Unreadable("a JSON body without `choices`".to_owned()));
        };
        if let Some(error) = broken_off(choice) {
            return Err(Trouble::Told(error));
        }
        self.usage(&reply);
        let delta = self.said(choice.get("message").unwrap_or(&Value::Null))?;
        self.finish_reason(choice);
        self.finished = true;
        self.done = true;
        Ok(delta)
    }

    pub(super) fn finish(mut self, provider: &str, ids: &mut Ids<'_>) -> Result<Reply, Trouble> {
        for slot in &mut self.draft.slots {
            slot.closed = self.finished;
        }
        // Only with calls is reasoning wanted back, and some servers refuse it otherwise.
        if !self.draft.slots.is_empty() && !self.reasoning.is_empty() {
            self.draft.opaque.push(Map::from_iter([("reasoning_content".to_owned(), self.reasoning.into())]));
        }
        if !self.details.is_empty() {
            self.draft.opaque.push(Map::from_iter([("reasoning_details".to_owned(), self.details.into())]));
        }
        for (place, value) in self.beside_calls {
            let entries = [("call".to_owned(), place.into()), (KEPT_WITH_CALL.to_owned(), value)];
            self.draft.opaque.push(Map::from_iter(entries));
        }
        self.draft.finish(provider, ids)
    }

    fn finish_reason(&mut self, choice: &Value) {
        // Some servers send an empty one, or the word "null", with every chunk.
        let stop = match str_at(choice, "finish_reason") {
            "" | "null" => return,
            "stop" | "eos" | "end_turn" => Stop::End,
            "tool_calls" | "function_call" => Stop::Calls,
            "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => Stop::Length,
            "content_filter" | "sensitive" => Stop::Filter,
            _ => Stop::Unknown,
        };
        self.finished = true;
        self.draft.stop.get_or_insert(stop);
    }

    fn usage(&mut self, chunk: &Value) {
        let usage = match chunk.get("usage") {
            Some(usage) if usage.is_object() => usage,
            // Moonshot's place for it.
            _ => match chunk.pointer("/choices/0/usage") {
                Some(usage) if usage.is_object() => usage,
                _ => return,
            },
        };
        let cached = ["/prompt_tokens_details/cached_tokens", "/cached_tokens", "/prompt_cache_hit_tokens"];
        let cached = cached.into_iter().map(|pointer| count_at(usage, pointer)).max().unwrap_or(0);
        let input = count_at(usage, "/prompt_tokens");
        let tokens = &mut self.draft.usage;
        tokens.cache_read = cached.min(input);
        tokens.fresh = input - tokens.cache_read;
        tokens.output = count_at(usage, "/completion_tokens");
    }

    fn said(&mut self, delta: &Value) -> Result<Delta, Trouble> {
        let mut text = String::new();
        for piece in texts(delta.get("content")).chain(texts(delta.get("refusal"))) {
            text.push_str(&self.draft.add_text(piece)?);
        }
        let mut content = !text.is_empty();
        let reasoning = str_at(delta, "reasoning_content");
        if !reasoning.is_empty() {
            self.draft.grow(reasoning.len())?;
            self.reasoning.push_str(reasoning);
        }
        content |= !reasoning.is_empty() || !str_at(delta, "reasoning").is_empty();
        for detail in array(delta.get("reasoning_details")) {
            content = true;
            self.draft.grow(detail.to_string().len())?;
            merge_detail(&mut self.details, detail);
        }
        for piece in array(delta.get("tool_calls")) {
            content = true;
            self.piece(piece)?;
        }
        Ok(Delta { text, content })
    }

    /// A piece of a call goes to the call it continues, or begins one.
    fn piece(&mut self, piece: &Value) -> Result<(), Trouble> {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = Some(str_at(piece, "id")).filter(|id| !id.is_empty());
        let function = piece.get("function").unwrap_or(&Value::Null);
        let name = str_at(function, "name");
        let args = match function.get("arguments") {
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            None | Some(Value::Null) => Cow::Borrowed(""),
            // Some servers send the object itself.
            Some(object) => Cow::Owned(object.to_string()),
        };
        let place = match self.continued(index, id, name, &args) {
            Continued::Repeats => return Ok(()),
            Continued::Call(place) => {
                let slot = &mut self.draft.slots[place];
                slot.id = slot.id.take().or(id.map(str::to_owned));
                if slot.name.is_empty() {
                    name.clone_into(&mut slot.name);
                }
                self.draft.add_args(place, &args)?;
                place
            }
            Continued::Nothing => {
                let (id, name) = (id.map(str::to_owned), name.to_owned());
                self.draft.add_slot(Slot { index, id, name, args: args.into_owned(), ..Slot::default() })?
            }
        };
        if let Some(extra) = piece.get(KEPT_WITH_CALL).filter(|extra| !extra.is_null()) {
            self.draft.grow(extra.to_string().len())?;
            self.beside_calls.insert(place, extra.clone());
        }
        Ok(())
    }

    fn continued(&self, index: Option<u64>, id: Option<&str>, name: &str, args: &str) -> Continued {
        let slots = &self.draft.slots;
        let by_id = id.and_then(|id| slots.iter().rposition(|slot| slot.id.as_deref() == Some(id)));
        let by_index = match index {
            Some(index) => slots.iter().rposition(|slot| slot.index == Some(index)),
            None => slots.len().checked_sub(1),
        };
        let candidate = match (id, by_id, by_index) {
            (Some(_), Some(place), _) if index.is_none() || slots[place].index == index => place,
            // An id known from another index: with a name it is a new call whose id is used twice.
            (Some(_), Some(place), _) if name.is_empty() => place,
            (Some(_), Some(_), _) => return Continued::Nothing,
            (Some(_), None, Some(place)) if slots[place].id.is_none() => place,
            // Another id at an equal index is another call.
            (Some(_), None, _) | (None, _, None) => return Continued::Nothing,
            (None, _, Some(place)) => place,
        };
        let slot = &slots[candidate];
        if name.is_empty() || slot.name.is_empty() {
            return Continued::Call(candidate);
        }
        // A name again: repeated with each piece by some servers, the next call from those that give no ids.
        if slot.name != name {
            return Continued::Nothing;
        }
        match slot.is_whole() && !args.trim().is_empty() {
            true if slot.args == args => Continued::Repeats,
            true => Continued::Nothing,
            false => Continued::Call(candidate),
        }
    }
}

/// An error that is told as a reason to end: what came before it is no reply. OpenRouter and Mistral say `error`, DeepSeek
/// that its machines gave out, GLM that its network did.
fn broken_off(choice: &Value) -> Option<Value> {
    let reason = str_at(choice, "finish_reason");
    let by_reason = || json!({"code": reason, "message": format!("the reply was broken off: {reason}")});
    error_in("", choice)
        .or_else(|| matches!(reason, "error" | "insufficient_system_resource" | "network_error").then(by_reason))
}

enum Continued {
    Call(usize),
    Nothing,
    /// It says again what was said already.
    Repeats,
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Text as a string, or (Mistral) as a list of parts.
fn texts(content: Option<&Value>) -> impl Iterator<Item = &str> {
    let parts = array(content).filter_map(|part| part.get("text").and_then(Value::as_str));
    content.and_then(Value::as_str).into_iter().chain(parts)
}

/// OpenRouter streams a detail in pieces of one index: text is joined, anything else stands as it came last.
fn merge_detail(details: &mut Vec<Value>, piece: &Value) {
    let same = |known: &&mut Value| {
        piece.get("index").is_some_and(|index| known.get("index") == Some(index))
            && known.get("type") == piece.get("type")
    };
    let (Some(Value::Object(known)), Value::Object(piece)) = (details.iter_mut().rev().find(same), piece) else {
        details.push(piece.clone());
        return;
    };
    for (key, value) in piece {
        match (known.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if matches!(key.as_str(), "text" | "summary" | "data") => {
                text.push_str(more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => drop(known.insert(key.clone(), value.clone())),
        }
    }
}
