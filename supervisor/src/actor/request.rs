//! What clients and the host ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ractor::ActorRef;
use tokio::sync::oneshot;
use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::{JobResult, JobRow, Selection, ServerStatus};
use ukai_protocol::id::JobId;
use ukai_protocol::job::CauseKind;

use super::{Answer, Refusal, State};
use crate::job::{Life, Step};
use crate::naming::{self, Meant};
use crate::pool::actor::{Msg as WorkerMsg, Stop};
use crate::route::router::Opening;
use crate::table::{self, Job};

/// Rows of one list, the newest: they must fit into a frame.
const LIST_ROWS_MAX: usize = 10_000;
/// A host that nothing can use within this may end.
const IDLE_AHEAD: Duration = Duration::from_secs(60);

/// A client that waits until these have ended.
pub struct Cancelling {
    ids: Vec<JobId>,
    left: BTreeSet<JobId>,
    answer: Answer<Vec<JobId>>,
}

/// Nothing runs and nothing can start soon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// What stays, and what it waits for.
    pub queued: Vec<(JobId, String)>,
    /// What a person paused.
    pub paused: Vec<JobId>,
}

pub(super) fn usage(why: impl Into<String>) -> Refusal {
    Refusal { why: why.into(), usage: true }
}

impl State {
    /// In the order of submission, and how many older ones did not fit.
    pub(super) fn list(&self, jobs: &Selection, answer: Answer<(Vec<JobRow>, u64)>, now: Instant) {
        let listed = self.select(jobs).map(|ids| {
            let surplus = ids.len().saturating_sub(LIST_ROWS_MAX);
            let jobs = ids.iter().skip(surplus).filter_map(|id| Some((id, self.jobs.get(id)?)));
            (jobs.map(|(id, job)| self.row(id, job, now)).collect(), surplus as u64)
        });
        let _ = answer.send(listed);
    }

    pub(super) fn show(&self, job: &str, answer: Answer<(JobRow, JobResult)>, now: Instant) {
        let shown = self.job_meant(job).map(|id| (self.row(&id, &self.jobs[&id], now), self.jobs[&id].result(&id)));
        let _ = answer.send(shown);
    }

    pub(super) fn job_meant(&self, job: &str) -> Result<JobId, Refusal> {
        let meant = naming::job_meant(table::names(&self.jobs), self.batches.names(), job);
        meant.cloned().map_err(|why| usage(why.to_string()))
    }

    pub(super) fn row(&self, id: &JobId, job: &Job, now: Instant) -> JobRow {
        job.row(id, now, || self.waits_for(id, job, now))
    }

    fn waits_for(&self, id: &JobId, job: &Job, now: Instant) -> String {
        if let Some(until) = self.storm.poll_timeout().filter(|until| *until > now) {
            let seconds = until.saturating_duration_since(now).as_secs();
            return format!("starts are paused for another {seconds} s: too many jobs crashed at once");
        }
        match self.router.opens_at(&job.wants(), now) {
            Opening::Now => format!("{} before it", self.queue.position(id).unwrap_or(0)),
            Opening::At(at) => {
                let seconds = at.saturating_duration_since(now).as_secs();
                let why = self.router.opened(&job.wants());
                format!("no provider may be asked for another {seconds} s: {why}; see {}", quoted(&["providers"]))
            }
            Opening::Never => match self.router.is_shut() {
                Some(cause) => cause.detail.clone(),
                None => {
                    let (why, closed) = (self.router.opened(&job.wants()), self.router.closed(&job.wants()));
                    format!(
                        "nobody may be asked: {why}; mend that, then type: {}",
                        command(&[&["providers", "reset"], &*closed].concat())
                    )
                }
            },
        }
    }

