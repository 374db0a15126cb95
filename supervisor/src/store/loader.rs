//! Opens runs as their files are found, and does what `recovery` judges: cut, put aside, forget.
//!
//! Runs before the store's actor starts, and on its threads when a run is first written to. A whole log is verified and
//! folded each time, because the first thing done with a run may be to act upon it. Only to be shown, a run that has ended,
//! and whose snapshot covers its log to the byte, is taken from the snapshot: a start on ten thousand of them reads no log.
//! Before a word is added to one (it is resumed, it is acked) its log is verified from record 1 as any other's.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use ukai_protocol::disk;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec};
use ukai_protocol::run_state::{Progress, RunState};

use super::error::StoreError;
use super::event_log::{self, Record};
use super::log_file::{self, LogFile, ReadError};
use super::paths::{RunDir, StateDir};
use super::quarantine;
use super::recovery::{self, Agreement, Corrupt, Found, LogFound, Part, Replay, SnapshotFound, SpecFound, Verdict};
use super::snapshot::{self, Loaded, Outline, Snapshot};
use super::spec_file;

/// Events after which a snapshot is worth its ~12 ms: some forty steps, folded again in a few milliseconds.
pub const SNAPSHOT_EVERY: u64 = 200;

/// A run as it was found.
#[derive(Debug)]
pub struct Recovered {
    pub id: JobId,
    /// Absent only where `job.json` cannot be read.
    pub spec: Option<Box<JobSpec>>,
    /// With a problem: as far as it is known, ended by that problem (in memory; its log does not say so).
    pub progress: Progress,
    pub problem: Option<Problem>,
}

/// Why a run cannot go on. Neither is recorded: the next start looks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its files do not verify.
    Quarantined { why: String },
    /// The disk refused; nothing is known to be wrong with the run.
    Io { errno: i32, why: String },
}

/// Every run in the state directory, in the order of their ids. Call it under the [`super::Lock`], before the store starts.
pub fn recover_all(state: &StateDir) -> Result<Vec<Recovered>, StoreError> {
    let mut runs = Vec::new();
    for id in list(&state.runs())? {
        match open(state, &id, Verify::Open) {
            Ok(Opened::Run(run)) => {
                let RunFound { spec, state: RunState { progress, .. }, .. } = *run;
                runs.push(Recovered { id, spec: Some(spec), progress, problem: None });
            }
            Ok(Opened::Never) => {}
            Ok(Opened::Refused { why, spec, progress }) => {
                runs.push(Recovered { id, spec, progress: *progress, problem: Some(Problem::Quarantined { why }) });
            }
            Err(error) => {
                tracing::error!("opening {id}: {error}");
                runs.push(unreadable(state, id, &error));
            }
        }
    }
    Ok(runs)
}

fn list(runs: &Path) -> Result<Vec<JobId>, StoreError> {
    let error = |error: io::Error| StoreError::io("listing", runs, &error);
    let mut ids = Vec::new();
    for entry in fs::read_dir(runs).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        match name.to_string_lossy().parse::<JobId>() {
            Ok(id) => ids.push(id),
            Err(_) => tracing::warn!("{} is no run of ukai's: left alone", runs.join(name).display()),
        }
    }
    ids.sort();
    Ok(ids)
}

/// ENOSPC, EIO, EMFILE are not corruption: the run is shown as far as it can be read, and not touched.
fn unreadable(state: &StateDir, id: JobId, error: &StoreError) -> Recovered {
    let run = state.run(&id);
    let spec = match spec_file::load(&run.spec()) {
        Ok(spec_file::Loaded::Sound(spec)) => Some(spec),
        _ => None,
    };
    let progress = match snapshot::load::<Outline>(&run.snapshot()) {
        Ok(Loaded::Sound(snapshot)) => snapshot.state.progress,
        _ => Progress::default(),
    };
    let errno = if let StoreError::Io { errno, .. } = error { *errno } else { 0 };
    let cause = Cause::new(CauseKind::Io(errno), format!("{error}. Its files are as they were; start ukai again"));
    let progress = recovery::refused(progress, spec.as_deref(), cause);
    Recovered { id, spec, progress, problem: Some(Problem::Io { errno, why: error.to_string() }) }
}

