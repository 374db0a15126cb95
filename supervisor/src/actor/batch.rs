//! Batches as far as they are more than their jobs: their files, and the one word to the owner when one is done.

use std::collections::VecDeque;
use std::io;

use ukai_protocol::control::BatchRow;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::JobStatus;
use ukai_protocol::server_event::ServerEvent;

use super::request::usage;
use super::{Answer, Msg, State};
use crate::naming;
use crate::store::StateDir;
use crate::store::batch_file::{self, BatchFile};

/// One at a time, so that an older word on a batch never replaces a newer one.
#[derive(Default)]
pub struct Files {
    writing: bool,
    waiting: VecDeque<(BatchFile, Occasion)>,
}

/// What a batch's file is written for.
#[derive(Debug)]
pub enum Occasion {
    /// A submission begins, or is whole.
    Submission(u64),
    Done(BatchId),
    /// A job of it was resumed.
    GoesOn(BatchId),
}

impl State {
    pub(super) fn save_batch(&mut self, file: BatchFile, occasion: Occasion) {
        self.batch_files.waiting.push_back((file, occasion));
        self.write_next_batch();
    }

    fn write_next_batch(&mut self) {
        if self.batch_files.writing {
            return;
        }
        let Some((file, occasion)) = self.batch_files.waiting.pop_front() else { return };
        self.batch_files.writing = true;
        let state = StateDir::new(&self.pool.settings.state_dir);
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::BatchSaved { occasion, result: batch_file::save(&state, &file) });
        });
    }

    pub(super) fn batch_saved(&mut self, occasion: Occasion, result: io::Result<()>) {
        self.batch_files.writing = false;
        match occasion {
            Occasion::Submission(number) => self.batch_written(number, result),
            Occasion::Done(id) | Occasion::GoesOn(id) => {
                if let Err(error) = result {
                    tracing::error!(batch = %id, %error, "whether its end was told could not be written; at the next start it may be told again");
                }
            }
        }
        self.write_next_batch();
    }

    /// Batches whose last job has ended, and whose owner does not know yet. A server that starts has such too.
    pub(super) fn tell_done_batches(&mut self) {
        let done: Vec<_> = self.batches.done().cloned().collect();
        for id in done {
            let Some(batch) = self.batches.get(&id) else { continue };
            let (name, void) = (batch.name.clone(), batch.void.clone());
            let ends = batch.jobs().filter_map(|job| self.jobs.get(job)?.progress.outcome.as_ref());
            let (completed, other): (Vec<_>, Vec<_>) = ends.partition(|end| end.status() == JobStatus::Completed);
            let (completed, other) = (completed.len() as u64, other.len() as u64);
            // Whether or not it can be written: once is enough while this supervisor lives.
            self.batches.told(&id);
            self.note(vec![ServerEvent::BatchDone { batch: id.clone(), name: name.clone(), completed, other }]);
            self.save_batch(BatchFile::new(id.clone(), name, void, true), Occasion::Done(id));
        }
    }

    /// A person lets a job of it go on: its end is to be told again.
    pub(super) fn batch_goes_on(&mut self, id: &BatchId) {
        let Some(batch) = self.batches.get(id) else { return };
        let file = BatchFile::new(id.clone(), batch.name.clone(), batch.void.clone(), false);
        self.save_batch(file, Occasion::GoesOn(id.clone()));
    }

    /// A batch and its jobs, in the order of their lines.
    pub(super) fn batch(&self, typed: &str, answer: Answer<(BatchRow, Vec<JobId>)>) {
        let jobs = self.jobs.iter().map(|(id, job)| (id, &*job.progress.name, job.progress.batch.as_ref()));
        let found = naming::batch_meant(self.batches.names(), |id| self.batches.latest(id), jobs, typed)
            .map_err(|why| usage(why.to_string()));
        let found = found.map(|id| {
            let jobs: Vec<JobId> = self.batches.get(id).into_iter().flat_map(|batch| batch.jobs()).cloned().collect();
            let name = self.batches.get(id).map(|batch| batch.name.clone()).unwrap_or_default();
            (BatchRow { id: id.clone(), name, jobs: jobs.len() as u64 }, jobs)
        });
        let _ = answer.send(found);
    }
}
