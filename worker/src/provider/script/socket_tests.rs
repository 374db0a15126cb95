//! The server as a client meets it: raw bytes on a real socket, all wires.

mod gemini;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::conversation::Wire;
use super::file::Script;
use super::server::{Server, bind};

/// How long a test waits for what must come; reached only when something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

async fn start(script: &str, record: Option<&Path>) -> SocketAddr {
    let script = Script::parse(script).expect("test data");
    let server = Server::new(script, None, record).expect("a record can be opened");
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(Arc::new(server).serve(listener));
    address
}

fn user(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Openai | Wire::Anthropic => json!({"role": "user", "content": text}),
        Wire::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
    }
}

/// A request as each wire needs it, with `more` on top; `stream` is for `send` where the body has no such field.
fn body(wire: Wire, messages: &[Value], more: &Value) -> Value {
    let tool = |name: &str| match wire {
        Wire::Openai => json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}),
        Wire::Anthropic => json!({"name": name, "input_schema": {"type": "object"}}),
        Wire::Gemini => json!({"name": name, "parametersJsonSchema": {"type": "object"}}),
    };
    let tools = [tool("Glob"), tool("Grep"), tool("Read")];
    let mut body = match wire {
        Wire::Openai | Wire::Anthropic => {
            json!({"model": "lab-1", "max_tokens": 100, "messages": messages, "tools": tools})
        }
        Wire::Gemini => json!({"generationConfig": {"maxOutputTokens": 100}, "contents": messages,
            "tools": [{"functionDeclarations": tools}]}),
    };
    let all = body.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    body
}

struct Got {
    status: u16,
    head: String,
    body: String,
    /// The body came to its regular end.
    whole: bool,
}

async fn send(address: SocketAddr, wire: Wire, body: &Value) -> Got {
    let mut body = body.clone();
    let path = match wire {
        Wire::Openai => "/v1/chat/completions",
        Wire::Anthropic => "/v1/messages",
        Wire::Gemini => match body.as_object_mut().and_then(|body| body.remove("stream")) {
            Some(_) => "/v1beta/models/lab-1:streamGenerateContent?alt=sse",
            None => "/v1beta/models/lab-1:generateContent",
        },
    };
    post(address, path, &body).await
}

async fn post(address: SocketAddr, path: &str, body: &Value) -> Got {
    let body = body.to_string();
    raw(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         anthropic-version: 2023-06-01\r\nauthorization: Bearer k\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    )
    .await
}

async fn raw(address: SocketAddr, request: &str) -> Got {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(request.as_bytes()).await.expect("it reads");
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("an end").expect("bytes");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let head = head.to_ascii_lowercase();
    let (body, whole) =
        if head.contains("transfer-encoding: chunked") { unchunked(rest) } else { (rest.to_owned(), true) };
    Got { status, head, body, whole }
}

fn unchunked(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}

/// The JSON of each event; the names of the others as strings.
fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

fn stream() -> Value {
    json!({"stream": true})
}

const CALLS: &str = r#"
    [[rule]]
    when = { step = 1 }
    reply = { text = "Looking into {{prompt}}.", calls = [{ tool = "Glob", args = { pattern = "*.rs" } }, { tool = "Grep" }], usage = { input = 10, cached = 4, output = 5 }, chunk_chars = 5 }
    [[rule]]
    reply = { text = "{{results.Glob}} done" }
"#;

