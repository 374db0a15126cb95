//! New jobs: all of a submission are durable before any is queued, or none is.

use std::collections::BTreeSet;
use std::sync::Arc;

use ukai_protocol::control::SUBMIT_JOBS_MAX;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec, Outcome};

use super::request::usage;
use super::{Answer, Msg, Refusal, State};
use crate::job::Life;
use crate::queue::Rank;
use crate::store::{Appended, Reply, StoreError, StoreMessage};
use crate::table::Job;

/// Jobs that wait to be started: a night's work many times over, and a few hundred megabytes at worst.
const QUEUED_MAX: usize = 10_000;
/// 40 bits rarely clash; this many clashes in a row mean that the randomness is broken.
const ID_DRAWS_MAX: usize = 100;

/// A submission that is being made durable: all of it is queued, or none.
pub struct Batch {
    pub(super) ids: Vec<JobId>,
    specs: Vec<Arc<JobSpec>>,
    created: Vec<(JobId, Arc<Appended>)>,
    failed: Option<StoreError>,
    left: usize,
    answer: Answer<Vec<JobId>>,
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
            let submitted = Event::Submitted { name, prompt, priority, batch: None };
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
}
