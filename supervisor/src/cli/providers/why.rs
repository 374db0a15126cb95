//! `ukai providers why JOB`: the server's last decision about it; of a job that no server remembers, what its log says.

use ukai_protocol::control::{Request, Response};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;

use crate::cli::client::{Client, unexpected};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::{Output, offline, print, table};

pub(super) async fn why(context: &Context, job: &str) -> Result<u8, Failure> {
    let (id, mut lines) = match Client::connect(context).await? {
        Some(client) => match client.ask(&Request::Why { job: job.to_owned() }).await? {
            Response::Why { job, lines } => (job, lines),
            other => return Err(unexpected(&other)),
        },
        None => (offline::job_meant(&context.state, job)?, Vec::new()),
    };
    if lines.is_empty() {
        lines = logged(context, &id)?;
    }
    let text = match context.output {
        Output::Text if lines.is_empty() => {
            print::note(&format!("ukai: {id} has not asked for a provider yet"));
            String::new()
        }
        Output::Text => lines.join("\n  ") + "\n",
        Output::Json | Output::StreamJson => format!("{}\n", serde_json::json!({ "job_id": id, "why": lines })),
    };
    print::out(&text);
    Ok(0)
}

/// What its log says of its last call: who was asked, how that ended, and how the job did.
fn logged(context: &Context, id: &JobId) -> Result<Vec<String>, Failure> {
    let (mut call, mut lines, mut end) = (0, Vec::new(), None);
    let mut line = |step: u64, line: String| {
        if step != call {
            (call, lines) = (step, vec![format!("call {step}, as its log tells it:")]);
        }
        lines.push(line);
    };
    offline::records(&context.state, id, |record| match record.event {
        Event::Leased { step, provider, model, .. } => line(step, format!("{}: asked {provider} ({model})", record.at)),
        Event::AttemptFailed { step, provider, detail, wait_ms, .. } => {
            let wait = wait_ms.map_or_else(String::new, |ms| format!("; it asked to wait for {}", table::time(ms)));
            line(step, format!("{}: {provider} did not answer it: {detail}{wait}", record.at));
        }
        Event::Replied { step, .. } => line(step, format!("{}: it was answered", record.at)),
        Event::Finished { outcome, .. } => end = Some(format!("{}: {}", record.at, ended(&outcome))),
        _ => {}
    })?;
    lines.extend(end);
    Ok(lines)
}

fn ended(outcome: &ukai_protocol::job::Outcome) -> String {
    match outcome {
        ukai_protocol::job::Outcome::Completed { .. } => "the job completed".to_owned(),
        ukai_protocol::job::Outcome::Ended(cause) => {
            format!("the job ended: {}({}): {}", cause.kind.reason(), cause.kind, cause.detail)
        }
    }
}
