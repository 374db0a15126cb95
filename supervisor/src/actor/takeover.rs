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
use ukai_protocol::server_event::ServerEvent;

use super::State;
use crate::job::Life;
use crate::pool::actor::Begin;
use crate::store::batch_file::BatchFile;
use crate::store::{Problem, Recovered, StateDir, recovery, routes};
use crate::table::Job;

impl State {
    /// It is news once, and then only when it has verified meanwhile: the next start says the same in other words.
    pub(super) fn found_quarantined(&mut self, subject: &str, why: String) {
        if self.server_log.state.refuses(subject).is_none() {
            self.note(vec![ServerEvent::Quarantined { subject: subject.to_owned(), why }]);
        }
    }

    /// Of a job that has ended, before something was to be added to its log: nothing was, and it stands as it will at the
    /// next start.
    pub(super) fn does_not_verify(&mut self, id: &JobId, why: String) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let folder = StateDir::new(&self.pool.settings.state_dir).quarantine_of(id);
        let cause = recovery::quarantined(id, &why, &folder.display().to_string());
        job.progress = recovery::refused(job.progress.clone(), job.spec.as_deref(), cause);
        job.unwritten = true;
        self.found_quarantined(id.as_str(), why);
    }

    /// What an earlier supervisor refused, and was mended or cleared since.
    fn found_verified(&mut self) {
        let refused = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.unwritten);
        let over: Vec<_> = (self.server_log.state.quarantined.iter())
            .filter(|(subject, seen)| match subject.parse::<JobId>() {
                Ok(id) => !seen.over && !refused(&id),
                Err(_) => !seen.over && (*subject != routes::NAME || self.router.is_shut().is_none()),
            })
            .map(|(subject, _)| ServerEvent::Verified { subject: subject.clone() })
            .collect();
        if !over.is_empty() {
            self.note(over);
        }
    }

    /// In the order of submission.
    pub(super) fn take_over(&mut self, batches: Vec<BatchFile>, recovered: Vec<Recovered>, now: Instant) {
        for BatchFile { id, name, void, told, .. } in batches {
            self.batches.recall(id, name, void, told);
        }
        for Recovered { id, spec, progress, problem } in recovered {
            let order = self.next_order();
            let ended = progress.outcome.is_some() || problem.is_some();
            let spec_is_unknown = spec.is_none();
            let spec = spec.filter(|_| !ended).map(|mut spec| {
                spec.limits = progress.limits.unwrap_or(spec.limits);
                Arc::new(*spec)
            });
            if matches!(problem, Some(Problem::Io { .. })) && spec_is_unknown && progress.batch.is_none() {
                self.unreadable = Some(id.clone());
            }
            let refused = problem.is_some();
            if let Some(problem) = problem {
                match problem {
                    Problem::Quarantined { why } => self.found_quarantined(id.as_str(), why),
                    Problem::Io { why, .. } => {
                        let name = progress.name.clone();
                        self.alert(What::Attention { job: id.clone(), name, account: None, why });
                    }
                }
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
            let mut job = Job::new(spec, progress, life, order);
            job.unwritten = refused;
            if refused && self.server_log.state.refuses(id.as_str()).is_some_and(|seen| seen.acked) {
                job.progress.attention = None;
            }
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
                (Life::Queued, _) => self.queue.push(id.clone(), rank, priority),
                _ => {}
            }
            self.sync_asks(&id, true, now);
        }
        self.found_verified();
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
