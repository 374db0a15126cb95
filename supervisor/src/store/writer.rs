//! The one that writes a run's log. It lives on whichever thread a lane has lent it to, and may block.
//!
//! All appends that wait for a run go out in one write and one sync. Each is checked first against the fold itself, with
//! the conversation left out of the state (no event is judged by it): what would not load is never written, and
//! the state held here does not grow with the run.

use std::path::Path;
use std::sync::Arc;

use ukai_protocol::control::Happened;
use ukai_protocol::disk;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_protocol::run_state::{Progress, RunState};

use super::error::StoreError;
use super::event_log::{self, Record};
use super::loader::{self, Opened, Verify};
use super::log_file::LogFile;
use super::message::{Appended, Numbered};
use super::paths::{RunDir, StateDir};
use super::spec_file;

/// Room for the record of the end when the disk is full (spec §10).
const RESERVE_BYTES: u64 = 64 * 1024;

/// The clock that stamps records.
pub type Clock = fn() -> String;

/// What one caller wants recorded.
pub struct Append {
    pub from: Option<Numbered>,
    pub events: Vec<Event>,
}

pub type Answer = Result<Arc<Appended>, StoreError>;

pub struct Writer {
    id: JobId,
    run: RunDir,
    log: LogFile,
    /// Without its conversation.
    state: RunState,
    pub snapshot_seq: u64,
    /// The whole log has been verified: something may be added.
    verified: bool,
}

impl Writer {
    /// A run that is on disk already, opened to be read: of one that has ended perhaps only the end is known to be sound.
    pub fn look(state: &StateDir, id: &JobId) -> Result<Self, StoreError> {
        Self::open_as(state, id, Verify::Open)
    }

    /// A run that is on disk already, and verifies from its first record to its last. One that does not is quarantined.
    pub fn open(state: &StateDir, id: &JobId) -> Result<Self, StoreError> {
        Self::open_as(state, id, Verify::All)
    }

    fn open_as(state: &StateDir, id: &JobId, verify: Verify) -> Result<Self, StoreError> {
        match loader::open(state, id, verify)? {
            Opened::Run(found) => {
                let run = state.run(id);
                let log = LogFile::at(run.log(), found.log_bytes);
                let mut state = found.state;
                slim(&mut state);
                let verified = verify == Verify::All || state.progress.outcome.is_none();
                Ok(Writer { id: id.clone(), run, log, state, snapshot_seq: found.snapshot_seq, verified })
            }
            Opened::Refused { why, .. } => Err(StoreError::Quarantined { job: id.clone(), why }),
            Opened::Never => Err(StoreError::Unknown(id.clone())),
        }
    }

