//! The jobs as their logs tell, where no server listens. Reads only: to cut, quarantine or finish anything takes the
//! lock, which a supervisor that is just starting may hold.

use std::collections::{BTreeSet, HashMap};
use std::io;

use ukai_protocol::control::{BatchRow, Happened, JobResult, JobRow};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobStatus};
use ukai_protocol::run_state::Progress;

use super::failure::Failure;
use crate::batch::{self, Batches};
use crate::naming::{self, Meant};
use crate::resume;
use crate::store::batch_file::{self, BatchFile};
use crate::store::event_log::{self, Splitter, TooLong};
use crate::store::log_file::{self, ReadError};
use crate::store::paths::StateDir;
use crate::store::{StoreError, loader, quarantine, recovery, server_log, spec_file};

/// Every job of the state directory, in the order in which they were submitted.
pub(crate) fn rows(state: &StateDir) -> Result<Vec<JobRow>, Failure> {
    let mut rows: Vec<_> = ids(state)?.into_iter().filter_map(|id| read(state, id)).collect();
    batch::in_line_order(&mut rows, |row| row.batch.as_ref());
    // What was never promised is no job to anybody.
    let void: BTreeSet<JobId> = batch_file::read_all(state)?.files.into_iter().flat_map(|file| file.void).collect();
    rows.retain(|row| !(row.status.is_ended() && void.contains(&row.id)));
    Ok(rows)
}