    pub(super) fn status(&self, answer: Answer<ServerStatus>) {
        let settings = &self.pool.settings;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let _ = answer.send(Ok(ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state_dir: settings.state_dir.clone(),
            config: settings.config.clone(),
            max_workers: count(settings.max_workers),
            running: count(self.queue.running()),
            queued: count(self.queue.waiting()),
        }));
    }

    /// In the order of submission. `All` is all that this supervisor knows.
    pub(super) fn select(&self, jobs: &Selection) -> Result<Vec<JobId>, Refusal> {
        Ok(self.select_named(jobs)?.into_iter().map(|(id, _)| id).collect())
    }

    /// The same, and whether it was named itself rather than meant with others.
    pub(super) fn select_named(&self, jobs: &Selection) -> Result<Vec<(JobId, bool)>, Refusal> {
        let mut ids: Vec<(JobId, bool)> = match jobs {
            Selection::All => {
                // What was never promised is no job to anybody, once it is closed.
                let void = |id: &JobId, job: &Job| {
                    let place = job.progress.batch.as_ref();
                    job.life == Life::Ended && place.is_some_and(|place| self.batches.is_void(place, id))
                };
                let all = self.jobs.iter().filter(|(id, job)| !void(id, job));
                all.map(|(id, _)| (id.clone(), false)).collect()
            }
            Selection::These(texts) => {
                let mut ids = BTreeMap::new();
                for text in texts {
                    // Most come as ids, and many at once.
                    if let Some(id) = text.parse().ok().filter(|id| self.jobs.contains_key(id)) {
                        ids.insert(id, true);
                        continue;
                    }
                    match naming::meant(table::names(&self.jobs), self.batches.names(), text) {
                        Ok(Meant::Job(id)) => drop(ids.insert(id.clone(), true)),
                        Ok(Meant::Batch(id)) => {
                            for job in self.batches.get(id).into_iter().flat_map(|batch| batch.jobs()) {
                                ids.entry(job.clone()).or_insert(false);
                            }
                        }
                        Err(why) => return Err(usage(why.to_string())),
                    }
                }
                ids.into_iter().collect()
            }
        };
        ids.sort_by_key(|(id, _)| self.jobs.get(id).map(|job| job.order));
        Ok(ids)
    }

    pub(super) fn cancel(&mut self, jobs: &Selection, kind: CauseKind, answer: Answer<Vec<JobId>>) {
        let mut ids = match self.select(jobs) {
            Ok(ids) => ids,
            Err(refusal) => {
                let _ = answer.send(Err(refusal));
                return;
            }
        };
        let running = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.life != Life::Ended);
        let left: BTreeSet<JobId> = ids.iter().filter(|id| running(id)).cloned().collect();
        if *jobs == Selection::All {
            ids.retain(|id| left.contains(id));
        }
        for id in &left {
            self.cancel_one(id, kind);
        }
        let mut left = left;
        if *jobs == Selection::All {
            // What is being queued is stopped before it is; its jobs are waited for like the others.
            let coming = self.stop_submissions();
            ids.extend(coming.iter().cloned());
            left.extend(coming);
        }
        self.cancels.push(Cancelling { ids, left, answer });
        self.answer_done_cancels();
    }

    fn cancel_one(&mut self, id: &JobId, kind: CauseKind) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.cancel.is_none() {
            job.cancel = Some(kind);
        }
        match (job.life, &job.worker) {
            (Life::Attempt { .. }, Some(worker)) => {
                stop(id, worker, Stop::Cancel(kind));
            }
            (Life::Queued | Life::BackingOff { .. } | Life::Paused | Life::Parked, _) => {
                self.close_cancelled(id, kind);
            }
            // An end is being written, or an interruption, and the cancel is seen after it.
            _ => {}
        }
    }

    pub(super) fn answer_cancels(&mut self, ended: &JobId) {
        for cancelling in &mut self.cancels {
            cancelling.left.remove(ended);
        }
        self.answer_done_cancels();
    }

    fn answer_done_cancels(&mut self) {
        let (done, left) = std::mem::take(&mut self.cancels).into_iter().partition(|waiting| waiting.left.is_empty());
        self.cancels = left;
        for Cancelling { ids, answer, .. } in Vec::from_iter::<Vec<Cancelling>>(done) {
            let _ = answer.send(Ok(ids));
        }
    }

    /// No new starts; workers end when what they sent is on disk, and their jobs go on at the next start.
    pub(super) fn drain(&mut self, answer: oneshot::Sender<()>) {
        self.drains.push(answer);
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        self.save_routes_at_the_end();
        for (id, job) in &mut self.jobs {
            match (job.life, &job.worker) {
                (Life::Attempt { .. }, Some(worker)) => {
                    stop(id, worker, Stop::Drain);
                }
                (Life::Queued | Life::BackingOff { .. }, _) => {
                    self.queue.remove(id);
                    if let Err(error) = job.step(Step::Park) {
                        tracing::error!(job = %id, %error, "a job cannot be parked");
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn answer_drains(&mut self) {
        if !self.drains.is_empty() && !self.is_busy() {
            for answer in self.drains.drain(..) {
                let _ = answer.send(());
            }
        }
    }

    /// A process, or a record about one, is under way.
    pub(super) fn is_busy(&self) -> bool {
        let busy = |job: &Job| {
            matches!(job.life, Life::Attempt { .. } | Life::Interrupting { .. } | Life::Closing | Life::Resuming)
        };
        let records = !self.submissions.is_empty()
            || !self.lists.is_empty()
            || !self.pauses.is_empty()
            || !self.acks.is_empty()
            || self.server_log.is_busy()
            || self.closing.is_busy()
            || self.is_saving_routes()
            || self.is_saving_capabilities();
        records || self.queue.running() > 0 || self.jobs.values().any(busy)
    }

    pub(super) fn answer_idlers(&mut self, now: Instant) {
        if self.idlers.is_empty() || self.is_busy() {
            return;
        }
        let soon = now + IDLE_AHEAD;
        let starts_open = self.storm.poll_timeout().is_none_or(|until| until <= soon);
        let can_start = |job: &Job| match job.life {
            Life::BackingOff { until } => until <= soon,
            Life::Queued => match self.router.opens_at(&job.wants(), now) {
                Opening::Now => starts_open,
                Opening::At(at) => starts_open && at <= soon,
                Opening::Never => false,
            },
            _ => false,
        };
        if self.jobs.values().any(can_start) {
            return;
        }
        let queued = self.queue.iter().filter_map(|id| Some((id.clone(), self.waits_for(id, self.jobs.get(id)?, now))));
        let paused = self.jobs.iter().filter(|(_, job)| job.life == Life::Paused).map(|(id, _)| id.clone());
        let idle = Idle { queued: queued.collect(), paused: paused.collect() };
        for answer in self.idlers.drain(..) {
            let _ = answer.send(idle.clone());
        }
    }
}

fn stop(id: &JobId, worker: &ActorRef<WorkerMsg>, why: Stop) {
    if worker.cast(WorkerMsg::Stop(why)).is_err() {
        // Its report is on the way, and is judged in the same light.
        tracing::debug!(job = %id, "stopped while its worker ended");
    }
}
