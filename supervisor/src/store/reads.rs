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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{Temp, id, log_of, replied, run, started, submitted};

    fn read_all(temp: &Temp, from: Position, limit: usize, until: u64) -> (Vec<u64>, usize) {
        let (mut seqs, mut pieces, mut next) = (Vec::new(), 0, from);
        loop {
            let piece = backlog(&temp.state, &id(1), next, limit, until).expect("a piece");
            assert!(piece.records.len() <= limit);
            seqs.extend(piece.records.iter().map(|record| record.seq));
            (pieces, next) = (pieces + 1, piece.next);
            if !piece.more {
                return (seqs, pieces);
            }
        }
    }

    #[test]
    fn a_backlog_comes_in_pieces_from_wherever_it_is_asked() {
        let events = run(4);
        let (temp, last) = (Temp::with(&events), events.len() as u64);
        let length = |count: usize| log_of(&events[..count]).len() as u64;
        let all = length(events.len());
        let check = |quirk: &str, from, limit, until, expected: std::ops::RangeInclusive<u64>, pieces| {
            assert_eq!(read_all(&temp, from, limit, until), (expected.collect(), pieces), "{quirk}");
        };
        check("all at once", Position::after(0), 256, all, 1..=last, 1);
        check("by tens", Position::after(0), 10, all, 1..=last, 3);
        check("exactly full pieces", Position::after(3), 10, all, 4..=last, 2);
        check("from the middle", Position::after(5), 256, all, 6..=last, 1);
        check("from a known offset", Position { after: 5, offset: length(5) }, 256, all, 6..=last, 1);
        check("from a wrong offset", Position { after: 5, offset: length(6) }, 256, all, 6..=last, 1);
        check("from an offset inside a line", Position { after: 5, offset: length(5) + 3 }, 256, all, 6..=last, 1);
        check("from an offset beyond the end", Position { after: 5, offset: all + 9 }, 256, all, 6..=last, 1);
        check("only what is acknowledged", Position::after(0), 256, length(7), 1..=7, 1);
        #[allow(clippy::reversed_empty_ranges)]
        let none = 1..=0;
        check("nothing new", Position::after(last), 256, all, none.clone(), 1);
        check("nothing new at a known offset", Position { after: last, offset: all }, 256, all, none.clone(), 1);
        check("from the future", Position::after(last + 9), 256, all, none, 1);
    }

    #[test]
    fn a_few_huge_records_are_several_pieces() {
        let mut huge = replied(1, &[]);
        if let ukai_protocol::event::Event::Replied { text, .. } = &mut huge {
            *text = "x".repeat(BACKLOG_BYTES_MAX as usize * 2 / 3);
        }
        let events = [submitted(), started(1), huge.clone(), huge.clone(), huge];
        let temp = Temp::with(&events);
        let all = log_of(&events).len() as u64;
        assert_eq!(read_all(&temp, Position::after(0), 256, all), ((1..=5).collect(), 3));
    }

    #[test]
    fn damage_is_told_with_its_place_and_a_run_that_is_not_there_by_name() {
        let temp = Temp::with(&run(1));
        let mut log = temp.log();
        let all = log.len() as u64;
        log[log_of(&run(1)[..3]).len() + 20] ^= 1;
        std::fs::write(temp.run().log(), log).expect("changed");
        let damaged = backlog(&temp.state, &id(1), Position::after(0), 256, all).err();
        assert!(matches!(&damaged, Some(StoreError::Corrupt { why, .. }) if why.starts_with("line 4")), "{damaged:?}");
        let unknown = backlog(&temp.state, &id(2), Position::after(0), 256, 0).err();
        assert_eq!(unknown, Some(StoreError::Unknown(id(2))));
    }
}
