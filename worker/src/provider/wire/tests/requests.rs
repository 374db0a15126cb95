//! Where a request goes, with what key, and what it says.

use super::*;

#[test]
fn urls() {
    for (wire, base, expected) in [
        (Wire::Openai, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        (Wire::Openai, "http://127.0.0.1:8080/v1//", "http://127.0.0.1:8080/v1/chat/completions"),
        (Wire::Openai, "https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4/chat/completions"),
        (Wire::Openai, "https://x/v1/chat/completions", "https://x/v1/chat/completions"),
        (Wire::Openai, "https://x/d?api-version=1", "https://x/d/chat/completions?api-version=1"),
        (Wire::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        (Wire::Anthropic, "https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        (Wire::Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        (Wire::Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        (Wire::Anthropic, "https://api.minimax.io/anthropic/v1", "https://api.minimax.io/anthropic/v1/messages"),
        (Wire::Anthropic, "https://x/v1/messages", "https://x/v1/messages"),
        (Wire::Anthropic, "https://x/dev1", "https://x/dev1/v1/messages"),
    ] {
        assert_eq!(url(wire, base, "m"), expected, "{base}");
    }
    let sse = "models/gemini-3.8-flash:streamGenerateContent?alt=sse";
    for (base, path) in [
        ("https://generativelanguage.googleapis.com", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta/", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta/models", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta/models/", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta/models/gemini-1:generateContent", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1beta/models/x:streamGenerateContent?alt=sse", "/v1beta/"),
        ("https://generativelanguage.googleapis.com/v1alpha", "/v1alpha/"),
        ("https://generativelanguage.googleapis.com/dev1", "/dev1/v1beta/"),
        ("https://generativelanguage.googleapis.com/v", "/v/v1beta/"),
        ("https://generativelanguage.googleapis.com/gemini", "/gemini/v1beta/"),
    ] {
        let expected = format!("https://generativelanguage.googleapis.com{path}{sse}");
        assert_eq!(url(Wire::Gemini, base, "gemini-3.8-flash"), expected, "{base}");
        assert_eq!(url(Wire::Gemini, base, "models/gemini-3.8-flash"), expected, "{base}");
    }
    for (base, model, expected) in [
        ("https://x?key=1&alt=json&b=2", "m", "https://x/v1beta/models/m:streamGenerateContent?key=1&b=2&alt=sse"),
        ("https://x", "a b?c#d%", "https://x/v1beta/models/a%20b%3Fc%23d%25:streamGenerateContent?alt=sse"),
        ("https://x", "google/gemini-3", "https://x/v1beta/models/google/gemini-3:streamGenerateContent?alt=sse"),
    ] {
        assert_eq!(url(Wire::Gemini, base, model), expected, "{base}");
    }
}

#[test]
fn keys_are_marked_and_never_shown() {
    let key = Secret::new("sk-1".to_owned());
    for (wire, name, value) in [
        (Wire::Openai, "authorization", "Bearer sk-1"),
        (Wire::Anthropic, "x-api-key", "sk-1"),
        (Wire::Gemini, "x-goog-api-key", "sk-1"),
    ] {
        let headers = super::headers(wire, Some(&key)).expect("headers");
        assert_eq!(headers.get(name).expect("a key"), value);
        assert!(!format!("{headers:?}").contains("sk-1"));
        assert!(super::headers(wire, None).expect("headers").get(name).is_none());
        let error = super::headers(wire, Some(&Secret::new("sk-1\nx".to_owned()))).expect_err("no header").to_string();
        assert!(!error.contains("sk-1"));
    }
}

fn conversation() -> Vec<Message> {
    let object = |value: Value| match value {
        Value::Object(map) => Json(map),
        _ => panic!("an object"),
    };
    let result =
        |call: &str, ok, text: &str| Message::Result { call: call.into(), tool: "Read".into(), ok, text: text.into() };
    let opaque = |provider: &str, data| Opaque { provider: provider.into(), data: object(data) };
    vec![
        Message::User { text: "go\0".into() },
        Message::Assistant {
            text: String::new(),
            calls: vec![
                Call { id: "a".into(), tool: "Read".into(), args: Args::Whole(object(json!({"path": "1"}))) },
                Call {
                    id: "b".into(),
                    tool: "functions.read".into(),
                    args: Args::Broken { text: "{\"pa".into(), why: "cut".into() },
                },
            ],
            opaque: vec![
                opaque("lab", json!({"type": "thinking", "thinking": "t", "signature": "s=="})),
                opaque("other", json!({"type": "thinking", "thinking": "foreign", "reasoning_content": "foreign"})),
                opaque("lab", json!({"reasoning_content": "r"})),
                opaque("lab", json!({"call": 1, "extra_content": {"g": 1}})),
            ],
        },
        result("a", true, ""),
        result("b", false, "cut"),
        Message::User { text: "and?".into() },
        Message::Assistant { text: " ".into(), calls: Vec::new(), opaque: Vec::new() },
        Message::Assistant { text: "done".into(), calls: Vec::new(), opaque: Vec::new() },
        Message::User { text: "more".into() },
    ]
}

fn written(wire: Wire, messages: &[Message], max_output: u64, url: &str) -> Value {
    let schema = json!({"type": "object"});
    let tools =
        ["Glob", "Read"].map(|name| Definition { name: name.into(), description: "d".into(), schema: schema.clone() });
    let messages: Vec<Arc<Message>> = messages.iter().cloned().map(Arc::new).collect();
    let request = Request { model: "m", system: Some("s"), messages: &messages, tools: &tools, max_output };
    let bytes = body(wire, &request, "lab", url).expect("written");
    assert_eq!(bytes, body(wire, &request, "lab", url).expect("written"), "the same bytes each time");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn the_conversation_on_the_openai_wire() {
    let mut messages = conversation();
    messages.remove(5);
    let expected = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 9,
        "tools": [
            {"type": "function", "function": {"name": "Glob", "description": "d", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "Read", "description": "d", "parameters": {"type": "object"}}},
        ],
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "go\u{FFFD}"},
            {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"1\"}"}},
                {"id": "b", "type": "function", "function": {"name": "functions_read", "arguments": "{}"}, "extra_content": {"g": 1}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "tool", "tool_call_id": "b", "content": "cut"},
            {"role": "user", "content": "and?"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
        ],
    });
    assert_eq!(written(Wire::Openai, &messages, 9, "http://127.0.0.1:1/v1/chat/completions"), expected);
    let own = written(Wire::Openai, &messages, 9, "https://api.openai.com/v1/chat/completions");
    assert_eq!((own.get("max_completion_tokens"), own.get("max_tokens")), (Some(&json!(9)), None));
    let open = written(Wire::Openai, &messages, 0, "https://api.openai.com/v1/chat/completions");
    assert_eq!((open.get("max_completion_tokens"), open.get("max_tokens")), (None, None));
}

#[test]
fn ids_of_another_wire_are_shortened_and_still_meet_their_results() {
    let long = |last: char| format!("toolu_{}{last}", "x".repeat(50));
    let call = |id: String| Call { id, tool: "Read".into(), args: Args::Whole(Json::default()) };
    let result = |call: String| Message::Result { call, tool: "Read".into(), ok: true, text: "t".into() };
    let messages = [
        Message::User { text: "go".into() },
        Message::Assistant { text: String::new(), calls: vec![call(long('a')), call(long('b'))], opaque: Vec::new() },
        result(long('a')),
        result(long('b')),
    ];
    let written = written(Wire::Openai, &messages, 9, "http://127.0.0.1:1/v1/chat/completions");
    let at = |pointer: &str| written.pointer(pointer).and_then(Value::as_str).expect("an id");
    let (first, second) = (at("/messages/2/tool_calls/0/id"), at("/messages/2/tool_calls/1/id"));
    assert!(first.len() <= 40 && second.len() <= 40 && first != second, "{first} {second}");
    assert_eq!((at("/messages/3/tool_call_id"), at("/messages/4/tool_call_id")), (first, second));
}

#[test]
fn the_conversation_on_the_anthropic_wire() {
    let mut messages = conversation();
    // Kept for the other wire under the same name; a provider speaks one wire only.
    if let Message::Assistant { opaque, .. } = &mut messages[1] {
        opaque.truncate(2);
    }
    let ephemeral = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "m", "max_tokens": 9, "stream": true,
        "tools": [
            {"name": "Glob", "description": "d", "input_schema": {"type": "object"}},
            {"name": "Read", "description": "d", "input_schema": {"type": "object"}, "cache_control": ephemeral},
        ],
        "system": [{"type": "text", "text": "s", "cache_control": ephemeral}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go\u{FFFD}"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s=="},
                {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "1"}},
                {"type": "tool_use", "id": "b", "name": "functions_read", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "tool_result", "tool_use_id": "b", "content": "cut", "is_error": true},
                {"type": "text", "text": "and?", "cache_control": ephemeral},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": ephemeral}]},
        ],
    });
    assert_eq!(written(Wire::Anthropic, &messages, 9, ""), expected);
    assert_eq!(written(Wire::Anthropic, &messages, 0, "")["max_tokens"], 8_192);
}