#[tokio::test]
async fn openai_streams_role_content_calls_reason_usage_done() {
    let address = start(CALLS, None).await;
    let mut more = stream();
    more["stream_options"] = json!({"include_usage": true});
    let got = send(address, Wire::Openai, &body(Wire::Openai, &[user(Wire::Openai, "src")], &more)).await;
    assert_eq!(got.status, 200);
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    assert!(got.whole);
    let events = events(&got.body);
    assert_eq!(events[0].pointer("/choices/0/delta/role"), Some(&json!("assistant")));
    assert_eq!(joined(&events, "/choices/0/delta/content"), "Looking into src.");
    assert_eq!(joined(&events, "/choices/0/delta/tool_calls/0/function/name"), "GlobGrep");
    assert_eq!(joined(&events, "/choices/0/delta/tool_calls/0/function/arguments"), r#"{"pattern":"*.rs"}{}"#);
    let opened: Vec<_> = events
        .iter()
        .filter_map(|e| e.pointer("/choices/0/delta/tool_calls/0"))
        .filter(|c| c["id"].is_string())
        .collect();
    assert_eq!(opened.iter().map(|call| call["index"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    let [.., finish, usage, done] = events.as_slice() else { panic!("too few events") };
    assert_eq!(finish.pointer("/choices/0/finish_reason"), Some(&json!("tool_calls")));
    assert_eq!(usage.pointer("/usage/prompt_tokens_details/cached_tokens"), Some(&json!(4)));
    assert_eq!(usage.pointer("/usage/total_tokens"), Some(&json!(15)));
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(done, "[DONE]");
}

#[tokio::test]
async fn anthropic_streams_start_blocks_delta_stop() {
    let address = start(CALLS, None).await;
    let got = send(address, Wire::Anthropic, &body(Wire::Anthropic, &[user(Wire::Anthropic, "src")], &stream())).await;
    let events = events(&got.body);
    let mut kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap_or("?")).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(got.body.starts_with("event: message_start\ndata: {"), "{}", got.body);
    assert_eq!(joined(&events, "/delta/text"), "Looking into src.");
    assert_eq!(joined(&events, "/delta/partial_json"), r#"{"pattern":"*.rs"}{}"#);
    let [.., delta, _] = events.as_slice() else { panic!("too few events") };
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(
        delta["usage"],
        json!({"input_tokens": 6, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 5})
    );
}

/// The assistant's message of a whole reply, as the next request sends it back, and results for all its calls.
fn back(wire: Wire, reply: &Value, text: &str) -> Vec<Value> {
    match wire {
        Wire::Openai => {
            let message = &reply["choices"][0]["message"];
            let calls = message["tool_calls"].as_array().expect("calls");
            let results = calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": text}));
            std::iter::once(message.clone()).chain(results).collect()
        }
        Wire::Gemini => {
            let content = &reply["candidates"][0]["content"];
            let calls = content["parts"].as_array().expect("parts").iter().map(|part| &part["functionCall"]);
            let results = calls.filter(|call| !call.is_null()).map(|call| {
                json!({"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": text}}})
            });
            let results: Value = results.collect();
            vec![content.clone(), json!({"role": "user", "parts": results})]
        }
        Wire::Anthropic => {
            let calls = reply["content"].as_array().expect("blocks").iter().filter(|block| block["type"] == "tool_use");
            let results = calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": text}));
            let results: Value = results.collect();
            vec![json!({"role": "assistant", "content": reply["content"]}), json!({"role": "user", "content": results})]
        }
    }
}

fn said(wire: Wire, reply: &Value) -> &str {
    let text = match wire {
        Wire::Openai => &reply["choices"][0]["message"]["content"],
        Wire::Anthropic => &reply["content"][0]["text"],
        Wire::Gemini => &reply["candidates"][0]["content"]["parts"][0]["text"],
    };
    text.as_str().unwrap_or_default()
}

async fn whole(address: SocketAddr, wire: Wire, messages: &[Value]) -> Value {
    let got = send(address, wire, &body(wire, messages, &json!({}))).await;
    assert_eq!(got.status, 200, "{}", got.body);
    serde_json::from_str(&got.body).expect("one JSON body")
}

#[tokio::test]
async fn the_example_of_the_docs_plays_to_its_end_on_all_wires() {
    let script = include_str!("../../../../docs/examples/hello.toml");
    for wire in Wire::ALL {
        let address = start(script, None).await;
        let mut messages = vec![user(wire, "what is here?")];
        let first = whole(address, wire, &messages).await;
        assert_eq!(first, whole(address, wire, &messages).await, "sent again, answered the same");
        messages.extend(back(wire, &first, "src/a.rs:7\nsrc/b.rs:1"));
        let second = whole(address, wire, &messages).await;
        assert!(second.to_string().contains("src/a.rs:7"), "{second}");
        messages.extend(back(wire, &second, "src/a.rs:40\nsrc/b.rs:2"));
        let last = whole(address, wire, &messages).await;
        assert_eq!(said(wire, &last), "2 files, the first is src/a.rs:7.\nIt begins: src/a.rs:40\nTODOs: 42");
    }
}

#[tokio::test]
async fn reasoning_goes_out_signed_and_is_asked_back() {
    let script = "[[rule]]\nwhen = { step = 1 }\nreply = { reasoning = 'hm', calls = [{ tool = 'Glob' }] }\n[[rule]]\nreply = { text = 'done' }";
    let address = start(script, None).await;
    let wire = Wire::Anthropic;
    let first = whole(address, wire, &[user(wire, "x")]).await;
    let mut messages = vec![user(wire, "x")];
    messages.extend(back(wire, &first, "r"));
    assert_eq!(said(wire, &whole(address, wire, &messages).await), "done");
    messages[1]["content"].as_array_mut().expect("blocks").remove(0);
    let got = send(address, wire, &body(wire, &messages, &json!({}))).await;
    assert_eq!(got.status, 400);
    assert!(got.body.contains("cannot be modified"), "{}", got.body);
}

#[tokio::test]
async fn a_violation_is_a_400_that_names_its_place() {
    let address = start(CALLS, None).await;
    for (wire, part) in [
        (Wire::Openai, "messages with role 'tool' must be a response"),
        (Wire::Anthropic, "messages.0.content.0: unexpected `tool_use_id`"),
        (Wire::Gemini, "function response turn comes immediately after a function call turn"),
    ] {
        let orphan = match wire {
            Wire::Openai => json!({"role": "tool", "tool_call_id": "a", "content": "r"}),
            Wire::Anthropic => json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}),
            Wire::Gemini => {
                json!({"role": "user", "parts": [{"functionResponse": {"name": "Glob", "response": {"output": "r"}}}]})
            }
        };
        let got = send(address, wire, &body(wire, &[orphan], &stream())).await;
        assert_eq!(got.status, 400);
        let error: Value = serde_json::from_str(&got.body).expect("JSON");
        let kind = if wire == Wire::Gemini { &error["error"]["status"] } else { &error["error"]["type"] };
        assert!(kind == "invalid_request_error" || kind == "INVALID_ARGUMENT", "{error}");
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains(part)), "{error}");
    }
}

