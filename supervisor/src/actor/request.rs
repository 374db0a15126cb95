//! What clients and the host ask for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use ukai_protocol::control::{JobResult, JobRow, SUBMIT_JOBS_MAX, Selection, ServerStatus};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec, Outcome};

use super::{Answer, Msg, Refusal, State};
use crate::job::{Life, Step};
use crate::pool::actor::{Msg as WorkerMsg, Stop};
use crate::queue::Rank;
use crate::route::router::Opening;
use crate::store::{Appended, Reply, StoreError, StoreMessage};
use crate::table::{self, Job};

/// Jobs that wait to be started: a night's work many times over, and a few hundred megabytes at worst.
const QUEUED_MAX: usize = 10_000;
/// Rows of one list, the newest: they must fit into a frame.
const LIST_ROWS_MAX: usize = 10_000;
/// A host that nothing can use within this may end.
const IDLE_AHEAD: Duration = Duration::from_secs(60);
/// 40 bits rarely clash; this many clashes in a row mean that the randomness is broken.
const ID_DRAWS_MAX: usize = 100;

/// A submission that is being made durable: all of it is queued, or none.
pub struct Batch {
    ids: Vec<JobId>,
    specs: Vec<Arc<JobSpec>>,
    created: Vec<(JobId, Arc<Appended>)>,
    failed: Option<StoreError>,
    left: usize,
    answer: Answer<Vec<JobId>>,
}

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
}

fn usage(why: impl Into<String>) -> Refusal {
    Refusal { why: why.into(), usage: true }
}

impl State {
    pub(super) fn submit(&mut self, jobs: Vec<JobSpec>, answer: Answer<Vec<JobId>>) {
        let waiting = self.queue.waiting() + self.batches.values().map(|batch| batch.ids.len()).sum::<usize>();
        let refusal = if jobs.is_empty() {
            Some(usage("no job was given"))
        } else if jobs.len() > SUBMIT_JOBS_MAX {
            Some(usage(format!("{} jobs at once are too many: send {SUBMIT_JOBS_MAX} at a time", jobs.len())))
        } else if self.draining {
            Some(Refusal { why: "the server is stopping: submit again when it runs".to_owned(), usage: false })
        } else if waiting + jobs.len() > QUEUED_MAX {
            let why =
                format!("{waiting} jobs wait already, of at most {QUEUED_MAX}: submit again when some have ended");
            Some(Refusal { why, usage: false })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            // A client that has gone needs no answer, here and below.
            let _ = answer.send(Err(refusal));
            return;
        }
        let Some(ids) = self.new_ids(jobs.len()) else {
            let why = "no free job id could be drawn: the system's randomness seems broken".to_owned();
            let _ = answer.send(Err(Refusal { why, usage: false }));
            return;
        };
        let number = self.next_order();
        let specs: Vec<_> = jobs.into_iter().map(Arc::new).collect();
        for (id, spec) in ids.iter().zip(&specs) {
            let (name, prompt, priority) = (spec.name.clone(), spec.prompt.clone(), spec.priority);
            let submitted = Event::Submitted { name, prompt, priority };
            let (myself, created) = (self.myself.clone(), id.clone());
            let reply = Reply::new(move |result| {
                let _ = myself.cast(Msg::Created { batch: number, id: created, result });
            });
            let spec = Box::new((**spec).clone());
            // A store that has ended answers by dropping the reply.
            let _ = self.pool.store.cast(StoreMessage::Create { id: id.clone(), spec, submitted, reply });
        }
        let left = ids.len();
        self.batches.insert(number, Batch { ids, specs, created: Vec::new(), failed: None, left, answer });
    }