    /// A new run. On an error nothing of it is left. The log, empty, and the folder for outputs are there before `job.json`:
    /// the sync of the folder that completes the one covers the others.
    pub fn create(
        state: &StateDir,
        id: &JobId,
        spec: &JobSpec,
        submitted: Event,
        clock: Clock,
    ) -> Result<(Self, Answer), StoreError> {
        let run = state.run(id);
        if run.root().exists() || state.quarantine_of(id).exists() {
            return Err(StoreError::Exists(id.clone()));
        }
        let created = (|| {
            let io = |path: &Path, error| StoreError::io("creating", path, &error);
            disk::create_dir(run.root()).map_err(|error| io(run.root(), error))?;
            disk::create_dir_within(&run.outputs()).map_err(|error| io(&run.outputs(), error))?;
            disk::allocate(&run.reserve(), RESERVE_BYTES).map_err(|error| io(&run.reserve(), error))?;
            let log = LogFile::create(run.log())?;
            spec_file::save(&run.spec(), spec).map_err(|error| io(&run.spec(), error))?;
            let run = run.clone();
            let (state, verified) = (RunState::default(), true);
            let mut writer = Writer { id: id.clone(), run, log, state, snapshot_seq: 0, verified };
            let append = Append { from: None, events: vec![submitted] };
            let answer = writer.flush(vec![append], clock).pop().unwrap_or(Err(StoreError::Stopped))?;
            Ok((writer, Ok(answer)))
        })();
        if created.is_err()
            && let Err(error) = disk::remove_dir_all(run.root())
        {
            // Without a whole record in its log it is no job, now or at the next start.
            tracing::warn!("removing {}: {error}", run.root().display());
        }
        created
    }

    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.state.progress
    }

    /// Whether something may be added without opening it again.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified
    }

    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Gives the descriptor back.
    pub fn rest(&mut self) {
        self.log.close();
    }

    /// Records what was asked, in order, and answers each in the same order. A refused append does not hold up the
    /// others; a failed write fails all of them.
    pub fn flush(&mut self, appends: Vec<Append>, clock: Clock) -> Vec<Answer> {
        let at = clock();
        let mut trial = self.state.clone();
        let mut lines = String::new();
        let ends =
            appends.iter().flat_map(|append| &append.events).any(|event| matches!(event, Event::Finished { .. }));
        let begins_again =
            appends.iter().flat_map(|append| &append.events).any(|event| matches!(event, Event::Resumed { .. }));
        let several = appends.len() > 1;
        let stage = |append| self.stage(append, &mut trial, &mut lines, &at, several);
        let answers: Vec<_> = appends.into_iter().map(stage).collect();
        if lines.is_empty() {
            return answers;
        }
        if begins_again && let Err(error) = self.reserve_again() {
            tracing::error!("recording for {}: {error}", self.id);
            return answers.into_iter().map(|answer| answer.and_then(|_| Err(error.clone()))).collect();
        }
        match self.write(lines.as_bytes(), ends) {
            Ok(()) => {
                self.state = trial;
                answers
            }
            Err(error) => {
                tracing::error!("recording for {}: {error}", self.id);
                answers.into_iter().map(|answer| answer.and_then(|_| Err(error.clone()))).collect()
            }
        }
    }

    /// Adds one append to the lines, or changes nothing. Alone, and refused, it leaves no lines, and nobody looks at
    /// `trial`: nothing need be kept for it.
    fn stage(&self, append: Append, trial: &mut RunState, lines: &mut String, at: &str, several: bool) -> Answer {
        let events = self.new_ones(append, &trial.progress)?;
        let (before, length) = (several.then(|| trial.clone()), lines.len());
        let mut records = Vec::with_capacity(events.len());
        let staged = events.into_iter().try_for_each(|event| {
            let job = || self.id.clone();
            trial.apply(&event).map_err(|illegal| StoreError::Illegal { job: job(), why: illegal.to_string() })?;
            slim(trial);
            let record = Record { seq: trial.progress.seq, at: at.to_owned(), event };
            let line =
                event_log::encode(&record).map_err(|unwritable| StoreError::Unwritable { job: job(), unwritable })?;
            lines.push_str(&line);
            let Record { seq, at, event } = record;
            records.push(Happened { job: job(), seq, at, event });
            Ok(())
        });
        if let Err(error) = staged {
            if let Some(before) = before {
                *trial = before;
            }
            lines.truncate(length);
            return Err(error);
        }
        Ok(Arc::new(Appended { job: self.id.clone(), records, progress: trial.progress.clone() }))
    }

    /// The events that the log does not hold yet. A worker numbers its events from 0 in each attempt and sends again
    /// what was not acknowledged; the log's own count tells what came through (spec §1, `Record{attempt, n}`).
    fn new_ones(&self, append: Append, progress: &Progress) -> Result<Vec<Event>, StoreError> {
        let Append { from, mut events } = append;
        let job = || self.id.clone();
        let illegal = |event: &Event, who: &str| StoreError::Illegal {
            job: job(),
            why: format!("{} is not for {who} to record", event.name()),
        };
        let Some(Numbered { attempt, n }) = from else {
            let strange =
                events.iter().find(|event| !event.is_supervisors() && !matches!(event, Event::Finished { .. }));
            return strange.map_or(Ok(()), |event| Err(illegal(event, "the supervisor"))).map(|()| events);
        };
        if let Some(strange) = events.iter().find(|event| event.is_supervisors()) {
            return Err(illegal(strange, "a worker"));
        }
        if attempt != progress.attempt {
            return Err(StoreError::StaleAttempt { job: job(), theirs: attempt, ours: progress.attempt });
        }
        if n > progress.recorded {
            return Err(StoreError::Gap { job: job(), expected: progress.recorded, found: n });
        }
        let end = n + events.len() as u64;
        // The end counts among the recorded too, and the supervisor may have written it in the worker's place.
        if let Some(outcome) = &progress.outcome
            && end == progress.recorded
            && events
                .last()
                .is_some_and(|last| !matches!(last, Event::Finished { outcome: theirs, .. } if theirs == outcome))
        {
            return Err(StoreError::Illegal { job: job(), why: "the run has finished".to_owned() });
        }
        let known = usize::try_from(progress.recorded - n).unwrap_or(usize::MAX).min(events.len());
        events.drain(..known);
        Ok(events)
    }

    /// What ended gave its room back, and will end once more.
    fn reserve_again(&self) -> Result<(), StoreError> {
        let path = self.run.reserve();
        disk::allocate(&path, RESERVE_BYTES).map_err(|error| StoreError::io("creating", &path, &error))
    }

    /// A full disk gets the reserve back, once, when the end itself is to be written.
    fn write(&mut self, lines: &[u8], ends: bool) -> Result<(), StoreError> {
        match self.log.append(lines) {
            Err(error) if ends && error.is_out_of_space() => {
                tracing::error!("{error}: giving the reserve of {} back to record its end", self.id);
                let path = self.run.reserve();
                disk::remove_file(&path).map_err(|error| StoreError::io("releasing", &path, &error))?;
                self.log.append(lines)
            }
            other => other,
        }?;
        if ends && let Err(error) = disk::remove_file(&self.run.reserve()) {
            // It costs space, nothing else.
            tracing::warn!("releasing the reserve of {}: {error}", self.id);
        }
        Ok(())
    }
}

/// Drops what no event is judged by.
fn slim(state: &mut RunState) {
    state.messages = Vec::new();
    state.system = None;
}

#[cfg(test)]
mod tests;
