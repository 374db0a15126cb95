//! The floor: the same conversation in a bare loop.
//!
//! One process, one thread, one kept connection of the same HTTP client, the same stream of events parsed, the same tool
//! functions called directly. No records, no actors, no permission asked before a call, no lease, no process of its own.
//! The client is built beforehand. Nothing that does the job could be much cheaper; what ukai costs is what it is above.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::Client;
use serde::Serialize;
use serde_json::{Value, json};
use sse_stream::SseByteStream;
use tokio::runtime::Runtime;
use ukai_protocol::json::Json;
use ukai_tests::home::Home;
use ukai_worker::context::project;
use ukai_worker::tool::{self, registry};

use crate::lab::{self, Job};
use crate::patience::{self, PATIENCE};
use crate::procfs;

/// Everything that a loop needs.
pub struct Floor {
    runtime: Runtime,
    bare: Bare,
}

#[derive(Clone)]
struct Bare {
    client: Client,
    url: String,
    system: String,
    tools: Value,
    context: tool::Context,
}

/// A conversation that was had: when it began, when each reply had come, and what was sent last.
pub struct Had {
    pub begun: Instant,
    pub replied: Vec<Instant>,
    pub ended: Instant,
    /// The bodies of the requests that were asked for, by step.
    pub bodies: Vec<Vec<u8>>,
}

impl Floor {
    #[must_use]
    pub fn new(home: &Home, url: &str) -> Floor {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let context = lab::tool_context(home);
        let system = project::system_prompt(&lab::spec(&home.work(), Job::Read), &context.permission);
        let tools = registry::definitions(|_| false).into_iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        });
        let url = format!("{url}/v1/chat/completions");
        Floor { runtime, bare: Bare { client: client(), url, system, tools: tools.collect(), context } }
    }

    /// One conversation; the requests at the steps named are kept.
    #[must_use]
    pub fn run(&self, job: Job, keep: &[u64]) -> Had {
        self.runtime.block_on(self.bare.run(job, keep))
    }

    /// So many conversations at once, on as many threads as there are processors.
    #[must_use]
    pub fn crowd(&self, job: Job, count: usize) -> Duration {
        let threads = procfs::cores().min(count);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let share = count / threads + usize::from(thread < count % threads);
                let bare = Bare { client: client(), ..self.bare.clone() };
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let runs = (0..share).map(|_| bare.run(job, &[]));
                    runtime.expect("a runtime").block_on(futures_util::future::join_all(runs));
                });
            }
        });
        begun.elapsed()
    }
}

/// As the worker builds its own, but for the roots, which `http` does not look at.
fn client() -> Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions that ring has")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().tcp_nodelay(true).build().expect("a client")
}

/// A command with nothing around it.
pub fn bare(command: &str) -> String {
    let done = std::process::Command::new("/bin/sh").args(["-c", command]).output().expect("sh starts");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'static str,
    stream: bool,
    stream_options: StreamOptions,
    max_tokens: u64,
    tools: &'a Value,
    messages: &'a [Value],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// What came of one reply.
#[derive(Default)]
struct Reply {
    text: String,
    id: String,
    tool: String,
    arguments: String,
}

impl Bare {
    async fn run(&self, job: Job, keep: &[u64]) -> Had {
        let begun = Instant::now();
        let mut messages = vec![
            json!({ "role": "system", "content": self.system }),
            json!({ "role": "user", "content": job.prompt() }),
        ];
        let (mut replied, mut bodies) = (Vec::new(), Vec::new());
        for step in 1.. {
            let body = self.body(&messages);
            if keep.contains(&step) {
                bodies.push(body.clone());
            }
            let reply = patience::within("a reply to the floor", PATIENCE, self.ask(body)).await;
            replied.push(Instant::now());
            if reply.tool.is_empty() {
                break;
            }
            let input: Json = serde_json::from_str(&reply.arguments).expect("arguments");
            let output = match input.0.get("command").and_then(Value::as_str) {
                Some(command) => bare(command),
                None => tool::run(&reply.tool, &input, &self.context).output,
            };
            messages.push(json!({ "role": "assistant", "content": reply.text, "tool_calls": [
                { "id": reply.id, "type": "function",
                  "function": { "name": reply.tool, "arguments": reply.arguments } },
            ]}));
            messages.push(json!({ "role": "tool", "tool_call_id": reply.id, "content": output }));
        }
        Had { begun, replied, ended: Instant::now(), bodies }
    }

    fn body(&self, messages: &[Value]) -> Vec<u8> {
        let body = Body {
            model: "lab-1",
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens: 4096,
            tools: &self.tools,
            messages,
        };
        serde_json::to_vec(&body).expect("JSON")
    }

    async fn ask(&self, body: Vec<u8>) -> Reply {
        let request = self.client.post(&self.url).header("content-type", "application/json").body(body);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200, "the provider refuses the floor");
        let mut events = SseByteStream::new(response.bytes_stream());
        let mut reply = Reply::default();
        // To its end, so that the connection is kept.
        while let Some(event) = events.next().await {
            let Some(data) = event.expect("an event").data.filter(|data| data != "[DONE]") else { continue };
            let chunk: Value = serde_json::from_str(&data).expect("a chunk is JSON");
            let delta = &chunk["choices"][0]["delta"];
            reply.text.push_str(delta["content"].as_str().unwrap_or_default());
            let call = &delta["tool_calls"][0];
            reply.id.push_str(call["id"].as_str().unwrap_or_default());
            reply.tool.push_str(call["function"]["name"].as_str().unwrap_or_default());
            reply.arguments.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
        reply
    }
}
