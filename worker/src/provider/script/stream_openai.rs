//! A reply on the OpenAI wire: `chat.completion.chunk` events, or one `chat.completion`.
//!
//! https://platform.openai.com/docs/api-reference/chat-streaming: the role first, then content, then each call opened
//! with its id and name and followed by pieces of its arguments, then the reason, then the usage if asked for, `[DONE]`.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};

use super::reply::{Spoken, Stop};
use super::stream::{Event, Part, pieces};

pub struct Shape {
    pub chunk_chars: usize,
    pub include_usage: bool,
    /// Every call under index 0, as some compatible servers do.
    pub equal_index: bool,
    /// Seconds since 1970.
    pub created: i64,
}

pub fn events(spoken: &Spoken, shape: &Shape) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |part: Part, delta: Value, finish: Value| {
        let mut chunk = head(spoken, "chat.completion.chunk", shape.created);
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        if shape.include_usage {
            chunk["usage"] = Value::Null;
        }
        events.push(Event { part, text: format!("data: {chunk}\n\n") });
    };
    let opening = if spoken.text.is_empty() && !spoken.calls.is_empty() { Value::Null } else { json!("") };
    add(Part::Open, json!({"role": "assistant", "content": opening, "refusal": null}), Value::Null);
    for (key, text) in [("reasoning_content", &spoken.reasoning), ("content", &spoken.text)] {
        for piece in pieces(text, shape.chunk_chars).into_iter().filter(|piece| !piece.is_empty()) {
            add(Part::Said(piece.chars().count()), json!({key: piece}), Value::Null);
        }
    }
    for (at, call) in spoken.calls.iter().enumerate() {
        let index = if shape.equal_index { 0 } else { at };
        let open = json!({"index": index, "id": call.id, "type": "function",
            "function": {"name": call.tool, "arguments": ""}});
        add(Part::Open, json!({"tool_calls": [open]}), Value::Null);
        for piece in pieces(&call.arguments, shape.chunk_chars) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            add(Part::Said(piece.chars().count()), json!({"tool_calls": [more]}), Value::Null);
        }
    }
    add(Part::Finish, json!({}), json!(finish_reason(&spoken.stop)));
    if shape.include_usage {
        let mut chunk = head(spoken, "chat.completion.chunk", shape.created);
        chunk["choices"] = json!([]);
        chunk["usage"] = usage(spoken);
        events.push(Event { part: Part::Terminal, text: format!("data: {chunk}\n\n") });
    }
    events.push(Event { part: Part::Terminal, text: "data: [DONE]\n\n".to_owned() });
    events
}

pub fn whole(spoken: &Spoken, created: i64) -> Value {
    let calls = spoken.calls.iter().map(
        |call| json!({"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}),
    );
    let calls: Vec<_> = calls.collect();
    let content = if spoken.text.is_empty() && !calls.is_empty() { Value::Null } else { json!(spoken.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !spoken.reasoning.is_empty() {
        message["reasoning_content"] = json!(spoken.reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let mut body = head(spoken, "chat.completion", created);
    body["choices"] = json!([{"index": 0, "message": message, "logprobs": null,
        "finish_reason": finish_reason(&spoken.stop)}]);
    body["usage"] = usage(spoken);
    body
}

/// Some compatible servers say an error in the middle of a stream so.
pub fn error_event(body: &Value) -> String {
    format!("data: {body}\n\n")
}

fn head(spoken: &Spoken, object: &str, created: i64) -> Value {
    json!({"id": format!("chatcmpl-{}", spoken.id), "object": object, "created": created, "model": spoken.model,
        "service_tier": "default", "system_fingerprint": "fp_script"})
}

fn usage(spoken: &Spoken) -> Value {
    let usage = spoken.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn finish_reason(stop: &Stop) -> &str {
    match stop {
        Stop::End => "stop",
        Stop::Calls => "tool_calls",
        Stop::Length => "length",
        Stop::Filter => "content_filter",
        Stop::Other(word) => word,
    }
}
