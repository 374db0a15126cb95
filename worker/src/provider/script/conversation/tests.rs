//! One conversation on all wires, and that they read the same.

use serde_json::json;

use super::*;

/// The same conversation on each wire: a prompt, Glob and Grep in one reply, their results.
pub fn example(wire: Wire) -> Value {
    match wire {
        Wire::Openai => json!({
            "model": "lab-1",
            "stream": true,
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "survey src"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "Glob", "arguments": "{\"pattern\":\"*.rs\"}"}},
                    {"id": "c2", "type": "function", "function": {"name": "Grep", "arguments": "{\"pattern\":\"TODO\",\"n\":2}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "a.rs\nb.rs"},
                {"role": "tool", "tool_call_id": "c2", "content": "total: 42"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "Glob", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "Grep", "parameters": {"type": "object"}}},
            ],
        }),
        Wire::Anthropic => json!({
            "model": "lab-1",
            "max_tokens": 100,
            "stream": true,
            "system": [{"type": "text", "text": "be brief"}],
            "messages": [
                {"role": "user", "content": "survey src"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c1", "name": "Glob", "input": {"pattern": "*.rs"}},
                    {"type": "tool_use", "id": "c2", "name": "Grep", "input": {"pattern": "TODO", "n": 2}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a.rs\nb.rs"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "total: 42"}]},
                ]},
            ],
            "tools": [
                {"name": "Glob", "input_schema": {"type": "object"}},
                {"name": "Grep", "input_schema": {"type": "object"}},
            ],
        }),
        Wire::Gemini => json!({
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "generationConfig": {"maxOutputTokens": 100},
            "contents": [
                {"role": "user", "parts": [{"text": "survey src"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "c1", "name": "Glob", "args": {"pattern": "*.rs"}}},
                    {"functionCall": {"id": "c2", "name": "Grep", "args": {"pattern": "TODO", "n": 2}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": "Glob", "response": {"output": "a.rs\nb.rs"}}},
                    {"functionResponse": {"id": "c2", "name": "Grep", "response": {"result": "total: 42"}}},
                ]},
            ],
            "tools": [{"functionDeclarations": [
                {"name": "Glob", "parametersJsonSchema": {"type": "object"}},
                {"name": "Grep", "parametersJsonSchema": {"type": "object"}},
            ]}],
        }),
    }
}

/// Where a request for `example` goes.
pub fn place(wire: Wire) -> Place {
    let (path, query) = match wire {
        Wire::Openai => ("/v1/chat/completions", None),
        Wire::Anthropic => ("/v1/messages", None),
        Wire::Gemini => ("/v1beta/models/lab-1:streamGenerateContent", Some("alt=sse")),
    };
    Place::of(path, query).expect("it is served")
}

pub fn read(wire: Wire) -> Conversation {
    Conversation::read(&place(wire), &[("x-job".to_owned(), "j1".to_owned())], &example(wire), 400)
}

#[test]
fn all_wires_read_the_same() {
    let openai = read(Wire::Openai);
    for conversation in Wire::ALL.map(read) {
        assert_eq!(openai.turns, conversation.turns);
        assert_eq!(openai.tools, conversation.tools);
        assert_eq!(openai.form, conversation.form);
        assert_eq!(openai.position(), conversation.position());
        for (name, value) in [
            ("prompt", Some("survey src")),
            ("system", Some("be brief")),
            ("step", Some("2")),
            ("last", Some("total: 42")),
            ("result.Glob", Some("a.rs\nb.rs")),
            ("result.Glob.1", Some("a.rs\nb.rs")),
            ("result.Glob.2", None),
            ("result.2", Some("total: 42")),
            ("result.0", None),
            ("result.last", Some("total: 42")),
            ("results.Grep", Some("1")),
            ("results.Read", Some("0")),
            ("result.Read", None),
            ("call.Grep.pattern", Some("TODO")),
            ("call.Grep.n", Some("2")),
            ("call.Grep.path", None),
            ("header.x-job", Some("j1")),
            ("header.x-none", None),
            ("tools", Some("Glob\nGrep")),
        ] {
            assert_eq!(conversation.get(name).as_deref(), value, "{name}");
        }
    }
}

#[test]
fn a_position_is_that_of_the_conversation_and_not_of_the_sending() {
    let mut longer = example(Wire::Openai);
    longer["messages"].as_array_mut().expect("test data").pop();
    let shorter = Conversation::read(&place(Wire::Openai), &[], &longer, 0);
    assert_eq!(read(Wire::Openai).position(), read(Wire::Openai).position());
    assert_ne!(read(Wire::Openai).position(), shorter.position());
    assert_eq!(read(Wire::Openai).key(), shorter.key());
}