/// What one run's folder holds.
#[derive(Debug)]
pub enum Opened {
    Run(Box<RunFound>),
    Refused {
        why: String,
        spec: Option<Box<JobSpec>>,
        progress: Box<Progress>,
    },
    /// There is no such job.
    Never,
}

#[derive(Debug)]
pub struct RunFound {
    pub spec: Box<JobSpec>,
    /// Of a run that has ended perhaps only the progress.
    pub state: RunState,
    pub log_bytes: u64,
    /// The record that the snapshot on disk was made from; 0 without one.
    pub snapshot_seq: u64,
}

/// Whose log is read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Of a run that has not ended. One that has is believed to be as its snapshot says: it is only looked at.
    Open,
    /// Of every run: something is about to be added.
    All,
}

/// Opens one run. Afterwards its log is sound as far as `verify` wants to know, or the run is refused.
pub fn open(state: &StateDir, id: &JobId, verify: Verify) -> Result<Opened, StoreError> {
    let run = state.run(id);
    if !run.root().is_dir() {
        return Ok(Opened::Never);
    }
    remove_left_overs(&run)?;
    let spec = spec_file::load(&run.spec()).map_err(|error| StoreError::io("reading", &run.spec(), &error))?;
    if verify == Verify::Open
        && let spec_file::Loaded::Sound(spec) = &spec
        && let Some((progress, log_bytes)) = ended(&run)?
    {
        let (spec, snapshot_seq) = (spec.clone(), progress.seq);
        let state = RunState { progress, ..RunState::default() };
        return Ok(Opened::Run(Box::new(RunFound { spec, state, log_bytes, snapshot_seq })));
    }
    let Looked { verdict, spec, replay, snapshot_seq } = look(state, id, spec)?;
    match (verdict, spec) {
        (Verdict::Never, _) => {
            tracing::warn!("{id} was being submitted when ukai ended, and never acknowledged: removed");
            disk::remove_dir_all(run.root()).map_err(|error| StoreError::io("removing", run.root(), &error))?;
            Ok(Opened::Never)
        }
        (Verdict::Keep { torn, bad_snapshot }, Some(spec)) => {
            let kept = RunFound { spec, state: replay.state, log_bytes: replay.bytes, snapshot_seq };
            keep(state, id, kept, torn, bad_snapshot).map(|run| Opened::Run(Box::new(run)))
        }
        // Keep always has its job (see `judge`); if it ever had not, refusing is the safe half.
        (Verdict::Keep { .. }, None) => {
            quarantine::refuse(state, id, "its job cannot be read".to_owned(), &[], None, replay)
        }
        (Verdict::Refuse { why, aside }, spec) => quarantine::refuse(state, id, why, &aside, spec, replay),
    }
}

/// Why a run is refused as its files lie now. None: it is not, or there is no such job. Looks only.
pub fn refusal(state: &StateDir, id: &JobId) -> Result<Option<String>, StoreError> {
    let run = state.run(id);
    if !run.root().is_dir() {
        return Ok(None);
    }
    let spec = spec_file::load(&run.spec()).map_err(|error| StoreError::io("reading", &run.spec(), &error))?;
    Ok(match look(state, id, spec)?.verdict {
        Verdict::Refuse { why, .. } => Some(why),
        Verdict::Keep { .. } | Verdict::Never => None,
    })
}

struct Looked {
    verdict: Verdict,
    spec: Option<Box<JobSpec>>,
    replay: Replay,
    snapshot_seq: u64,
}

