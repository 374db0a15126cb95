//! What is read from logs while they are written: states for workers, backlogs for listeners, and the snapshots.
//!
//! A read sees what was acknowledged when it was asked, and nothing after: the bound is a length, so a reader needs no
//! lock and a writer waits for none.

use ukai_protocol::control::Happened;
use ukai_protocol::id::JobId;
use ukai_protocol::run_state::RunState;

use super::error::StoreError;
use super::event_log::{self, Damage, Record, Splitter, TooLong};
use super::loader;
use super::log_file::{self, ReadError};
use super::message::{BACKLOG_BYTES_MAX, BACKLOG_RECORDS_MAX, Piece, Position, Reply};
use super::paths::StateDir;
use super::recovery::Corrupt;

pub struct Read {
    pub job: JobId,
    pub what: What,
}

pub enum What {
    Load(Reply<Box<RunState>>),
    Backlog { from: Position, limit: usize, reply: Reply<Piece> },
    Snapshot,
}

/// What a reading thread brings back: its answer went to the caller already.
pub struct ReadReport {
    pub(super) snapshot: Option<JobId>,
}

impl Read {
    pub fn refuse(self, error: StoreError) {
        match self.what {
            What::Load(reply) => reply.send(Err(error)),
            What::Backlog { reply, .. } => reply.send(Err(error)),
            What::Snapshot => {}
        }
    }

    /// Blocks.
    pub(super) fn run(self, state: &StateDir, until: u64) {
        let Read { job, what } = self;
        match what {
            What::Load(reply) => {
                reply.send(loader::load(state, &job, Some(until)).map(|replay| Box::new(replay.state)));
            }
            What::Backlog { from, limit, reply } => reply.send(backlog(state, &job, from, limit, until)),
            What::Snapshot => match loader::refresh_snapshot(state, &job, until) {
                Ok(seq) => tracing::debug!("snapshot of {job} at record {seq}"),
                // The log is sound without it.
                Err(error) => tracing::warn!("the snapshot of {job} is not renewed: {error}"),
            },
        }
    }
}

/// The records after `from`. A wrong offset costs a search from the beginning, nothing else.
pub fn backlog(state: &StateDir, job: &JobId, from: Position, limit: usize, until: u64) -> Result<Piece, StoreError> {
    let limit = limit.clamp(1, BACKLOG_RECORDS_MAX);
    let near = (from.offset > 0 && from.offset <= until).then(|| piece(state, job, from, from.after, limit, until));
    match near {
        Some(Ok(piece)) => Ok(piece),
        _ => piece(state, job, Position { offset: 0, ..from }, 0, limit, until),
    }
    .map_err(|error| match error {
        ReadError::Refused(Stop::Damage(corrupt)) => loader::read_error(state, job, ReadError::Refused(corrupt)),
        ReadError::Io(error) => loader::read_error(state, job, ReadError::Io(error)),
        // `piece` takes it for the end of a piece.
        ReadError::Refused(Stop::Full) => StoreError::Stopped,
    })
}

enum Stop {
    Full,
    Damage(Corrupt),
}

/// Reads from `from.offset`, where the records up to `seq` lie before it.
fn piece(
    state: &StateDir,
    job: &JobId,
    from: Position,
    mut seq: u64,
    limit: usize,
    until: u64,
) -> Result<Piece, ReadError<Stop>> {
    let mut piece = Piece { records: Vec::new(), next: from, more: false };
    let (mut splitter, mut offset, mut taken) = (Splitter::default(), from.offset, 0);
    let read = log_file::read(&state.run(job).log(), from.offset, Some(until), |bytes| {
        splitter
            .feed(bytes, |line| {
                let length = line.len() as u64 + 1;
                if seq >= from.after {
                    let full = piece.records.len() == limit || taken + length > BACKLOG_BYTES_MAX;
                    if full && !piece.records.is_empty() {
                        return Err(Halt(Stop::Full));
                    }
                    let record = event_log::decode(line, seq + 1);
                    let Record { seq, at, event } =
                        record.map_err(|why| Halt(Stop::Damage(Corrupt { line: seq + 1, why })))?;
                    piece.records.push(Happened { job: job.clone(), seq, at, event });
                    taken += length;
                }
                seq += 1;
                offset += length;
                if seq >= from.after {
                    piece.next = Position { after: seq, offset };
                }
                Ok(())
            })
            .map_err(|Halt(stop)| stop)
    });
    match read {
        Ok(()) => Ok(piece),
        Err(ReadError::Refused(Stop::Full)) => {
            piece.more = true;
            Ok(piece)
        }
        Err(error) => Err(error),
    }
}

struct Halt(Stop);

impl From<TooLong> for Halt {
    fn from(TooLong: TooLong) -> Self {
        // Which line it was is told by the next start; here only that nothing more can be read.
        Halt(Stop::Damage(Corrupt { line: u64::MAX, why: Damage::TooLong }))
    }
}
