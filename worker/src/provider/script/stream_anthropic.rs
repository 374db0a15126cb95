//! A reply on the Anthropic wire: `message_start` to `message_stop`, or one message.
//!
//! https://platform.claude.com/docs/en/build-with-claude/streaming: every block is opened, filled by deltas and closed;
//! a ping comes after the first opening; the stop reason and the final usage come in `message_delta`.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};

use super::reply::{Spoken, Stop, as_input, signature};
use super::stream::{Event, Part, pieces};

pub fn events(spoken: &Spoken, chunk_chars: usize) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |part: Part, data: Value| events.push(Event { part, text: event(&data) });
    let mut start = head(spoken);
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(spoken.usage.output.min(1));
    add(Part::Open, json!({"type": "message_start", "message": start}));
    for (index, block) in blocks(spoken).into_iter().enumerate() {
        add(Part::Open, json!({"type": "content_block_start", "index": index, "content_block": block.opening}));
        if index == 0 {
            add(Part::Open, json!({"type": "ping"}));
        }
        for piece in pieces(&block.text, chunk_chars) {
            let delta = json!({"type": block.delta, block.key: piece});
            let part = Part::Said(piece.chars().count());
            add(part, json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        if let Some(signature) = block.signature {
            let delta = json!({"type": "signature_delta", "signature": signature});
            add(Part::Close, json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        add(Part::Close, json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason(&spoken.stop), "stop_sequence": null});
    add(Part::Finish, json!({"type": "message_delta", "delta": delta, "usage": usage(spoken)}));
    add(Part::Terminal, json!({"type": "message_stop"}));
    events
}

pub fn whole(spoken: &Spoken) -> Value {
    let mut message = head(spoken);
    let contents = blocks(spoken).into_iter().map(|mut block| {
        block.opening[block.whole_key] = match block.whole_key {
            "input" => as_input(&block.text),
            _ => json!(block.text),
        };
        if let Some(signature) = block.signature {
            block.opening["signature"] = json!(signature);
        }
        block.opening
    });
    message["content"] = contents.collect();
    message["stop_reason"] = json!(stop_reason(&spoken.stop));
    message
}

/// An event under its own name, as the wire names events by the type of their data.
pub fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

struct Block {
    opening: Value,
    delta: &'static str,
    key: &'static str,
    whole_key: &'static str,
    text: String,
    signature: Option<String>,
}

fn blocks(spoken: &Spoken) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !spoken.reasoning.is_empty() {
        blocks.push(Block {
            opening: json!({"type": "thinking", "thinking": "", "signature": ""}),
            delta: "thinking_delta",
            key: "thinking",
            whole_key: "thinking",
            text: spoken.reasoning.clone(),
            signature: Some(signature(&spoken.reasoning)),
        });
    }
    if !spoken.text.is_empty() {
        blocks.push(Block {
            opening: json!({"type": "text", "text": ""}),
            delta: "text_delta",
            key: "text",
            whole_key: "text",
            text: spoken.text.clone(),
            signature: None,
        });
    }
    blocks.extend(spoken.calls.iter().map(|call| Block {
        opening: json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}}),
        delta: "input_json_delta",
        key: "partial_json",
        whole_key: "input",
        text: call.arguments.clone(),
        signature: None,
    }));
    blocks
}

fn head(spoken: &Spoken) -> Value {
    json!({"id": format!("msg_{}", spoken.id), "type": "message", "role": "assistant", "model": spoken.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(spoken)})
}

/// This wire counts what came from the cache apart from the input.
fn usage(spoken: &Spoken) -> Value {
    let usage = spoken.usage;
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn stop_reason(stop: &Stop) -> &str {
    match stop {
        Stop::End => "end_turn",
        Stop::Calls => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Filter => "refusal",
        Stop::Other(word) => word,
    }
}
