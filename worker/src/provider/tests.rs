//! [`attempt`] against real sockets that misbehave. A server here plays one connection and tells what it was sent.

mod wires;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use ukai_protocol::lease::{AnswerClass, Timeouts, Wire};
use ukai_protocol::message::{Args, Message};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Mask;

use super::*;
use bytes::Bytes;
use std::time::Duration;
use tokio::time::timeout;
use ukai_protocol::lease::Wait;

const KEY: &str = "sk-very-secret";
const PARALLEL: &str = include_str!("../../testdata/openai/parallel.sse");
/// What a test waits for a clock that must run out: short, and long enough not to run out by itself under load.
const SHORT_MS: u64 = 300;

/// What the server does once it has read the request.
enum Act {
    Write(String),
    Pause(Duration),
    /// Holds the connection open until the client closes it.
    Hang,
    /// Closes with a reset.
    Reset,
}

struct Server {
    url: String,
    /// Everything that the client sent, all connections in a row.
    received: JoinHandle<String>,
}

async fn serve(acts: Vec<Act>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/v1", listener.local_addr().expect("address"));
    let received = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        let mut received = read_request(&mut socket).await;
        for act in acts {
            match act {
                Act::Write(text) => {
                    if socket.write_all(text.as_bytes()).await.is_err() {
                        break;
                    }
                }
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Hang => {
                    let mut rest = [0; 64];
                    let _ = socket.read(&mut rest).await;
                }
                Act::Reset => {
                    let socket = socket.into_std().expect("a socket");
                    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).expect("set");
                    return received;
                }
            }
        }
        drop(socket);
        // A second request of one attempt would arrive now.
        if let Ok(Ok((mut socket, _))) = timeout(Duration::from_millis(100), listener.accept()).await {
            received.push_str("\nSECOND CONNECTION\n");
            received.push_str(&read_request(&mut socket).await);
        }
        received
    });
    Server { url, received }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n")
}

fn stream_head() -> Act {
    Act::Write(head("200 OK", "content-type: text/event-stream\r\n"))
}

fn write(text: &str) -> Act {
    Act::Write(text.to_owned())
}

struct Asked {
    result: Result<Answered, Failure>,
    received: String,
    text: String,
    bytes: usize,
}

fn grant(url: String, timeouts: Timeouts) -> Grant {
    Grant {
        lease: 1,
        generation: 1,
        provider: "lab".into(),
        account: "lab".into(),
        wire: Wire::Openai,
        url,
        model: "m".into(),
        key: Some(Secret::new(KEY.into())),
        timeouts,
        context_window: 1_000,
        max_output: 100,
        prices: None,
    }
}

async fn ask_with(acts: Vec<Act>, timeouts: Timeouts, cancel: CancellationToken) -> Asked {
    ask_on(Wire::Openai, acts, timeouts, cancel).await
}

async fn ask_on(wire: Wire, acts: Vec<Act>, timeouts: Timeouts, cancel: CancellationToken) -> Asked {
    let server = serve(acts).await;
    let http = Http::with_roots(None).expect("built");
    // The address as that wire's documentation gives it.
    let url = if wire == Wire::Openai { server.url } else { server.url.trim_end_matches("/v1").to_owned() };
    let grant = Grant { wire, ..grant(url, timeouts) };
    let messages = [Message::User { text: "hello".into() }.into()];
    let request = Request { model: "m", system: None, messages: &messages, tools: &[], max_output: 100 };
    let (mut text, mut bytes) = (String::new(), 0);
    let on_progress = |progress: Progress<'_>| match progress {
        Progress::Text(piece) => text.push_str(piece),
        Progress::Bytes(count) => bytes += count,
        Progress::Raw(_) => {}
    };
    let result = attempt(&http, &grant, request, &HashSet::new(), &Mask::default(), on_progress, cancel).await;
    drop(http);
    let received = server.received.await.expect("the server ends");
    assert!(!format!("{result:?}").contains(KEY), "the key is in {result:?}");
    assert!(!received.contains("SECOND"), "one attempt is one request: {received}");
    Asked { result, received, text, bytes }
}

async fn ask(acts: Vec<Act>) -> Asked {
    ask_with(acts, Timeouts::default(), CancellationToken::new()).await
}

async fn check_failure(quirk: &str, acts: Vec<Act>, class: AnswerClass, signature: &str) -> Failure {
    let failure = ask(acts).await.result.expect_err(quirk);
    assert_eq!((failure.class, failure.signature.as_str()), (class, signature), "{quirk}: {failure:?}");
    failure
}

