//! `ukai resume JOB…|BATCH|--all`: goes on with jobs that ended without having completed, in two stages (spec §10).
//!
//! First it is shown why each ended and what it has consumed; nothing has happened then. At a terminal a person is asked;
//! elsewhere nothing runs unless the token of each of these ends is given: it stands in the job's result and in `show`.

use std::collections::{BTreeSet, HashMap};

use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::{JobResult, JobRow, Request, Response, Selection, ToResume};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, JobStatus, Limits, Outcome};

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::{Failure, USAGE};
use super::{confirm, demo, offline, print, run, table, words};
use crate::config::limits::LimitSet;
use crate::config::load;
use crate::resume::{self, Refused};
use crate::store::spec_file::{self, Loaded};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids, names or unique beginnings of ids, of jobs or batches
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Every job that was aborted
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
    /// Go on with another ceiling than before, for instance steps=50; what was consumed counts
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    /// Without a question: the token of the end that is meant, of each job that is resumed (`ukai show JOB` tells it)
    #[arg(long = "yes-resume", value_name = "TOKEN", value_delimiter = ',')]
    tokens: Vec<String>,
}

/// One that was looked at.
struct Candidate {
    row: JobRow,
    result: JobResult,
    /// With which it ran; None: what it is cannot be read.
    limits: Result<Limits, String>,
}

pub(crate) async fn resume(context: &Context, args: Args) -> Result<u8, Failure> {
    if args.jobs.is_empty() && !args.all {
        return Err(Failure::usage(format!(
            "no job is named; name jobs or batches by their ids or names ({}), or type {} for every job that was aborted; \
             {} lists the jobs that there are",
            quoted(&["resume", "ID"]),
            quoted(&["resume", "--all"]),
            quoted(&["ls"])
        )));
    }
    let mut raise = LimitSet::default();
    for limit in &args.limits {
        raise.set(limit).map_err(|why| Failure::usage(format!("--limit: {why}")))?;
    }
    let candidates = candidates(context, &args).await?;
    if candidates.is_empty() {
        print::note("ukai: there is nothing to resume: no job is aborted");
        return Ok(0);
    }
    let mut words = Vec::with_capacity(candidates.len());
    let mut refused = 0;
    for candidate in &candidates {
        print::note(&shown(candidate));
        match judged(candidate, &raise) {
            Ok(word) => words.push(word),
            Err(why) => {
                refused += 1;
                print::note(&format!("    cannot be resumed: {why}"));
            }
        }
    }
    if refused > 0 {
        let count = candidates.len();
        return Err(Failure::usage(format!(
            "{refused} of {count} cannot be resumed, see above; nothing was resumed: mend that, or name the others by their ids"
        )));
    }
    if Client::connect(context).await?.is_none() {
        if demo::is_of_one(&context.state) {
            return Err(Failure::usage(format!("nothing was resumed: {}", demo::goes_on())));
        }
        // Before anybody is asked: without a provider it would come to nothing.
        load::providers(&context.loaded.config, &mut Vec::new())?;
    }
    if args.tokens.is_empty() {
        match confirm::confirm(&question(words.len()))? {
            confirm::Answer::Yes => {}
            confirm::Answer::No => {
                print::note("ukai: nothing was resumed");
                return Ok(0);
            }
            confirm::Answer::NobodyToAsk => {
                return Err(Failure::usage(format!(
                    "resuming needs a person's word, and this is no terminal; nothing was resumed: give the token of each \
                     (--yes-resume TOKEN; {} tells it)",
                    quoted(&["show", "JOB"])
                )));
            }
        }
    } else {
        tokens(&words, &args.tokens)?;
    }
    let resumes = candidates.iter().map(|candidate| (candidate.row.id.clone(), candidate.result.resumes)).collect();
    run::played(context, async |client: Client| {
        let ids: Vec<JobId> = words.iter().map(|word| word.job.clone()).collect();
        match client.ask(&Request::Resume { jobs: words }).await? {
            Response::Resumed { .. } => Ok(run::Begun { jobs: ids, resumes, ..run::Begun::default() }),
            other => Err(unexpected(&other)),
        }
    })
    .await
}

fn question(jobs: usize) -> String {
    if jobs == 1 { "Resume it?".to_owned() } else { format!("Resume these {jobs} jobs?") }
}

/// What `--all` means, with the limits that they had. For the demo, which has no other person than itself.
pub(super) async fn all_aborted(context: &Context) -> Result<Vec<ToResume>, Failure> {
    let args = Args { jobs: Vec::new(), all: true, limits: Vec::new(), tokens: Vec::new() };
    let candidates = candidates(context, &args).await?;
    let judged = candidates.iter().map(|candidate| judged(candidate, &LimitSet::default()));
    judged.collect::<Result<_, _>>().map_err(Failure::failed)
}

