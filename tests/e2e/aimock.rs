//! Our clients against a mock server that others wrote from the providers' documents: the same job on each wire.

use serde_json::{Value, json};
use ukai_tests::home::Home;
use ukai_tests::npm::Served;

use crate::scripts;

/// Whose path each wire has below the server's address.
fn provider(server: &Served, wire: &str) -> String {
    let base = if wire == "openai" { format!("{}/v1", server.url) } else { server.url.clone() };
    format!(
        "[[provider]]\nid = \"aimock\"\nwire = \"{wire}\"\nbase_url = \"{base}\"\nmodel = \"mock-1\"\n\
             context_window = 200000\nmax_output = 4096\n"
    )
}

fn check(wire: &str) {
    let server = Served::start("aimock.mjs");
    let home = Home::new();
    home.configure(&provider(&server, wire));
    home.file("notes.txt", &scripts::notes());
    for (prompt, text, steps, calls) in
        [("greet me", "Hello there, this is plain text. 鵜飼", 1, 0), ("read the notes", "It has thirty lines.", 2, 1)]
    {
        let (code, result) = home.ukai_json(&["run", prompt, "--output", "json"]);
        let found = (code, &result["text"], &result["steps"], &result["tool_calls"]);
        assert_eq!(found, (0, &json!(text), &json!(steps), &json!(calls)), "{wire}: {result}");
    }
    let (code, result) = home.ukai_json(&["run", "busy", "--output", "json"]);
    assert_eq!((code, &result["text"]), (0, &json!("Now it goes.")), "{wire}: {result}");
    let id = result["job_id"].as_str().expect("an id");
    let events = home.events(id);
    let failed: Vec<&Value> = events.iter().filter(|event| event["event"] == "AttemptFailed").collect();
    assert_eq!(failed.len(), 1, "{wire}: {events:?}");
    // Asked again not before the second that the answer named.
    let second = result["duration_ms"].as_u64().is_some_and(|ms| ms >= 1_000);
    assert!(second, "{wire}: {result}");
}

#[test]
fn openai() {
    check("openai");
}

#[test]
fn anthropic() {
    check("anthropic");
}
