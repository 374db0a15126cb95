//! A person has looked at what was put aside, and wants to go on without it (spec §10).
//!
//! A run gets a new log: the records of the bad one as far as they verify, byte for byte, and after them what is known
//! of the rest, which is that it is not known. Calls that were open there may have run, so they are answered `outcome
//! unknown`, and the model is told that steps are missing. The bad files stay, renamed. Each step can be the last one:
//! until the new log stands in its place the run is refused as before, and from then on it is sound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ukai_protocol::command::quoted;
use ukai_protocol::disk;
use ukai_protocol::event::{Event, ToolStatus, Why};
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_protocol::message::Message;
use ukai_protocol::policy::Verdict;
use ukai_protocol::process_tree;
use ukai_protocol::run_state::{OpenCall, RunState, Stage};

use super::kept::{self, CLEARED};
use super::{free, put_aside};
use crate::store::error::StoreError;
use crate::store::event_log::{self, Record};
use crate::store::loader::{self, Opened, Verify};
use crate::store::lock::Lock;
use crate::store::log_file::{self, LogFile, ReadError};
use crate::store::paths::StateDir;
use crate::store::recovery::{Part, Replay};
use crate::store::routes;
use crate::store::spec_file;

/// A log is copied in pieces of this size, each synced: few syncs, and nothing to the memory.
const PIECE_BYTES: usize = 8 * 1024 * 1024;

const LOST: &str = "Records of this conversation were lost at this point. Steps may have been taken after what stands \
                    above, and tools may have run in them; their outcome is unknown. Look at how things stand before \
                    you change anything.";

#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    #[error("nothing of {name} lies in quarantine; {} lists what does", quoted(&["quarantine"]))]
    NotThere { name: String },
    /// What the job was allowed stands in no other file.
    #[error(
        "{job} cannot be cleared: its job.json {why}, and no log tells what the job was allowed; \
         put a sound copy in {}, or submit the job again",
        place.display()
    )]
    NoSpec { job: JobId, why: String, place: PathBuf },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What clearing came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The records that verified, and with which a run goes on. None: nothing had to be rebuilt.
    pub records: Option<u64>,
    /// Where the bad files are now.
    pub kept: Vec<PathBuf>,
}

/// Files that are of no run: whoever needs one begins without it.
pub fn clear_file(state: &StateDir, name: &str, _lock: &Lock) -> Result<Cleared, ClearError> {
    if name == routes::NAME {
        // Of an ukai that was never started since: what does not verify is put aside now.
        routes::recover(state)?;
    }
    let folder = state.quarantine();
    let bad = uncleared(&folder)?.into_iter().filter(|file| kept::original(file) == name);
    let kept = mark_cleared(&folder, bad)?;
    if kept.is_empty() {
        return Err(ClearError::NotThere { name: name.to_owned() });
    }
    Ok(Cleared { records: None, kept })
}

/// Blocks: it ends what may be left of the run's process, and reads its log.
pub fn clear_run(state: &StateDir, id: &JobId, _lock: &Lock) -> Result<Cleared, ClearError> {
    let folder = state.quarantine_of(id);
    // As a start would: what does not verify is put aside first, if none has done so.
    let records = match loader::open(state, id, Verify::All)? {
        Opened::Never | Opened::Run(_) if uncleared(&folder)?.is_empty() => {
            return Err(ClearError::NotThere { name: id.to_string() });
        }
        Opened::Never | Opened::Run(_) => None,
        Opened::Refused { .. } => Some(rebuild(state, id)?),
    };
    let kept = mark_cleared(&folder, uncleared(&folder)?.into_iter())?;
    Ok(Cleared { records, kept })
}

fn uncleared(folder: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = kept::names(folder)?;
    names.retain(|name| !kept::is_cleared(name) && folder.join(name).is_file());
    Ok(names)
}

fn mark_cleared(folder: &Path, names: impl Iterator<Item = String>) -> Result<Vec<PathBuf>, StoreError> {
    let mut kept = Vec::new();
    for name in names {
        let from = folder.join(&name);
        let full = || StoreError::io("clearing", &from, &std::io::Error::other("too many of that name are kept"));
        let to = free(folder, &format!("{name}{CLEARED}"))?.ok_or_else(full)?;
        disk::rename(&from, &to).map_err(|error| StoreError::io("clearing", &from, &error))?;
        kept.push(to);
    }
    Ok(kept)
}

/// Writes the new log, and says how many records it took over.
fn rebuild(state: &StateDir, id: &JobId) -> Result<u64, ClearError> {
    let run = state.run(id);
    let no_spec = |why: String| ClearError::NoSpec { job: id.clone(), why, place: run.root().to_owned() };
    let spec = match spec_file::load(&run.spec()).map_err(|error| StoreError::io("reading", &run.spec(), &error))? {
        spec_file::Loaded::Sound(spec) => spec,
        spec_file::Loaded::Missing => return Err(no_spec("is not there".to_owned())),
        spec_file::Loaded::Bad(why) => return Err(no_spec(format!("does not verify ({why})"))),
    };
    let bad = bad_log(&state.quarantine_of(id))?;
    let Replay { state: mut folded, bytes, .. } = match &bad {
        Some(bad) => believable(bad)?,
        None => Replay::default(),
    };
    let records = folded.progress.seq;
    if let Some(mark) = &folded.progress.process {
        // It can record nothing any more, and must not act beside the one that goes on.
        let ended = process_tree::end(mark, Duration::ZERO);
        ended.map_err(|error| StoreError::io("ending the process of", run.root(), &error))?;
    }
    let tail = tail(id, &mut folded, &spec)?;
    // A snapshot tells of what was lost; it is made again.
    if run.snapshot().symlink_metadata().is_ok() {
        put_aside(state, id, Part::Snapshot)?;
    }
    write(&run.log(), bad.as_deref(), bytes, &tail)?;
    Ok(records)
}

