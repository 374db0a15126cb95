//! New jobs: all of a submission are durable before any is queued, or none is.
//!
//! Lines of a list take one more step before and after: the batch's file names the jobs that are about to be written,
//! and forgets them when all are (`store/batch_file.rs`). A submission that dies in between has promised nothing.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use ukai_protocol::control::{Again, Joined, NewJob, ToBatch};
use ukai_protocol::event::{BatchPlace, Event};
use ukai_protocol::id::{BatchId, Id, JobId};
use ukai_protocol::job::{Cause, CauseKind, JobSpec, JobStatus, Outcome};

use super::request::usage;
use super::{Answer, Msg, Occasion, Refusal, State};
use crate::job::Life;
use crate::queue::Rank;
use crate::store::batch_file::BatchFile;
use crate::store::{Appended, Reply, StoreError, StoreMessage};
use crate::table::Job;

/// Jobs that wait to be started: a night's work many times over, and a few hundred megabytes at worst.
pub const QUEUED_MAX: usize = 10_000;
/// 40 bits rarely clash; this many clashes in a row mean that the randomness is broken.
const ID_DRAWS_MAX: usize = 100;

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Queued now, in the order sent.
    pub ids: Vec<JobId>,
    pub batch: Option<Joined>,
    /// For whoever submitted them.
    pub notes: Vec<String>,
}

/// A submission that is being made durable.
pub struct Submission {
    pub(super) new: Vec<New>,
    /// The batch that it makes or joins.
    batch: Option<Joined>,
    /// Of its jobs, those that are not on disk yet.
    left: usize,
    /// The batch's file says that it is whole.
    whole: bool,
    failed: Option<String>,
    answer: Answer<Submitted>,
}

pub(super) struct New {
    pub id: JobId,
    spec: Arc<JobSpec>,
    batch: Option<BatchPlace>,
    created: Option<Arc<Appended>>,
}

/// Lists are taken one after another: what one adds, the next knows.
pub struct Waiting {
    jobs: Vec<NewJob>,
    to: ToBatch,
    answer: Answer<Submitted>,
}

impl State {
    pub(super) fn submit(&mut self, jobs: Vec<NewJob>, to: Option<ToBatch>, answer: Answer<Submitted>) {
        if let Err(refusal) = self.may_submit(&jobs) {
            // A client that has gone needs no answer, here and below.
            let _ = answer.send(Err(refusal));
            return;
        }
        match to {
            None => {
                let jobs = jobs.into_iter().map(|job| (job.spec, None)).collect();
                self.write_jobs(jobs, None, answer);
            }
            Some(to) if jobs.iter().any(|job| job.line.is_none()) => {
                let why = format!("a job for batch {} names no line of its list", to.name);
                let _ = answer.send(Err(usage(why)));
            }
            Some(to) => {
                self.lists.push_back(Waiting { jobs, to, answer });
                self.next_list();
            }
        }
    }

    fn may_submit(&self, jobs: &[NewJob]) -> Result<(), Refusal> {
        let coming = self.submissions.values().map(|submission| submission.new.len()).sum::<usize>()
            + self.lists.iter().map(|list| list.jobs.len()).sum::<usize>();
        let waiting = self.queue.waiting() + coming;
        if jobs.is_empty() {
            return Err(usage("no job was given"));
        }
        if self.draining {
            return Err(Refusal { why: "the server is stopping: submit again when it runs".to_owned(), usage: false });
        }
        if waiting + jobs.len() > QUEUED_MAX {
            let why =
                format!("{waiting} jobs wait already, of at most {QUEUED_MAX}: submit again when some have ended");
            return Err(Refusal { why, usage: false });
        }
        Ok(())
    }

    /// The emergency stop: nothing of what is being made durable is queued. The jobs that are on their way to the disk.
    pub(super) fn stop_submissions(&mut self) -> Vec<JobId> {
        const WHY: &str = "everything was cancelled while it was being queued";
        for Waiting { answer, .. } in self.lists.drain(..) {
            let _ = answer.send(Err(Refusal { why: format!("nothing was queued: {WHY}"), usage: false }));
        }
        let mut coming = Vec::new();
        for submission in self.submissions.values_mut() {
            submission.failed.get_or_insert_with(|| WHY.to_owned());
            coming.extend(submission.new.iter().map(|new| new.id.clone()));
        }
        coming
    }

