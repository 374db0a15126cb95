//! Streams and what they become, the conversation and what it becomes: one table per direction.

use std::sync::Arc;

use std::collections::HashSet;

use serde_json::{Value, json};
use ukai_protocol::json::Json;
use ukai_protocol::message::{Args, Call, Opaque};

use super::draft::{REPLY_BYTES_MAX, REPLY_CALLS_MAX};
use super::*;
use crate::provider::sse::Decoder;

const WIRES: [Wire; 2] = [Wire::Openai, Wire::Anthropic];

fn assemble(wire: Wire, stream: &str, used: &[&str]) -> Result<Reply, Trouble> {
    let mut decoder = Decoder::default();
    let mut assembler = Assembler::new(wire);
    let mut shown = String::new();
    decoder.push(stream.to_owned().into());
    decoder.end();
    while let Some(event) = decoder.poll().expect("an event stream") {
        shown.push_str(&assembler.event(&event.name, &event.data)?.text);
    }
    let reply = finish(assembler, used)?;
    assert_eq!(shown, reply.text, "what was shown is what is kept");
    Ok(reply)
}

fn whole(wire: Wire, body: &Value) -> Result<Reply, Trouble> {
    let mut assembler = Assembler::new(wire);
    assembler.whole(&body.to_string())?;
    finish(assembler, &[])
}

fn finish(assembler: Assembler, used: &[&str]) -> Result<Reply, Trouble> {
    let used: HashSet<&str> = used.iter().copied().collect();
    let mut n = 0;
    let mut fresh = || {
        n += 1;
        format!("new-{n}")
    };
    assembler.finish("lab", &mut Ids::new(&used, &mut fresh))
}

/// A reply in a few lines, so that a case can be read at a glance.
fn summary(reply: &Reply) -> Vec<String> {
    let mut lines = vec![format!("{:?} {:?}", reply.stop, reply.text)];
    for call in &reply.calls {
        lines.push(match &call.args {
            Args::Whole(json) => format!("{} {} {}", call.id, call.tool, json.to_text()),
            Args::Broken { text, why } => format!("{} {} BROKEN {text:?} {why}", call.id, call.tool),
        });
    }
    for opaque in &reply.opaque {
        lines.push(format!("{} {}", opaque.provider, opaque.data.to_text()));
    }
    if reply.usage != Reported::default() {
        let (input, cached) = reply.usage.input.unwrap_or_default();
        lines.push(format!("{input} in, {cached} of it cached, {} out", reply.usage.output.unwrap_or_default()));
    }
    lines
}

fn check(quirk: &str, wire: Wire, stream: &str, expected: &[&str]) {
    check_used(quirk, wire, stream, &[], expected);
}

fn check_used(quirk: &str, wire: Wire, stream: &str, used: &[&str], expected: &[&str]) {
    match assemble(wire, stream, used) {
        Ok(reply) => assert_eq!(summary(&reply), expected, "{quirk}"),
        Err(trouble) => panic!("{quirk}: {trouble:?}"),
    }
}

/// Chunks of an OpenAI stream, by their `delta`; the last ends with `finish`.
fn chunks(deltas: &[Value], finish: Option<&str>) -> String {
    let mut stream = String::new();
    for delta in deltas {
        stream.push_str(&format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]})));
    }
    if let Some(finish) = finish {
        stream.push_str(&format!("data: {}\n\n", json!({"choices": [{"delta": {}, "finish_reason": finish}]})));
        stream.push_str("data: [DONE]\n\n");
    }
    stream
}

fn piece(name: &str, args: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": name, "arguments": args}}]})
}

/// An Anthropic reply of one call whose arguments came as `args`.
fn tool_use(args: &str, closed: bool, stop: Option<&str>) -> String {
    let mut events = vec![
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "Read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": args}}),
    ];
    events.extend(closed.then(|| json!({"type": "content_block_stop", "index": 0})));
    events.extend(stop.map(|stop| json!({"type": "message_delta", "delta": {"stop_reason": stop}})));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[test]
