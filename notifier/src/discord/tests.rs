//! Against a server that says what a test wants.

use std::sync::Mutex;
use std::time::SystemTime;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::alert::What;
use crate::message::Entry;

type Answers = Arc<Mutex<Vec<String>>>;
type Arrivals = Arc<Mutex<Vec<Instant>>>;

/// Answers with these in turn, then with 200.
async fn server(answers: &[&str]) -> (Secret, Arrivals) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/api/webhooks/1/TOKEN?thread_id=7", listener.local_addr().expect("an address"));
    let answers: Answers = Arc::new(Mutex::new(answers.iter().rev().map(|answer| (*answer).to_owned()).collect()));
    let arrivals = Arrivals::default();
    let seen = arrivals.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("accepted");
            let mut request = Vec::new();
            let mut piece = [0; 8_192];
            loop {
                let length = stream.read(&mut piece).await.unwrap_or(0);
                request.extend_from_slice(&piece[..length]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                    length.is_some_and(|length: usize| body.len() >= length)
                });
                if length == 0 || whole {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            assert!(text.starts_with("POST /api/webhooks/1/TOKEN?thread_id=7&wait=true HTTP/1.1"), "{text}");
            seen.lock().expect("a lock").push(Instant::now());
            let answer = answers.lock().expect("a lock").pop();
            let answer = answer.unwrap_or_else(|| json_of(200, "", r#"{"id":"1"}"#));
            // Who gave up has gone.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (Secret::new(url), arrivals)
}

fn json_of(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn message() -> Message {
    let entry = Entry { what: What::Test, times: 1, at: SystemTime::UNIX_EPOCH, late: false };
    Message { entries: vec![entry], more: Vec::new() }
}

async fn deliver(answers: &[&str]) -> (Outcome, Vec<Instant>, Discord) {
    let (url, arrivals) = server(answers).await;
    let mut discord = Discord::new(&url, None, Redactor::default(), false).expect("an address");
    let outcome = discord.deliver(&message()).await;
    let arrivals = arrivals.lock().expect("a lock").clone();
    (outcome, arrivals, discord)
}

#[tokio::test]
async fn a_wait_is_sat_out_however_it_is_named_and_however_often() {
    let html = json_of(429, "retry-after: 1\r\ncontent-type: text/html\r\n", "<html>busy</html>");
    let float = json_of(429, "", r#"{"message":"You are being rate limited.","retry_after":1.31,"global":false}"#);
    let global = json_of(429, "", r#"{"message":"x","retry_after":1.2,"global":true}"#);
    let (outcome, arrivals, _) = deliver(&[&html, &float, &global]).await;
    assert_eq!((outcome, arrivals.len()), (Outcome::Delivered, 4));
    for (pair, least) in arrivals.windows(2).zip([1_000, 1_310, 1_200]) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(least), "{pair:?}");
    }
}

#[tokio::test]
async fn whoever_names_no_wait_is_asked_again_after_a_second_and_not_at_once() {
    let named = [
        ("an integer", "", r#"{"retry_after":0}"#),
        ("a float", "", r#"{"retry_after":0.0,"global":false}"#),
        ("next to nothing", "", r#"{"retry_after":1e-9}"#),
        ("a page", "retry-after: 0\r\n", "<html>"),
        ("a bucket", "retry-after: 0\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset-after: 0\r\n", "{}"),
    ];
    let mut waits = JoinSet::new();
    for (quirk, headers, body) in named {
        waits.spawn(async move {
            let limited = json_of(429, headers, body);
            let (outcome, arrivals, _) = deliver(&[&limited, &limited]).await;
            assert_eq!((outcome, arrivals.len()), (Outcome::Delivered, 3), "{quirk}");
            for pair in arrivals.windows(2) {
                assert!(pair[1] - pair[0] >= Duration::from_secs(1), "{quirk}: {pair:?}");
            }
        });
    }
    waits.join_all().await;
}

/// Of this process, in pages; the server is in it too.
fn resident_pages() -> u64 {
    let memory = std::fs::read_to_string("/proc/self/statm").expect("its memory");
    memory.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn ten_thousand_refusals_are_a_loop_and_no_recursion() {
    const PAGES_MAX: u64 = 1_024;
    let refused = json_of(429, "", r#"{"retry_after":0.0,"global":false}"#);
    let (url, arrivals) = server(&vec![refused.as_str(); 10_000]).await;
    arrivals.lock().expect("a lock").reserve(10_001);
    let mut discord = Discord::new(&url, None, Redactor::default(), false).expect("an address");
    // Ten thousand seconds are too long for a test.
    discord.floor = Duration::ZERO;
    let before = resident_pages();
    assert_eq!(discord.deliver(&message()).await, Outcome::Delivered);
    assert_eq!(arrivals.lock().expect("a lock").len(), 10_001);
    let grown = resident_pages().saturating_sub(before);
    assert!(grown < PAGES_MAX, "{grown} pages more after 10,000 refusals");
}

#[tokio::test]
async fn of_two_waits_that_a_429_names_the_later_one_is_sat_out() {
    for (quirk, headers, body, least) in [
        ("the body's is longer", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset-after: 1.1\r\n", 1.4, 1_400),
        ("the bucket's is longer", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset-after: 1.5\r\n", 1.1, 1_500),
        ("so too where something remains", "x-ratelimit-remaining: 3\r\nx-ratelimit-reset-after: 1.5\r\n", 1.1, 1_500),
    ] {
        let limited = json_of(429, headers, &format!(r#"{{"retry_after":{body},"global":false}}"#));
        let (outcome, arrivals, _) = deliver(&[&limited]).await;
        assert_eq!((outcome, arrivals.len()), (Outcome::Delivered, 2), "{quirk}");
        let waited = arrivals[1] - arrivals[0];
        assert!(waited >= Duration::from_millis(least) && waited < Duration::from_secs(3), "{quirk}: {waited:?}");
    }
}

#[tokio::test]
async fn what_it_says_is_redacted() {
    let body = r#"{"message":"no sk-hidden-1234","errors":{"embeds":{"0":{"title":{"_errors":[{"message":"x sk-hidden-1234"}]}}}}}"#;
    let (url, _) = server(&[&json_of(400, "", body), &json_of(404, "", r#"{"message":"sk-hidden-1234"}"#)]).await;
    let redactor = Redactor::new(vec![Secret::new("sk-hidden-1234".to_owned())]);
    let mut discord = Discord::new(&url, None, redactor, false).expect("an address");
    let refused = "HTTP 400: no [secret]: embeds.0.title: x [secret]";
    assert_eq!(discord.deliver(&message()).await, Outcome::Dropped(refused.to_owned()));
    assert_eq!(discord.deliver(&message()).await, Outcome::Dead("HTTP 404: [secret]".to_owned()));
}

#[tokio::test]
async fn a_delivery_that_is_given_up_says_what_the_last_try_came_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let refused = Secret::new(format!("http://{}/api/webhooks/1/T", listener.local_addr().expect("an address")));
    drop(listener);
    let (broken, _) = server(&[json_of(500, "", r#"{"message":"ouch"}"#).as_str(); 9]).await;
    let (limited, _) = server(&[&json_of(429, "", r#"{"retry_after":60}"#)]).await;
    for (url, expected) in
        [(refused, "onnection refused"), (broken, "HTTP 500: ouch"), (limited, "it asks to wait for 60.0 s")]
    {
        let mut discord = Discord::new(&url, None, Redactor::default(), false).expect("an address");
        let given_up = tokio::time::timeout(Duration::from_millis(500), discord.deliver(&message())).await;
        assert!(given_up.is_err());
        let trouble = discord.trouble().why().expect("it failed");
        assert!(trouble.contains(expected) && !trouble.contains("webhooks"), "{trouble}");
    }
}

#[tokio::test]
async fn where_nothing_remains_it_waits_before_the_next() {
    let last = json_of(200, "x-ratelimit-remaining: 0\r\nx-ratelimit-reset-after: 0.4\r\n", r#"{"id":"1"}"#);
    let (url, arrivals) = server(&[&last]).await;
    let mut discord = Discord::new(&url, None, Redactor::default(), false).expect("an address");
    assert_eq!(discord.deliver(&message()).await, Outcome::Delivered);
    assert!(discord.left_to_wait().is_some_and(|left| left > Duration::from_millis(200)));
    assert_eq!(discord.deliver(&message()).await, Outcome::Delivered);
    let arrivals = arrivals.lock().expect("a lock").clone();
    assert!(arrivals[1] - arrivals[0] >= Duration::from_millis(350), "{arrivals:?}");
}

#[tokio::test]
async fn what_it_says_decides_what_becomes_of_the_message() {
    for (answer, expected) in [
        (
            json_of(404, "", r#"{"message":"Unknown Webhook","code":10015}"#),
            Outcome::Dead("HTTP 404 (code 10015): Unknown Webhook".to_owned()),
        ),
        (
            json_of(401, "", r#"{"message":"Invalid Webhook Token","code":50027}"#),
            Outcome::Dead("HTTP 401 (code 50027): Invalid Webhook Token".to_owned()),
        ),
        (
            json_of(400, "", r#"{"message":"Invalid Form Body","code":50035}"#),
            Outcome::Dropped("HTTP 400 (code 50035): Invalid Form Body".to_owned()),
        ),
        (json_of(200, "x-proxy: 1\r\n", r#"{"type":0,"id":"1","content":""}"#), Outcome::Delivered),
        (json_of(204, "", ""), Outcome::Delivered),
        (json_of(200, "", r#"{"ok":true}"#), Outcome::Delivered),
    ] {
        let (outcome, arrivals, _) = deliver(&[&answer]).await;
        assert_eq!((outcome, arrivals.len()), (expected, 1), "{answer}");
    }
}

/// What stands between us and Discord, and answers in its place.
#[tokio::test]
async fn what_is_no_message_of_discords_is_no_delivery_and_is_tried_again() {
    let answers = [
        ("a login page", json_of(200, "content-type: text/html\r\n", "<html>Welcome to our WLAN</html>")),
        ("a page that says it is something else", json_of(200, "", " <!doctype html>")),
        ("a login page elsewhere", json_of(302, "location: http://127.0.0.1:9/\r\n", "")),
        ("the same, with the body", json_of(307, "location: http://127.0.0.1:9/\r\n", "")),
        ("moved", json_of(308, "location: http://127.0.0.1:9/\r\n", "")),
    ];
    let mut tries = JoinSet::new();
    for (quirk, answer) in answers {
        tries.spawn(async move {
            let (outcome, arrivals, discord) = deliver(&[&answer]).await;
            assert_eq!((outcome, arrivals.len()), (Outcome::Delivered, 2), "{quirk}");
            assert!(arrivals[1] - arrivals[0] >= BACKOFF_FIRST, "{quirk}");
            let why = discord.trouble().why().expect("the first try failed");
            assert!(why.contains("does not look like Discord") && !why.contains("127.0.0.1:9"), "{quirk}: {why}");
        });
    }
    tries.join_all().await;
}

#[tokio::test]
async fn what_fails_is_tried_again_and_what_goes_on_failing_is_given_up() {
    let broken = json_of(503, "", "");
    let (outcome, arrivals, _) = deliver(&[&broken, "garbage", &broken]).await;
    assert_eq!((outcome, arrivals.len()), (Outcome::Delivered, 4));
    for (pair, least) in arrivals.windows(2).zip([1_000, 2_000, 4_000]) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(least), "{pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_given_up_after_five_tries() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/api/webhooks/1/T", listener.local_addr().expect("an address"));
    drop(listener);
    let mut discord = Discord::new(&Secret::new(url), None, Redactor::default(), false).expect("an address");
    let Outcome::Failed(why) = discord.deliver(&message()).await else { panic!("it cannot arrive") };
    assert!(why.contains("onnection refused") && why.contains("5 times") && !why.contains("webhooks"), "{why}");
}

#[tokio::test]
async fn an_address_is_https_or_here_and_is_never_shown() {
    for (url, expected) in [
        ("https://discord.com/api/webhooks/1/SECRET", None),
        ("http://127.0.0.1:9/api/webhooks/1/SECRET", None),
        ("http://localhost:9/SECRET", None),
        ("http://[::1]:9/SECRET", None),
        ("http://discord.com/api/webhooks/1/SECRET", Some(WebhookError::NotSafe)),
        ("http://127.0.0.1.evil.example/SECRET", Some(WebhookError::NotSafe)),
        ("ftp://127.0.0.1/SECRET", Some(WebhookError::NotSafe)),
        ("SECRET", Some(WebhookError::NotAnAddress)),
    ] {
        match Discord::new(&Secret::new(url.to_owned()), None, Redactor::default(), false) {
            Ok(discord) => {
                assert_eq!(expected, None, "{url}");
                assert!(!format!("{discord:?}").contains("SECRET"));
            }
            Err(error) => {
                assert!(!format!("{error} {error:?}").contains("SECRET"));
                assert_eq!(Some(error), expected, "{url}");
            }
        }
    }
}

#[tokio::test]
async fn discord_is_asked_by_a_version_whose_waits_are_seconds() {
    for (url, path) in [
        ("https://discord.com/api/webhooks/1/T", "/api/v10/webhooks/1/T"),
        ("https://canary.discord.com/api/v6/webhooks/1/T", "/api/v10/webhooks/1/T"),
        ("https://discordapp.com/api/v10/webhooks/1/T?thread_id=7", "/api/v10/webhooks/1/T"),
        ("http://127.0.0.1:9/api/webhooks/1/T", "/api/webhooks/1/T"),
        ("https://notdiscord.com/api/webhooks/1/T", "/api/webhooks/1/T"),
    ] {
        let discord = Discord::new(&Secret::new(url.to_owned()), None, Redactor::default(), false).expect("an address");
        assert_eq!(discord.url.path(), path, "{url}");
        assert!(discord.url.query().is_some_and(|query| query.ends_with("wait=true")), "{url}");
    }
}
