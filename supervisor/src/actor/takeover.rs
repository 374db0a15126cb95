//! What the last supervisor left: runs that have ended are listed, the others go on.
//!
//! A run whose process is noted takes the road of an attempt under way, whether the process lives or not: a job actor
//! waits for its worker to come back, or finds it dead and reports that. So there is one judgement of ends, not two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ukai_notifier::What;
use ukai_protocol::event::ProcessMark;
use ukai_protocol::id::JobId;
use ukai_protocol::process_tree;

use super::State;
use crate::job::Life;
use crate::pool::actor::Begin;
use crate::store::batch_file::BatchFile;
use crate::store::{Problem, Recovered};
use crate::table::Job;

impl State {
    /// In the order of submission.
    pub(super) fn take_over(&mut self, batches: Vec<BatchFile>, recovered: Vec<Recovered>, now: Instant) {
        for BatchFile { id, name, void, told, .. } in batches {
            self.batches.recall(id, name, void, told);
        }
        for Recovered { id, spec, progress, problem } in recovered {
            let order = self.next_order();
            let ended = progress.outcome.is_some() || problem.is_some();
            let spec_is_unknown = spec.is_none();
            let spec = spec.map(|spec| Arc::new(*spec)).filter(|_| !ended);
            if matches!(problem, Some(Problem::Io { .. })) && spec_is_unknown && progress.batch.is_none() {
                self.unreadable = Some(id.clone());
            }
            if let Some(problem) = problem {
                let why = match problem {
                    Problem::Quarantined { why } | Problem::Io { why, .. } => why,
                };
                self.alert(What::Quarantined { subject: id.to_string(), why });
                if let Some(mark) = progress.process.clone() {
                    end_refused(id.clone(), mark);
                }
            }
            let (attempt, priority, paused) = (progress.attempt, progress.priority, progress.paused);
            let mark = progress.process.clone();
            let (token_hash, recorded) = (progress.token_hash.clone(), progress.recorded);
            let life = match (ended, &mark) {
                (true, _) => Life::Ended,
                (false, Some(_)) => Life::Attempt { attempt },
                (false, None) if paused => Life::Paused,
                (false, None) => Life::Queued,
            };
            let promised = progress.batch.as_ref().is_none_or(|place| self.batches.enter(place, &id, ended));
            let job = Job::new(spec, progress, life, order);
            let rank = job.rank();
            self.jobs.insert(id.clone(), job);
            if !promised && matches!(life, Life::Queued | Life::Paused) {
                self.close_unpromised(&id, "ukai was ended before its submission was whole");
                continue;
            }
            match (life, mark) {
                (Life::Attempt { .. }, Some(mark)) => {
                    // One that is dead already is noticed at once, by the same road.
                    self.await_return(id.clone(), now);
                    self.queue.hold(id.clone());
                    self.begin(&id, attempt, Begin::Adopt { mark, token_hash, recorded, paused });
                }
                (Life::Queued, _) => self.queue.push(id, rank, priority),
                _ => {}
            }
        }
    }
}

/// Its worker can record nothing any more.
fn end_refused(job: JobId, mark: ProcessMark) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = process_tree::end(&mark, Duration::ZERO) {
            tracing::error!(%job, %error, "the worker of a refused run could not be ended");
        }
    });
}
