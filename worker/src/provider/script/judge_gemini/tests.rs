//! Requests that the real API refuses, and those that only look wrong.

use serde_json::json;

use super::super::conversation::{Wire, tests::example};
use super::super::thought_signature::sign;
use super::*;

fn check_on(model: &str, place: &str, value: Value, expected: &str) {
    let mut body = example(Wire::Gemini);
    let told = format!("{place} = {value}");
    match body.pointer_mut(place) {
        Some(at) => *at = value,
        None => {
            let (parent, key) = place.rsplit_once('/').expect("a pointer");
            body.pointer_mut(parent).expect("its parent")[key] = value;
        }
    }
    match (expected, judge(&body, model, &|tool| tool == "Odd")) {
        ("", judged) => assert!(judged.is_ok(), "{told}: {judged:?}"),
        (part, Ok(_)) => panic!("{told} passed, expected: {part}"),
        (part, Err(refusal)) => assert!(refusal.message.contains(part), "{told}: {refusal:?}"),
    }
}

fn check(place: &str, value: Value, expected: &str) {
    check_on("lab-1", place, value, expected);
}

fn call(id: &str, name: &str) -> Value {
    json!({"functionCall": {"id": id, "name": name, "args": {}}})
}

fn response(id: &str, name: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": name, "response": {"output": "r"}}})
}

fn model(parts: &[Value]) -> Value {
    json!({"role": "model", "parts": parts})
}

fn user(parts: &[Value]) -> Value {
    json!({"role": "user", "parts": parts})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

#[test]
fn fields_are_as_the_reference_wants_them() {
    for (place, value, expected) in [
        ("/contents", json!([]), "contents is not specified"),
        ("/contents", json!("x"), "Invalid value at 'contents'"),
        ("/messages", json!([]), "Unknown name \"messages\": Cannot find field."),
        ("/contents/0/content", json!("x"), "Unknown name \"content\" at 'contents[0]': Cannot find field."),
        (
            "/contents/1/parts/0/functionCall/arguments",
            json!({}),
            "at 'contents[1].parts[0].function_call': Cannot find",
        ),
        ("/contents/0/parts/0/text", json!(5), "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5"),
        ("/contents/0/parts/0", json!([]), "Proto field is not repeating, cannot start list"),
        ("/contents/0/parts", json!([]), "contents[0].parts: contents.parts must not be empty"),
        ("/contents/0/parts/0", json!({}), "contents[0].parts[0].data: required oneof field"),
        ("/contents/0/parts/0/text", json!(""), "contents[0].parts[0].data: required oneof field"),
        ("/contents/0/parts/0/functionCall", json!({"name": "Glob"}), "oneof field 'data' is already set"),
        ("/contents/0/role", json!("assistant"), "Please use a valid role: user, model."),
        ("/contents/0/role", Value::Null, ""),
        ("/contents/0/parts/0/thoughtSignature", json!("é"), "(TYPE_BYTES), Base64 decoding failed for \"é\""),
        ("/systemInstruction", json!({"role": "user", "parts": [{"text": "x"}]}), ""),
        ("/system_instruction", json!({"parts": [{"text": "x"}]}), ""),
        ("/systemInstruction", json!({"parts": []}), "system_instruction.parts[0].data"),
        ("/generationConfig/maxOutputTokens", json!(0), "max_output_tokens must be positive"),
        ("/generationConfig/maxOutputTokens", json!("many"), "(TYPE_INT32), \"many\""),
        ("/generationConfig/max_output_tokens", json!("9"), ""),
        ("/generationConfig/temperature", json!(2.5), "temperature must be in the range [0.0, 2.0]"),
        ("/generationConfig/max_tokens", json!(9), "Unknown name \"max_tokens\" at 'generation_config'"),
        ("/generationConfig/thinkingConfig", json!({"includeThoughts": true, "thinkingBudget": -1}), ""),
        ("/toolConfig", json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["Glob"]}}), ""),
        ("/toolConfig", json!({"functionCallingConfig": {"mode": "MUST"}}), "FunctionCallingConfig.Mode), \"MUST\""),
    ] {
        check(place, value, expected);
    }
}

