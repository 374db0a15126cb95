//! What waits for one run's log. A lane has at most one thread at a time; that is the single writer.
//!
//! While the thread syncs, what comes in gathers here and goes out in one sync when it is back: the busier a run, the
//! more records share one.

use std::collections::VecDeque;
use std::sync::Arc;

use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{JobSpec, JobStatus};

use super::error::StoreError;
use super::loader::SNAPSHOT_EVERY;
use super::message::{Appended, Reply};
use super::paths::StateDir;
use super::reads::Read;
use super::writer::{Answer, Append, Clock, Writer};

/// Appends that wait for one run. A worker has one or two under way and its supervisor one; more is a sender that does
/// not wait for its acknowledgements. Together they are no larger than so many frames.
pub const LANE_PENDING_MAX: usize = 32;

/// Reads that wait until a run's log has been opened: one per listener that just came.
pub const LANE_PARKED_MAX: usize = 256;

#[derive(Default)]
pub struct Lane {
    /// Absent while a thread has it, before the log was opened, and after it could not be.
    pub writer: Option<Box<Writer>>,
    pub busy: bool,
    /// It stands in the line of lanes that wait for a thread.
    pub queued: bool,
    pub create: Option<Create>,
    pub pending: VecDeque<(Append, Reply<Arc<Appended>>)>,
    /// Who is to be answered by the thread under way.
    pub in_flight: Vec<Reply<Arc<Appended>>>,
    /// Reads that wait until it is known how much of the log is acknowledged.
    pub parked: Vec<Read>,
    /// How far the log is acknowledged; `None` until it was opened.
    pub acked: Option<Acked>,
    pub snapshot: SnapshotMark,
}

pub struct Create {
    pub spec: Box<JobSpec>,
    pub submitted: Event,
    pub reply: Reply<Arc<Appended>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Acked {
    pub bytes: u64,
    pub seq: u64,
    pub status: JobStatus,
    /// A worker was started for it: there is more to it than its job file.
    pub ran: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotMark {
    /// The record of the latest one, or of the latest try.
    pub seq: u64,
    pub under_way: bool,
}

/// What a thread is to do with a run, and on whose behalf.
pub struct Work {
    pub job: JobId,
    pub state: StateDir,
    pub clock: Clock,
    writer: Option<Box<Writer>>,
    create: Option<(Box<JobSpec>, Event)>,
    appends: Vec<Append>,
}

/// What a thread brings back.
pub struct LaneReport {
    pub(super) job: JobId,
    /// `Err`: it panicked, and what it did is known only to the log.
    pub(super) done: Result<Done, String>,
}

pub(super) struct Done {
    pub writer: Result<Box<Writer>, StoreError>,
    pub answers: Vec<Answer>,
}

impl Lane {
    /// Whether a thread is needed and none is at work or on its way.
    #[must_use]
    pub fn wants_thread(&self) -> bool {
        let unopened = self.acked.is_none() && !self.parked.is_empty();
        !self.busy && !self.queued && (self.create.is_some() || !self.pending.is_empty() || unopened)
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.busy && !self.queued && self.pending.is_empty() && self.parked.is_empty() && !self.snapshot.under_way
    }

    /// Everything that waits, for one sync.
    pub fn take_work(&mut self, job: &JobId, state: &StateDir, clock: Clock) -> Work {
        self.queued = false;
        self.busy = true;
        let mut work = Work {
            job: job.clone(),
            state: state.clone(),
            clock,
            writer: self.writer.take(),
            create: None,
            appends: Vec::new(),
        };
        if let Some(Create { spec, submitted, reply }) = self.create.take() {
            work.create = Some((spec, submitted));
            self.in_flight.push(reply);
        } else {
            for (append, reply) in self.pending.drain(..) {
                work.appends.push(append);
                self.in_flight.push(reply);
            }
        }
        work
    }

    /// Takes note of what is acknowledged now.
    pub fn keep(&mut self, writer: Box<Writer>) {
        if self.acked.is_none() {
            self.snapshot.seq = writer.snapshot_seq;
        }
        let progress = writer.progress();
        self.acked = Some(Acked {
            bytes: writer.log_bytes(),
            seq: progress.seq,
            status: progress.status,
            ran: progress.attempt > 0,
        });
        self.writer = Some(writer);
    }

    /// How much of the log a snapshot should cover, where one is due: at every abort and pause, and when so many records
    /// came since the last that folding them again costs more (spec §10). A short run that completed is read once more,
    /// if at all, and its log is as quick to read as a snapshot. One that is paused or cancelled in the queue has nothing to keep, and
    /// thousands may be at once: a worker's state would wait behind their snapshots.
    #[must_use]
    pub fn snapshot_due(&self) -> Option<Acked> {
        let acked = self.acked.filter(|_| !self.snapshot.under_way)?;
        let behind = acked.seq.saturating_sub(self.snapshot.seq);
        let rests = match acked.status {
            JobStatus::Aborted => true,
            JobStatus::Cancelled | JobStatus::Paused => acked.ran,
            _ => false,
        };
        (behind >= SNAPSHOT_EVERY || (rests && behind > 0)).then_some(acked)
    }
}

impl Work {
    /// Blocks.
    pub(super) fn run(self) -> Done {
        let Work { job, state, clock, writer, create, appends } = self;
        if let Some((spec, submitted)) = create {
            return match Writer::create(&state, &job, &spec, submitted, clock) {
                Ok((writer, answer)) => Done { writer: Ok(Box::new(writer)), answers: vec![answer] },
                Err(error) => Done { writer: Err(error.clone()), answers: vec![Err(error)] },
            };
        }
        let reads_only = appends.is_empty();
        let open = || if reads_only { Writer::look(&state, &job) } else { Writer::open(&state, &job) };
        let kept = writer.filter(|writer| reads_only || writer.is_verified());
        match kept.map_or_else(|| open().map(Box::new), Ok) {
            Ok(mut writer) => {
                let answers = writer.flush(appends, clock);
                Done { writer: Ok(writer), answers }
            }
            Err(error) => Done { answers: vec![Err(error.clone()); appends.len()], writer: Err(error) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_where_a_run_comes_to_rest_and_every_so_often() {
        for (status, ran, seq, due) in [
            (JobStatus::Queued, false, 2, false),
            (JobStatus::Paused, false, 2, false),
            (JobStatus::Paused, true, 2, true),
            (JobStatus::Paused, true, 1, false),
            (JobStatus::Running, true, 2, false),
            (JobStatus::Running, true, 1 + SNAPSHOT_EVERY, true),
            (JobStatus::Cancelled, false, 2, false),
            (JobStatus::Cancelled, true, 2, true),
            (JobStatus::Completed, true, 1, false),
        ] {
            let snapshot = SnapshotMark { seq: 1, under_way: false };
            let mut lane = Lane { acked: Some(Acked { bytes: 100, seq, status, ran }), snapshot, ..Lane::default() };
            assert_eq!(lane.snapshot_due().is_some(), due, "{status} at record {seq}");
            lane.snapshot.under_way = true;
            assert!(lane.snapshot_due().is_none(), "one at a time");
        }
    }
}