async fn check_fault(fault: &str, status: u16, whole: bool, part: &str) {
    for wire in Wire::ALL {
        let address = start(&format!("[[rule]]\n{fault}"), None).await;
        let got = send(address, wire, &body(wire, &[user(wire, "x")], &stream())).await;
        assert_eq!((got.status, got.whole), (status, whole), "{fault} on {}: {}", wire.name(), got.body);
        assert!(got.body.contains(part) || got.head.contains(part), "{fault} on {}: {}", wire.name(), got.body);
    }
}

#[tokio::test]
async fn faults_reach_the_client_on_all_wires() {
    for (fault, status, whole, part) in [
        ("fault = { status = 429, headers = { Retry-After = '17' } }", 429, true, "retry-after: 17"),
        (
            "fault = { status = 503, headers = { Retry-After = '{{now | plus: \"1h\" | http_date}}' } }",
            503,
            true,
            " gmt",
        ),
        // As Azure names a wait.
        ("fault = { status = 429, headers = { retry-after-ms = '1500' } }", 429, true, "retry-after-ms: 1500"),
        ("fault = { status = 529, message = 'busy {{prompt}}' }", 529, true, "busy x"),
        ("fault = { error = 'context_overflow' }", 400, true, "maximum"),
        ("fault = { status = 500, body = 'no json' }", 500, true, "no json"),
        ("fault = { html = true }", 200, true, "<h1>"),
        ("fault = { empty_body = true }", 200, true, "text/event-stream"),
        ("reply = { text = 'Hello there' }\nfault = { cut = true, after_chars = 3 }", 200, false, "Hello there"),
        ("reply = { text = 'Hello' }\nfault = { no_terminal_event = true }", 200, true, "Hello"),
        ("reply = { text = 'Hello' }\nfault = { error_event = true, after_chars = 3 }", 200, true, "verloaded"),
        ("reply = { text = 'Hi' }\nfault = { error_event = true, status = 500, message = 'gone' }", 200, true, "gone"),
        ("reply = { text = 'Hello' }\nfault = { slow_bytes = '0s' }", 200, true, "Hello"),
        ("reply = { text = 'Hello', whole = true }", 200, true, "content-type: application/json"),
        (
            "reply = { text = '{{result.Bash}}' }",
            500,
            true,
            "rule 1 of the script cannot be played: template {{result.Bash}}",
        ),
        ("when = { prompt = 'y' }\nreply = { text = 'x' }", 404, true, "no rule of the script fits this request"),
    ] {
        check_fault(fault, status, whole, part).await;
    }
}

