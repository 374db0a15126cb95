//! How many tokens a request will about be, before any provider has counted it.
//!
//! A tokenizer per model would be exact and megabytes large; four ASCII characters to a token, and one token for any
//! other character, is near enough to choose a provider by, and reported usage corrects the rest (spec §5, buckets).
//! Nothing is serialised for it: the text is looked at where it lies, and a curator may keep the sums of old messages.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value};
use ukai_protocol::message::{Args, Message};

use crate::provider::wire::Definition;

/// What roles, ids and brackets around one message cost.
const MESSAGE_TOKENS: u64 = 4;
/// What the frame around one call or one tool definition costs.
const FRAME_TOKENS: u64 = 8;
const ASCII_PER_TOKEN: u64 = 4;

/// The whole input: system prompt, conversation and tools.
#[must_use]
pub fn estimate_tokens(system: Option<&str>, messages: &[Message], tools: &[Definition]) -> u64 {
    system.map_or(0, estimate_text)
        + messages.iter().map(estimate_message).sum::<u64>()
        + tools.iter().map(estimate_definition).sum::<u64>()
}

#[must_use]
pub fn estimate_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    // A character that is not ASCII begins with exactly one byte of 11xxxxxx.
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count() as u64;
    ascii.div_ceil(ASCII_PER_TOKEN) + other
}

#[must_use]
pub fn estimate_message(message: &Message) -> u64 {
    MESSAGE_TOKENS
        + match message {
            Message::User { text } => estimate_text(text),
            Message::Result { text, tool, .. } => estimate_text(text) + estimate_text(tool),
            Message::Assistant { text, calls, opaque } => {
                let calls = calls.iter().map(|call| {
                    let args = match &call.args {
                        Args::Whole(json) => estimate_map(&json.0),
                        Args::Broken { .. } => 1,
                    };
                    FRAME_TOKENS + estimate_text(&call.tool) + args
                });
                estimate_text(text)
                    + calls.sum::<u64>()
                    + opaque.iter().map(|kept| estimate_map(&kept.data.0)).sum::<u64>()
            }
        }
}

#[must_use]
pub fn estimate_definition(tool: &Definition) -> u64 {
    FRAME_TOKENS + estimate_text(&tool.name) + estimate_text(&tool.description) + estimate_value(&tool.schema)
}

fn estimate_map(map: &Map<String, Value>) -> u64 {
    1 + map.iter().map(|(key, value)| estimate_text(key) + 1 + estimate_value(value)).sum::<u64>()
}

fn estimate_value(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(text) => 1 + estimate_text(text),
        Value::Array(items) => 1 + items.iter().map(estimate_value).sum::<u64>(),
        Value::Object(map) => estimate_map(map),
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::json::Json;
    use ukai_protocol::message::Call;

    use super::*;

    #[test]
    fn four_ascii_characters_or_one_other_are_a_token() {
        for (text, tokens) in [("", 0), ("abcd", 1), ("abcde", 2), ("鵜飼", 2), ("é", 1), ("ab鵜", 2), ("🙂🙂", 2)]
        {
            assert_eq!(estimate_text(text), tokens, "{text}");
        }
    }

    #[test]
    fn everything_that_is_sent_is_counted() {
        let call = |args| Call { id: "c".into(), tool: "Read".into(), args };
        let Value::Object(map) = serde_json::json!({"path": "x".repeat(400)}) else { panic!("an object") };
        let with =
            [Message::Assistant { text: String::new(), calls: vec![call(Args::Whole(Json(map)))], opaque: Vec::new() }];
        let without = [Message::Assistant {
            text: String::new(),
            calls: vec![call(Args::Broken { text: "x".repeat(400), why: String::new() })],
            opaque: Vec::new(),
        }];
        let tool = Definition {
            name: "Read".into(),
            description: "d".repeat(80),
            schema: serde_json::json!({"type": "object"}),
        };
        let base = estimate_tokens(None, &without, &[]);
        assert!(estimate_tokens(None, &with, &[]) >= base + 100, "arguments count, broken ones are sent as {{}}");
        assert!(estimate_tokens(None, &without, &[tool]) >= base + 20);
        assert_eq!(estimate_tokens(Some("abcd"), &without, &[]), base + 1);
    }
}