#[tokio::test]
async fn a_reply_streams() {
    let asked = ask(vec![stream_head(), write(PARALLEL)]).await;
    let answered = asked.result.expect("a reply");
    assert_eq!(asked.text, "I will look 鵜");
    assert_eq!(answered.reply.calls.len(), 2);
    assert_eq!(answered.usage, Usage { input: 100, cached: 64, output: 20, estimated: false });
    assert_eq!(asked.bytes, PARALLEL.len());
    assert!(asked.received.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", asked.received);
    assert!(asked.received.contains(&format!("authorization: Bearer {KEY}\r\n")));
}

#[tokio::test]
async fn bytes_come_one_by_one() {
    let mut acts = vec![stream_head()];
    for byte in PARALLEL.split_inclusive(|_: char| true) {
        acts.push(write(byte));
    }
    let asked = ask(acts).await;
    assert_eq!((asked.text.as_str(), asked.result.expect("a reply").reply.calls.len()), ("I will look 鵜", 2));
}

#[tokio::test]
async fn usage_that_is_not_reported_is_estimated() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"},\"finish_reason\":\"stop\"}]}\n\n";
    let usage = ask(vec![stream_head(), write(stream)]).await.result.expect("a reply").usage;
    assert!(usage.estimated && usage.output == 2 && usage.input > 20, "{usage:?}");
}

#[tokio::test]
async fn half_of_a_usage_is_completed_by_an_estimate() {
    let end = "data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"},\"finish_reason\":\"stop\"}],\"usage\":";
    for (quirk, usage, input, output) in [
        ("no input", json!({"prompt_tokens": null, "completion_tokens": 9}), None, 9),
        ("no output", json!({"prompt_tokens": 12, "completion_tokens": "9"}), Some(12), 2),
        ("below zero", json!({"prompt_tokens": -5, "completion_tokens": -1}), None, 2),
    ] {
        let stream = format!("{end}{usage}}}\n\ndata: [DONE]\n\n");
        let usage = ask(vec![stream_head(), write(&stream)]).await.result.expect("a reply").usage;
        assert!(usage.estimated && usage.output == output, "{quirk}: {usage:?}");
        assert!(input.map_or(usage.input > 20, |input| usage.input == input), "{quirk}: {usage:?}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_in_pieces_is_one() {
    let body = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).to_string();
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    for said in [body.as_str(), stream] {
        for blank in ["", "\n"] {
            // The mark, byte by byte.
            let mut server = serve_bytes(&["\u{FEFF}".as_bytes(), blank.as_bytes(), said.as_bytes()].concat()).await;
            let http = Http::with_roots(None).expect("built");
            let request = Request { model: "m", system: None, messages: &[], tools: &[], max_output: 0 };
            let grant = grant(std::mem::take(&mut server.0), Timeouts::default());
            let asked =
                attempt(&http, &grant, request, &HashSet::new(), &Mask::default(), |_| {}, CancellationToken::new())
                    .await;
            assert_eq!(asked.expect("a reply").reply.text, "hi", "{blank:?}{said}");
            server.1.await.expect("the server ends");
        }
    }
}

