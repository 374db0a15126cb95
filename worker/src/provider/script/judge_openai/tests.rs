//! Requests that the real Chat Completions API refuses, and those that only look wrong.

use serde_json::json;

use super::super::conversation::{Wire, tests::example};
use super::*;

/// The example with one place set to another value (`null` removes nothing: it is a value too).
fn check(place: &str, value: Value, expected: &str) {
    let mut body = example(Wire::Openai);
    match body.pointer_mut(place) {
        Some(at) => *at = value.clone(),
        None => body[place.trim_start_matches('/')] = value.clone(),
    }
    let judged = judge(&body, &|tool| tool == "Odd");
    match (expected, judged) {
        ("", judged) => assert_eq!(judged, Ok(()), "{place} = {value}"),
        (part, Ok(())) => panic!("{place} = {value} passed, expected: {part}"),
        (part, Err(refusal)) => assert!(refusal.message.contains(part), "{place} = {value}: {refusal:?}"),
    }
}

fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}

#[test]
fn fields_are_as_the_reference_wants_them() {
    for (place, value, expected) in [
        ("/model", json!("other"), ""),
        ("/model", json!(""), "must provide a model"),
        ("/modell", json!("x"), "Unrecognized request argument supplied: modell"),
        ("/stream", json!("yes"), "Invalid type for 'stream'"),
        ("/stream_options", json!({"include_usage": true}), ""),
        ("/max_tokens", json!(0), "below minimum"),
        ("/max_tokens", json!(-1), "below minimum"),
        ("/max_tokens", json!("9"), "expected an integer"),
        ("/temperature", json!(3), "from 0 to 2"),
        ("/tools", json!([]), "array too short"),
        ("/tools", Value::Null, "no tool 'Glob' is offered"),
        ("/tools/1/function/name", json!("Glob"), "must be unique"),
        ("/tools/1/function/name", json!("a b"), "Invalid 'tools[1].function.name': string does not match pattern"),
        ("/tools/1/type", json!("tool"), "Supported values are: 'function'"),
        ("/tools/1/function/parameters", json!({}), "Invalid schema for function 'Grep'"),
        ("/messages", json!([]), "empty array"),
        ("/messages", json!("hi"), "expected an array of objects"),
        ("/messages/1/role", json!("human"), "Supported values are"),
        ("/messages/1/content", Value::Null, "expected a string, got null"),
        ("/messages/1/content", json!([]), "empty array"),
        ("/messages/1/content", json!([{"type": "text", "text": "hi"}]), ""),
        ("/messages/1/content", json!([{"type": "txt"}]), "Supported values are"),
        ("/messages/1", json!({"role": "user", "content": "x", "cache_control": {}}), "Unknown parameter"),
        ("/messages/1", json!({"role": "assistant", "content": "x", "parsed": null}), ""),
    ] {
        check(place, value, expected);
    }
}

#[test]
fn every_call_has_its_one_result_directly_behind_it() {
    let user = json!({"role": "user", "content": "u"});
    let asks = |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
    let one = asks(json!([call("a", "Glob", json!("{}"))]));
    let missing = "did not have response messages: a";
    for (messages, expected) in [
        (json!([user, one, result("a")]), ""),
        (json!([user, one, result("a"), user]), ""),
        (json!([user, one]), missing),
        (json!([user, one, user, result("a")]), missing),
        (json!([user, one, one]), missing),
        (json!([user, result("a")]), "must be a response to a preceeding message"),
        (json!([user, one, result("b")]), "must be a response to a preceeding message"),
        (json!([user, one, result("a"), result("a")]), "second result for the tool_call_id 'a'"),
        (json!([user, one, result("a"), one, result("a")]), "ids must be unique"),
        (
            json!([user, asks(json!([call("a", "Glob", json!("{}")), call("a", "Glob", json!("{}"))]))]),
            "ids must be unique",
        ),
        (json!([user, asks(json!([]))]), "empty array"),
    ] {
        check("/messages", messages, expected);
    }
}

#[test]
fn a_call_is_whole() {
    let long = "x".repeat(41);
    for (value, expected) in [
        (call("c1", "Grep", json!("{\"a\":1}")), ""),
        (call("c1", "Odd", json!("{}")), ""),
        (call("c1", "Bash", json!("{}")), "no tool 'Bash' is offered"),
        (
            call("c1", "Grep", json!({})),
            "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string",
        ),
        (call("c1", "Grep", json!("[]")), "expected the JSON of an object"),
        (call("c1", "Grep", json!("{\"a\":")), "does not parse"),
        (call("", "Grep", json!("{}")), "Missing required parameter: 'messages[2].tool_calls[0].id'"),
        (call(&long, "Grep", json!("{}")), "maximum length 40, but got a string with length 41"),
        (json!({"id": "c1", "function": {"name": "Grep", "arguments": "{}"}}), "Supported values are: 'function'"),
    ] {
        check("/messages/2/tool_calls/0", value, expected);
    }
}
