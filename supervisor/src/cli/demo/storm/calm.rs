//! After the storm: the providers are well again, a person says so and resumes what was aborted, and every job completes.
//!
//! All of it goes the ways that a person would go: the providers are reset, each end is resumed by its own token. That no
//! finished step was repeated is read from the providers' own records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use ukai_protocol::command::command;
use ukai_protocol::control::{JobRow, Request, Response, Selection};
use ukai_protocol::disk;
use ukai_protocol::job::JobStatus;

use super::arrivals::WELL;
use super::{FIRST, SECOND};
use crate::cli::client::{Client, unexpected};
use crate::cli::context::Context;
use crate::cli::demo::provider::Provider;
use crate::cli::demo::{GONE, hosted, stopped};
use crate::cli::failure::{FAILED, Failure};
use crate::cli::{Output, attention, offline, print, resume};
use crate::config::load;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Sixteen short jobs at a provider that answers at once.
const STORY_MAX: Duration = Duration::from_secs(60);
/// A few dozen lines of some 200 bytes.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// `records`: of the storm's providers.
pub(super) async fn calm(mut context: Context, records: &[PathBuf]) -> Result<u8, Failure> {
    // What the next start shows, whatever was typed.
    attention::one_line(&context).await;
    let root = context.state.root().to_owned();
    let first = Provider::start(&root, "first.well", include_str!("well.toml")).await?;
    let second = Provider::start(&root, "second.well", include_str!("well.toml")).await?;
    let records: Vec<PathBuf> = records.iter().cloned().chain([first.record.clone(), second.record.clone()]).collect();
    context.loaded = load::load(Some(&super::configure(&root, &first, &second)?))?;
    let resumed = hosted(context.settings()?, play(&context)).await?;
    drop((first, second));
    let Some((resumed, _)) = resumed else { return Ok(stopped(&context)) };
    let rows = offline::rows(&context.state)?;
    let answered = answered(&records)?;
    let wrong = wrong(&rows, &answered);
    tell(&context, resumed, &rows, answered.len(), &wrong);
    Ok(if wrong.is_empty() { 0 } else { FAILED })
}

/// How many were resumed. Returns when all have ended.
async fn play(context: &Context) -> Result<usize, Failure> {
    let mut client = Client::connect_or_say(context, GONE).await?;
    let ids = [FIRST, SECOND].map(|(id, _)| id.to_owned()).to_vec();
    match client.put(&Request::ResetProviders { ids, forget_wait: true }).await? {
        Response::Providers { .. } => print::note("the providers are well again, and a person says so"),
        other => return Err(unexpected(&other)),
    }
    let jobs = resume::all_aborted(context).await?;
    let resumed = jobs.len();
    match client.put(&Request::Resume { jobs }).await? {
        Response::Resumed { ids } => print::note(&format!("{} aborted jobs are resumed, each by its token", ids.len())),
        other => return Err(unexpected(&other)),
    }
    let since = Instant::now();
    loop {
        match client.put(&Request::List { jobs: Selection::All }).await? {
            Response::Jobs { rows, .. } if rows.iter().all(|row| row.status.is_ended()) => return Ok(resumed),
            Response::Jobs { .. } if since.elapsed() < STORY_MAX => tokio::time::sleep(LOOK_EVERY).await,
            Response::Jobs { .. } => return Ok(resumed),
            other => return Err(unexpected(&other)),
        }
    }
}

#[derive(Deserialize)]
struct Line {
    prompt: Option<String>,
    step: Option<u64>,
    status: Option<u16>,
}

/// How often each step of each prompt was answered, by whomever.
fn answered(records: &[PathBuf]) -> Result<BTreeMap<(String, u64), usize>, Failure> {
    let mut answered = BTreeMap::new();
    for record in records {
        for line in lines(record)? {
            if line.status == Some(WELL) {
                *answered.entry((line.prompt.unwrap_or_default(), line.step.unwrap_or_default())).or_default() += 1;
            }
        }
    }
    Ok(answered)
}

fn lines(record: &Path) -> Result<Vec<Line>, Failure> {
    let failed = |why: String| Failure::failed(format!("reading who came, {}: {why}", record.display()));
    let bytes = match disk::read_bounded(record, RECORD_BYTES_MAX) {
        Ok(bytes) => bytes,
        // Nobody came to it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error.to_string())),
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| failed(error.to_string()))).collect()
}

fn wrong(rows: &[JobRow], answered: &BTreeMap<(String, u64), usize>) -> Vec<String> {
    let left = rows.iter().filter(|row| row.status != JobStatus::Completed);
    let mut wrong: Vec<_> = left.map(|row| format!("{} is {}", row.name, row.status)).collect();
    let again = answered.iter().filter(|(_, times)| **times > 1);
    wrong.extend(again.map(|((prompt, step), times)| format!("step {step} of `{prompt}` was answered {times} ×")));
    let steps: u64 = rows.iter().map(|row| row.used.steps).sum();
    if steps != answered.len() as u64 {
        wrong.push(format!("{steps} steps stand in the logs, and {} were answered", answered.len()));
    }
    wrong
}

fn tell(context: &Context, resumed: usize, rows: &[JobRow], answered: usize, wrong: &[String]) {
    let completed = rows.iter().filter(|row| row.status == JobStatus::Completed).count();
    if context.output != Output::Text {
        let line = json!({"type": "calm_result", "as_told": wrong.is_empty(), "wrong": wrong, "resumed": resumed,
            "completed": completed, "jobs": rows.len(), "steps": answered});
        print::out(&format!("{line}\n"));
        return;
    }
    let mut text = format!(
        "\nAfter the storm: {resumed} resumed, {completed} of {} completed; {answered} steps were answered, {}\n",
        rows.len(),
        if wrong.is_empty() { "each of them once" } else { "and not all as they should:" }
    );
    wrong.iter().for_each(|why| text.push_str(&format!("  {why}\n")));
    let ack = command(&["ack", "--all"]);
    text.push_str(&format!("that they were aborted is shown until you have seen it: {ack}\n"));
    print::out(&text);
}
