//! `ukai show JOB`: where it stands, why, and what it said.

use std::path::Path;

use ukai_protocol::command::command;
use ukai_protocol::control::{JobResult, JobRow};
use ukai_protocol::event::{Change, FileChange};
use ukai_protocol::job::{JobStatus, Outcome};

use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::follow::question;
use super::records::records;
use super::{Output, demo, json, offline, print, progress, table, words, worktree};
use crate::allow;
use crate::resume;
use crate::store::spec_file::{self, Loaded};
use crate::worktree::record::Record;

const CHANGED_SHOWN_MAX: usize = 10;
const DENIED_SHOWN_MAX: usize = 20;
const TOOL_CHARS_MAX: usize = 64;
const PROMPT_CHARS_MAX: usize = 200;
const NOTICE_CHARS_MAX: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id, its name, or a unique beginning of its id
    job: String,
}

pub(crate) async fn show(context: &Context, args: &Args) -> Result<u8, Failure> {
    let (row, result) = match Client::connect(context).await? {
        Some(client) => client.shown(&args.job).await?,
        None => offline::shown(&context.state, &args.job)?,
    };
    let worktree = worktree::of(&context.state, &row.id);
    let of_json = worktree.as_ref().map(worktree::shown);
    match context.output {
        Output::Json => {
            print::out(&format!("{}\n", json::shown(&row, &result, of_json.as_ref())));
        }
        Output::Text => {
            print::out(&text(context, &row, &result, worktree.as_ref()));
        }
        Output::StreamJson => {
            let each = |happened: &_| print::out(&format!("{}\n", json::event(happened)));
            records(context, std::slice::from_ref(&row.id), each).await?;
            print::out(&format!("{}\n", json::result(&row, &result, of_json.as_ref())));
        }
    }
    Ok(0)
}

fn text(context: &Context, row: &JobRow, result: &JobResult, worktree: Option<&Record>) -> String {
    let used = &row.used;
    // The link tells how jobs stand, not what they are; that stands beside their logs.
    let (spec, no_spec) = match spec_file::load(&context.state.run(&row.id).spec()) {
        Ok(Loaded::Sound(spec)) => (Some(spec), None),
        Ok(Loaded::Missing) => (None, Some("it is not there".to_owned())),
        Ok(Loaded::Bad(why)) => (None, Some(why)),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut lines = vec![
        ["job".to_owned(), row.id.to_string()],
        ["name".to_owned(), print::brief(&row.name, 64)],
        ["status".to_owned(), row.status.to_string()],
    ];
    let mut line = |key: &str, value: String| {
        if !value.is_empty() {
            lines.push([key.to_owned(), print::clean(&value)]);
        }
    };
    if let Some(Outcome::Ended(cause)) = &row.outcome {
        line("reason", format!("{} ({}, {})", words::cause(cause.kind), cause.kind.reason(), cause.kind));
        line("detail", cause.detail.clone());
    } else {
        line("why", table::why(row));
    }
    for ask in &row.asks {
        line("asks", question::whole(&row.id, ask).trim_start().to_owned());
    }
    if row.status == JobStatus::Paused {
        line("goes on", format!("type: {}", command(&["unpause", row.id.as_str()])));
    }
    if let Some(place) = &row.batch {
        line("batch", format!("{} ({}), line {}", place.id, place.name, place.line.number));
    }
    if let Some(why) = &result.attention {
        line("attention", format!("{why}; when seen: {}", command(&["ack", row.id.as_str()])));
    }
    for notice in &result.notices {
        line("note", print::brief(notice, NOTICE_CHARS_MAX));
    }
    let workdir = worktree.map(|worktree| worktree.workdir.clone());
    let workdir = workdir.or_else(|| spec.as_ref().map(|spec| spec.workdir.clone()));
    let limits = result.limits.or_else(|| spec.as_ref().map(|spec| spec.limits));
    if let Some(spec) = spec {
        line("workdir", spec.workdir.display().to_string());
        line("prompt", print::brief(&spec.prompt, PROMPT_CHARS_MAX));
        line("model", spec.model.unwrap_or_default());
    }
    for (key, value) in worktree.map(|record| worktree::lines(record, row.status.is_ended())).unwrap_or_default() {
        line(key, value);
    }
    line("job.json", no_spec.map(|why| format!("cannot be used: {why}")).unwrap_or_default());
    line("provider", row.provider.clone().unwrap_or_default());
    line("steps", used.steps.to_string());
    line("tool calls", used.tool_calls.to_string());
    line("tokens", format!("{} in, {} out", used.input_tokens, used.output_tokens));
    line("cost", if used.cost_usd > 0.0 { format!("{:.4} USD", used.cost_usd) } else { String::new() });
    line("time", table::time(result.duration_ms));
    line("restarts", row.restarts.to_string());
    if let Some(token) = &result.resume_token {
        let raise = limits.map(|limits| resume::to_raise(row.outcome.as_ref(), used, &limits)).unwrap_or_default();
        let words = ["resume", row.id.as_str()].into_iter().chain(raise.iter().flat_map(|limit| ["--limit", limit]));
        let resume = command(&words.collect::<Vec<_>>());
        line(
            "resume",
            match demo::is_of_one(&context.state) {
                true => format!("not here: {}", demo::goes_on()),
                false => format!("{resume}; where nobody can be asked: --yes-resume {token}"),
            },
        );
    }
    line("log", context.state.run(&row.id).log().display().to_string());
    for denied in result.denied.iter().take(DENIED_SHOWN_MAX) {
        let (tool, source) = (print::brief(&denied.tool, TOOL_CHARS_MAX), words::source(&denied.source));
        let flag = allow::flag(denied, workdir.as_deref());
        let flag = flag.map(|flag| format!("; run it with {flag}")).unwrap_or_default();
        line("denied", format!("{tool} {}: {source}{flag}", progress::argument(&denied.input)));
    }
    let hidden = result.denied.len().saturating_sub(DENIED_SHOWN_MAX);
    line("denied", if hidden > 0 { format!("and {hidden} more") } else { String::new() });
    for FileChange { path, change } in result.files_changed.iter().take(CHANGED_SHOWN_MAX) {
        let path = workdir
            .as_deref()
            .and_then(|workdir| Path::new(path).strip_prefix(workdir).ok())
            .unwrap_or(Path::new(path));
        let change = match change {
            Change::Created => "created",
            Change::Modified => "modified",
        };
        line(change, path.display().to_string());
    }
    let hidden = result.files_changed.len().saturating_sub(CHANGED_SHOWN_MAX);
    line(
        "files",
        if hidden > 0 { format!("and {hidden} more were changed; --output json names all") } else { String::new() },
    );
    let said = print::clean(result.text.trim_end());
    let said = if said.is_empty() { said } else { format!("\n{said}\n") };
    table::columns(&lines) + &said
}