#[test]
fn the_conversation_on_the_gemini_wire() {
    let mut messages = conversation();
    if let Message::Assistant { opaque, .. } = &mut messages[1] {
        let parts = |who: &str| json!({"parts": [{"call": 0, "thoughtSignature": who, "id": true}, {"call": 1}]});
        let object = |value: Value| value.as_object().cloned().map(Json).expect("an object");
        *opaque = ["other", "lab"].map(|who| Opaque { provider: who.into(), data: object(parts(who)) }).into();
    }
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "s"}]},
        "tools": [{"functionDeclarations": [{"name": "Glob", "description": "d"}, {"name": "Read", "description": "d"}]}],
        "generationConfig": {"maxOutputTokens": 9},
        "contents": [
            {"role": "user", "parts": [{"text": "go\u{FFFD}"}]},
            {"role": "model", "parts": [
                {"functionCall": {"id": "a", "name": "Read", "args": {"path": "1"}}, "thoughtSignature": "lab"},
                {"functionCall": {"name": "functions_read", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "Read", "response": {"output": ""}}},
                {"functionResponse": {"name": "Read", "response": {"error": "cut"}}},
                {"text": "and?"},
            ]},
            {"role": "model", "parts": [{"text": "done"}]},
            {"role": "user", "parts": [{"text": "more"}]},
        ],
    });
    assert_eq!(written(Wire::Gemini, &messages, 9, ""), expected);
    assert_eq!(written(Wire::Gemini, &messages, 0, "").get("generationConfig"), None);
}

