//! `ukai submit JOB…`: queues at the running server and returns. All jobs or none.

use std::path::{Path, PathBuf};

use ukai_protocol::codec;
use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::{Again, Joined, NewJob, Request, Response, SUBMIT_JOBS_MAX, ToBatch};
use ukai_protocol::frame::FRAME_BYTES_MAX;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{Output, job, policy, print};
use crate::job_file;

/// Of one part of a submission: what is around the jobs has room beside them.
const PART_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job files (.toml, .yaml, .json)
    #[arg(value_name = "JOB", required_unless_present_any = ["prompt", "named"])]
    files: Vec<PathBuf>,
    /// The same, as `ukai run` takes them
    #[arg(long = "file", value_name = "JOB", num_args = 1.., conflicts_with = "prompt")]
    named: Vec<PathBuf>,
    /// A job without a file; `-` reads the prompt from stdin
    #[arg(long, value_name = "TEXT", conflicts_with = "files", allow_hyphen_values = true)]
    prompt: Option<String>,
    #[command(flatten)]
    each: Each,
    #[command(flatten)]
    flags: job::Flags,
}

/// A list that jobs are made of.
#[derive(Debug, clap::Args)]
pub(crate) struct Each {
    /// One job for each line of this list (.txt, .csv, .jsonl); {{field}} in the job file stands for what the line says
    #[arg(long, value_name = "ITEMS")]
    each: Option<PathBuf>,
    /// Make jobs also of lines that have had theirs
    #[arg(long, requires = "each")]
    again: bool,
    /// Make jobs again of lines whose job was cancelled or aborted
    #[arg(long, requires = "each", conflicts_with = "again")]
    retry: bool,
}

/// What is to be queued.
pub(crate) struct Submission {
    jobs: Vec<NewJob>,
    batch: Option<ToBatch>,
}

/// What was queued, and what was known.
pub(crate) struct Queued {
    pub ids: Vec<JobId>,
    pub batch: Option<Joined>,
}

pub(crate) async fn submit(context: &Context, args: Args) -> Result<u8, Failure> {
    // Said before a prompt is typed; connected again after it, since a connection that asks nothing is closed.
    let no_server = format!(
        "start one with {} (in another terminal, or as a service), or run the job at once with {}",
        quoted(&["serve"]),
        quoted(&["run"])
    );
    drop(Client::connect_or_say(context, &no_server).await?);
    let files = [args.files, args.named].concat();
    let submission = read(context, args.prompt.as_deref(), &files, &args.each, &args.flags).await?;
    let Queued { ids, batch } = submission.send(Client::connect_or_say(context, &no_server).await?).await?;
    let batch_id = batch.as_ref().map(|joined| joined.id.as_str());
    print::out(&match context.output {
        Output::Text => ids.iter().map(|id| format!("{id}\n")).collect::<String>(),
        Output::Json | Output::StreamJson => {
            ids.iter().map(|id| format!("{}\n", serde_json::json!({ "job_id": id, "batch": batch_id }))).collect()
        }
    });
    if let Some(joined) = &batch {
        print::note(&format!("ukai: {}; type: {}", said(joined, ids.len()), command(&["attach", joined.id.as_str()])));
    }
    Ok(0)
}

/// All of it, or what is wrong with it. What a person should know is on stderr already.
pub(crate) async fn read(
    context: &Context,
    prompt: Option<&str>,
    files: &[PathBuf],
    each: &Each,
    flags: &job::Flags,
) -> Result<Submission, Failure> {
    policy::check_flags(context, flags).await?;
    let mut notes = Vec::new();
    let again = match (each.again, each.retry) {
        (true, _) => Again::Always,
        (false, true) => Again::Unfinished,
        (false, false) => Again::Never,
    };
    let submission = match (prompt, &each.each) {
        (Some(_), Some(list)) => Err(Failure::usage(format!(
            "the list {} fills job files, and no prompt that is typed; write `prompt = \"…\"` into a file and name that",
            list.display()
        ))),
        (Some(prompt), None) => {
            job::from_prompt(context, prompt, flags, &mut notes).map(|spec| Submission::of(vec![spec]))
        }
        (None, None) => job::from_files(context, files, flags, &mut notes).map(Submission::of),
        (None, Some(list)) => job::from_list(context, files, list, flags, &mut notes).map(|jobs| Submission {
            jobs: jobs.into_iter().map(|(spec, line)| NewJob { spec, line: Some(line) }).collect(),
            batch: Some(ToBatch { name: batch_name(files), again }),
        }),
    };
    if let Ok(submission) = &submission {
        notes.extend(policy::notes(context, submission.jobs.iter().map(|job| &job.spec)).await?);
    }
    for note in notes {
        print::note(&format!("ukai: {note}"));
    }
    submission
}

/// A batch is called after its job file.
fn batch_name(files: &[PathBuf]) -> String {
    let stem = files.first().and_then(|file| Path::new(file).file_stem()).map(|stem| stem.to_string_lossy());
    let stem = stem.unwrap_or_default();
    if job_file::check_name(&stem).is_ok() { stem.into_owned() } else { job_file::name_from_prompt(&stem) }
}

/// What became of a list.
pub(crate) fn said(joined: &Joined, added: usize) -> String {
    let Joined { id, name, jobs } = joined;
    let known = match jobs.len() - added.min(jobs.len()) {
        0 => String::new(),
        known => format!(", {known} of its lines had theirs already"),
    };
    let s = if added == 1 { "" } else { "s" };
    format!("batch {id} ({name}): {added} job{s} queued{known}")
}

impl Submission {
    pub fn of(specs: Vec<JobSpec>) -> Self {
        Submission { jobs: specs.into_iter().map(|spec| NewJob { spec, line: None }).collect(), batch: None }
    }

    pub async fn send(self, mut client: Client) -> Result<Queued, Failure> {
        let mut parts = parts(self.jobs)?.into_iter().peekable();
        while let Some(jobs) = parts.next() {
            let more = parts.peek().is_some();
            match client.put(&Request::Submit { jobs, batch: self.batch.clone(), more }).await? {
                Response::Taken if more => {}
                Response::Submitted { ids, batch, notes } => {
                    notes.iter().for_each(|note| print::note(&format!("ukai: {note}")));
                    return Ok(Queued { ids, batch });
                }
                other => return Err(unexpected(&other)),
            }
        }
        Err(Failure::usage("there is nothing to queue: no job was given"))
    }
}

/// Each fits into a frame.
fn parts(jobs: Vec<NewJob>) -> Result<Vec<Vec<NewJob>>, Failure> {
    let mut parts = Vec::new();
    let (mut part, mut part_bytes) = (Vec::new(), 0);
    for job in jobs {
        let bytes = codec::encode(&job).map(|bytes| bytes.len()).map_err(|error| {
            Failure::usage(format!("sending the job {}: {error}; make its prompt or its policy shorter", job.spec.name))
        })?;
        if !part.is_empty() && (part.len() >= SUBMIT_JOBS_MAX || part_bytes + bytes > PART_BYTES_MAX) {
            parts.push(std::mem::take(&mut part));
            part_bytes = 0;
        }
        part_bytes += bytes;
        part.push(job);
    }
    parts.push(part);
    Ok(parts)
}
