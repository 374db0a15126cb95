//! A webhook of Discord's, as strict as the real one about what is sent and when: on this machine, and written from its
//! Developer Docs (Execute Webhook, Embed Limits, Rate Limits).

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const TOKEN: &str = "kf8Qm2-webhook-token-Zx81LpQw07";
const PATH: &str = "/api/webhooks/112233445566778899/";

/// In place of the next answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// 429 with this many seconds.
    Limited(f64),
    Status(u16),
    /// Accepts, and never answers.
    Hang,
}

#[derive(Default)]
struct State {
    faults: VecDeque<Fault>,
    delivered: Vec<Value>,
    violations: Vec<String>,
    not_before: Option<Instant>,
    requests: usize,
}

/// Receives until dropped.
pub struct Receiver {
    port: u16,
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

impl Receiver {
    #[must_use]
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let (state, ended) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicBool::new(false)));
        let (of_thread, is_over) = (state.clone(), ended.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let state = of_thread.clone();
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Receiver { port, state, ended }
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}{TOKEN}", self.port)
    }

    /// What makes its address a secret.
    #[must_use]
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    pub fn fault(&self, fault: Fault) {
        self.state.lock().expect("a lock").faults.push_back(fault);
    }

    /// The messages that it took, in order.
    #[must_use]
    pub fn delivered(&self) -> Vec<Value> {
        self.state.lock().expect("a lock").delivered.clone()
    }

    #[must_use]
    pub fn requests(&self) -> usize {
        self.state.lock().expect("a lock").requests
    }

    /// What Discord would have refused, or held against the sender.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().expect("a lock").violations.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; there may be nobody.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    while let Some((line, body)) = request(&mut reader) {
        let mut state = state.lock().expect("a lock");
        state.requests += 1;
        if state.not_before.is_some_and(|at| Instant::now() < at) {
            state.violations.push("it came before the time that it had been told to wait for".to_owned());
        }
        let answer = match state.faults.pop_front() {
            Some(Fault::Hang) => {
                drop(state);
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            Some(Fault::Limited(seconds)) => {
                state.not_before = Some(Instant::now() + Duration::from_secs_f64(seconds));
                let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": false});
                answer(429, &body)
            }
            Some(Fault::Status(status)) => answer(status, &json!({"message": "as the test wants", "code": 0})),
            None => match judge(&line, &body) {
                Ok(message) => {
                    state.delivered.push(message);
                    answer(200, &json!({"id": "1"}))
                }
                Err((status, why)) => {
                    state.violations.push(why.clone());
                    answer(status, &json!({"message": why, "code": 50_035}))
                }
            },
        };
        drop(state);
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(status: u16, body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Its first line, and its body.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if first.is_empty() {
            first = line;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}

fn judge(line: &str, body: &[u8]) -> Result<Value, (u16, String)> {
    let invalid = |why: &str| Err((400, format!("Invalid Form Body: {why}")));
    let Some(rest) = line.strip_prefix("POST ").and_then(|rest| rest.strip_prefix(PATH)) else {
        return Err((404, format!("Unknown Webhook: {line}")));
    };
    let Some(query) = rest.strip_prefix(TOKEN) else { return Err((401, "Invalid Webhook Token".to_owned())) };
    if !query.starts_with("?wait=true ") {
        return invalid("it does not wait for the message to be there");
    }
    let Ok(message) = serde_json::from_slice::<Value>(body) else { return invalid("it is no JSON") };
    // In UTF-16 units, the narrowest way of counting.
    let units = |value: &Value| value.as_str().unwrap_or_default().encode_utf16().count();
    let embeds = message["embeds"].as_array().cloned().unwrap_or_default();
    if units(&message["content"]) > 2_000 || embeds.len() > 10 {
        return invalid("content or embeds");
    }
    if message["content"].as_str().unwrap_or_default().trim().is_empty() && embeds.is_empty() {
        return invalid("Cannot send an empty message");
    }
    let mut total = 0;
    for embed in &embeds {
        let fields = embed["fields"].as_array().cloned().unwrap_or_default();
        let of_fields = |key: &str| fields.iter().map(|field| units(&field[key])).max().unwrap_or(0);
        let (title, description, footer) =
            (units(&embed["title"]), units(&embed["description"]), units(&embed["footer"]["text"]));
        if title > 256 || description > 4_096 || footer > 2_048 || fields.len() > 25 {
            return invalid("embeds");
        }
        if of_fields("name") > 256 || of_fields("value") > 1_024 {
            return invalid("embeds.fields");
        }
        total += title + description + footer;
        total += fields.iter().map(|field| units(&field["name"]) + units(&field["value"])).sum::<usize>();
    }
    if total > 6_000 {
        return invalid("Embed size exceeds maximum size of 6000");
    }
    if message["allowed_mentions"]["parse"] != json!([]) {
        return invalid("it could ping somebody");
    }
    Ok(message)
}
