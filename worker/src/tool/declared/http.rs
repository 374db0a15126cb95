//! A declared tool that is a server on this machine: `{"command": name, "params": args}` is posted to it, and what it answers is
//! the result. The worker asks by itself: a command of a job reaches no network.

use std::sync::Arc;
use std::time::Duration;

use ::http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use bytes::Bytes;
use tokio::runtime::Handle;
use ukai_protocol::declared::{Declared, Run};
use ukai_protocol::json::Json;

use crate::http::{Answer, Fault, Http, Post, TransportError};
use crate::tool::bash::{lines, shown};
use crate::tool::said::Said;
use crate::tool::{Context, Stopped};

/// A server on this machine accepts at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to such servers, for tools, which run on threads of their own.
#[derive(Clone)]
pub struct Posts {
    http: Arc<Http>,
    runtime: Handle,
}

impl Posts {
    /// Within the runtime that the worker lives in.
    #[must_use]
    pub fn new(http: Arc<Http>) -> Self {
        Posts { http, runtime: Handle::current() }
    }
}

/// Where these tools are asked, each port once: the worker may connect there.
#[must_use]
pub fn ports(tools: &[Declared]) -> Vec<u16> {
    let url = |tool: &Declared| match &tool.run {
        Run::Http(url) => url.parse::<::http::Uri>().ok(),
        Run::Command(_) => None,
    };
    let mut ports: Vec<u16> = tools.iter().filter_map(url).map(|url| url.port_u16().unwrap_or(HTTP_PORT)).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

const HTTP_PORT: u16 = 80;

/// How far it came.
enum Cut {
    Cancelled,
    TimedOut,
    Failed(TransportError),
}

pub(super) fn run(tool: &Declared, url: &str, input: &Json, context: &Context) -> Result<String, Stopped> {
    let name = &tool.name;
    let Some(posts) = &context.posts else {
        return Err(Stopped::Failed(format!("{name} was not run: this process asks no servers\n")));
    };
    let body = serde_json::json!({"command": name, "params": input.0}).to_string();
    let mut said = Said::new(context.sink(name));
    let exchange = async {
        let mut answer = ask(&posts.http, url, body).await?;
        let status = answer.status;
        while let Some(bytes) = answer.chunk().await? {
            said.push(&bytes);
        }
        Ok::<u16, TransportError>(status)
    };
    let ended = posts.runtime.block_on(async {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(Cut::Cancelled),
            ended = exchange => ended.map_err(Cut::Failed),
            () = tokio::time::sleep(Duration::from_millis(tool.timeout_ms)) => Err(Cut::TimedOut),
        }
    });
    match ended {
        Ok(200..=299) => Ok(shown(said)),
        Ok(status) => Err(Stopped::Failed(format!("{}[{url} answered {status}]\n", lines(said)))),
        Err(Cut::Cancelled) => Err(Stopped::Cancelled),
        Err(Cut::TimedOut) => Err(Stopped::Unknown(format!(
            "{}[outcome unknown: {url} has not answered within {} ms]\n",
            lines(said),
            tool.timeout_ms
        ))),
        Err(Cut::Failed(error)) if never_arrived(error.fault) => Err(Stopped::Failed(format!(
            "{name} was not run: asking {url}: {error}. A person has to start its server.\n"
        ))),
        Err(Cut::Failed(error)) => {
            Err(Stopped::Unknown(format!("{}[outcome unknown: asking {url}: {error}]\n", lines(said))))
        }
    }
}

async fn ask(http: &Http, url: &str, body: String) -> Result<Answer, TransportError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // On a connection that was kept, nobody could say whether a call has arrived that met its end.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    http.post(Post { url, headers, body: Bytes::from(body), connect_timeout: CONNECT_TIMEOUT }).await
}

fn never_arrived(fault: Fault) -> bool {
    match fault {
        Fault::Refused | Fault::Dns | Fault::Tls | Fault::ConnectTimeout | Fault::Invalid => true,
        Fault::Reset | Fault::Stale | Fault::Broken => false,
    }
}
