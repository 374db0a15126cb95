//! The rules of Anthropic's Messages, in its words where they are known.
//!
//! Fields: https://platform.claude.com/docs/en/api/messages. As there, messages of the same role that follow each other
//! count as one. Stricter than there: a call's tool must be one that is offered.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

use serde_json::Value;

use super::judge::{is_plain_name, unknown_key};
use super::judge_schema;
use super::refusal::Refusal;
use super::reply::{has_mark, reasoning_mark, signature};

/// The real one's own bounds.
const TOOL_NAME_CHARS_MAX: usize = 128;
const CALL_ID_CHARS_MAX: usize = 256;
const CACHE_BREAKPOINTS_MAX: usize = 4;
const THINKING_TOKENS_MIN: u64 = 1024;

type Judged = Result<(), Refusal>;

pub fn version(header: Option<&str>) -> Judged {
    match header {
        None => wrong("anthropic-version: header is required"),
        Some("2026-10-21" | "2023-06-01" | "2023-01-01") => Ok(()),
        Some(other) => wrong(format!("anthropic-version: \"{other}\" is not a valid version")),
    }
}

pub fn judge(body: &Value, scripted: &dyn Fn(&str) -> bool) -> Judged {
    if !body.is_object() {
        return wrong("Input should be a valid dictionary or object");
    }
    if let Some(key) = unknown_key(body, &KNOWN) {
        return wrong(format!("{key}: Extra inputs are not permitted"));
    }
    options(body)?;
    let offered = tools(body)?;
    let turns = merged(body)?;
    let mut ids = HashSet::new();
    for (at, turn) in turns.iter().enumerate() {
        turn.content(at + 1 == turns.len(), &|tool| offered.contains(tool) || scripted(tool), &mut ids)?;
    }
    pairing(&turns)?;
    thinking(body, &turns)?;
    let breakpoints = cache_breakpoints(body);
    if breakpoints > CACHE_BREAKPOINTS_MAX {
        return wrong(format!(
            "A maximum of {CACHE_BREAKPOINTS_MAX} blocks with cache_control may be provided. Found {breakpoints}."
        ));
    }
    Ok(())
}

const KNOWN: [&str; 21] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
    "service_tier",
    "container",
    "mcp_servers",
    "context_management",
    "output_config",
    "output_format",
    "cache_control",
    "inference_geo",
];

fn options(body: &Value) -> Judged {
    match &body["model"] {
        Value::Null => return wrong("model: Field required"),
        Value::String(model) if model.is_empty() => return wrong("model: String should have at least 1 character"),
        Value::String(_) => {}
        _ => return wrong("model: Input should be a valid string"),
    }
    match &body["max_tokens"] {
        Value::Null => return wrong("max_tokens: Field required"),
        value if value.as_u64().is_some_and(|n| n >= 1) => {}
        value if value.is_i64() || value.is_u64() => {
            return wrong("max_tokens: Input should be greater than or equal to 1");
        }
        _ => return wrong("max_tokens: Input should be a valid integer"),
    }
    if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
        return wrong("stream: Input should be a valid boolean");
    }
    match &body["temperature"] {
        Value::Null => {}
        value if value.as_f64().is_some_and(|t| (0.0..=1.0).contains(&t)) => {}
        _ => return wrong("temperature: range: 0..1"),
    }
    match &body["system"] {
        Value::Null | Value::String(_) => {}
        Value::Array(blocks) => {
            for (n, block) in blocks.iter().enumerate() {
                if block["type"] != "text" {
                    return wrong(format!("system.{n}.type: Input should be 'text'"));
                }
                text_block("system", &format!("system.{n}"), block)?;
            }
        }
        _ => return wrong("system: Input should be a valid string or list"),
    }
    if body["thinking"]["type"] == "enabled" {
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or_default();
        if budget < THINKING_TOKENS_MIN {
            return wrong(format!(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to {THINKING_TOKENS_MIN}"
            ));
        }
        if budget >= body["max_tokens"].as_u64().unwrap_or_default() {
            return wrong("`max_tokens` must be greater than `thinking.budget_tokens`");
        }
    }
    Ok(())
}

