//! What the store is asked, and how it answers: by calling back, so that no handler has to await it.

use std::sync::Arc;

use ukai_protocol::control::Happened;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_protocol::run_state::{Progress, RunState};

use super::error::StoreError;
use super::lane::LaneReport;
use super::reads::ReadReport;

/// Records in one piece of a backlog: a screenful for a listener, a small part of its queue.
pub const BACKLOG_RECORDS_MAX: usize = 256;
/// Bytes of log in one piece of a backlog, so that a few huge records are no huge piece (one record always fits).
pub const BACKLOG_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub enum StoreMessage {
    /// Makes a new job durable: its folder, `job.json`, and `submitted` as the first record.
    Create { id: JobId, spec: Box<JobSpec>, submitted: Event, reply: Reply<Arc<Appended>> },
    /// Records events, in one sync with whatever else waits for this job. All of them or none.
    Append {
        job: JobId,
        /// Where they stand in the worker's own numbering; `None` for the supervisor's events.
        from: Option<Numbered>,
        events: Vec<Event>,
        reply: Reply<Arc<Appended>>,
    },
    /// The state that a worker goes on from: everything that was acknowledged when this is asked.
    Load { job: JobId, reply: Reply<Box<RunState>> },
    /// The records after a position, at most `limit` and at most [`BACKLOG_RECORDS_MAX`].
    Backlog { job: JobId, from: Position, limit: usize, reply: Reply<Piece> },
    /// Finishes what was asked, snapshots every open run, answers, and ends the actor. Anything asked later is refused.
    Close { reply: Reply<()> },
    /// A lane's thread is done.
    Written(LaneReport),
    /// A reading thread is done.
    Read(ReadReport),
}

/// The first event's number among all that this attempt's worker recorded, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub attempt: u32,
    pub n: u64,
}

/// Records that are on disk, and where the job stands by them. Repeated events leave `records` empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    pub job: JobId,
    pub records: Vec<Happened>,
    pub progress: Progress,
}

/// Called by the store's actor after the sync, in the order of the log. It must not block: it may only cast.
pub type Published = Box<dyn Fn(&Arc<Appended>) + Send + Sync>;

/// A place in a log. `offset` spares a second search; 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of the last record that is not wanted.
    pub after: u64,
    pub offset: u64,
}

impl Position {
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Position { after: seq, offset: 0 }
    }
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub records: Vec<Happened>,
    pub next: Position,
    /// There was more when this was read.
    pub more: bool,
}

type Answer<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// Answers exactly once: a store that ends first answers [`StoreError::Stopped`]. Runs on the actor or on a reading
/// thread, so it must not block: it may only cast.
pub struct Reply<T>(Option<Answer<T>>);

impl<T> Reply<T> {
    #[must_use]
    pub fn new(answer: impl FnOnce(Result<T, StoreError>) + Send + 'static) -> Self {
        Reply(Some(Box::new(answer)))
    }

    pub fn send(mut self, result: Result<T, StoreError>) {
        if let Some(answer) = self.0.take() {
            answer(result);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Err(StoreError::Stopped));
        }
    }
}