/// Those that are meant. Of all, and of a batch, only such as ended without having completed.
async fn candidates(context: &Context, args: &Args) -> Result<Vec<Candidate>, Failure> {
    let state = &context.state;
    let selection = if args.all { Selection::All } else { Selection::These(args.jobs.clone()) };
    let rows = match Client::connect(context).await? {
        Some(client) => client.rows(selection).await?.0,
        None if args.all => offline::rows(state)?,
        None => offline::select(state, offline::rows(state)?, &args.jobs)?,
    };
    let named: BTreeSet<_> =
        rows.iter().filter(|row| args.jobs.iter().any(|typed| names(row, typed))).map(|row| row.id.clone()).collect();
    let replaced = replaced(&rows);
    let mut candidates = Vec::new();
    for row in rows {
        let wanted = match row.status {
            _ if named.contains(&row.id) => true,
            // It needs another word first, and says so where it is named.
            JobStatus::Aborted if args.all => !is_quarantined(&row) && !replaced.contains(&row.id),
            JobStatus::Aborted => true,
            // A list that was stopped goes on; but what a person ended is not meant by "all".
            JobStatus::Cancelled => !args.all,
            _ => false,
        };
        if !wanted {
            continue;
        }
        let result = match Client::connect(context).await? {
            Some(client) => client.shown(row.id.as_str()).await?.1,
            None => offline::result(state, &row.id),
        };
        let limits = result.limits.map_or_else(|| submitted_with(context, &row.id), Ok);
        candidates.push(Candidate { row, result, limits });
    }
    Ok(candidates)
}

/// Those in whose place `--retry` has made another job of the same line; `rows`: in the order of submission.
fn replaced(rows: &[JobRow]) -> BTreeSet<JobId> {
    let mut latest = HashMap::new();
    let line = |row: &JobRow| row.batch.as_ref().map(|place| (place.id.clone(), place.line.key.clone()));
    rows.iter().filter_map(|row| latest.insert(line(row)?, row.id.clone())).collect()
}

/// Whether the job itself is meant by what was typed, and not a batch that it is of.
fn names(row: &JobRow, typed: &str) -> bool {
    row.id.as_str().starts_with(typed) || row.name == typed
}

fn is_quarantined(row: &JobRow) -> bool {
    matches!(&row.outcome, Some(Outcome::Ended(cause)) if cause.kind == CauseKind::Quarantined)
}

fn submitted_with(context: &Context, id: &JobId) -> Result<Limits, String> {
    let path = context.state.run(id).spec();
    match spec_file::load(&path) {
        Ok(Loaded::Sound(spec)) => Ok(spec.limits),
        Ok(Loaded::Missing) => Err(format!("{} is not there", path.display())),
        Ok(Loaded::Bad(why)) => Err(format!("reading {}: {why}", path.display())),
        Err(error) => Err(format!("reading {}: {error}", path.display())),
    }
}

fn judged(candidate: &Candidate, raise: &LimitSet) -> Result<ToResume, String> {
    let Candidate { row, result, limits } = candidate;
    if row.status == JobStatus::Paused {
        return Err(format!("it is paused, and has not ended; type: {}", command(&["unpause", row.id.as_str()])));
    }
    let outcome = row.outcome.as_ref();
    // Whether there is anything to resume is said before what it ran with.
    let limits = limits.clone().or_else(|why| match outcome {
        Some(Outcome::Ended(cause)) if cause.kind != CauseKind::Quarantined => Err(why),
        _ => Ok(Limits::default()),
    })?;
    let after = resume::raised(&row.id, outcome, &row.used, &limits, raise).map_err(|why| why.to_string())?;
    let token = result.resume_token.clone().ok_or_else(|| Refused::Open.to_string())?;
    Ok(ToResume { job: row.id.clone(), token, limits: after })
}

/// Why it ended, and what is consumed.
fn shown(candidate: &Candidate) -> String {
    let Candidate { row, limits, .. } = candidate;
    let why = match &row.outcome {
        Some(Outcome::Ended(cause)) => format!("{}: {}", words::cause(cause.kind), table::why(row)),
        _ => table::why(row),
    };
    let why = if why.is_empty() { why } else { format!("; {}", print::brief(&why, usize::MAX)) };
    let used = limits.as_ref().map(|limits| format!("\n    used: {}", resume::consumed(&row.used, limits)));
    format!(
        "{} ({}) {}{why}{}",
        row.id,
        print::brief(&row.name, table::NAME_CHARS_MAX),
        row.status,
        used.unwrap_or_default()
    )
}

/// One for each, and none besides: a token that is no job's was meant for something.
fn tokens(words: &[ToResume], given: &[String]) -> Result<(), Failure> {
    let fail = |text: String| Err(Failure { code: USAGE, text });
    if let Some(word) = words.iter().find(|word| !given.contains(&word.token)) {
        return fail(format!(
            "{}: its token is not among those given; nothing was resumed: {} tells it",
            word.job,
            quoted(&["show", word.job.as_str()])
        ));
    }
    if let Some(stray) = given.iter().find(|token| !words.iter().any(|word| word.token == **token)) {
        return fail(format!(
            "the token {stray} is of none of these ends: that job has gone on since, or is not named; nothing was resumed"
        ));
    }
    Ok(())
}