/// Answers once, with these bytes, the first four each by itself.
async fn serve_bytes(body: &[u8]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/v1", listener.local_addr().expect("address"));
    let body = body.to_vec();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        socket.set_nodelay(true).expect("set");
        read_request(&mut socket).await;
        socket.write_all(head("200 OK", "").as_bytes()).await.expect("written");
        let (first, rest) = body.split_at(4);
        for piece in first.chunks(1).chain([rest]) {
            socket.write_all(piece).await.expect("written");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    (url, server)
}

#[tokio::test]
async fn a_coding_that_was_not_asked_for_is_named() {
    let answer = Act::Write(head("200 OK", "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n") + "x");
    let failure = check_failure("gzip", vec![answer], AnswerClass::Unavailable, "stream:encoded").await;
    assert!(failure.detail.contains("`gzip`"), "{}", failure.detail);
    let identity = head("200 OK", "content-encoding: identity\r\n") + PARALLEL;
    assert_eq!(ask(vec![Act::Write(identity)]).await.result.expect("a reply").reply.calls.len(), 2);
}

#[tokio::test]
async fn a_whole_body_is_a_reply() {
    let body = json!({"choices": [{"message": {"content": "hi", "tool_calls": [
        {"id": "a", "function": {"name": "Read", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    for content_type in ["application/json", "text/event-stream", ""] {
        let headers = format!("content-type: {content_type}\r\n");
        let asked = ask(vec![Act::Write(head("200 OK", &headers) + "\n " + &body.to_string())]).await;
        let reply = asked.result.expect("a reply").reply;
        assert_eq!((reply.text.as_str(), asked.text.as_str()), ("hi", "hi"), "{content_type}");
        assert!(matches!(reply.calls[0].args, Args::Whole(_)));
    }
}

#[tokio::test]
async fn a_stream_under_another_name_is_one() {
    let asked = ask(vec![Act::Write(head("200 OK", "content-type: text/plain\r\n")), write(PARALLEL)]).await;
    assert_eq!(asked.result.expect("a reply").reply.calls.len(), 2);
}

#[tokio::test]
async fn what_breaks_is_unavailable() {
    use AnswerClass::Unavailable;
    let first = PARALLEL.split_inclusive("\n\n").take(3).collect::<String>();
    check_failure("cut, closed properly", vec![stream_head(), write(&first)], Unavailable, "stream:cut").await;
    let short = Act::Write(head("200 OK", "content-type: text/event-stream\r\ncontent-length: 9999\r\n"));
    check_failure("cut short of its length", vec![short, write(&first)], Unavailable, "stream:broken").await;
    check_failure("reset", vec![stream_head(), write(&first), Act::Reset], Unavailable, "reset").await;
    check_failure("closed without a word", vec![], Unavailable, "stream:broken").await;
    check_failure("no HTTP", vec![write("SSH-2.0-OpenSSH\r\n\r\n")], Unavailable, "stream:broken").await;
    check_failure("nothing in a 200", vec![stream_head()], Unavailable, "stream:cut").await;
    let page = Act::Write(head("200 OK", "content-type: text/html\r\n") + "<html>login</html>");
    check_failure("a page", vec![page], Unavailable, "stream:none").await;
    let error = write("data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n");
    let error = vec![stream_head(), write(&first), error, Act::Hang];
    check_failure("an error event", error, Unavailable, "stream type=server_error").await;
}

#[tokio::test]
async fn a_break_after_the_end_is_no_failure() {
    let said: String = PARALLEL.split_inclusive("\n\n").filter(|event| !event.contains("DONE")).collect();
    let short = || Act::Write(head("200 OK", "content-type: text/event-stream\r\ncontent-length: 9999\r\n"));
    assert_eq!(ask(vec![short(), write(&said)]).await.result.expect("a reply").reply.calls.len(), 2);
    let asked = ask(vec![short(), write(PARALLEL), Act::Hang]).await;
    assert_eq!(asked.result.expect("a reply").reply.calls.len(), 2, "the last event is not waited beyond");
}

#[tokio::test]
async fn pings_after_the_end_are_not_waited_for() {
    // The last event never comes.
    let said: String = PARALLEL.split_inclusive("\n\n").filter(|event| !event.contains("DONE")).collect();
    let mut acts = vec![stream_head(), write(&said)];
    for _ in 0..100 {
        acts.extend([write(": ping\n\n"), Act::Pause(Duration::from_millis(100))]);
    }
    let begun = Instant::now();
    assert_eq!(ask(acts).await.result.expect("a reply").reply.calls.len(), 2);
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_that_says_nothing_without_end_is_cut_at_a_bound() {
    // An event that carries what nobody asked for.
    let chunk = format!("data: {{\"padding\":\"{}\"}}\n\n", "x".repeat(4 * 1024 * 1024));
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let mut acts = vec![stream_head(), write(content)];
    acts.extend((0..=body::STREAM_BYTES_MAX / chunk.len()).map(|_| write(&chunk)));
    acts.push(Act::Hang);
    check_failure("padding", acts, AnswerClass::Unavailable, "stream:too_large").await;
}

#[tokio::test]
async fn a_refusal_is_told_with_its_headers() {
    let body = r#"{"error":{"message":"slow down sk-very-secret","code":"rate_limit_exceeded"}}"#;
    let headers = "retry-after: 17\r\nx-ratelimit-remaining-requests: 3\r\n";
    let acts = vec![Act::Write(head("429 Too Many Requests", headers) + body)];
    let failure = check_failure("429", acts, AnswerClass::RateLimited, "http:429 code=rate_limit_exceeded").await;
    assert!(matches!(failure.wait, Some(Wait::For(16_000..=17_000))), "{failure:?}");
    assert_eq!(failure.limits_seen.requests_left, Some(3));
    assert_eq!(failure.detail, "HTTP 429: slow down [key]");
}

/// Between the head and the end of a body.
const TRICKLE: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn what_a_head_named_is_counted_from_the_head() {
    let spent = |reset: &str| format!("x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: {reset}\r\n");
    let body = r#"{"error":{"message":"Please try again in 3s."}}"#;
    let error = "data: {\"error\":{\"message\":\"boom\"}}\n\n";
    // What is left of 10 s once the body has come.
    let (less, over) = (Some(5_000..=8_900), None);
    let cases = [
        ("a refusal", "429 Too Many Requests", "retry-after: 10\r\n".to_owned(), "{}", less.clone()),
        ("a refusal, over by then", "429 Too Many Requests", "retry-after: 1\r\n".to_owned(), "{}", over.clone()),
        ("its body names it anew", "429 Too Many Requests", "retry-after: 1\r\n".to_owned(), body, Some(3_000..=3_000)),
        ("a stream", "200 OK", spent("10s"), PARALLEL, less.clone()),
        ("a stream, over by then", "200 OK", spent("1s"), PARALLEL, over),
        ("a stream that breaks off", "200 OK", spent("10s"), "data: {}\n\n", less.clone()),
        ("an error in a stream", "200 OK", spent("10s"), error, less),
    ];
    let asked = cases.map(async |(quirk, status, headers, body, expected)| {
        let acts = vec![Act::Write(head(status, &headers)), Act::Pause(TRICKLE), write(body)];
        let wait = match ask(acts).await.result {
            Ok(answered) => answered.wait,
            Err(failure) => failure.wait,
        };
        match (expected, wait) {
            (Some(expected), Some(Wait::For(ms))) => assert!(expected.contains(&ms), "{quirk}: {ms}"),
            (expected, wait) => assert_eq!((expected, wait), (None, None), "{quirk}"),
        }
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn a_refusal_that_quotes_the_request_is_read_to_its_end() {
    let body = json!({"error": {"code": 429, "message": "x".repeat(200 * 1024), "details": [{"retryDelay": "38s"}]}});
    let acts = vec![Act::Write(head("429 Too Many Requests", "") + &body.to_string())];
    let failure = check_failure("a long one", acts, AnswerClass::RateLimited, "http:429 code=429").await;
    assert_eq!(failure.wait, Some(Wait::For(38_000)));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let acts = vec![Act::Write(head("307 Temporary Redirect", "location: http://127.0.0.1:1/v1/chat\r\n"))];
    let failure = check_failure("307", acts, AnswerClass::Unavailable, "http:307").await;
    assert!(failure.detail.contains("`127.0.0.1:1`"), "{}", failure.detail);
}

#[tokio::test]
async fn each_clock_runs_out() {
    let ping = ": ping\n\n";
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let pings = || {
        let mut acts = vec![stream_head()];
        for _ in 0..20 {
            acts.extend([write(ping), Act::Pause(Duration::from_millis(SHORT_MS / 6))]);
        }
        acts
    };
    let (long, short) = (60_000, SHORT_MS);
    #[rustfmt::skip]
    let cases = [
        ("silence before the headers", vec![Act::Hang], short, long, "timeout:first_content"),
        ("silence after the headers", vec![stream_head(), Act::Hang], short, long, "timeout:first_content"),
        ("pings are no content", pings(), short, long, "timeout:first_content"),
        ("silence after content", vec![stream_head(), write(content), Act::Hang], long, short, "timeout:idle"),
        ("silence after a ping", vec![stream_head(), write(ping), Act::Hang], long, short, "timeout:idle"),
    ];
    for (quirk, acts, first_content_ms, idle_ms, signature) in cases {
        let timeouts = Timeouts { connect_ms: long, first_content_ms, idle_ms };
        let failure = ask_with(acts, timeouts, CancellationToken::new()).await.result.expect_err(quirk);
        assert_eq!((failure.class, failure.signature.as_str()), (AnswerClass::Timeout, signature), "{quirk}");
    }
}

#[tokio::test]
async fn pings_keep_a_stream_alive_and_content_stops_its_clock() {
    let mut acts = vec![stream_head(), write("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")];
    for _ in 0..12 {
        acts.extend([write(": ping\n\n"), Act::Pause(Duration::from_millis(SHORT_MS / 6))]);
    }
    acts.push(write("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"));
    let timeouts = Timeouts { connect_ms: 60_000, first_content_ms: SHORT_MS, idle_ms: SHORT_MS };
    let asked = ask_with(acts, timeouts, CancellationToken::new()).await;
    assert_eq!(asked.result.expect("a reply").reply.text, "x");
}

#[tokio::test]
async fn cancelling_drops_the_connection() {
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        trigger.cancel();
    });
    // The server's hang ends only when the client closes; the test would not.
    let asked = ask_with(vec![stream_head(), Act::Hang], Timeouts::default(), cancel).await;
    assert_eq!(asked.result.expect_err("cancelled").class, AnswerClass::Withdrawn);
}

/// A listener that takes no connection any more: the kernel drops what comes once its queue is full.
async fn full_listener() -> (tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let listener = socket.listen(1).expect("listening");
    let address = listener.local_addr().expect("address");
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(SHORT_MS), TcpStream::connect(address)).await {
        waiting.push(connected.expect("queued"));
        assert!(waiting.len() < 100, "the queue never fills");
    }
    (listener, waiting)
}

#[tokio::test]
async fn a_connection_that_is_never_taken_is_a_timeout() {
    let (listener, _waiting) = full_listener().await;
    let url = format!("http://{}/", listener.local_addr().expect("address"));
    let connect_timeout = Duration::from_millis(SHORT_MS);
    let post = Post { url: &url, headers: ::http::HeaderMap::new(), body: Bytes::new(), connect_timeout };
    let error = Http::with_roots(None).expect("built").post(post).await.expect_err("nobody is there");
    let failure = Failure::transport(&error, connect_timeout);
    assert_eq!((failure.class, failure.signature.as_str()), (AnswerClass::Timeout, "timeout:connect"), "{error}");
}

#[tokio::test]
async fn a_connection_serves_the_next_step() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/v1", listener.local_addr().expect("address"));
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", PARALLEL.len());
        for _ in 0..2 {
            assert!(read_request(&mut socket).await.starts_with("POST"), "the same connection is used again");
            socket.write_all((head.clone() + PARALLEL).as_bytes()).await.expect("written");
        }
    });
    let http = Http::with_roots(None).expect("built");
    let used = HashSet::new();
    for _ in 0..2 {
        let grant = grant(url.clone(), Timeouts::default());
        let request = Request { model: "m", system: None, messages: &[], tools: &[], max_output: 0 };
        let mask = Mask::default();
        let asked = attempt(&http, &grant, request, &used, &mask, |_| {}, CancellationToken::new());
        asked.await.expect("a reply");
    }
    server.await.expect("both came on one connection");
}

/// Two answers to keep, then what becomes of a connection that was kept.
#[tokio::test]
async fn a_kept_connection_that_was_closed_is_no_failure_of_the_provider() {
    for reset in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}/v1", listener.local_addr().expect("address"));
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a client");
            read_request(&mut socket).await;
            let length = PARALLEL.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{PARALLEL}");
            socket.write_all(answer.as_bytes()).await.expect("written");
            // The next request meets the end of this connection, and the one after it that of a new one.
            let mut next = Some(socket);
            for _ in 0..2 {
                let mut socket = match next.take() {
                    Some(kept) => kept,
                    None => listener.accept().await.expect("a client").0,
                };
                assert!(read_request(&mut socket).await.starts_with("POST"));
                let socket = socket.into_std().expect("a socket");
                let linger = reset.then_some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(&socket, linger).expect("set");
            }
        });
        let http = Http::with_roots(None).expect("built");
        let ask = || async {
            let grant = grant(url.clone(), Timeouts::default());
            let request = Request { model: "m", system: None, messages: &[], tools: &[], max_output: 0 };
            attempt(&http, &grant, request, &HashSet::new(), &Mask::default(), |_| {}, CancellationToken::new()).await
        };
        ask().await.expect("a reply");
        let stale = ask().await.expect_err("closed");
        assert_eq!((stale.class, stale.signature.as_str()), (AnswerClass::Withdrawn, "stale"), "{stale:?}");
        let failed = ask().await.expect_err("closed");
        assert_eq!(failed.class, AnswerClass::Unavailable, "a new connection that closes is one: {failed:?}");
        server.await.expect("three requests came");
    }
}

/// Compiles only while the future can move between threads, as actors ask of it.
#[allow(dead_code)]
fn is_send<'a>(
    http: &'a Http,
    grant: &'a Grant,
    used: &'a HashSet<&'a str>,
    mask: &'a Mask,
) -> impl Future + Send + use<'a> {
    let request = Request { model: "m", system: None, messages: &[], tools: &[], max_output: 0 };
    attempt(http, grant, request, used, mask, |_| {}, CancellationToken::new())
}