pub(crate) fn ids(state: &StateDir) -> Result<Vec<JobId>, Failure> {
    let runs = state.runs();
    let fault = |error: io::Error| Failure::failed(StoreError::io("listing", &runs, &error));
    let mut ids: Vec<JobId> = match std::fs::read_dir(&runs) {
        Ok(entries) => {
            let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>();
            names.map_err(fault)?.iter().filter_map(|name| name.to_str()?.parse().ok()).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(fault(error)),
    };
    ids.sort();
    // As a server orders them: `job.json` is written once, at submission. One without goes first and is no job.
    let submitted_at =
        |id: &JobId| std::fs::metadata(state.run(id).spec()).and_then(|metadata| metadata.modified()).ok();
    ids.sort_by_cached_key(submitted_at);
    Ok(ids)
}

/// None: the run was being created when its supervisor died, and is no job.
fn read(state: &StateDir, id: JobId) -> Option<JobRow> {
    let error = match loader::load(state, &id, None) {
        Ok(replay) if replay.state.progress.seq > 0 => return Some(row(id, &replay.state.progress)),
        // Without a record it is no job, unless something else shows that it was one.
        Ok(_) | Err(StoreError::Unknown(_)) => match loader::refusal(state, &id) {
            Ok(None) => return None,
            Ok(Some(why)) => StoreError::Quarantined { job: id.clone(), why },
            Err(error) => error,
        },
        Err(error) => error,
    };
    // One that is damaged, or cannot be read, hides none of the others.
    Some(damaged(state, id, &error))
}

pub(crate) fn row(id: JobId, progress: &Progress) -> JobRow {
    let note = match progress.status {
        status if status.is_ended() => String::new(),
        _ if progress.paused => String::new(),
        JobStatus::Queued => "waits for a server".to_owned(),
        _ => "goes on when a server starts".to_owned(),
    };
    JobRow::of(id, progress, note)
}

fn damaged(state: &StateDir, id: JobId, error: &StoreError) -> JobRow {
    let kind = match error {
        StoreError::Io { errno, .. } => CauseKind::Io(*errno),
        _ => CauseKind::Quarantined,
    };
    let spec = match spec_file::load(&state.run(&id).spec()) {
        Ok(spec_file::Loaded::Sound(spec)) => Some(spec),
        Ok(spec_file::Loaded::Missing | spec_file::Loaded::Bad(_)) | Err(_) => None,
    };
    let cause = Cause::new(kind, error.to_string());
    let mut progress = recovery::refused(quarantine::progress(state, &id), spec.as_deref(), cause);
    // That it is refused stands in no log of its own, and neither does a person's word about it.
    if server_log::read(state, |_| {}).is_ok_and(|(known, _)| known.refuses(id.as_str()).is_some_and(|seen| seen.acked))
    {
        progress.attention = None;
    }
    row(id, &progress)
}

/// The batches of these jobs.
fn batches(state: &StateDir, rows: &[JobRow]) -> Result<Batches, Failure> {
    let mut batches = Batches::default();
    for BatchFile { id, name, void, told, .. } in batch_file::read_all(state)?.files {
        batches.recall(id, name, void, told);
    }
    for row in rows {
        if let Some(place) = &row.batch {
            batches.enter(place, &row.id, row.status.is_ended());
        }
    }
    Ok(batches)
}

/// The one job that is meant.
pub(crate) fn job_meant(state: &StateDir, typed: &str) -> Result<JobId, Failure> {
    meant_of(state, &rows(state)?, typed)
}

fn meant_of(state: &StateDir, rows: &[JobRow], typed: &str) -> Result<JobId, Failure> {
    let batches = batches(state, rows)?;
    Ok(naming::job_meant(names(rows), batches.names(), typed).map_err(Failure::usage)?.clone())
}

/// One row and its result.
pub(crate) fn shown(state: &StateDir, typed: &str) -> Result<(JobRow, JobResult), Failure> {
    let rows = rows(state)?;
    let id = meant_of(state, &rows, typed)?;
    let row = rows.into_iter().find(|row| row.id == id);
    let row = row.ok_or_else(|| Failure::failed(format!("{id} vanished while it was looked for; try again")))?;
    let result = result(state, &row.id);
    Ok((row, result))
}

/// As far as its log can be believed: what is wrong with it stands in its row.
pub(crate) fn result(state: &StateDir, id: &JobId) -> JobResult {
    loader::load(state, id, None).map(|replay| resume::result(id, &replay.state.progress)).unwrap_or_default()
}

/// Of these jobs, those that are meant, as a server would answer.
pub(crate) fn select(state: &StateDir, rows: Vec<JobRow>, typed: &[String]) -> Result<Vec<JobRow>, Failure> {
    let batches = batches(state, &rows)?;
    let mut ids = Vec::new();
    for typed in typed {
        match naming::meant(names(&rows), batches.names(), typed).map_err(Failure::usage)? {
            Meant::Job(id) => ids.push(id.clone()),
            Meant::Batch(id) => ids.extend(batches.get(id).into_iter().flat_map(|batch| batch.jobs()).cloned()),
        }
    }
    Ok(in_order(rows, &ids))
}

/// The batch that is meant, and its jobs in the order of their lines.
pub(crate) fn batch_of(state: &StateDir, typed: &str) -> Result<(BatchRow, Vec<JobRow>), Failure> {
    let rows = rows(state)?;
    let batches = batches(state, &rows)?;
    let jobs = rows.iter().map(|row| (&row.id, &*row.name, row.batch.as_ref()));
    let id = naming::batch_meant(batches.names(), |id| batches.latest(id), jobs, typed).map_err(Failure::usage)?;
    let name = batches.get(id).map(|batch| batch.name.clone()).unwrap_or_default();
    let jobs: Vec<JobId> = batches.get(id).into_iter().flat_map(|batch| batch.jobs()).cloned().collect();
    let batch = BatchRow { id: id.clone(), name, jobs: jobs.len() as u64 };
    Ok((batch, in_order(rows, &jobs)))
}

fn names(rows: &[JobRow]) -> impl Iterator<Item = (&JobId, &str)> {
    rows.iter().map(|row| (&row.id, &*row.name))
}

fn in_order(rows: Vec<JobRow>, ids: &[JobId]) -> Vec<JobRow> {
    let mut rows: HashMap<JobId, JobRow> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    ids.iter().filter_map(|id| rows.remove(id)).collect()
}

/// The records of a run, as far as they verify.
pub(crate) fn records(state: &StateDir, id: &JobId, mut each: impl FnMut(Happened)) -> Result<(), Failure> {
    let log = state.run(id).log();
    let mut splitter = Splitter::default();
    let mut expected = 1;
    let read = log_file::read(&log, 0, None, |bytes| {
        splitter.feed(bytes, |line| {
            let record =
                event_log::decode(line, expected).map_err(|damage| Bad(format!("line {expected}: {damage}")))?;
            expected += 1;
            each(Happened { job: id.clone(), seq: record.seq, at: record.at, event: record.event });
            Ok::<_, Bad>(())
        })
    });
    match read {
        Ok(()) => Ok(()),
        Err(ReadError::Io(error)) => Err(Failure::failed(StoreError::io("reading", &log, &error))),
        Err(ReadError::Refused(Bad(why))) => {
            Err(Failure::failed(format!("reading {}: {why}; what stands before it was shown", log.display())))
        }
    }
}

struct Bad(String);

impl From<TooLong> for Bad {
    fn from(TooLong: TooLong) -> Self {
        Bad("a line is longer than any record".to_owned())
    }
}