/// The one that was put aside last.
fn bad_log(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
    let logs = uncleared(folder)?.into_iter().filter(|name| kept::original(name) == "events.jsonl");
    let number = |name: &String| name.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(1u32);
    Ok(logs.max_by_key(number).map(|name| folder.join(name)))
}

fn believable(log: &Path) -> Result<Replay, StoreError> {
    let mut replay = Replay::default();
    match log_file::read(log, 0, None, |bytes| replay.feed(bytes)) {
        Ok(()) | Err(ReadError::Refused(_)) => Ok(replay),
        Err(ReadError::Io(error)) => Err(StoreError::io("reading", log, &error)),
    }
}

/// What follows the records that verify.
fn tail(id: &JobId, folded: &mut RunState, spec: &JobSpec) -> Result<Vec<u8>, StoreError> {
    let believed = folded.progress.seq;
    let mut lines = Vec::new();
    let mut add = |folded: &mut RunState, event: Event| {
        let illegal = |illegal| StoreError::Illegal { job: id.clone(), why: format!("clearing: {illegal}") };
        let record = Record { seq: folded.progress.seq + 1, at: loader::now(), event };
        let line = event_log::encode(&record);
        let line = line.map_err(|unwritable| StoreError::Unwritable { job: id.clone(), unwritable })?;
        folded.apply(&record.event).map_err(|error| illegal(error.to_string()))?;
        lines.extend_from_slice(line.as_bytes());
        Ok::<_, StoreError>(())
    };
    if believed == 0 {
        let JobSpec { name, prompt, priority, batch, .. } = spec.clone();
        add(folded, Event::Submitted { name, prompt, priority, batch })?;
    }
    if folded.progress.outcome.is_none() {
        for answer in answers(folded) {
            add(folded, answer)?;
        }
        // After a last word without calls nothing can have run but the end.
        if !matches!(folded.messages.last().map(|last| &**last), Some(Message::Assistant { .. })) {
            add(folded, Event::Injected { why: Why::Lost, text: LOST.to_owned() })?;
        }
        if folded.progress.process.is_some() {
            let how = "its event log was damaged and cleared".to_owned();
            let attempt = folded.progress.attempt;
            add(folded, Event::Interrupted { attempt, how, stderr_tail: String::new(), stopped: false })?;
        }
    }
    let why = match believed {
        0 => "its event log was damaged and cleared: no record of it verified, and it began anew".to_owned(),
        _ => format!("its event log was damaged and cleared: what it did after record {believed} is not known"),
    };
    add(folded, Event::Attention { why })?;
    Ok(lines)
}

/// Each call of the open turn is answered with what is known of it.
fn answers(folded: &RunState) -> Vec<Event> {
    let open = folded.turn.iter().flat_map(|turn| &turn.calls);
    let answer = |OpenCall { call, stage }: &OpenCall| {
        let (status, output) = match stage {
            Stage::Answered { .. } => return None,
            Stage::Judged { judgement, .. } if judgement.verdict == Verdict::Deny => {
                (ToolStatus::Denied, format!("denied: {}", judgement.why))
            }
            Stage::Asked | Stage::Put { .. } | Stage::Judged { .. } | Stage::Started { .. } => {
                (ToolStatus::Unknown, "outcome unknown".to_owned())
            }
        };
        let used = &folded.progress.used;
        Some(Event::ToolFinished {
            call: call.id.clone(),
            tool: call.tool.clone(),
            status,
            output,
            run_time_ms: used.run_time_ms,
            wall_ms: used.wall_ms,
            files_changed: Vec::new(),
            seen: Vec::new(),
        })
    };
    open.filter_map(answer).collect()
}

/// The new log, whole or not at all: `bytes` of the bad one and `tail`.
fn write(log: &Path, bad: Option<&Path>, bytes: u64, tail: &[u8]) -> Result<(), StoreError> {
    // One of this name that a crash leaves is removed at the next start.
    let temporary = log.with_extension("jsonl.tmp");
    disk::remove_file(&temporary).map_err(|error| StoreError::io("removing", &temporary, &error))?;
    let mut fresh = LogFile::create(temporary.clone())?;
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    if let Some(bad) = bad.filter(|_| bytes > 0) {
        let copied = log_file::read(bad, 0, Some(bytes), |bytes| {
            piece.extend_from_slice(bytes);
            if piece.len() >= PIECE_BYTES {
                fresh.append(&piece)?;
                piece.clear();
            }
            Ok::<_, StoreError>(())
        });
        copied.map_err(|error| match error {
            ReadError::Refused(error) => error,
            ReadError::Io(error) => StoreError::io("reading", bad, &error),
        })?;
    }
    piece.extend_from_slice(tail);
    fresh.append(&piece)?;
    fresh.close();
    disk::rename(&temporary, log).map_err(|error| StoreError::io("putting in its place", log, &error))
}

#[cfg(test)]
mod tests;
