//! How often a provider is asked when it fails: the table of spec §5, a row each, counted at the provider.

use std::thread;

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

struct Row {
    quirk: &'static str,
    /// A `[[rule]]` of the script, after `fault =` or as a whole.
    rule: &'static str,
    /// Requests at the only provider, and the kind of the end.
    alone: (usize, &'static str),
    /// Requests at each of two that fail alike, and the kind of the end.
    of_two: ([usize; 2], &'static str),
}

const REPLY: &str = "reply = { text = \"A text of some length, in pieces.\" }\n";

/// Five in a row open the breaker, as many as one call may try; with another provider there are two attempts at the
/// first, then those at the other.
const UNAVAILABLE: ((usize, &str), ([usize; 2], &str)) = ((5, "all_open"), ([2, 5], "attempts"));
const CLOSED: ((usize, &str), ([usize; 2], &str)) = ((1, "all_open"), ([1, 1], "all_open"));

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { quirk: "429 with a wait that is sat out", rule: "fault = { status = 429, headers = { retry-after = \"1\" } }", alone: (3, "all_open"), of_two: ([3, 3], "all_open") },
    Row { quirk: "429 with a long wait", rule: "fault = { status = 429, headers = { retry-after = \"3600\" } }", alone: (1, "all_open"), of_two: ([1, 1], "all_open") },
    Row { quirk: "503 with a long wait", rule: "fault = { status = 503, headers = { retry-after = \"61\" } }", alone: (1, "all_open"), of_two: ([1, 1], "all_open") },
    Row { quirk: "a reply beside which a long wait is named", rule: "reply = { text = \"Done.\", headers = { retry-after = \"3600\" } }", alone: (1, ""), of_two: ([1, 0], "") },
    Row { quirk: "408", rule: "fault = { status = 408 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "500", rule: "fault = { status = 500 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "502", rule: "fault = { status = 502 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "503", rule: "fault = { status = 503 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "504", rule: "fault = { status = 504 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "529", rule: "fault = { status = 529 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "a stream that breaks", rule: "fault = { cut = true, after_chars = 4 }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "an error event in a stream of status 200", rule: "fault = { error_event = true }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "a stream without its end", rule: "fault = { no_terminal_event = true }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "a page with status 200", rule: "fault = { html = true }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "nothing with status 200", rule: "fault = { empty_body = true }", alone: UNAVAILABLE.0, of_two: UNAVAILABLE.1 },
    Row { quirk: "no content in time", rule: "fault = { hang = \"after_headers\", pings = \"50ms\" }", alone: (3, "all_open"), of_two: ([3, 3], "all_open") },
    Row { quirk: "silence in the middle", rule: "fault = { hang = \"mid_stream\", after_chars = 4 }", alone: (3, "all_open"), of_two: ([3, 3], "all_open") },
    Row { quirk: "401", rule: "fault = { status = 401 }", alone: CLOSED.0, of_two: CLOSED.1 },
    Row { quirk: "402", rule: "fault = { status = 402 }", alone: CLOSED.0, of_two: CLOSED.1 },
    Row { quirk: "403", rule: "fault = { status = 403 }", alone: CLOSED.0, of_two: CLOSED.1 },
    Row { quirk: "a spent quota", rule: "fault = { error = \"quota\" }", alone: CLOSED.0, of_two: CLOSED.1 },
    Row { quirk: "400", rule: "fault = { status = 400 }", alone: (1, "provider_rejected"), of_two: ([1, 0], "provider_rejected") },
    Row { quirk: "404", rule: "fault = { status = 404 }", alone: (1, "provider_rejected"), of_two: ([1, 0], "provider_rejected") },
    Row { quirk: "the content filter", rule: "fault = { error = \"content_filter\" }", alone: (1, "provider_rejected"), of_two: ([1, 0], "provider_rejected") },
    Row { quirk: "an input that is too long", rule: "fault = { error = \"context_overflow\" }", alone: (1, "context_overflow"), of_two: ([1, 0], "context_overflow") },
    Row { quirk: "no tools", rule: "fault = { error = \"no_tools\" }", alone: (1, "no_capable_provider"), of_two: ([1, 1], "no_capable_provider") },
];

impl Row {
    fn script(&self) -> String {
        let on_a_reply = ["cut", "error_event", "no_terminal_event", "hang"];
        let reply = if on_a_reply.iter().any(|fault| self.rule.contains(fault)) { REPLY } else { "" };
        format!("[[rule]]\n{reply}{}\n", self.rule)
    }

    fn provider(id: &str, script: &Script, wire: &str) -> String {
        let timeouts = "first_content_timeout = \"400ms\"\nidle_timeout = \"300ms\"\n";
        lab(script, wire).replace("id = \"lab\"", &format!("id = \"{id}\"")) + timeouts
    }

    /// Requests at each, and the kind of the end.
    fn run(&self, wires: &[&str]) -> (Vec<usize>, Value) {
        let home = Home::new();
        let scripts: Vec<Script> = wires.iter().map(|_| Script::serve(home.path(), &self.script())).collect();
        let providers = scripts.iter().zip(wires).enumerate();
        let toml: String =
            providers.map(|(place, (script, wire))| Self::provider(&format!("p{place}"), script, wire)).collect();
        home.configure(&toml);
        let (_, result) = home.ukai_json(&["run", "look", "--output", "json"]);
        (scripts.iter().map(|script| script.arrivals().len()).collect(), result["cause"]["kind"].clone())
    }

    fn check(&self, wires: &[&str], requests: &[usize], end: &str) {
        let (asked, kind) = self.run(wires);
        let expected = if end.is_empty() { Value::Null } else { json!(end) };
        assert_eq!((asked.as_slice(), kind), (requests, expected), "{} at {wires:?}", self.quirk);
    }
}

/// Backoffs take their time, so the rows take it together.
fn all(check: impl Fn(&Row) + Sync) {
    thread::scope(|scope| {
        let check = &check;
        let rows: Vec<_> = ROWS.iter().map(|row| (row.quirk, scope.spawn(move || check(row)))).collect();
        let failed: Vec<_> = rows.into_iter().filter_map(|(quirk, row)| row.join().is_err().then_some(quirk)).collect();
        assert!(failed.is_empty(), "see above: {failed:?}");
    });
}

#[test]
fn one_provider_is_asked_as_often_as_the_table_says() {
    all(|row| row.check(&["openai"], &[row.alone.0], row.alone.1));
}

#[test]
fn two_providers_are_asked_as_often_as_the_table_says() {
    all(|row| row.check(&["anthropic", "gemini"], &row.of_two.0, row.of_two.1));
}

#[test]
fn who_refuses_connections_is_tried_five_times() {
    let home = Home::new();
    let gone = {
        let script = Script::serve(home.path(), "[[rule]]\nreply.text = \"x\"\n");
        Row::provider("gone", &script, "openai")
    };
    home.configure(&gone);
    let (_, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    let id = result["job_id"].as_str().expect("an id");
    assert_eq!((home.count(id, "AttemptFailed"), &result["cause"]["kind"]), (5, &json!("all_open")), "{result}");
}