fn tools(body: &Value) -> Result<HashSet<&str>, Refusal> {
    let mut names = HashSet::new();
    let tools = match &body["tools"] {
        Value::Null => {
            if !body["tool_choice"].is_null() {
                wrong("tool_choice: may only be specified while providing tools")?;
            }
            return Ok(names);
        }
        Value::Array(tools) => tools,
        _ => return Err(Refusal::invalid("tools: Input should be a valid list")),
    };
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools.{at}.custom");
        if let Some(key) = unknown_key(
            tool,
            &["name", "description", "input_schema", "type", "cache_control", "strict", "eager_input_streaming"],
        ) {
            wrong(format!("{place}.{key}: Extra inputs are not permitted"))?;
        }
        let name = tool["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            wrong(format!("{place}.name: Field required"))?;
        }
        if !is_plain_name(name, TOOL_NAME_CHARS_MAX) {
            wrong(format!("{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"))?;
        }
        if tool["input_schema"].is_null() {
            wrong(format!("{place}.input_schema: Field required"))?;
        }
        if let Some((below, why)) = judge_schema::fault(&tool["input_schema"]) {
            wrong(format!("{place}.input_schema{below}: {why}"))?;
        }
        if !names.insert(name) {
            wrong("tools: Tool names must be unique.")?;
        }
    }
    Ok(names)
}

/// Messages of one role that follow each other: (message, block, the block) in order.
struct Turn<'a> {
    assistant: bool,
    /// The last message of it.
    at: usize,
    blocks: Vec<(String, Block<'a>)>,
}

#[derive(Clone, Copy)]
enum Block<'a> {
    /// A content that is one string.
    Text(&'a str),
    Other(&'a Value),
}

fn merged(body: &Value) -> Result<Vec<Turn<'_>>, Refusal> {
    let messages = match &body["messages"] {
        Value::Null => return Err(Refusal::invalid("messages: Field required")),
        Value::Array(messages) if messages.is_empty() => {
            return Err(Refusal::invalid("messages: at least one message is required"));
        }
        Value::Array(messages) => messages,
        _ => return Err(Refusal::invalid("messages: Input should be a valid list")),
    };
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(key) = unknown_key(message, &["role", "content"]) {
            wrong(format!("messages.{at}.{key}: Extra inputs are not permitted"))?;
        }
        let assistant = match message["role"].as_str() {
            Some("user") => false,
            Some("assistant") => true,
            Some("system") => {
                return Err(Refusal::invalid(
                    "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
                     \"system\" as an input message role.",
                ));
            }
            Some(other) => {
                return Err(Refusal::invalid(format!(
                    "messages: Unexpected role \"{other}\". Allowed roles are \"user\" or \"assistant\""
                )));
            }
            None => return Err(Refusal::invalid(format!("messages.{at}.role: Field required"))),
        };
        if at == 0 && assistant {
            wrong("messages: first message must use the \"user\" role")?;
        }
        let empty = || {
            wrong(format!(
                "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
            ))
        };
        let last_assistant = assistant && at + 1 == messages.len();
        let mut blocks = Vec::new();
        match &message["content"] {
            Value::String(text) if text.is_empty() && !last_assistant => empty()?,
            Value::String(text) => blocks.push((format!("messages.{at}.content"), Block::Text(text))),
            Value::Array(list) if list.is_empty() && !last_assistant => empty()?,
            Value::Array(list) => {
                blocks.extend(
                    list.iter()
                        .enumerate()
                        .map(|(n, block)| (format!("messages.{at}.content.{n}"), Block::Other(block))),
                );
            }
            Value::Null => wrong(format!("messages.{at}.content: Field required"))?,
            _ => wrong(format!("messages.{at}.content: Input should be a valid string or list"))?,
        }
        match turns.last_mut() {
            Some(turn) if turn.assistant == assistant => {
                turn.at = at;
                turn.blocks.extend(blocks);
            }
            _ => turns.push(Turn { assistant, at, blocks }),
        }
    }
    Ok(turns)
}