fn look(state: &StateDir, id: &JobId, spec: spec_file::Loaded) -> Result<Looked, StoreError> {
    let run = state.run(id);
    let (spec_found, spec) = match spec {
        spec_file::Loaded::Missing => (SpecFound::Missing, None),
        spec_file::Loaded::Sound(spec) => (SpecFound::Sound, Some(spec)),
        spec_file::Loaded::Bad(why) => (SpecFound::Bad(why), None),
    };
    let Examined { log, snapshot, replay, snapshot_seq } = examine(&run)?;
    let had_ended = spec.is_some() && length(&run.reserve())?.is_none();
    let found = Found {
        spec: spec_found,
        log,
        snapshot,
        outputs: holds_anything(&run.outputs())?,
        had_ended,
        refused_before: state.quarantine_of(id).is_dir(),
    };
    Ok(Looked { verdict: recovery::judge(found), spec, replay, snapshot_seq })
}

/// The cheap road: a run that has ended, and whose snapshot covers its log to the byte.
fn ended(run: &RunDir) -> Result<Option<(Progress, u64)>, StoreError> {
    let path = run.snapshot();
    let loaded = snapshot::load::<Outline>(&path).map_err(|error| StoreError::io("reading", &path, &error))?;
    let Loaded::Sound(Snapshot { log_bytes, state: Outline { progress } }) = loaded else { return Ok(None) };
    let covered = progress.outcome.is_some() && length(&run.log())? == Some(log_bytes);
    Ok(covered.then_some((progress, log_bytes)))
}

struct Examined {
    log: LogFound,
    snapshot: SnapshotFound,
    replay: Replay,
    snapshot_seq: u64,
}

/// Verifies and folds the whole log, and the snapshot against it.
fn examine(run: &RunDir) -> Result<Examined, StoreError> {
    let path = run.snapshot();
    let snapshot = snapshot::load::<RunState>(&path).map_err(|error| StoreError::io("reading", &path, &error))?;
    let (snapshot, snapshot_seq, mut replay) = match snapshot {
        Loaded::Missing => (SnapshotFound::Missing, 0, Replay::default()),
        Loaded::Bad(why) => (SnapshotFound::Bad(why), 0, Replay::default()),
        Loaded::Sound(Snapshot { log_bytes, state }) => {
            let seq = state.progress.seq;
            (SnapshotFound::Sound(Agreement::NotReached), seq, Replay::against(state, log_bytes))
        }
    };
    let path = run.log();
    let log = match log_file::read(&path, 0, None, |bytes| replay.feed(bytes)) {
        Ok(()) if replay.bytes == 0 => LogFound::Nothing,
        Ok(()) => LogFound::Sound { torn: replay.torn() },
        Err(ReadError::Refused(corrupt)) => LogFound::Corrupt(corrupt),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => LogFound::Nothing,
        Err(ReadError::Io(error)) => return Err(StoreError::io("reading", &path, &error)),
    };
    let snapshot = match snapshot {
        SnapshotFound::Sound(_) => SnapshotFound::Sound(replay.agreement),
        other => other,
    };
    Ok(Examined { log, snapshot, replay, snapshot_seq })
}

