//! `ukai providers`: what is shown of them is what is so, with a server and without.

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

fn named(id: &str, script: &Script, wire: &str) -> String {
    lab(script, wire).replace("id = \"lab\"", &format!("id = \"{id}\""))
}

fn two() -> (Home, Script, Script) {
    let home = Home::new();
    let away = Script::serve(home.path(), "[[rule]]\nfault = { status = 429, headers = { retry-after = \"900\" } }\n");
    let well = Script::serve(home.path(), "[[rule]]\nreply.text = \"Done.\"\n");
    let rates = "requests_per_minute = 120\n";
    home.configure(&(named("away", &away, "openai") + rates + &named("well", &well, "gemini")));
    (home, away, well)
}

fn check(rows: &Value) {
    let (away, well) = (&rows[0], &rows[1]);
    assert_eq!((&away["id"], &away["breaker"]), (&json!("away"), &json!("open")), "{rows}");
    assert_eq!(away["why"], "it asked for a long wait", "{rows}");
    let not_before = away["not_before_ms"].as_u64().expect("a wait");
    assert!(not_before > 890_000 && not_before <= 900_000, "{rows}");
    assert!(away["open_ms"].as_u64().is_some_and(|open| open >= not_before - 1_000), "{rows}");
    assert_eq!(away["requests"][1], 2.0, "{rows}");
    assert_eq!(
        (&away["last_failure"]["class"], &away["last_failure"]["signature"]),
        (&json!("rate_limited"), &json!("http:429 type=requests code=rate_limit_exceeded")),
        "{rows}"
    );
    assert_eq!(
        (&well["breaker"], &well["last_failure"], &well["not_before_ms"]),
        (&json!("closed"), &Value::Null, &Value::Null),
        "{rows}"
    );
}

#[test]
fn they_show_state_not_before_bucket_and_last_failure_with_a_server_and_after_it() {
    let (home, _away, _well) = two();
    let server = home.serve();
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["text"]), (0, &json!("Done.")), "{result}");
    check(&home.ukai_json(&["providers", "--output", "json"]).1);
    let text = String::from_utf8(home.ukai(&["providers"]).stdout).expect("text");
    let line = text.lines().nth(1).expect("a row");
    assert!(line.starts_with("away") && line.contains("OPEN for 14m") && line.contains("in 14m"), "{text}");

    let id = result["job_id"].as_str().expect("an id");
    let (_, why) = home.ukai_json(&["providers", "why", id, "--output", "json"]);
    let lines: Vec<&str> = why["why"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert_eq!(lines.len(), 3, "{why}");
    assert!(lines[0].contains("call 1") && lines[0].ends_with("was sent to well"), "{why}");
    assert!(lines[1].starts_with("away: OPEN for another 900 s: it asked for a long wait (asked 1 ×"), "{why}");
    assert_eq!(lines[2], "well: may be asked");

    drop(server);
    check(&home.ukai_json(&["providers", "--output", "json"]).1);
    let (_, why) = home.ukai_json(&["providers", "why", id, "--output", "json"]);
    let told = why.to_string();
    assert!(
        told.contains("asked away") && told.contains("away did not answer it") && told.contains("it was answered"),
        "{why}"
    );
}

#[test]
fn a_reset_believes_in_one_again_but_not_before_its_time() {
    for with_server in [true, false] {
        let (home, away, _well) = two();
        let server = with_server.then(|| home.serve());
        assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(0));
        let output = home.ukai(&["providers", "reset", "away", "--output", "json"]);
        let rows: Value = serde_json::from_slice(&output.stdout).expect("rows");
        assert_eq!((rows.as_array().map(Vec::len), &rows[0]["breaker"]), (Some(1), &json!("open")), "{rows}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--forget-wait"), "{output:?}");
        let (_, rows) = home.ukai_json(&["providers", "reset", "away", "--forget-wait", "--output", "json"]);
        assert_eq!((&rows[0]["breaker"], &rows[0]["not_before_ms"]), (&json!("closed"), &Value::Null), "{rows}");
        assert_eq!(away.arrivals().len(), 1);
        assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(0));
        assert_eq!(away.arrivals().len(), 2, "it was asked again");
        let output = home.ukai(&["providers", "reset", "nobody"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("configured are: away, well"), "{stderr}");
        drop(server);
    }
}