#[test]
fn declarations_are_as_the_reference_wants_them() {
    let parameters = "/tools/0/functionDeclarations/0";
    let with = |schema: Value| json!({"name": "Glob", "parameters": schema});
    let string = json!({"type": "STRING"});
    for (value, expected) in [
        (json!({"name": "Glob"}), ""),
        (json!({"name": "Grep"}), "Duplicate function declaration found: Grep"),
        (json!({"name": ""}), "function_declarations[0].name: Name cannot be empty"),
        (json!({"name": "1st"}), "Must start with a letter or an underscore"),
        (json!({"name": "a b"}), "Invalid function name"),
        (
            json!({"name": "Glob", "input_schema": {}}),
            "Unknown name \"input_schema\" at 'tools[0].function_declarations[0]'",
        ),
        (json!({"name": "Glob", "parametersJsonSchema": {"type": "string"}}), "parameters_json_schema.type"),
        (json!({"name": "Glob", "parametersJsonSchema": {"type": "object", "additionalProperties": false}}), ""),
        (with(json!({"type": "object", "properties": {"a": string}, "required": ["a"]})), ""),
        (with(json!({"type": "STRING"})), "should be of type OBJECT"),
        (
            with(json!({"type": "OBJECT", "properties": {}})),
            "parameters.properties: should be non-empty for OBJECT type",
        ),
        (
            with(json!({"type": "OBJECT", "properties": {"a": string}, "additionalProperties": false})),
            "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
        ),
        (
            with(json!({"type": "OBJECT", "properties": {"a": {"const": 1}}})),
            "at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field.",
        ),
        (
            with(json!({"type": "OBJECT", "properties": {"a": {"type": ["string", "null"]}}})),
            "Unknown name \"type\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Proto field is not",
        ),
        (
            with(json!({"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}})),
            "properties[a].items: missing field.",
        ),
        (
            with(json!({"type": "OBJECT", "properties": {"a": string}, "required": ["b"]})),
            "required[0]: property is not defined",
        ),
        (
            json!({"name": "Glob", "parameters": {"type": "OBJECT", "properties": {"a": string}}, "parametersJsonSchema": {}}),
            "mutually exclusive",
        ),
    ] {
        check(parameters, value, expected);
    }
}

#[test]
fn every_call_has_its_response_directly_behind_it() {
    let go = || user(&[text("go")]);
    const COUNT: &str = "the number of function response parts is equal to the number of function call parts";
    const AFTER_CALL: &str = "function response turn comes immediately after a function call turn";
    const AFTER_USER: &str = "function call turn comes immediately after a user turn";
    for (contents, expected) in [
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("a", "Glob")])], ""),
        (
            vec![
                go(),
                model(&[call("", "Glob"), call("", "Glob")]),
                user(&[response("", "Glob"), response("", "Glob")]),
            ],
            "",
        ),
        (
            vec![
                go(),
                model(&[call("a", "Glob"), call("b", "Grep")]),
                user(&[response("b", "Grep"), response("a", "Glob")]),
            ],
            "",
        ),
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("a", "Glob"), text("and?")])], ""),
        (
            vec![go(), model(&[text("so")]), model(&[text(" far"), call("a", "Glob")]), user(&[response("a", "Glob")])],
            "",
        ),
        (vec![go(), model(&[call("a", "Glob")]), model(&[text("")]), user(&[response("a", "Glob")])], ""),
        (vec![go(), model(&[text("")]), go()], "contents[1].parts[0].data: required oneof field"),
        (vec![go(), model(&[call("a", "Odd")]), user(&[response("a", "Odd")])], ""),
        (vec![go(), model(&[call("a", "Glob")])], COUNT),
        (vec![go(), model(&[call("a", "Glob")]), go()], COUNT),
        (vec![go(), model(&[call("a", "Glob"), call("b", "Glob")]), user(&[response("a", "Glob")])], COUNT),
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("a", "Glob"), response("a", "Glob")])], COUNT),
        (vec![go(), model(&[call("a", "Glob")]), go(), user(&[response("a", "Glob")])], COUNT),
        (vec![go(), user(&[response("a", "Glob")])], AFTER_CALL),
        (vec![go(), model(&[text("x")]), user(&[response("a", "Glob")])], AFTER_CALL),
        (
            vec![go(), model(&[call("a", "Glob")]), user(&[response("a", "Glob")]), user(&[response("a", "Glob")])],
            AFTER_CALL,
        ),
        (vec![model(&[call("a", "Glob")]), user(&[response("a", "Glob")])], AFTER_USER),
        (vec![go(), model(&[call("a", "Glob")]), model(&[call("b", "Glob")])], AFTER_USER),
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("a", "Grep")])], "no open function call `Grep`"),
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("b", "Glob")])], "with the id 'b'"),
        (vec![go(), model(&[call("a", "Glob")]), user(&[response("", "Glob")])], "with the id ''"),
        (
            vec![go(), model(&[call("a", "Glob")]), user(&[text("x"), response("a", "Glob")])],
            "come before any other part",
        ),
        (vec![go(), model(&[call("a", "Bash")]), user(&[response("a", "Bash")])], "no function 'Bash' is declared"),
        (vec![go(), model(&[call("a", "")]), user(&[response("a", "")])], "function_call.name: Name cannot be empty"),
        (vec![go(), user(&[call("a", "Glob")])], "function_call parts belong into contents of the role 'model'"),
        (vec![go(), model(&[response("a", "Glob")])], "function_response parts belong into"),
        (
            vec![
                go(),
                model(&[call("a", "Glob")]),
                user(&[response("a", "Glob")]),
                model(&[call("a", "Glob")]),
                user(&[response("a", "Glob")]),
            ],
            "the id 'a' is used by an earlier call",
        ),
    ] {
        check("/contents", json!(contents), expected);
    }
    check(
        "/contents/1/parts/0/functionCall/args",
        json!("{}"),
        "'contents[1].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct), \"{}\"",
    );
    check(
        "/contents/2/parts/0/functionResponse/response",
        json!("r"),
        "function_response.response' (type.googleapis.com/google.protobuf.Struct)",
    );
    check("/contents/2/parts/0/functionResponse/response", Value::Null, "response: required field is not set");
}