/// The body for a model, of a user's word and one reply.
fn asked_again(model: &str, reply: Message) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false});
    let tools = [Definition { name: "9/Read".into(), description: "d".into(), schema }];
    let messages = [Message::User { text: "go".into() }, reply].map(Arc::new);
    let request = Request { model, system: Some(" "), messages: &messages, tools: &tools, max_output: 0 };
    serde_json::from_slice(&body(Wire::Gemini, &request, "lab", "").expect("written")).expect("JSON")
}

#[test]
fn a_signature_goes_back_in_the_part_that_it_came_in() {
    for (name, stream) in [
        ("parallel", recorded!("gemini/parallel")),
        ("text_signature", recorded!("gemini/text_signature")),
        ("signed_texts", recorded!("gemini/signed_texts")),
        ("signed_thought", recorded!("gemini/signed_thought")),
        ("missing_ids", recorded!("gemini/missing_ids")),
        ("max_tokens", recorded!("gemini/max_tokens")),
    ] {
        let reply = assemble(Wire::Gemini, stream, &[]).expect("a reply");
        // As it came, without what is not wanted back, and with pieces of one text joined.
        let mut came: Vec<Value> = Vec::new();
        for chunk in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let chunk: Value = serde_json::from_str(chunk).expect("JSON");
            for part in chunk.pointer("/candidates/0/content/parts").and_then(Value::as_array).into_iter().flatten() {
                let is_signed = |part: &Value| part.get("thoughtSignature").is_some();
                let is_text = |part: &Value| part.get("text").is_some() && part.get("thought").is_none();
                match came.last_mut() {
                    _ if part.get("thought").is_some() && !is_signed(part) => {}
                    Some(last) if is_text(last) && is_text(part) && !is_signed(last) && !is_signed(part) => {
                        last["text"] = format!("{}{}", str_at(last, "text"), str_at(part, "text")).into();
                    }
                    _ => came.push(part.clone()),
                }
            }
        }
        for part in &mut came {
            let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) else { continue };
            call.entry("args").or_insert_with(|| json!({}));
            if call.get("id") == Some(&json!("")) {
                call.remove("id");
            }
            // What was cut is not sent back as if it were whole.
            if name == "max_tokens" && call.get("name") == Some(&json!("Write")) {
                call.insert("args".to_owned(), json!({}));
            }
        }
        let reply = Message::Assistant { text: reply.text, calls: reply.calls, opaque: reply.opaque };
        let sent = asked_again("gemini-2.5-pro", reply);
        assert_eq!(sent.pointer("/contents/1/parts"), Some(&Value::Array(came)), "{name}");
    }
}