/// What dies right after the answer must not have forgotten it.
#[test]
fn a_reset_is_on_disk_when_it_is_answered() {
    for round in 0..6 {
        let home = Home::new();
        let script = Script::serve(home.path(), "[[rule]]\nfault = { status = 401 }\n");
        home.configure(&lab(&script, "openai"));
        let mut server = home.serve();
        assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(4));
        let (code, rows) = home.ukai_json(&["providers", "reset", "lab", "--output", "json"]);
        server.kill();
        assert_eq!((code, &rows[0]["breaker"]), (0, &json!("closed")), "{rows}");
        let log = std::fs::read_to_string(home.state_dir().join("supervisor/events.jsonl")).expect("a log");
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains("BreakerMoved") && last.contains("\"by_person\":true"), "round {round}: {last}");
        let _server = home.serve();
        let (_, rows) = home.ukai_json(&["providers", "--output", "json"]);
        assert_eq!(rows[0]["breaker"], "closed", "round {round}: {rows}");
    }
}

/// A provider that calls a tool that is offered, and says what came of it.
const TOOLS: &str = r#"
[[rule]]
when = { last = "user", no_tools = false }
reply.calls = [{ tool = "{{tools | line: 1}}", args = { text = "x" } }]
[[rule]]
when.last = "result"
reply.text = "It said {{result.last}}."
[[rule]]
reply.text = "Done."
"#;

#[test]
fn a_probe_finds_out_who_takes_tools_and_writes_down_what_it_saw() {
    for with_server in [true, false] {
        let home = Home::new();
        let takes = Script::serve(home.path(), TOOLS);
        let refuses = Script::serve(home.path(), "[[rule]]\nfault.error = \"no_tools\"\n");
        home.configure(&(named("takes", &takes, "anthropic") + &named("refuses", &refuses, "openai")));
        let server = with_server.then(|| home.serve());
        let (code, rows) = home.ukai_json(&["providers", "probe", "--output", "json"]);
        assert_eq!(code, 1, "one of them was not well: {rows}");
        assert_eq!((&rows[0]["class"], &rows[0]["tools"]), (&json!("success"), &json!(true)), "{rows}");
        assert_eq!((&rows[1]["class"], &rows[1]["tools"]), (&json!("no_tools"), &json!(false)), "{rows}");
        let evidence = rows[0]["evidence"].as_str().expect("a folder");
        let checklist = std::fs::read_to_string(format!("{evidence}/checklist.md")).expect("a checklist");
        assert!(checklist.contains("- [x]") && checklist.contains("- [ ]"), "{checklist}");
        let (_, shown) = home.ukai_json(&["providers", "--output", "json"]);
        assert_eq!((&shown[0]["tools"], &shown[1]["tools"]), (&json!(true), &json!(false)), "{shown}");
        let table = std::fs::read_to_string(home.state_dir().join("supervisor/capabilities.json")).expect("a table");
        assert!(
            table.contains(r#"{"provider_id":"refuses","supports_tool_calling":false,"last_verified_at":"20"#),
            "{table}"
        );
        let asked = refuses.arrivals().len();
        let (_, rows) = home.ukai_json(&["providers", "refresh", "refuses", "--output", "json"]);
        assert_eq!((rows.as_array().map(Vec::len), refuses.arrivals().len()), (Some(1), asked + 1), "{rows}");
        drop(server);
    }
}

#[test]
fn a_probe_by_a_person_is_not_sent_before_a_named_instant_either() {
    let (home, away, _well) = two();
    assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(0));
    let (code, rows) = home.ukai_json(&["providers", "probe", "away", "--output", "json"]);
    assert_eq!((code, &rows[0]["class"]), (1, &Value::Null), "{rows}");
    assert!(rows[0]["detail"].as_str().is_some_and(|detail| detail.contains("asked to wait")), "{rows}");
    assert_eq!(away.arrivals().len(), 1);
}
