//! Streams as providers send them, and the replies that they must become. Each quirk stands for each wire that has it.

use super::*;

#[test]
fn recorded_openai_streams() {
    let wire = Wire::Openai;
    check(
        "parallel calls, woven",
        wire,
        recorded!("openai/parallel"),
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
        recorded!("openai/equal_index"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"b Read {"path":"2"}"#],
    );
    check(
        "no ids, no indexes, and a stop that knows nothing of calls",
        wire,
        recorded!("openai/missing_ids"),
        &[r#"End """#, r#"new-1 Read {"path":"1"}"#, r#"new-2 Read {"path":"2"}"#, "new-3 Glob {}"],
    );
    check(
        "what follows the first finish repeats it",
        wire,
        recorded!("openai/repeated_finish"),
        &[r#"Calls "once""#, "a Read {}"],
    );
    check(
        "id and name with every piece, a whole call again, an id used twice, no [DONE]",
        wire,
        recorded!("openai/names_repeated"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#],
    );
    check(
        "cut at the output limit",
        wire,
        recorded!("openai/length"),
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
        recorded!("openai/reasoning"),
        &[
            r#"Calls """#,
            "a Read {}",
            r#"lab {"reasoning_content":"hm, yes"}"#,
            r#"lab {"reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","signature":"s+/="}]}"#,
            r#"lab {"call":0,"extra_content":{"google":{"thought_signature":"AbC=="}}}"#,
            "7 in, 2 of it cached, 3 out",
        ],
    );
    check(
        "arguments that are no JSON, no object, and none",
        wire,
        recorded!("openai/invalid_arguments"),
        &[
            r#"Calls """#,
            r#"a Read BROKEN "{\"path\":" its arguments are no JSON: EOF while parsing a value at line 1 column 8"#,
            r#"b Read BROKEN "[1]" its arguments are no JSON object"#,
            "c Glob {}",
            "5 in, 0 of it cached, 9 out",
        ],
    );
    check("ids used twice, and one that is none", wire, recorded!("openai/reused_ids"), &REUSED);
}

#[test]
fn recorded_anthropic_streams() {
    let wire = Wire::Anthropic;
    check(
        "thinking, text, parallel calls, one without arguments",
        wire,
        recorded!("anthropic/parallel"),
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
        recorded!("anthropic/max_tokens"),
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
        recorded!("anthropic/equal_index"),
        &[r#"Calls """#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#, "9 in, 0 of it cached, 4 out"],
    );
    check(
        "arguments that are no JSON, no object, and none",
        wire,
        recorded!("anthropic/invalid_arguments"),
        &[
            r#"Calls """#,
            r#"a Read BROKEN "{\"path\":" its arguments are no JSON: EOF while parsing a value at line 1 column 8"#,
            r#"b Read BROKEN "[1]" its arguments are no JSON object"#,
            "c Glob {}",
            "5 in, 0 of it cached, 9 out",
        ],
    );
    check(
        "ids used twice, and one that is none",
        wire,
        recorded!("anthropic/reused_ids"),
        &[&REUSED[..], &["5 in, 0 of it cached, 1 out"]].concat(),
    );
    check(
        "no ids, and a stop that knows nothing of calls",
        wire,
        recorded!("anthropic/missing_ids"),
        &[r#"End """#, r#"new-1 Read {"path":"1"}"#, "new-2 Glob {}", "5 in, 0 of it cached, 9 out"],
    );
    check(
        "what follows the first finish repeats it",
        wire,
        recorded!("anthropic/repeated_finish"),
        &[r#"Calls "once""#, "a Read {}", "5 in, 0 of it cached, 9 out"],
    );
}

/// Two calls of one id, and one whose id no wire would take back.
const REUSED: [&str; 4] =
    [r#"Calls """#, r#"a Read {"path":"1"}"#, r#"a-2 Read {"path":"2"}"#, r#"a_b__ Read {"path":"3"}"#];

#[test]
fn recorded_gemini_streams() {
    let wire = Wire::Gemini;
    check(
        "a thought, text in pieces, parallel calls of which the first is signed, usage in the last chunk",
        wire,
        recorded!("gemini/parallel"),
        &[
            r#"Calls "I will look 鵜""#,
            r#"fc_1 Read {"path":"a.rs"}"#,
            r#"fc_2 Grep {"pattern":"x"}"#,
            r#"lab {"parts":[{"text":15},{"call":0,"thoughtSignature":"EsYCCsMC+/8=","id":true},{"call":1,"id":true}]}"#,
            "1125 in, 1000 of it cached, 89 out",
        ],
    );
    check(
        "a signature in an empty text at the end",
        wire,
        recorded!("gemini/text_signature"),
        &[
            r#"End "It is done.""#,
            r#"lab {"parts":[{"text":11},{"text":0,"thoughtSignature":"AbC+/w=="}]}"#,
            "9 in, 0 of it cached, 11 out",
        ],
    );
    check(
        "signed texts are not joined with others, and stand before and behind calls",
        wire,
        recorded!("gemini/signed_texts"),
        &[
            r#"Calls "First. Second. Third. After.""#,
            "new-1 Glob {}",
            r#"lab {"parts":[{"text":7,"thoughtSignature":"s1=="},{"text":8},{"text":7,"thoughtSignature":"s2=="},{"call":0,"thoughtSignature":"s3=="},{"text":6}]}"#,
        ],
    );
    check(
        "a signed thought is kept whole",
        wire,
        recorded!("gemini/signed_thought"),
        &[
            r#"Calls """#,
            r#"new-1 Read {"path":"1"}"#,
            r#"lab {"parts":[{"thought":{"text":"hm","thought":true,"thoughtSignature":"t1=="}},{"call":0}]}"#,
        ],
    );
    check(
        "no ids, one call twice, one without arguments",
        wire,
        recorded!("gemini/missing_ids"),
        &[
            r#"Calls """#,
            r#"new-1 Read {"path":"1"}"#,
            r#"new-2 Read {"path":"1"}"#,
            "new-3 Glob {}",
            r#"lab {"parts":[{"call":0,"thoughtSignature":"s=="},{"call":1},{"call":2}]}"#,
        ],
    );
    check(
        "ids used twice, and one that is none",
        wire,
        recorded!("gemini/reused_ids"),
        &[&REUSED[..], &[r#"lab {"parts":[{"call":0,"id":true},{"call":1,"id":true},{"call":2,"id":true}]}"#]].concat(),
    );
    check(
        "cut at the output limit",
        wire,
        recorded!("gemini/max_tokens"),
        &[
            r#"Length """#,
            r#"a Read {"path":"1"}"#,
            r#"b Write BROKEN "{\"path\":\"2\",\"text\":\"half\"}" the reply was cut before its arguments ended"#,
            r#"lab {"parts":[{"call":0,"thoughtSignature":"s==","id":true},{"call":1,"id":true}]}"#,
            "5 in, 0 of it cached, 16 out",
        ],
    );
    check(
        "cut while it thought",
        wire,
        recorded!("gemini/only_thoughts"),
        &[r#"Length """#, "5 in, 0 of it cached, 16 out"],
    );
    check(
        "what follows the first finish repeats it",
        wire,
        recorded!("gemini/repeated_finish"),
        &[
            r#"Calls "once""#,
            "a Read {}",
            r#"lab {"parts":[{"text":4},{"call":0,"id":true}]}"#,
            "3 in, 0 of it cached, 2 out",
        ],
    );
    check(
        "arguments that are no object, or go on in a piece that nobody asked for",
        wire,
        recorded!("gemini/invalid_arguments"),
        &[
            r#"Calls """#,
            r#"a Read BROKEN "[1]" its arguments are no JSON object"#,
            r#"b Read BROKEN "\"{\\\"path\\\":\\\"1\\\"}\"" its arguments are no JSON object"#,
            r#"c Read BROKEN "" its arguments never came"#,
            "d Glob {}",
            r#"lab {"parts":[{"call":0,"id":true},{"call":1,"id":true},{"call":2,"id":true},{"call":3,"id":true}]}"#,
        ],
    );
    let unread = "the provider could not read it as a call of a tool that was offered";
    check(
        "a call that the provider could not read is none that succeeded, and no answer either",
        wire,
        recorded!("gemini/malformed_call"),
        &[
            r#"Calls "I will read it.""#,
            &format!(r#"new-1 Read BROKEN "Malformed function call: print(default_api.Read(path='a\"))" {unread}"#),
            "9 in, 0 of it cached, 0 out",
        ],
    );
    check(
        "a call where none was offered",
        wire,
        recorded!("gemini/unexpected_call"),
        &[r#"Calls """#, &format!(r#"new-1  BROKEN "UNEXPECTED_TOOL_CALL" {unread}"#)],
    );
    check(
        "usage by itself behind the end",
        wire,
        recorded!("gemini/late_usage"),
        &[r#"End "a""#, "12 in, 0 of it cached, 3 out"],
    );
    assert!(matches!(assemble(wire, recorded!("gemini/blocked"), &[]), Err(Trouble::Filtered)));
    assert!(matches!(assemble(wire, recorded!("gemini/retry_info"), &[]), Err(Trouble::Told(_))));
}
