//! Our clients against a mock server that others wrote from the providers' documents: the same job on each wire.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
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

fn home(server: &Served, wire: &str) -> Home {
    let home = Home::new();
    home.configure(&provider(server, wire));
    home.file("notes.txt", &scripts::notes());
    home
}

fn check(wire: &str) {
    let server = Served::start("aimock.mjs", &["--retry-after-alone"]);
    let home = home(&server, wire);
    for (prompt, text, steps, calls, failures) in [
        ("greet me", "Hello there, this is plain text. 鵜飼", 1, 0, 0),
        ("read the notes", "It has thirty lines.", 2, 1, 0),
        ("busy", "Now it goes.", 1, 0, 1),
    ] {
        let (code, result) = home.ukai_json(&["run", prompt, "--output", "json"]);
        let found = (code, &result["text"], &result["steps"], &result["tool_calls"]);
        assert_eq!(found, (0, &json!(text), &json!(steps), &json!(calls)), "{wire}: {result}");
        let id = result["job_id"].as_str().expect("an id");
        assert_eq!(home.count(id, "AttemptFailed"), failures, "{wire}: {:?}", home.events(id));
        // Asked again not before the second that the answer named.
        let waited = result["duration_ms"].as_u64().is_some_and(|ms| ms >= 1_000);
        assert!(failures == 0 || waited, "{wire}: {result}");
    }
    assert_eq!(requests(&server), 5, "{wire}");
}

/// A Retry-After of one second beside a bucket that is empty for six minutes.
fn check_later_wait(wire: &str) {
    let server = Served::start("aimock.mjs", &[]);
    let home = home(&server, wire);
    let (code, result) = home.ukai_json(&["run", "busy", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &json!("all_open")), "{wire}: {result}");
    // The next command knows it still, and its job stays queued.
    let next = home.ukai(&["run", "busy"]);
    assert!(String::from_utf8_lossy(&next.stderr).contains("stays queued"), "{wire}: {next:?}");
    assert_eq!(requests(&server), 1, "{wire}");
}

/// What the server has been asked so far, by its own journal.
fn requests(server: &Served) -> usize {
    let address = server.url.strip_prefix("http://").expect("plain HTTP");
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(b"GET /__aimock/journal HTTP/1.0\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("its journal");
    let count = answer.lines().find_map(|line| line.to_lowercase().strip_prefix("x-total-count:")?.trim().parse().ok());
    count.unwrap_or_else(|| panic!("no count in {answer}"))
}

#[test]
fn openai() {
    check("openai");
}

#[test]
fn anthropic() {
    check("anthropic");
}

#[test]
fn gemini() {
    check("gemini");
}

#[test]
fn of_two_waits_the_later_counts_on_openai() {
    check_later_wait("openai");
}

#[test]
fn of_two_waits_the_later_counts_on_anthropic() {
    check_later_wait("anthropic");
}

#[test]
fn of_two_waits_the_later_counts_on_gemini() {
    check_later_wait("gemini");
}