#[test]
fn a_call_of_another_model_goes_with_the_word_for_it() {
    let call = |id: &str| Call { id: id.into(), tool: "Read".into(), args: Args::Whole(Json::default()) };
    let reply = || Message::Assistant { text: "so".into(), calls: vec![call("a"), call("b")], opaque: Vec::new() };
    let word = Some("skip_thought_signature_validator");
    for (model, expected) in [
        ("gemini-3-pro", word),
        ("models/gemini-3.8-flash", word),
        ("gemini-flash-latest", word),
        ("gemini-4", word),
        ("somebody's alias", word),
        ("gemini-2.5-pro", None),
        ("models/gemini-2.0-flash", None),
        ("Gemma-3-27b-it", None),
    ] {
        let sent = asked_again(model, reply());
        let signature = |place: usize| sent.pointer(&format!("/contents/1/parts/{place}/thoughtSignature"));
        assert_eq!(signature(1).and_then(Value::as_str), expected, "{model}");
        assert_eq!((signature(0), signature(2)), (None, None), "{model}");
    }
}

#[test]
fn what_the_gemini_wire_would_refuse_is_written_otherwise() {
    let call = Call { id: "a".into(), tool: "9/Read".into(), args: Args::Whole(Json::default()) };
    let sent = asked_again("m", Message::Assistant { text: " ".into(), calls: vec![call], opaque: Vec::new() });
    assert_eq!(sent.get("systemInstruction"), None, "blank text");
    let declared = sent.pointer("/tools/0/functionDeclarations/0").expect("declared");
    assert_eq!(declared["name"], "_9_Read");
    assert_eq!(declared["parametersJsonSchema"]["additionalProperties"], false);
    assert_eq!(sent.pointer("/contents/1/parts/0/functionCall/name"), Some(&json!("_9_Read")));
    let beginning = written(Wire::Gemini, &conversation()[1..], 0, "");
    assert_eq!(beginning.pointer("/contents/0/role"), Some(&json!("user")), "the model's word is not the first");
}

#[test]
fn the_beginning_of_a_request_is_the_same_in_the_next_call() {
    let messages: Vec<Arc<Message>> = conversation().into_iter().map(Arc::new).collect();
    // Anthropic's breakpoints for the cache move on with the conversation.
    for wire in [Wire::Openai, Wire::Gemini] {
        let bytes = |upto: usize| {
            let messages = &messages[..upto];
            let request = Request { model: "m", system: Some("s"), messages, tools: &[], max_output: 9 };
            body(wire, &request, "lab", "").expect("written")
        };
        let (short, long) = (bytes(4), bytes(8));
        // All but the brackets that close the lists and the body.
        let common = short.len() - if wire == Wire::Gemini { 4 } else { 2 };
        assert_eq!(short[..common], long[..common], "{wire:?}");
    }
}