    fn new_ids(&self, count: usize) -> Option<Vec<JobId>> {
        let mut drawn = BTreeSet::new();
        let taken =
            |id: &JobId| self.jobs.contains_key(id) || self.batches.values().any(|batch| batch.ids.contains(id));
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = (0..ID_DRAWS_MAX)
                .map(|_| JobId::from_random(rand::random()))
                .find(|id| !drawn.contains(id) && !taken(id))?;
            drawn.insert(id.clone());
            ids.push(id);
        }
        Some(ids)
    }

    pub(super) fn created(&mut self, number: u64, id: JobId, result: Result<Arc<Appended>, StoreError>) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        match result {
            Ok(appended) => batch.created.push((id, appended)),
            Err(error) => batch.failed = Some(error),
        }
        batch.left -= 1;
        if batch.left > 0 {
            return;
        }
        let Some(mut batch) = self.batches.remove(&number) else { return };
        for (id, spec) in batch.ids.iter().zip(&batch.specs) {
            let Some(at) = batch.created.iter().position(|(created, _)| created == id) else { continue };
            let (id, appended) = batch.created.swap_remove(at);
            let order = self.next_order();
            let job = Job::new(Some(spec.clone()), appended.progress.clone(), Life::Queued, order);
            self.jobs.insert(id.clone(), job);
            match &batch.failed {
                None => self.queue.push(id, Rank::New, spec.priority),
                Some(error) => {
                    let detail =
                        format!("it was not queued: another job of its submission could not be recorded ({error})");
                    self.close(&id, Outcome::Ended(Cause::new(CauseKind::Cancel, detail)));
                }
            }
        }
        let answer = match batch.failed {
            None => Ok(batch.ids),
            Some(error) => Err(Refusal { why: format!("nothing was queued: {error}"), usage: false }),
        };
        let _ = batch.answer.send(answer);
    }

    pub(super) fn list(&self, answer: Answer<Vec<JobRow>>, now: Instant) {
        let mut jobs: Vec<_> = self.jobs.iter().collect();
        jobs.sort_by_key(|(_, job)| job.order);
        let surplus = jobs.len().saturating_sub(LIST_ROWS_MAX);
        let _ = answer.send(Ok(jobs.into_iter().skip(surplus).map(|(id, job)| self.row(id, job, now)).collect()));
    }

    pub(super) fn show(&self, job: &str, answer: Answer<(JobRow, JobResult)>, now: Instant) {
        let shown = table::resolve(&self.jobs, job)
            .map_err(usage)
            .map(|id| (self.row(id, &self.jobs[id], now), self.jobs[id].result()));
        let _ = answer.send(shown);
    }

    fn row(&self, id: &JobId, job: &Job, now: Instant) -> JobRow {
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
                format!("no provider may be asked for another {} s", at.saturating_duration_since(now).as_secs())
            }
            Opening::Never => "its providers are closed: mend the account and restart the server".to_owned(),
        }
    }

    pub(super) fn status(&self, answer: Answer<ServerStatus>) {
        let settings = &self.pool.settings;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let _ = answer.send(Ok(ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state_dir: settings.state_dir.clone(),
            max_workers: count(settings.max_workers),
            running: count(self.queue.running()),
            queued: count(self.queue.waiting()),
        }));
    }

    /// In the order of submission. `All` is all that this supervisor knows.
    pub(super) fn select(&self, jobs: &Selection) -> Result<Vec<JobId>, Refusal> {
        let mut ids: Vec<JobId> = match jobs {
            Selection::All => self.jobs.keys().cloned().collect(),
            Selection::These(texts) => {
                let resolved: Result<BTreeSet<&JobId>, String> =
                    texts.iter().map(|text| table::resolve(&self.jobs, text)).collect();
                resolved.map_err(usage)?.into_iter().cloned().collect()
            }
        };
        ids.sort_by_key(|id| self.jobs.get(id).map(|job| job.order));
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
                if worker.cast(WorkerMsg::Stop(Stop::Cancel(kind))).is_err() {
                    // Its report is on the way; the end is written then.
                    tracing::debug!(job = %id, "cancelled while its worker ended");
                }
            }
            (Life::Queued | Life::BackingOff { .. } | Life::Parked, _) => self.close_cancelled(id, kind),
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
        for (id, job) in &mut self.jobs {
            match (job.life, &job.worker) {
                (Life::Attempt { .. }, Some(worker)) => {
                    if worker.cast(WorkerMsg::Stop(Stop::Drain)).is_err() {
                        tracing::debug!(job = %id, "drained while its worker ended");
                    }
                }
                (Life::Queued | Life::BackingOff { .. }, _) => {
                    if job.step(Step::Park).is_ok() {
                        self.queue.remove(id);
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
        let busy = |job: &Job| matches!(job.life, Life::Attempt { .. } | Life::Interrupting { .. } | Life::Closing);
        !self.batches.is_empty() || self.jobs.values().any(busy)
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
        let idle = Idle { queued: queued.collect() };
        for answer in self.idlers.drain(..) {
            let _ = answer.send(idle.clone());
        }
    }
}