/// Cuts what is torn and says so in the log; puts a bad snapshot aside and makes a new one where one is due.
fn keep(
    state: &StateDir,
    id: &JobId,
    mut run: RunFound,
    torn: u64,
    bad_snapshot: Option<String>,
) -> Result<RunFound, StoreError> {
    let dir = state.run(id);
    if torn > 0 {
        let seq = run.state.progress.seq + 1;
        let event = recovery::recovered(torn);
        tracing::warn!("{id}: {torn} bytes after record {} were torn by a crash: cut off", seq - 1);
        let mut log = LogFile::at(dir.log(), run.log_bytes);
        let record = Record { seq, at: now(), event };
        let line =
            event_log::encode(&record).map_err(|unwritable| StoreError::Unwritable { job: id.clone(), unwritable })?;
        log.append(line.as_bytes())?;
        run.log_bytes = log.bytes();
        run.state
            .apply(&record.event)
            .map_err(|illegal| StoreError::Illegal { job: id.clone(), why: illegal.to_string() })?;
    }
    if let Some(why) = &bad_snapshot {
        let kept = quarantine::put_aside(state, id, Part::Snapshot)?;
        tracing::warn!("the snapshot of {id} does not verify ({why}): kept as {kept}, made again from the log");
        run.snapshot_seq = 0;
    }
    let behind = run.state.progress.seq - run.snapshot_seq;
    if behind > 0 && (bad_snapshot.is_some() || run.state.progress.outcome.is_some() || behind >= SNAPSHOT_EVERY) {
        let snapshot = Snapshot { log_bytes: run.log_bytes, state: run.state };
        match snapshot::save(&dir.snapshot(), &snapshot) {
            Ok(()) => run.snapshot_seq = snapshot.state.progress.seq,
            // The log is sound without it.
            Err(error) => tracing::warn!("writing the snapshot of {id}: {error}; it is made again later"),
        }
        run.state = snapshot.state;
    }
    Ok(run)
}

/// The state of a run, from its snapshot and the log after it. `until`: how much of the log is acknowledged, where
/// someone writes to it.
pub fn load(state: &StateDir, id: &JobId, until: Option<u64>) -> Result<Replay, StoreError> {
    let run = state.run(id);
    let path = run.snapshot();
    let fold = |mut replay: Replay| {
        log_file::read(&run.log(), replay.bytes, until, |bytes| replay.feed(bytes)).map(|()| replay)
    };
    let snapshot = snapshot::load::<RunState>(&path).map_err(|error| StoreError::io("reading", &path, &error))?;
    // Looked at after the snapshot: a log only grows.
    let held = match until {
        Some(until) => until,
        None => length(&run.log())?.unwrap_or(0),
    };
    let near = match snapshot {
        Loaded::Sound(Snapshot { log_bytes, .. }) if until.is_none() && (1..log_bytes).contains(&held) => {
            return Err(StoreError::Quarantined { job: id.clone(), why: recovery::LOST.to_owned() });
        }
        Loaded::Sound(Snapshot { log_bytes, state }) if log_bytes <= held => fold(Replay::from(state, log_bytes)).ok(),
        _ => None,
    };
    // What goes wrong after a snapshot is told as the whole log tells it.
    near.map_or_else(|| fold(Replay::default()), Ok).map_err(|error| read_error(state, id, error))
}

/// Writes a snapshot of the acknowledged part of a log and tells the record that it was made from.
pub fn refresh_snapshot(state: &StateDir, id: &JobId, until: u64) -> Result<u64, StoreError> {
    let path = state.run(id).snapshot();
    let Replay { state, bytes, .. } = load(state, id, Some(until))?;
    let snapshot = Snapshot { log_bytes: bytes, state };
    snapshot::save(&path, &snapshot).map_err(|error| StoreError::io("writing", &path, &error))?;
    Ok(snapshot.state.progress.seq)
}

pub fn read_error(state: &StateDir, id: &JobId, error: ReadError<Corrupt>) -> StoreError {
    match error {
        ReadError::Refused(corrupt) => StoreError::corrupt(id, &corrupt),
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => quarantine::absent(state, id),
        ReadError::Io(error) => StoreError::io("reading", &state.run(id).log(), &error),
    }
}

/// The wall clock as records carry it: for people, never decided upon.
#[must_use]
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("looking at", path, &error)),
    }
}

fn holds_anything(folder: &Path) -> Result<bool, StoreError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("listing", folder, &error)),
    }
}

/// Temporaries of a process that died before it could rename them.
fn remove_left_overs(run: &RunDir) -> Result<(), StoreError> {
    let error = |error: io::Error| StoreError::io("clearing", run.root(), &error);
    for entry in fs::read_dir(run.root()).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            disk::remove_file(&path).map_err(error)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
