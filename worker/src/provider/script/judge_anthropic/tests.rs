//! Requests that the real Messages API refuses, and those that only look wrong.

use serde_json::json;

use super::super::conversation::{Wire, tests::example};
use super::*;

fn check(place: &str, value: Value, expected: &str) {
    let mut body = example(Wire::Anthropic);
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

fn asks(ids: &[&str]) -> Value {
    let uses = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "Glob", "input": {}}));
    json!({"role": "assistant", "content": uses.collect::<Value>()})
}

fn answers(ids: &[&str]) -> Value {
    let results = ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "r"}));
    json!({"role": "user", "content": results.collect::<Value>()})
}

#[test]
fn fields_are_as_the_reference_wants_them() {
    for (place, value, expected) in [
        ("/model", Value::Null, "model: Field required"),
        ("/max_tokens", Value::Null, "max_tokens: Field required"),
        ("/max_tokens", json!(0), "greater than or equal to 1"),
        ("/max_tokens", json!("9"), "valid integer"),
        ("/max_completion_tokens", json!(9), "max_completion_tokens: Extra inputs are not permitted"),
        ("/temperature", json!(1.5), "temperature"),
        ("/system", json!("plain"), ""),
        ("/system/0/text", json!(""), "system: text content blocks must be non-empty"),
        ("/tool_choice", json!({"type": "auto"}), ""),
        ("/tools", Value::Null, "no tool 'Glob' is offered"),
        ("/tools/1/name", json!("Glob"), "tools: Tool names must be unique."),
        ("/tools/1/name", json!("a.b"), "tools.1.custom.name: String should match pattern"),
        ("/tools/1/input_schema", Value::Null, "tools.1.custom.input_schema: Field required"),
        ("/tools/1/input_schema", json!({"type": "string"}), "tools.1.custom.input_schema.type"),
        ("/tools/1", json!({"name": "Grep", "parameters": {}}), "tools.1.custom.parameters: Extra inputs"),
        ("/messages", json!([]), "at least one message"),
        ("/messages/0/role", json!("system"), "Unexpected role \"system\""),
        ("/messages/0/role", json!("tool"), "Unexpected role \"tool\""),
        ("/messages/0/role", json!("assistant"), "first message must use the \"user\" role"),
        ("/messages/0/content", json!(""), "messages.0: all messages must have non-empty content"),
        ("/messages/0/content", json!([]), "messages.0: all messages must have non-empty content"),
        ("/messages/0/content", json!(" \n"), "must contain non-whitespace text"),
        (
            "/messages/0/content",
            json!([{"type": "text", "text": ""}]),
            "messages: text content blocks must be non-empty",
        ),
        (
            "/messages/0/content",
            json!([{"type": "tool_use", "id": "x", "name": "Glob", "input": {}}]),
            "can only be in `assistant`",
        ),
        ("/messages/0", json!({"role": "user", "content": "x", "name": "y"}), "messages.0.name: Extra inputs"),
        (
            "/messages/1/content/0/input",
            json!("{}"),
            "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        ),
        ("/messages/1/content/0/id", json!("a b"), "messages.1.content.0.tool_use.id: String should match pattern"),
        ("/messages/1/content/0/name", json!("Bash"), "no tool 'Bash' is offered"),
        ("/messages/1/content/0/name", json!("Odd"), ""),
        ("/messages/1/content/1/id", json!("c1"), "messages.1.content.1: `tool_use` ids must be unique"),
        ("/messages/2/content/1/content", json!(""), ""),
        ("/messages/2/content/1/content/0/text", json!(""), "must be non-empty"),
    ] {
        check(place, value, expected);
    }
}

#[test]
fn every_call_has_its_one_result_in_the_next_message() {
    let user = json!({"role": "user", "content": "u"});
    let missing = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: ";
    let late = json!({"role": "user", "content": [
        {"type": "text", "text": "first"}, {"type": "tool_result", "tool_use_id": "a", "content": "r"}]});
    for (messages, expected) in [
        (json!([user, asks(&["a", "b"]), answers(&["b", "a"])]), String::new()),
        (json!([user, asks(&["a", "b"]), answers(&["b"]), answers(&["a"]), user]), String::new()),
        (json!([user, user, asks(&["a"]), answers(&["a"])]), String::new()),
        (json!([user, asks(&["a"])]), format!("{missing}a")),
        (json!([user, asks(&["a", "b"]), answers(&["a"])]), format!("{missing}b.")),
        (json!([user, asks(&["a"]), user, answers(&["a"])]), format!("{missing}a")),
        (json!([user, asks(&["a"]), late]), format!("{missing}a")),
        (json!([answers(&["a"])]), "messages.0.content.0: unexpected `tool_use_id`".to_owned()),
        (
            json!([user, asks(&["a"]), answers(&["a", "c"])]),
            "messages.2.content.1: unexpected `tool_use_id`".to_owned(),
        ),
        (json!([user, asks(&["a"]), answers(&["a", "a"])]), "each tool_use must have a single result".to_owned()),
        (json!([user, asks(&["a"]), answers(&["a"]), asks(&["a"]), answers(&["a"])]), "ids must be unique".to_owned()),
        (json!([user, {"role": "assistant", "content": "so "}]), "cannot end with trailing whitespace".to_owned()),
        (json!([user, {"role": "assistant", "content": "so "}, user]), String::new()),
        (json!([user, {"role": "assistant", "content": ""}]), String::new()),
    ] {
        check("/messages", messages, &expected);
    }
}

#[test]
fn reasoning_comes_back_as_it_was() {
    let mark = &signature("hm")[signature("hm").len() - 8..];
    let id = format!("call_t{mark}_abc_0");
    let think = |text: &str, signature: String| json!({"type": "thinking", "thinking": text, "signature": signature});
    let call = json!({"type": "tool_use", "id": id, "name": "Glob", "input": {}});
    for (blocks, expected) in [
        (json!([think("hm", signature("hm")), call]), ""),
        (json!([call]), "cannot be modified"),
        (json!([think("ha", signature("ha")), call]), "cannot be modified"),
        (json!([think("ha", signature("hm")), call]), "Invalid `signature` in `thinking` block"),
        (json!([call, think("hm", signature("hm"))]), "The final block in an assistant message cannot be `thinking`"),
    ] {
        let user = json!({"role": "user", "content": "u"});
        let messages = json!([user, {"role": "assistant", "content": blocks}, answers(&[&id])]);
        check("/messages", messages, expected);
    }
}

#[test]
fn thinking_is_enabled_by_its_own_rules() {
    let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
    check("/thinking", enabled(10), "budget_tokens: Input should be greater than or equal to 1024");
    check("/thinking", enabled(2_000), "must be greater than `thinking.budget_tokens`");
    let mut body = example(Wire::Anthropic);
    body["max_tokens"] = json!(9_000);
    body["thinking"] = enabled(2_000);
    let why = judge(&body, &|_| false).expect_err("the calls have no reasoning before them").message;
    assert!(why.contains("Expected `thinking` or `redacted_thinking`, but found `tool_use`"), "{why}");
}

#[test]
fn five_cache_breakpoints_are_too_many() {
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let content = |n: usize| Value::Array(vec![block.clone(); n]);
    check("/messages/0/content", content(4), "");
    check("/messages/0/content", content(5), "A maximum of 4 blocks with cache_control may be provided. Found 5.");
}
