//! `ukai submit JOB…`: queues at the running server and returns. All jobs or none.

use std::path::PathBuf;

use ukai_protocol::control::{NewJob, Request, Response, SUBMIT_JOBS_MAX};
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{Output, job, print};

const NO_SERVER: &str =
    "start one with `ukai serve` (in another terminal, or as a service), or run the job at once with `ukai run`";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job files (.toml, .yaml, .json)
    #[arg(value_name = "JOB", required_unless_present = "prompt")]
    files: Vec<PathBuf>,
    /// A job without a file; `-` reads the prompt from stdin
    #[arg(long, value_name = "TEXT", conflicts_with = "files", allow_hyphen_values = true)]
    prompt: Option<String>,
    #[command(flatten)]
    flags: job::Flags,
}

pub(crate) async fn submit(context: &Context, args: Args) -> Result<u8, Failure> {
    // Said before a prompt is typed; connected again after it, since a connection that asks nothing is closed.
    drop(Client::connect_or_say(context, NO_SERVER).await?);
    let mut notes = Vec::new();
    let jobs = match &args.prompt {
        Some(prompt) => job::from_prompt(context, prompt, &args.flags, &mut notes).map(|job| vec![job]),
        None => job::from_files(context, &args.files, &args.flags, &mut notes),
    };
    for note in notes {
        print::note(&format!("ukai: {note}"));
    }
    let ids = send(Client::connect_or_say(context, NO_SERVER).await?, jobs?).await?;
    match context.output {
        Output::Text => print::out(&ids.iter().map(|id| format!("{id}\n")).collect::<String>()),
        Output::Json | Output::StreamJson => {
            print::out(&ids.iter().map(|id| format!("{}\n", serde_json::json!({ "job_id": id }))).collect::<String>())
        }
    };
    Ok(0)
}

pub(crate) async fn send(client: Client, jobs: Vec<JobSpec>) -> Result<Vec<JobId>, Failure> {
    if jobs.len() > SUBMIT_JOBS_MAX {
        let count = jobs.len();
        return Err(Failure::usage(format!("{count} jobs at once are above {SUBMIT_JOBS_MAX}; submit them in parts")));
    }
    let jobs = jobs.into_iter().map(|spec| NewJob { spec, line: None }).collect();
    match client.ask(&Request::Submit { jobs, batch: None, more: false }).await? {
        Response::Submitted { ids, .. } => Ok(ids),
        other => Err(unexpected(&other)),
    }
}