#[tokio::test]
async fn a_hang_hangs_and_ends_with_the_client() {
    for (fault, head_comes) in [("before_headers", false), ("after_headers", true)] {
        let reply = if head_comes { "reply = { text = 'x' }\n" } else { "" };
        let address = start(&format!("[[rule]]\n{reply}fault = {{ hang = '{fault}' }}"), None).await;
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let body = body(Wire::Openai, &[user(Wire::Openai, "x")], &stream()).to_string();
        let request = format!(
            "POST /chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await.expect("it reads");
        // The record shows that the answer has begun, whatever comes of it.
        let arrivals = "GET /_arrivals HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        while raw(address, arrivals).await.body.is_empty() {}
        let mut bin = [0; 4096];
        if head_comes {
            let read = tokio::time::timeout(PATIENCE, socket.read(&mut bin)).await.expect("a head").expect("bytes");
            assert!(String::from_utf8_lossy(&bin[..read]).starts_with("HTTP/1.1 200"));
        }
        let more = socket.try_read(&mut bin);
        assert_eq!(more.expect_err("nothing more").kind(), std::io::ErrorKind::WouldBlock, "{fault}");
    }
}

#[tokio::test]
async fn fail_once_and_then_work() {
    let script =
        "[[rule]]\nname = 'once'\ntimes = 1\nfault = { status = 500 }\n[[rule]]\nname = 'ok'\nreply = { text = 'ok' }";
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("arrivals.jsonl");
    let address = start(script, Some(&record)).await;
    let mut statuses = Vec::new();
    for prompt in ["a", "a", "b", "a"] {
        statuses.push(
            send(address, Wire::Openai, &body(Wire::Openai, &[user(Wire::Openai, prompt)], &stream())).await.status,
        );
    }
    assert_eq!(statuses, [500, 200, 500, 200]);
    let lines = std::fs::read_to_string(&record).expect("a record");
    let rules: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["rule"].clone()).collect();
    assert_eq!(rules, ["once", "ok", "once", "ok"]);
    let asked = raw(address, "GET /_arrivals HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(asked.body, lines);
    let first: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&first["status"], &first["step"], &first["prompt"], &first["path"]),
        (&json!(500), &json!(1), &json!("a"), &json!("/v1/chat/completions"))
    );
}

#[tokio::test]
async fn a_rate_limit_is_told_as_the_real_ones_tell_it() {
    let requests = "rate = { requests_per_minute = 60, burst = 1 }";
    let tokens = "rate = { tokens_per_minute = 60 }";
    for (wire, rate, first, second) in [
        (Wire::Openai, requests, "x-ratelimit-remaining-requests: 0", "retry-after: 1"),
        (Wire::Openai, tokens, "x-ratelimit-remaining-tokens: 0", "\"type\":\"tokens\""),
        (Wire::Anthropic, requests, "anthropic-ratelimit-requests-remaining: 0", "retry-after: 1"),
        (Wire::Anthropic, tokens, "anthropic-ratelimit-tokens-remaining: 0", "retry-after: 60"),
        (Wire::Gemini, requests, "200 ok", "\"retryDelay\":\"1s\""),
        (Wire::Gemini, tokens, "200 ok", "TokensPerModelPerMinute"),
    ] {
        let reply = "[[rule]]\nreply = { text = 'x', usage = { input = 55, output = 5 } }";
        let address = start(&format!("{rate}\n{reply}"), None).await;
        let request = body(wire, &[user(wire, "x")], &stream());
        let (one, two) = (send(address, wire, &request).await, send(address, wire, &request).await);
        assert_eq!((one.status, two.status), (200, 429), "{} {rate}", wire.name());
        assert!(one.head.contains(first), "{}", one.head);
        assert!(two.head.contains(second) || two.body.contains(second), "{}\n{}", two.head, two.body);
    }
}

#[tokio::test]
async fn the_record_says_when_a_request_came_and_when_its_headers_left() {
    let script = "[[rule]]\nwhen.prompt = 'slow'\nreply = { text = 'x', latency = '30ms', usage = { input = 7, output = 2 } }\n[[rule]]\nwhen.prompt = 'quick'\nfault = { status = 500 }\n[[rule]]\nfault = { hang = 'before_headers' }";
    let address = start(script, None).await;
    let wire = Wire::Openai;
    for prompt in ["slow", "quick"] {
        send(address, wire, &body(wire, &[user(wire, prompt)], &stream())).await;
    }
    let hanging = tokio::spawn(async move { send(address, wire, &body(wire, &[user(wire, "hang")], &stream())).await });
    let lines = loop {
        let got = raw(address, "GET /_arrivals HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let lines: Vec<Value> = got.body.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        if lines.len() == 3 {
            break lines;
        }
    };
    hanging.abort();
    let at = |line: usize, key: &str| lines[line][key].as_f64().expect("a number");
    assert!(at(0, "answered_ms") - at(0, "at_ms") >= 30.0, "{lines:?}");
    assert!(at(1, "at_ms") > at(0, "answered_ms") && at(1, "answered_ms") >= at(1, "at_ms"), "{lines:?}");
    assert_eq!((&lines[2]["answered_ms"], &lines[2]["status"]), (&Value::Null, &Value::Null));
    assert_eq!(lines[0]["tokens"], 9);
    assert!(lines[1]["tokens"].as_u64().is_some_and(|tokens| tokens > 9), "{lines:?}");
    assert_ne!(lines[0]["connection"], lines[1]["connection"]);
}

#[tokio::test]
async fn only_the_loopback_is_listened_on() {
    let why = bind(SocketAddr::from(([0, 0, 0, 0], 0))).await.expect_err("any address");
    assert!(why.to_string().contains("not on the loopback"), "{why}");
}