    fn next_list(&mut self) {
        if self.submissions.values().any(|submission| submission.batch.is_some()) {
            return;
        }
        let Some(Waiting { jobs, to, answer }) = self.lists.pop_front() else { return };
        if let Some(run) = self.unreadable.as_ref().filter(|_| to.again != Again::Always) {
            let why = format!(
                "nothing was queued: {run} cannot be read, so it is not known which lines have had their job; mend that \
                 and start the server again, or make jobs of all lines with --again"
            );
            let _ = answer.send(Err(Refusal { why, usage: false }));
            return self.next_list();
        }
        let stands = |id: &JobId| {
            let outcome = self.jobs.get(id).and_then(|job| job.progress.outcome.as_ref());
            outcome.is_none_or(|outcome| outcome.status() == JobStatus::Completed)
        };
        let plan = self.batches.plan(jobs.iter().filter_map(|job| job.line.as_ref()), to.again, stands);
        let Some(id) = plan.join.clone().or_else(|| self.new_batch_id()) else {
            let _ = answer.send(Err(no_id()));
            return self.next_list();
        };
        let name = self.batches.get(&id).map_or(to.name, |batch| batch.name.clone());
        let lines = jobs.into_iter().zip(&plan.known).filter(|(_, known)| known.is_none());
        let new = lines.map(|(NewJob { spec, line }, _)| {
            let place = line.map(|line| BatchPlace { id: id.clone(), name: name.clone(), line });
            (spec, place)
        });
        let new = new.collect();
        self.write_jobs(new, Some((id, name, plan.known)), answer);
    }

    fn write_jobs(
        &mut self,
        jobs: Vec<(JobSpec, Option<BatchPlace>)>,
        batch: Option<(BatchId, String, Vec<Option<JobId>>)>,
        answer: Answer<Submitted>,
    ) {
        let Some(ids) = self.new_job_ids(jobs.len()) else {
            let _ = answer.send(Err(no_id()));
            return self.next_list();
        };
        let batch = batch.map(|(id, name, known)| {
            let mut new = ids.iter().cloned();
            let jobs = known.into_iter().filter_map(|known| known.or_else(|| new.next())).collect();
            Joined { id, name, jobs }
        });
        let new: Vec<_> = ids
            .into_iter()
            .zip(jobs)
            .map(|(id, (spec, batch))| {
                let spec = Arc::new(JobSpec { batch: batch.clone(), ..spec });
                New { id, spec, batch, created: None }
            })
            .collect();
        let number = self.next_order();
        let left = new.len();
        let announces = batch.is_some() && left > 0;
        self.submissions.insert(number, Submission { new, batch, left, whole: false, failed: None, answer });
        if announces {
            self.write_batch(number);
        } else if left > 0 {
            self.create(number);
        } else {
            self.queue_all(number);
        }
    }

    /// With its new jobs named as void, until they are all there.
    fn write_batch(&mut self, number: u64) {
        let Some(submission) = self.submissions.get_mut(&number) else { return };
        let Submission { new, batch: Some(joined), left, whole, failed, .. } = submission else { return };
        let mut void = self.batches.get(&joined.id).map(|batch| batch.void.clone()).unwrap_or_default();
        *whole = *left == 0 && failed.is_none();
        if !*whole {
            void.extend(new.iter().map(|new| new.id.clone()));
        }
        let file = BatchFile::new(joined.id.clone(), joined.name.clone(), void, false);
        self.save_batch(file, Occasion::Submission(number));
    }

    pub(super) fn batch_written(&mut self, number: u64, result: io::Result<()>) {
        let Some(submission) = self.submissions.get_mut(&number) else { return };
        match result {
            Err(error) => {
                submission.failed = Some(format!("writing the file of its batch: {error}"));
                self.queue_all(number);
            }
            Ok(()) if submission.left > 0 && submission.failed.is_none() => self.create(number),
            // Stopped while its file was made to say that it is whole: that is taken back before anybody is told.
            Ok(()) if submission.whole && submission.failed.is_some() => self.write_batch(number),
            Ok(()) => self.queue_all(number),
        }
    }

