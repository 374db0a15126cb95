//! Replies that no recording holds: limits, cuts, errors inside an answer, whole bodies.

use super::*;

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

/// A Gemini reply of these parts.
fn gemini(parts: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"candidates": [{"content": {"parts": parts}, "finishReason": finish}]}))
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
    let anthropic = recorded!("anthropic/parallel");
    let openai = recorded!("openai/parallel");
    let gemini = recorded!("gemini/parallel");
    for (wire, stream) in [(Wire::Openai, openai), (Wire::Anthropic, anthropic), (Wire::Gemini, gemini)] {
        // At every event: whatever came before the end was decided, nothing is a reply.
        let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
        let terminal = events.iter().position(|event| {
            [r#""finish_reason":"tool_calls""#, "tool_use\",\"stop_seq", "\"finishReason\""]
                .iter()
                .any(|end| event.contains(end))
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
    for (wire, half) in [
        (Wire::Openai, r#"data: {"choices":[{"delta":{"content":"hel"#),
        (Wire::Anthropic, r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"#),
        (Wire::Gemini, r#"data: {"candidates":[{"content":{"parts":[{"text":"hel"#),
    ] {
        assert!(matches!(assemble(wire, half, &[]), Err(Trouble::Unreadable(_))), "{wire:?}");
        assert!(matches!(assemble(wire, "", &[]), Err(Trouble::Cut)), "{wire:?}, nothing");
    }
    let done = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hel\"}]}}]}\n\ndata: [DONE]\n\n";
    assert!(matches!(assemble(Wire::Gemini, done, &[]), Err(Trouble::Cut)), "a gateway's word ends no Gemini reply");
}

#[test]
fn ids_are_unique_in_the_conversation() {
    let stream = recorded!("openai/equal_index");
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
        (
            Wire::Gemini,
            "data: {\"error\":{\"code\":503,\"message\":\"boom\"}}\n\n",
            json!({"code": 503, "message": "boom"}),
        ),
        (
            Wire::Gemini,
            "data: [{\"error\":{\"code\":503,\"message\":\"boom\"}}]\n\n",
            json!({"code": 503, "message": "boom"}),
        ),
    ] {
        match assemble(wire, stream, &[]) {
            Err(Trouble::Told(error)) => assert_eq!(error, expected),
            other => panic!("{stream}: {other:?}"),
        }
    }
    for reason in ["error", "insufficient_system_resource", "network_error"] {
        let broken = assemble(Wire::Openai, &chunks(&[json!({"content": "I wi"})], Some(reason)), &[]);
        assert!(matches!(broken, Err(Trouble::Told(_))), "{reason}: {broken:?}");
    }
    let inner = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\",\"error\":{\"code\":502}}]}\n\n";
    assert!(matches!(assemble(Wire::Openai, inner, &[]), Err(Trouble::Told(error)) if error == json!({"code": 502})));
    let full = chunks(&[json!({"content": "x"})], Some("model_context_window_exceeded"));
    check("GLM's window is full", Wire::Openai, &full, &[r#"Length "x""#]);
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
    let parts =
        json!([{"text": "hi"}, {"functionCall": {"name": "Read", "args": {"path": "1"}}, "thoughtSignature": "s"}]);
    let gemini = |parts: &Value, finish: Option<&str>| {
        json!({
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2},
        })
    };
    let list = json!([gemini(&json!([{"text": "h"}]), None), gemini(&json!([{"text": "i"}, parts[1]]), Some("STOP")),]);
    for body in [gemini(&parts, Some("STOP")), list] {
        let kept = r#"lab {"parts":[{"text":2},{"call":0,"thoughtSignature":"s"}]}"#;
        let reply = whole(Wire::Gemini, &body).expect("a reply");
        assert_eq!(summary(&reply), [r#"Calls "hi""#, r#"new-1 Read {"path":"1"}"#, kept, usage]);
    }
    let broken_off = json!([gemini(&parts, None), {"error": {"code": 503, "message": "x"}}]);
    assert!(matches!(whole(Wire::Gemini, &broken_off), Err(Trouble::Told(_))));
    for wire in WIRES {
        assert!(matches!(whole(wire, &json!([{"error": {"message": "x"}}])), Err(Trouble::Told(_))));
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
    for reason in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"] {
        let stream = gemini(&json!([{"text": "I wi"}]), Some(reason));
        assert!(matches!(assemble(Wire::Gemini, &stream, &[]), Err(Trouble::Filtered)), "{reason}");
    }
}

#[test]
fn what_a_gemini_reply_ends_with() {
    let text = json!([{"text": "x"}]);
    for (reason, expected) in [
        ("STOP", r#"End "x""#),
        ("MAX_TOKENS", r#"Length "x""#),
        ("OTHER", r#"Unknown "x""#),
        ("TOO_MANY_TOOL_CALLS", r#"Unknown "x""#),
        ("SOMETHING_NEW", r#"Unknown "x""#),
    ] {
        check(reason, Wire::Gemini, &gemini(&text, Some(reason)), &[expected]);
    }
    for reason in ["FINISH_REASON_UNSPECIFIED", ""] {
        assert!(matches!(assemble(Wire::Gemini, &gemini(&text, Some(reason)), &[]), Err(Trouble::Cut)), "{reason}");
    }
    let malformed = assemble(Wire::Gemini, &gemini(&text, Some("MALFORMED_RESPONSE")), &[]);
    assert!(matches!(malformed, Err(Trouble::Unreadable(_))));
    let unsigned = assemble(Wire::Gemini, &gemini(&text, Some("MISSING_THOUGHT_SIGNATURE")), &[]);
    assert!(matches!(unsigned, Err(Trouble::Told(_))));
}

#[test]
fn bounds_hold() {
    let nested = |levels: usize| format!(r#"{}1{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for wire in WIRES {
        let stream = |args: &str| match wire {
            Wire::Openai => chunks(&[piece("Read", args)], Some("tool_calls")),
            Wire::Anthropic => tool_use(args, true, Some("tool_use")),
            Wire::Gemini => {
                let call = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"Read","args":"#;
                format!("data: {call}{args}}}}}]}},\"finishReason\":\"STOP\"}}]}}\n\n")
            }
        };
        assert!(assemble(wire, &stream(&nested(32)), &[]).is_ok(), "{wire:?}");
        for levels in [33, 127, 500] {
            let result = assemble(wire, &stream(&nested(levels)), &[]);
            // Arguments that are no text of their own are so deep that the event itself cannot be read.
            let around = if wire == Wire::Gemini && levels > 33 { 8 } else { 0 };
            let expected = levels..=levels + around;
            assert!(
                matches!(result, Err(Trouble::Depth { depth, .. }) if expected.contains(&depth)),
                "{wire:?}: {result:?}"
            );
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
    let surrogate = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\\ud83d\\u0000\"},\
                     {\"text\":\"\",\"thought_signature\":\"s\"}]},\"finishReason\":\"STOP\"}]}\n\n";
    let kept = r#"lab {"parts":[{"text":7},{"text":0,"thoughtSignature":"s"}]}"#;
    check("lengths are of the text as it is kept", Wire::Gemini, surrogate, &["End \"a\u{FFFD}\u{FFFD}\"", kept]);
    let startless = "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n\
                     data: {\"type\":\"message_stop\"}\n\n";
    check("text that was never begun", Wire::Anthropic, startless, &[r#"Unknown "x""#]);
}