#[test]
fn signatures_of_the_current_turn_come_back_as_they_were() {
    let go = || user(&[text("go")]);
    let signed = |mut part: Value, signature: &str| {
        part["thoughtSignature"] = json!(signature);
        part
    };
    let answered = |part: Value| {
        let id = part["functionCall"]["id"].as_str().unwrap_or_default().to_owned();
        [model(&[part]), user(&[response(&id, "Glob")])]
    };
    let (own, theirs) = ("call_g0123abcd_p_0", "toolu_1");
    let right = sign("0123abcd", "Glob");
    const MISSING: &str = "missing a thought_signature in functionCall parts";
    const CORRUPTED: &str = "Corrupted thought signature.";
    const SKIP: &str = "skip_thought_signature_validator";
    for (model_name, turns, expected) in [
        ("lab-1", answered(call(theirs, "Glob")).to_vec(), ""),
        ("lab-1", answered(signed(call(theirs, "Glob"), SKIP)).to_vec(), ""),
        ("lab-1", answered(signed(call(theirs, "Glob"), "c2lnbmVk")).to_vec(), CORRUPTED),
        ("lab-1", answered(signed(call(theirs, "Glob"), "")).to_vec(), ""),
        ("lab-1", answered(signed(call(own, "Glob"), &right)).to_vec(), ""),
        ("lab-1", answered(call(own, "Glob")).to_vec(), MISSING),
        ("lab-1", answered(signed(call(own, "Glob"), SKIP)).to_vec(), CORRUPTED),
        ("lab-1", answered(signed(call(own, "Glob"), &sign("0123abcd", "Grep"))).to_vec(), CORRUPTED),
        ("lab-1", answered(signed(call(own, "Glob"), &sign("ffffffff", "Glob"))).to_vec(), CORRUPTED),
        // Said in the text before, on whose part it does not belong.
        ("lab-1", vec![model(&[signed(text("so"), &right)])], CORRUPTED),
        ("lab-1", vec![model(&[text("so"), signed(text(""), &sign("0123abcd", ""))])], ""),
        ("lab-1", [&answered(call(own, "Glob"))[..], &[model(&[text("done")]), go()]].concat(), ""),
        ("gemini-3.8-flash", answered(call(theirs, "Glob")).to_vec(), MISSING),
        ("gemini-3.8-flash", answered(signed(call(theirs, "Glob"), SKIP)).to_vec(), ""),
        ("gemini-3.8-flash", [&answered(call(theirs, "Glob"))[..], &[model(&[text("done")]), go()]].concat(), ""),
        ("gemini-2.5-pro", answered(call(theirs, "Glob")).to_vec(), ""),
    ] {
        let contents: Vec<_> = std::iter::once(go()).chain(turns).collect();
        check_on(model_name, "/contents", json!(contents), expected);
    }
    // Of calls at once the first alone has one.
    let both = [signed(call(own, "Glob"), &right), call("call_g0123abcd_p_1", "Glob")];
    let responses = [response(own, "Glob"), response("call_g0123abcd_p_1", "Glob")];
    check("/contents", json!([go(), model(&both), user(&responses)]), "");
    let swapped = [both[1].clone(), both[0].clone()];
    check("/contents", json!([go(), model(&swapped), user(&responses)]), MISSING);
}

#[test]
fn all_faults_are_told_at_once_and_by_field() {
    let mut body = example(Wire::Gemini);
    body["max_tokens"] = json!(1);
    body["contents"][0]["name"] = json!("x");
    let refusal = judge(&body, "m", &|_| false).expect_err("two names that are none");
    assert_eq!(refusal.message.lines().count(), 2, "{refusal:?}");
    let violations = &refusal.details[0]["fieldViolations"];
    assert_eq!(violations.pointer("/0/field"), Some(&json!("contents[0]")), "{violations}");
    assert_eq!(
        (violations.pointer("/1/field"), violations[1]["description"].is_string()),
        (None, true),
        "{violations}"
    );
}