    fn create(&self, number: u64) {
        let Some(submission) = self.submissions.get(&number) else { return };
        for (place, New { id, spec, batch, .. }) in submission.new.iter().enumerate() {
            let (name, prompt, priority) = (spec.name.clone(), spec.prompt.clone(), spec.priority);
            let submitted = Event::Submitted { name, prompt, priority, batch: batch.clone() };
            let myself = self.myself.clone();
            let reply = Reply::new(move |result| {
                let _ = myself.cast(Msg::Created { submission: number, place, result });
            });
            let spec = Box::new((**spec).clone());
            // A store that has ended answers by dropping the reply.
            let _ = self.pool.store.cast(StoreMessage::Create { id: id.clone(), spec, submitted, reply });
        }
    }

    /// `place`: of the job in its submission.
    pub(super) fn created(&mut self, number: u64, place: usize, result: Result<Arc<Appended>, StoreError>) {
        let Some(submission) = self.submissions.get_mut(&number) else { return };
        match result {
            Ok(appended) => {
                if let Some(new) = submission.new.get_mut(place) {
                    new.created = Some(appended);
                }
            }
            Err(error) => submission.failed = Some(error.to_string()),
        }
        submission.left -= 1;
        if submission.left > 0 {
            return;
        }
        if submission.batch.is_some() && submission.failed.is_none() {
            self.write_batch(number);
        } else {
            self.queue_all(number);
        }
    }

    /// All is durable, or none of it counts.
    fn queue_all(&mut self, number: u64) {
        let Some(Submission { new, batch, failed, answer, .. }) = self.submissions.remove(&number) else { return };
        if let (Some(_), Some(joined)) = (&failed, &batch) {
            // As its file says.
            self.batches.void(&joined.id, &joined.name, new.iter().map(|new| new.id.clone()));
        }
        let notes = self.pool.commands_env.left_out(new.iter().map(|new| &*new.spec));
        let mut ids = Vec::with_capacity(new.len());
        for New { id, spec, batch, created } in new {
            let Some(appended) = created else {
                // Nothing of it is there, and whoever waits for its end has it.
                self.answer_cancels(&id);
                continue;
            };
            let (priority, order) = (spec.priority, self.next_order());
            self.jobs.insert(id.clone(), Job::new(Some(spec), appended.progress.clone(), Life::Queued, order));
            match &failed {
                None => {
                    if let Some(place) = &batch {
                        if let Some(earlier) = self.batches.job_of(place).cloned() {
                            self.seen_by_retry(&earlier);
                        }
                        self.batches.enter(place, &id, false);
                    }
                    self.queue.push(id.clone(), Rank::New, priority);
                    ids.push(id);
                }
                Some(why) => self.close_unpromised(&id, &format!("its submission could not be recorded whole ({why})")),
            }
        }
        let answered = match failed {
            None => Ok(Submitted { ids, batch, notes }),
            Some(why) => Err(Refusal { why: format!("nothing was queued: {why}"), usage: false }),
        };
        let _ = answer.send(answered);
        self.next_list();
    }

    pub(super) fn close_unpromised(&mut self, id: &JobId, why: &str) {
        self.close(id, Outcome::Ended(Cause::new(CauseKind::Cancel, format!("it was not queued: {why}"))));
    }

    fn new_job_ids(&self, count: usize) -> Option<Vec<JobId>> {
        let coming = self.submissions.values().flat_map(|submission| &submission.new);
        let coming: BTreeSet<&JobId> = coming.map(|new| &new.id).collect();
        let mut drawn = BTreeSet::new();
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = draw(|id| drawn.contains(id) || coming.contains(id) || self.jobs.contains_key(id))?;
            drawn.insert(id.clone());
            ids.push(id);
        }
        Some(ids)
    }

    fn new_batch_id(&self) -> Option<BatchId> {
        draw(|id| self.batches.contains(id))
    }
}

fn no_id() -> Refusal {
    Refusal { why: "no free id could be drawn: the system's randomness seems broken".to_owned(), usage: false }
}

fn draw<const KIND: char>(taken: impl Fn(&Id<KIND>) -> bool) -> Option<Id<KIND>> {
    (0..ID_DRAWS_MAX).map(|_| Id::from_random(rand::random())).find(|id| !taken(id))
}
