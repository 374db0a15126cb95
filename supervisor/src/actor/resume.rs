//! `resume`: a person lets jobs go on that ended without having completed. All that are named, or none.
//!
//! What they are is read from the disk again (an ended job is kept as its fold alone), and nothing is queued before the
//! word about it is durable.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ukai_protocol::control::ToResume;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{JobSpec, Limits};

use super::attempt::Write;
use super::request::usage;
use super::submit::QUEUED_MAX;
use super::{Answer, Msg, Refusal, State};
use crate::job::{Life, Step};
use crate::restart::Restarts;
use crate::resume::{self, Refused};
use crate::store::spec_file::{self, Loaded};
use crate::store::{StateDir, StoreError};

/// One client's word, on its way.
pub struct Resumption {
    jobs: Vec<ToResume>,
    specs: HashMap<JobId, Arc<JobSpec>>,
    /// Whose record is not on disk yet.
    left: BTreeSet<JobId>,
    failed: Vec<String>,
    answer: Answer<Vec<JobId>>,
}

/// What the jobs are, in the order asked.
pub type Specs = Result<Vec<JobSpec>, String>;

impl State {
    pub(super) fn resume(&mut self, jobs: Vec<ToResume>, answer: Answer<Vec<JobId>>) {
        if let Err(refusal) = self.may_resume(&jobs) {
            // A client that has gone needs no answer, here and below.
            let _ = answer.send(Err(refusal));
            return;
        }
        for ToResume { job: id, .. } in &jobs {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if let Err(error) = job.step(Step::Resume) {
                tracing::error!(job = %id, %error, "an ended job cannot be resumed");
            }
            job.cancel = None;
        }
        let number = self.next_order();
        let folders: Vec<_> = jobs.iter().map(|ToResume { job, .. }| job.clone()).collect();
        let left = folders.iter().cloned().collect();
        let resumption = Resumption { jobs, specs: HashMap::new(), left, failed: Vec::new(), answer };
        self.resumptions.insert(number, resumption);
        let (state, myself) = (StateDir::new(&self.pool.settings.state_dir), self.myself.clone());
        tokio::spawn(async move {
            let read = tokio::task::spawn_blocking(move || folders.iter().map(|id| read(&state, id)).collect()).await;
            let specs = read.unwrap_or_else(|error| Err(format!("reading the jobs: {error}")));
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::SpecsRead { number, specs });
        });
    }

    fn may_resume(&self, jobs: &[ToResume]) -> Result<(), Refusal> {
        if self.draining {
            return Err(Refusal { why: "the server is stopping: resume again when it runs".to_owned(), usage: false });
        }
        if jobs.is_empty() {
            return Err(usage("no job was named"));
        }
        let waiting = self.queue.waiting();
        if waiting + jobs.len() > QUEUED_MAX {
            let why =
                format!("{waiting} jobs wait already, of at most {QUEUED_MAX}: resume again when some have ended");
            return Err(Refusal { why, usage: false });
        }
        let mut named = BTreeSet::new();
        for word in jobs {
            let refuse = |why: String| Err(usage(format!("{}: {why}; nothing was resumed", word.job)));
            if !named.insert(&word.job) {
                return refuse("it is named twice".to_owned());
            }
            let Some(job) = self.jobs.get(&word.job) else { return refuse("there is no such job".to_owned()) };
            match job.life {
                Life::Ended => {}
                Life::Resuming => return refuse("it is being resumed already".to_owned()),
                _ => return refuse(Refused::Open.to_string()),
            }
            let (outcome, used) = (job.progress.outcome.as_ref(), &job.progress.used);
            // Raised or not is judged when it is known what it ran with.
            let quarantined = resume::check(&word.job, outcome, used, &Limits::default(), &Limits::default());
            if let Err(why @ (Refused::Open | Refused::Completed | Refused::Quarantined(_))) = quarantined {
                return refuse(why.to_string());
            }
            if job.unwritten {
                return refuse(Refused::Unwritten.to_string());
            }
            if resume::token(&word.job, &job.progress).as_ref() != Some(&word.token) {
                return refuse(Refused::Token(word.job.clone()).to_string());
            }
        }
        Ok(())
    }

    pub(super) fn specs_read(&mut self, number: u64, specs: Specs) {
        let Some(mut resumption) = self.resumptions.remove(&number) else { return };
        let judged =
            specs.map_err(|why| Refusal { why, usage: false }).and_then(|specs| self.judge(&resumption, specs));
        match judged {
            Ok(specs) => {
                let words: Vec<_> = resumption.jobs.iter().map(|word| (word.job.clone(), word.limits)).collect();
                resumption.specs = specs;
                self.resumptions.insert(number, resumption);
                for (id, limits) in words {
                    self.write(&id, Event::Resumed { limits }, Write::Resumed { number });
                }
            }
            Err(refusal) => {
                for id in resumption.left {
                    self.stays_ended(&id);
                }
                let _ = resumption.answer.send(Err(refusal));
            }
        }
    }

    fn judge(&self, resumption: &Resumption, specs: Vec<JobSpec>) -> Result<HashMap<JobId, Arc<JobSpec>>, Refusal> {
        let mut judged = HashMap::new();
        for (ToResume { job: id, limits, .. }, mut spec) in resumption.jobs.iter().zip(specs) {
            let Some(job) = self.jobs.get(id) else { continue };
            let before = job.progress.limits.unwrap_or(spec.limits);
            resume::check(id, job.progress.outcome.as_ref(), &job.progress.used, &before, limits)
                .map_err(|why| usage(format!("{id}: {why}; nothing was resumed")))?;
            spec.limits = *limits;
            judged.insert(id.clone(), Arc::new(spec));
        }
        Ok(judged)
    }

    /// The word is durable, or could not be made so.
    pub(super) fn wrote_resumed(&mut self, id: &JobId, number: u64, result: Result<(), StoreError>) {
        let spec = self.resumptions.get_mut(&number).and_then(|resumption| resumption.specs.remove(id));
        let failed = match (result, spec) {
            (Ok(()), Some(spec)) => {
                self.goes_on(id, spec);
                None
            }
            (Ok(()), None) => Some("what it is got lost on the way; it goes on at the next start".to_owned()),
            (Err(error), _) => {
                self.stays_ended(id);
                Some(error.to_string())
            }
        };
        let Some(resumption) = self.resumptions.get_mut(&number) else { return };
        resumption.left.remove(id);
        resumption.failed.extend(failed);
        if !resumption.left.is_empty() {
            return;
        }
        let Some(Resumption { jobs, failed, answer, .. }) = self.resumptions.remove(&number) else { return };
        let answered = match failed.first() {
            None => Ok(jobs.into_iter().map(|word| word.job).collect()),
            Some(why) => {
                let why = format!(
                    "{} of {} jobs stay as they ended: {why}; mend that, and resume these again",
                    failed.len(),
                    jobs.len()
                );
                Err(Refusal { why, usage: false })
            }
        };
        let _ = answer.send(answered);
    }

    fn goes_on(&mut self, id: &JobId, spec: Arc<JobSpec>) {
        let draining = self.draining;
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.spec = Some(spec);
        job.restarts = Restarts::default();
        job.paused = false;
        let (rank, priority, place) = (job.rank(), job.progress.priority, job.progress.batch.clone());
        if let Some(place) = place
            && self.batches.reopen(&place.id, id)
        {
            self.batch_goes_on(&place.id);
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Some(kind) = job.cancel {
            return self.close_cancelled(id, kind);
        }
        let step = if draining { Step::Park } else { Step::Requeue };
        if let Err(error) = job.step(step) {
            return tracing::error!(job = %id, %error, "a resumed job cannot go on");
        }
        if step == Step::Requeue {
            self.queue.push(id.clone(), rank, priority);
        }
    }

    /// Nothing came of it. Who wanted to cancel it meanwhile has what they want.
    fn stays_ended(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Err(error) = job.step(Step::End) {
            tracing::error!(job = %id, %error, "a job that was not resumed");
        }
        self.answer_cancels(id);
    }
}

fn read(state: &StateDir, id: &JobId) -> Result<JobSpec, String> {
    let path = state.run(id).spec();
    let why = match spec_file::load(&path) {
        Ok(Loaded::Sound(spec)) => return Ok(*spec),
        Ok(Loaded::Missing) => "it is not there".to_owned(),
        Ok(Loaded::Bad(why)) => why,
        Err(error) => error.to_string(),
    };
    Err(format!("reading what {id} is from {}: {why}; nothing was resumed", path.display()))
}