impl<'a> Turn<'a> {
    fn content(&self, last: bool, known: &dyn Fn(&str) -> bool, ids: &mut HashSet<&'a str>) -> Judged {
        for (place, block) in &self.blocks {
            match block {
                Block::Text(text) if !text.is_empty() && text.trim().is_empty() => {
                    return wrong("messages: text content blocks must contain non-whitespace text");
                }
                Block::Text(_) => {}
                Block::Other(block) => self.block(place, block, known, ids)?,
            }
        }
        let end = match self.blocks.last() {
            Some((_, Block::Text(text))) => text,
            Some((_, Block::Other(block))) if block["type"] == "text" => block["text"].as_str().unwrap_or_default(),
            Some((_, Block::Other(block))) if self.assistant && block["type"] == "thinking" => {
                return wrong(format!(
                    "messages.{}: The final block in an assistant message cannot be `thinking`.",
                    self.at
                ));
            }
            _ => "",
        };
        if self.assistant && last && end.ends_with(char::is_whitespace) {
            return wrong("messages: final assistant content cannot end with trailing whitespace");
        }
        Ok(())
    }

    fn block(&self, place: &str, block: &'a Value, known: &dyn Fn(&str) -> bool, ids: &mut HashSet<&'a str>) -> Judged {
        match (block["type"].as_str(), self.assistant) {
            (Some("text"), _) => text_block("messages", place, block),
            (Some("tool_use"), true) => {
                keys(place, block, &["type", "id", "name", "input", "cache_control", "caller"])?;
                let id = block["id"].as_str().unwrap_or_default();
                if id.is_empty() {
                    return wrong(format!("{place}.tool_use.id: Field required"));
                }
                if !is_plain_name(id, CALL_ID_CHARS_MAX) {
                    return wrong(format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
                }
                if !ids.insert(id) {
                    return wrong(format!("{place}: `tool_use` ids must be unique"));
                }
                let name = block["name"].as_str().unwrap_or_default();
                if !is_plain_name(name, TOOL_NAME_CHARS_MAX) {
                    return wrong(format!(
                        "{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
                    ));
                }
                if !known(name) {
                    return wrong(format!("{place}.tool_use.name: no tool '{name}' is offered"));
                }
                if !block["input"].is_object() {
                    return wrong(format!("{place}.tool_use.input: Input should be a valid dictionary"));
                }
                Ok(())
            }
            (Some("tool_result"), false) => {
                keys(place, block, &["type", "tool_use_id", "content", "is_error", "cache_control"])?;
                if block["tool_use_id"].as_str().unwrap_or_default().is_empty() {
                    return wrong(format!("{place}.tool_result.tool_use_id: Field required"));
                }
                if !matches!(block["is_error"], Value::Null | Value::Bool(_)) {
                    return wrong(format!("{place}.tool_result.is_error: Input should be a valid boolean"));
                }
                match &block["content"] {
                    Value::Null | Value::String(_) => Ok(()),
                    Value::Array(inner) => {
                        inner.iter().enumerate().try_for_each(|(n, inner)| match inner["type"].as_str() {
                            Some("text") => text_block("messages", &format!("{place}.tool_result.content.{n}"), inner),
                            Some("image" | "document" | "search_result" | "tool_reference") => Ok(()),
                            _ => wrong(format!(
                                "{place}.tool_result.content.{n}: Input tag {} does not match any of the expected tags",
                                inner["type"]
                            )),
                        })
                    }
                    _ => wrong(format!("{place}.tool_result.content: Input should be a valid string or list")),
                }
            }
            (Some("thinking"), true) => {
                keys(place, block, &["type", "thinking", "signature"])?;
                match block["thinking"].as_str() {
                    None => wrong(format!("{place}.thinking.thinking: Field required")),
                    Some(text) if block["signature"] != signature(text).as_str() => {
                        wrong(format!("{place}: Invalid `signature` in `thinking` block"))
                    }
                    Some(_) => Ok(()),
                }
            }
            (Some("image" | "document" | "search_result"), false) => Ok(()),
            (Some("tool_use" | "thinking" | "redacted_thinking"), false) => {
                let kind = block["type"].as_str().unwrap_or_default();
                wrong(format!("messages.{}: `{kind}` blocks can only be in `assistant` messages", self.at))
            }
            (Some("tool_result"), true) => {
                wrong(format!("messages.{}: `tool_result` blocks can only be in `user` messages", self.at))
            }
            _ => wrong(format!(
                "{place}: Input tag {} found using 'type' does not match any of the expected tags",
                block["type"]
            )),
        }
    }

    fn ids(&self, kind: &'a str, key: &'a str) -> impl Iterator<Item = (&str, &'a str)> {
        self.blocks.iter().filter_map(move |(place, block)| match block {
            Block::Other(block) if block["type"] == kind => Some((place.as_str(), block[key].as_str()?)),
            _ => None,
        })
    }
}

fn pairing(turns: &[Turn<'_>]) -> Judged {
    for (n, turn) in turns.iter().enumerate() {
        let next = turns.get(n + 1);
        if turn.assistant {
            // Results come first in the next message: one behind a text does not count.
            let leading: HashSet<_> = next
                .iter()
                .flat_map(|next| next.blocks.iter())
                .map_while(|(_, block)| match block {
                    Block::Other(block) if block["type"] == "tool_result" => block["tool_use_id"].as_str(),
                    _ => None,
                })
                .collect();
            let missing: Vec<_> =
                turn.ids("tool_use", "id").map(|(_, id)| id).filter(|id| !leading.contains(id)).collect();
            if !missing.is_empty() {
                return wrong(format!(
                    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                     `tool_use` block must have a corresponding `tool_result` block in the next message.",
                    turn.at,
                    missing.join(", ")
                ));
            }
            continue;
        }
        let asked: HashSet<_> =
            n.checked_sub(1).iter().flat_map(|before| turns[*before].ids("tool_use", "id")).map(|(_, id)| id).collect();
        let mut answered = HashSet::new();
        for (place, id) in turn.ids("tool_result", "tool_use_id") {
            if !asked.contains(id) {
                return wrong(format!(
                    "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                     have a corresponding `tool_use` block in the previous message."
                ));
            }
            if !answered.insert(id) {
                return wrong(format!(
                    "{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                ));
            }
        }
    }
    Ok(())
}

/// The latest reply's reasoning must come back as it was while its calls are being answered.
fn thinking(body: &Value, turns: &[Turn<'_>]) -> Judged {
    let Some(turn) = turns.iter().rfind(|turn| turn.assistant) else { return Ok(()) };
    let Some((place, id)) = turn.ids("tool_use", "id").next() else { return Ok(()) };
    let marked = reasoning_mark(id);
    if let Some(mark) = marked
        && !turn.ids("thinking", "signature").any(|(_, signature)| has_mark(signature, mark))
    {
        return wrong(format!(
            "{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
             blocks must remain as they were in the original response."
        ));
    }
    let first = turn.blocks.first().is_some_and(|(_, block)| {
        matches!(block, Block::Other(block) if block["type"] == "thinking" || block["type"] == "redacted_thinking")
    });
    if body["thinking"]["type"] == "enabled" && !first {
        return wrong(format!(
            "{place}.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a \
             final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
             `tool_result` blocks)."
        ));
    }
    Ok(())
}

fn text_block(of: &str, place: &str, block: &Value) -> Judged {
    keys(place, block, &["type", "text", "cache_control", "citations"])?;
    match block["text"].as_str() {
        None => wrong(format!("{place}.text.text: Field required")),
        Some("") if !block["cache_control"].is_null() => {
            wrong(format!("{place}.text: cache_control cannot be set for empty text blocks"))
        }
        Some("") => wrong(format!("{of}: text content blocks must be non-empty")),
        Some(text) if text.trim().is_empty() => {
            wrong(format!("{of}: text content blocks must contain non-whitespace text"))
        }
        Some(_) => Ok(()),
    }
}

fn keys(place: &str, block: &Value, known: &[&str]) -> Judged {
    match unknown_key(block, known) {
        None => Ok(()),
        Some(key) => wrong(format!(
            "{place}.{}.{key}: Extra inputs are not permitted",
            block["type"].as_str().unwrap_or_default()
        )),
    }
}

fn cache_breakpoints(body: &Value) -> usize {
    let contents = body["messages"].as_array().into_iter().flatten().map(|message| &message["content"]);
    let lists = [&body["tools"], &body["system"]].into_iter().chain(contents);
    lists.filter_map(Value::as_array).flatten().filter(|block| !block["cache_control"].is_null()).count()
}

fn wrong(message: impl Into<String>) -> Judged {
    Err(Refusal::invalid(message))
}

#[cfg(test)]
mod tests;
