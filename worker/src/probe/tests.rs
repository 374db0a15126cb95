//! What is kept as evidence, from raw answers of all wires, and that no key is in it. Whole probes, over sockets, are
//! in `tests/e2e/probe.rs`.

use http::{HeaderMap, HeaderName, HeaderValue};
use ukai_protocol::probe::Seen;
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Mask;

use super::observe::Evidence;
use crate::provider::Raw;
use crate::provider::wire::Definition;

const KEY: &str = "sk-very/secret";

fn evidence() -> Evidence {
    Evidence::new(Some(&Secret::new(KEY.to_owned())), Mask::default())
}

fn seen(evidence: Evidence) -> Vec<Seen> {
    evidence.into_observations().into_iter().map(|observation| observation.seen).collect()
}

#[test]
fn who_answered_is_named_in_every_wires_words() {
    for (wire, data, expected) in [
        ("openai", r#"{"model":"m-1","choices":[]}"#, "m-1"),
        ("anthropic", r#"{"type":"message_start","message":{"model":"m-2"}}"#, "m-2"),
        ("gemini", r#"{"candidates":[],"modelVersion":"m-3"}"#, "m-3"),
    ] {
        let mut evidence = evidence();
        evidence.begin(&[]);
        evidence.raw(Raw::Event { name: "", data });
        evidence.raw(Raw::Event { name: "", data });
        let named = Seen::ModelNamed { model: expected.to_owned() };
        let times = seen(evidence).iter().filter(|seen| **seen == named).count();
        assert_eq!(times, 1, "{wire}");
    }
}

#[test]
fn what_was_meant_to_go_out_is_looked_for_in_what_went_out() {
    let tool = Definition { name: "Echo".into(), description: String::new(), schema: serde_json::json!({}) };
    for (body, offered, answered) in [
        (r#"{"tools":[{"name":"Echo"}]}"#, true, false),
        (r#"{"messages":[{"content":"Call the tool Echo"}]}"#, false, false),
        (r#"{"messages":[{"role":"tool","tool_call_id":"c"}]}"#, false, true),
        (r#"{"content":[{"type":"tool_result","tool_use_id":"c"}]}"#, false, true),
        (r#"{"parts":[{"functionResponse":{"name":"x"}}]}"#, false, true),
    ] {
        let mut evidence = evidence();
        evidence.result_next("c", "text");
        evidence.begin(std::slice::from_ref(&tool));
        evidence.raw(Raw::Sent(body.as_bytes()));
        let seen = seen(evidence);
        let has = |wanted: fn(&Seen) -> bool| seen.iter().any(wanted);
        assert_eq!(has(|seen| matches!(seen, Seen::ToolOffered { .. })), offered, "{body}");
        assert_eq!(has(|seen| matches!(seen, Seen::ResultSent { .. })), answered, "{body}");
    }
}

#[test]
fn a_key_that_is_repeated_is_masked_wherever_it_was_cut() {
    // Whole, escaped, and at every place around the bound.
    for before in [0, 10].into_iter().chain(64 * 1024 - 40..64 * 1024 + 40) {
        let mut evidence = evidence();
        evidence.begin(&[]);
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&format!("left {KEY}")).expect("a header");
        headers.insert(HeaderName::from_static("x-ratelimit-note"), value);
        evidence.raw(Raw::Head { status: 401, headers: &headers });
        let escaped = KEY.replace('/', "\\/");
        evidence.raw(Raw::Body(&format!("{KEY} {escaped} {}{KEY} and more", "x".repeat(before))));
        let seen = format!("{:?}", seen(evidence));
        assert!(seen.contains("[key]") && !seen.contains("sk-very"), "{before}: {}", &seen[seen.len() - 200..]);
    }
}

#[test]
fn that_no_header_tells_of_limits_is_an_observation() {
    let mut evidence = evidence();
    evidence.begin(&[]);
    let headers = HeaderMap::from_iter([(http::header::SERVER, HeaderValue::from_static("x"))]);
    evidence.raw(Raw::Head { status: 200, headers: &headers });
    assert!(seen(evidence).contains(&Seen::LimitHeaders { headers: Vec::new() }));
}
