//! What to believe of a run's files after any kind of end, as one table (spec §10).
//!
//! Torn = bytes after the last newline, never acknowledged: cut. Everything else that does not verify was acknowledged
//! once and has changed since: the whole run is refused and the file kept aside, for no guess about what is missing is
//! safe to act upon. The log is the truth; a snapshot only ever saves time, and one that tells of more than the log
//! holds shows that the log has lost records.
#![deny(clippy::disallowed_methods)]

use std::fmt;

use ukai_protocol::command::command;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec, Outcome};
use ukai_protocol::run_state::{Progress, RunState};

use super::event_log::{self, Damage, Splitter, TooLong};

/// The first line that does not verify. Lines are numbered as their events are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    pub line: u64,
    pub why: Damage,
}

impl Corrupt {
    /// The number of the last record that can be believed.
    #[must_use]
    pub fn last_good(&self) -> u64 {
        self.line - 1
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} does not verify ({}); the {} before it do", self.line, self.why, self.last_good())
    }
}

impl std::error::Error for Corrupt {}

/// Folds the bytes of a log into the state of its run.
#[derive(Default)]
pub struct Replay {
    pub state: RunState,
    /// Length of the log up to and with the last folded record.
    pub bytes: u64,
    splitter: Splitter,
    against: Option<(RunState, u64)>,
    pub agreement: Agreement,
}

/// Whether a snapshot told the truth about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// There is none to compare with, or the log has not come so far.
    #[default]
    NotReached,
    Agrees,
    Differs,
}

impl Replay {
    /// Goes on from a state that is believed.
    #[must_use]
    pub fn from(state: RunState, bytes: u64) -> Self {
        Replay { state, bytes, ..Replay::default() }
    }

    /// From the beginning, comparing with a snapshot on the way.
    #[must_use]
    pub fn against(state: RunState, bytes: u64) -> Self {
        Replay { against: Some((state, bytes)), ..Replay::default() }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        let mut splitter = std::mem::take(&mut self.splitter);
        let fed = splitter.feed(bytes, |line| self.line(line).map_err(Refused));
        self.splitter = splitter;
        fed.map_err(|Refused(why)| Corrupt { line: self.state.progress.seq + 1, why })
    }

    /// Bytes after the last newline.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.splitter.torn()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Damage> {
        let record = event_log::decode(line, self.state.progress.seq + 1)?;
        self.state.apply(&record.event).map_err(|illegal| Damage::Illegal(illegal.to_string()))?;
        self.bytes += line.len() as u64 + 1;
        if let Some((state, bytes)) = self.against.take_if(|(state, _)| state.progress.seq == self.state.progress.seq) {
            let same = state == self.state && bytes == self.bytes;
            self.agreement = if same { Agreement::Agrees } else { Agreement::Differs };
        }
        Ok(())
    }
}

struct Refused(Damage);

impl From<TooLong> for Refused {
    fn from(TooLong: TooLong) -> Self {
        Refused(Damage::TooLong)
    }
}

/// Why a log is refused that ends before its snapshot.
pub const LOST: &str = "events.jsonl has lost records: the snapshot tells of later ones";

/// What stands in a run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub spec: SpecFound,
    pub log: LogFound,
    pub snapshot: SnapshotFound,
    /// `outputs/` holds something: the run was under way.
    pub outputs: bool,
    /// Its reserve is gone while its job is there: that is given back with the record of an end, and made before the job.
    pub had_ended: bool,
    /// It was refused before, and nobody has cleared it.
    pub refused_before: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecFound {
    Missing,
    Sound,
    Bad(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFound {
    /// Not there, or without one whole line.
    Nothing,
    Sound {
        torn: u64,
    },
    Corrupt(Corrupt),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotFound {
    Missing,
    /// It verifies, and this came of comparing it with the log.
    Sound(Agreement),
    Bad(String),
}

/// What is to be done with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its log is good. `torn` bytes are cut first; a snapshot that does not verify is put aside.
    Keep { torn: u64, bad_snapshot: Option<String> },
    /// It was being created and never acknowledged: no job.
    Never,
    /// Not before a person has looked at it. These files are moved to quarantine.
    Refuse { why: String, aside: Vec<Part> },
}

/// A file of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Spec,
    Log,
    Snapshot,
}

#[must_use]
pub fn judge(found: Found) -> Verdict {
    let refuse = |why: String, aside: &[Part]| Verdict::Refuse { why, aside: aside.to_vec() };
    let torn = match found.log {
        LogFound::Corrupt(corrupt) => return refuse(format!("events.jsonl: {corrupt}"), &[Part::Log]),
        LogFound::Nothing if found.refused_before => return refuse("it was quarantined earlier".to_owned(), &[]),
        LogFound::Nothing if found.snapshot != SnapshotFound::Missing => {
            return refuse("it has a snapshot but no event log".to_owned(), &[Part::Snapshot]);
        }
        LogFound::Nothing if found.outputs => return refuse("it has outputs but no event log".to_owned(), &[]),
        LogFound::Nothing if found.had_ended => return refuse("it had ended, and has no event log".to_owned(), &[]),
        LogFound::Nothing => return Verdict::Never,
        LogFound::Sound { torn } => torn,
    };
    match found.spec {
        SpecFound::Missing => return refuse("it has an event log but no job.json".to_owned(), &[]),
        SpecFound::Bad(why) => return refuse(format!("job.json: {why}"), &[Part::Spec]),
        SpecFound::Sound => {}
    }
    let bad_snapshot = match found.snapshot {
        SnapshotFound::Sound(Agreement::NotReached) => {
            return refuse(LOST.to_owned(), &[Part::Log, Part::Snapshot]);
        }
        SnapshotFound::Sound(Agreement::Differs) => Some("it is not what the event log says".to_owned()),
        SnapshotFound::Bad(why) => Some(why),
        SnapshotFound::Missing | SnapshotFound::Sound(Agreement::Agrees) => None,
    };
    Verdict::Keep { torn, bad_snapshot }
}

/// How a run is shown that cannot go on: ended, in memory only. The mark of its process stays, for the sweep.
#[must_use]
pub fn refused(mut progress: Progress, spec: Option<&JobSpec>, cause: Cause) -> Progress {
    if let (0, Some(spec)) = (progress.seq, spec) {
        progress.name.clone_from(&spec.name);
        progress.priority = spec.priority;
        progress.batch.clone_from(&spec.batch);
    }
    let outcome = Outcome::Ended(cause.clone());
    progress.status = outcome.status();
    progress.attention = Some(format!("{}: {}", cause.kind, cause.detail));
    progress.outcome = Some(outcome);
    progress
}

/// The cause that a refused run shows.
#[must_use]
pub fn quarantined(id: &JobId, why: &str, kept: &str) -> Cause {
    let detail = format!(
        "opening its files: {why}. They are kept in {kept}; nothing of the job runs before a person has looked at them \
         and typed: {}",
        command(&["quarantine", "clear", id.as_str()])
    );
    Cause::new(CauseKind::Quarantined, detail)
}

/// What is appended when bytes were cut.
#[must_use]
pub fn recovered(torn_bytes: u64) -> Event {
    Event::Recovered { torn_bytes }
}

#[cfg(test)]
mod tests;