fn recorded_openai_streams() {
    let wire = Wire::Openai;
    check(
        "parallel calls, woven",
        wire,
        include_str!("../../../testdata/openai/parallel.sse"),
        &[
            r#"Calls "I will look 鵜""#,
            r#"call_a Read {"path":"a.rs"}"#,
            r#"call_b Grep {"pattern":"x"}"#,
            "100 in, 64 of it cached, 20 out",
        ],
    );
    check(
        "parallel calls with equal index are not glued together",
        wire,
        include_str!("../../../testdata/openai/equal_index.sse"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"b Read {"path":"2"}"#],
    );
    check(
        "no ids, no indexes, and a stop that knows nothing of calls",
        wire,
        include_str!("../../../testdata/openai/missing_ids.sse"),
        &[r#"End """#, r#"new-1 Read {"path":"1"}"#, r#"new-2 Read {"path":"2"}"#, "new-3 Glob {}"],
    );
    check(
        "what follows the first finish repeats it",
        wire,
        include_str!("../../../testdata/openai/repeated_finish.sse"),
        &[r#"Calls "once""#, "a Read {}"],
    );
    check(
        "id and name with every piece, a whole call again, an id used twice, no [DONE]",
        wire,
        include_str!("../../../testdata/openai/names_repeated.sse"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#],
    );
    check(
        "cut at the output limit",
        wire,
        include_str!("../../../testdata/openai/length.sse"),
        &[
            r#"Length """#,
            r#"a Read {"path":"1"}"#,
            r#"b Write BROKEN "{\"path\":\"2\",\"te" the reply was cut before its arguments ended"#,
            "10 in, 0 of it cached, 16 out",
        ],
    );
    check(
        "reasoning that is wanted back",
        wire,
        include_str!("../../../testdata/openai/reasoning.sse"),
        &[
            r#"Calls """#,
            "a Read {}",
            r#"lab {"reasoning_content":"hm, yes"}"#,
            r#"lab {"reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","signature":"s+/="}]}"#,
            r#"lab {"call":0,"extra_content":{"google":{"thought_signature":"AbC=="}}}"#,
            "7 in, 2 of it cached, 3 out",
        ],
    );
}

#[test]
fn recorded_anthropic_streams() {
    let wire = Wire::Anthropic;
    check(
        "thinking, text, parallel calls, one without arguments",
        wire,
        include_str!("../../../testdata/anthropic/parallel.sse"),
        &[
            r#"Calls "I will look""#,
            r#"toolu_1 Read {"path":"a.rs"}"#,
            "toolu_2 Glob {}",
            r#"lab {"type":"thinking","thinking":"Let me see","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h=="}"#,
            r#"lab {"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}"#,
            "1125 in, 1000 of it cached, 89 out",
        ],
    );
    check(
        "cut at the output limit before the first argument",
        wire,
        include_str!("../../../testdata/anthropic/max_tokens.sse"),
        &[
            r#"Length """#,
            r#"a Read {"path":"1"}"#,
            r#"b Write BROKEN "" the reply was cut before its arguments ended"#,
            "5 in, 0 of it cached, 16 out",
        ],
    );
    check(
        "equal index and id, arguments with the start, usage at the end",
        wire,
        include_str!("../../../testdata/anthropic/equal_index.sse"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#, "9 in, 0 of it cached, 4 out"],
    );
}

#[test]
fn arguments_are_kept_or_broken_and_never_mended() {
    let cut = "the reply was cut before its arguments ended";
    #[rustfmt::skip]
    let cases: [(&str, &str, &str, &str, String); 10] = [
        ("an object", r#"{"a":1}"#, "tool_calls", "tool_use", r#"a Read {"a":1}"#.into()),
        ("none", "", "tool_calls", "tool_use", "a Read {}".into()),
        ("blank", " ", "tool_calls", "tool_use", "a Read {}".into()),
        ("none, at the limit", "", "length", "max_tokens", format!(r#"a Read BROKEN "" {cut}"#)),
        ("whole, but at the limit: a server may have closed the brackets", r#"{"a":1}"#, "length", "max_tokens", format!(r#"a Read BROKEN "{{\"a\":1}}" {cut}"#)),
        ("a list", "[1]", "tool_calls", "tool_use", r#"a Read BROKEN "[1]" its arguments are no JSON object"#.into()),
        ("null", "null", "tool_calls", "tool_use", r#"a Read BROKEN "null" its arguments are no JSON object"#.into()),
        ("broken", r#"{"a":"#, "tool_calls", "tool_use", r#"a Read BROKEN "{\"a\":" its arguments are no JSON: EOF while parsing a value at line 1 column 5"#.into()),
        ("two objects", "{}{}", "tool_calls", "tool_use", r#"a Read BROKEN "{}{}" its arguments are no JSON: trailing characters at line 1 column 3"#.into()),
        ("lone surrogate and NUL", r#"{"a\u0000":"\ud83d"}"#, "tool_calls", "tool_use", "a Read {\"a\u{FFFD}\":\"\u{FFFD}\"}".into()),
    ];
    for (quirk, args, finish, stop, expected) in cases {
        let openai = assemble(Wire::Openai, &chunks(&[piece("Read", args)], Some(finish)), &[]).expect(quirk);
        assert_eq!(summary(&openai)[1..], *std::slice::from_ref(&expected), "openai, {quirk}");
        let anthropic = assemble(Wire::Anthropic, &tool_use(args, true, Some(stop)), &[]).expect(quirk);
        assert_eq!(summary(&anthropic)[1..], [expected], "anthropic, {quirk}");
    }
}

#[test]
fn a_call_that_nobody_closed_is_not_without_arguments() {
    let never = r#"a Read BROKEN "" its arguments never came"#;
    let unclosed = assemble(Wire::Anthropic, &tool_use("", false, Some("tool_use")), &[]).expect("a reply");
    assert_eq!(summary(&unclosed)[1..], [never]);
    let only_done = chunks(&[piece("Read", "")], None) + "data: [DONE]\n\n";
    let unfinished = assemble(Wire::Openai, &only_done, &[]).expect("a reply");
    assert_eq!(summary(&unfinished)[1..], [never]);
}

#[test]
fn a_stream_that_was_cut_is_no_reply() {
    let anthropic = include_str!("../../../testdata/anthropic/parallel.sse");
    let openai = include_str!("../../../testdata/openai/parallel.sse");
    for (wire, stream) in [(Wire::Openai, openai), (Wire::Anthropic, anthropic)] {
        // At every event: whatever came before the end was decided, nothing is a reply.
        let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
        let terminal = events.iter().position(|event| {
            event.contains(r#""finish_reason":"tool_calls""#) || event.contains("tool_use\",\"stop_seq")
        });
        let terminal = terminal.expect("the stream has an end");
        for kept in 0..events.len() {
            let result = assemble(wire, &events[..kept].concat(), &[]);
            match kept > terminal {
                true => assert!(result.is_ok(), "{wire:?} after {kept}"),
                false => assert!(matches!(result, Err(Trouble::Cut)), "{wire:?} after {kept}: {result:?}"),
            }
        }
    }
    let half = r#"data: {"choices":[{"delta":{"content":"hel"#;
    assert!(matches!(assemble(Wire::Openai, half, &[]), Err(Trouble::Unreadable(_))));
}

#[test]
fn ids_are_unique_in_the_conversation() {
    let stream = include_str!("../../../testdata/openai/equal_index.sse");
    let expected = [r#"Calls """#, r#"a-2 Read {"path":"1"}"#, r#"b Read {"path":"2"}"#];
    check_used("used in an earlier turn", Wire::Openai, stream, &["a"], &expected);
}

#[test]
fn an_error_inside_a_stream_is_a_failure() {
    for (wire, stream, expected) in [
        (Wire::Openai, "data: {\"error\":{\"message\":\"boom\"}}\n\n", json!({"message": "boom"})),
        (Wire::Openai, "event: error\ndata: {\"message\":\"boom\"}\n\n", json!({"message": "boom"})),
        (
            Wire::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
            json!({"type": "overloaded_error"}),
        ),
    ] {
        match assemble(wire, stream, &[]) {
            Err(Trouble::Told(error)) => assert_eq!(error, expected),
            other => panic!("{stream}: {other:?}"),
        }
    }
    let nothing = "data: {\"error\":null,\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n";
    check("an error of null is none", Wire::Openai, nothing, &[r#"End "x""#]);
}

#[test]
fn whole_bodies_are_replies() {
    let openai = json!({
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "hi", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"1\"}"}},
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": {"path": "2"}}},
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    });
    let anthropic = json!({
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "1"}},
            {"type": "tool_use", "id": "b", "name": "Glob", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let openai = whole(Wire::Openai, &openai).expect("a reply");
    let usage = "5 in, 0 of it cached, 2 out";
    assert_eq!(summary(&openai), [r#"Calls "hi""#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#, usage]);
    let anthropic = whole(Wire::Anthropic, &anthropic).expect("a reply");
    let kept = r#"lab {"type":"thinking","thinking":"t","signature":"s"}"#;
    assert_eq!(summary(&anthropic), [r#"Calls "hi""#, r#"a Read {"path":"1"}"#, "b Glob {}", kept, usage]);
    for wire in WIRES {
        assert!(matches!(whole(wire, &json!({"error": {"message": "x"}})), Err(Trouble::Told(_))));
        assert!(matches!(whole(wire, &json!({"ok": true})), Err(Trouble::Unreadable(_))));
        assert!(matches!(whole(wire, &json!({"base_resp": {"status_code": 1008}})), Err(Trouble::Told(_))));
    }
}

#[test]
fn a_filtered_reply_is_a_refusal() {
    let text = chunks(&[json!({"content": "I wi"})], Some("content_filter"));
    assert!(matches!(assemble(Wire::Openai, &text, &[]), Err(Trouble::Filtered)));
    let refusal = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\n";
    assert!(matches!(assemble(Wire::Anthropic, refusal, &[]), Err(Trouble::Filtered)));
}

#[test]
fn bounds_hold() {
    let nested = |levels: usize| format!(r#"{}1{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for wire in WIRES {
        let stream = |args: &str| match wire {
            Wire::Openai => chunks(&[piece("Read", args)], Some("tool_calls")),
            Wire::Anthropic => tool_use(args, true, Some("tool_use")),
        };
        assert!(assemble(wire, &stream(&nested(32)), &[]).is_ok(), "{wire:?}");
        for levels in [33, 127, 500] {
            let result = assemble(wire, &stream(&nested(levels)), &[]);
            assert!(matches!(result, Err(Trouble::Depth { depth, .. }) if depth == levels), "{wire:?}: {result:?}");
        }
    }
    let large = vec![json!({"content": "x".repeat(REPLY_BYTES_MAX / 8)}); 9];
    assert!(matches!(
        assemble(Wire::Openai, &chunks(&large, Some("stop")), &[]),
        Err(Trouble::TooLarge(REPLY_BYTES_MAX))
    ));
    let many: Vec<Value> = (0..=REPLY_CALLS_MAX)
        .map(|n| json!({"tool_calls": [{"index": n, "function": {"name": "Read", "arguments": "{}"}}]}))
        .collect();
    assert!(assemble(Wire::Openai, &chunks(&many[1..], Some("tool_calls")), &[]).is_ok());
    assert!(matches!(assemble(Wire::Openai, &chunks(&many, Some("tool_calls")), &[]), Err(Trouble::TooManyCalls)));
}

#[test]
fn oddities_of_text() {
    let parts = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    check("a list of parts", Wire::Openai, &chunks(&[parts], Some("stop")), &[r#"End "ab""#]);
    let surrogate =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\\u0000\"},\"finish_reason\":\"stop\"}]}\n\n";
    check("a lone surrogate and NUL", Wire::Openai, surrogate, &["End \"a\u{FFFD}\u{FFFD}\""]);
    check("empty", Wire::Openai, &chunks(&[], Some("stop")), &[r#"End """#]);
    let startless = "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n\
                     data: {\"type\":\"message_stop\"}\n\n";
    check("text that was never begun", Wire::Anthropic, startless, &[r#"Unknown "x""#]);
}

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
        assert_eq!(url(wire, base), expected, "{base}");
    }
}

#[test]
fn keys_are_marked_and_never_shown() {
    let key = Secret::new("sk-1".to_owned());
    for (wire, name, value) in [(Wire::Openai, "authorization", "Bearer sk-1"), (Wire::Anthropic, "x-api-key", "sk-1")]
    {
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
fn the_beginning_of_a_request_is_the_same_in_the_next_call() {
    let messages: Vec<Arc<Message>> = conversation().into_iter().map(Arc::new).collect();
    let bytes = |upto: usize| {
        let request = Request { model: "m", system: Some("s"), messages: &messages[..upto], tools: &[], max_output: 9 };
        body(Wire::Openai, &request, "lab", "").expect("written")
    };
    let (short, long) = (bytes(5), bytes(8));
    // All but the brackets that close the list and the body.
    assert_eq!(short[..short.len() - 2], long[..short.len() - 2]);
}
