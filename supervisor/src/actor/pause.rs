//! `pause` and `unpause`: a person's word about jobs, acted on and answered when it is on disk.
//!
//! Until then a job with no process is held back, so that none starts behind the word's back. Words about one job may
//! be under way together; they reach its log in the order in which they were said, and the last one holds.

use std::collections::BTreeMap;
use std::time::Instant;

use ukai_protocol::control::{JobRow, Selection};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;

use super::attempt::Write;
use super::request::usage;
use super::{Answer, Refusal, State};
use crate::job::{Life, Step};
use crate::pool::actor::Msg as WorkerMsg;
use crate::store::StoreError;
use crate::table::Job;

/// What came of an unpause.
#[derive(Debug)]
pub struct Unpaused {
    pub rows: Vec<JobRow>,
    /// A pause of all starts, after many crashes, ended with it.
    pub starts: bool,
}

/// A client that waits until these words are on disk.
pub struct Awaiting {
    ids: Vec<JobId>,
    left: BTreeMap<JobId, u64>,
    failed: Vec<String>,
    reply: Reply,
}

enum Reply {
    Paused(Answer<Vec<JobRow>>),
    Unpaused { answer: Answer<Unpaused>, starts: bool },
}

impl State {
    pub(super) fn pause(&mut self, jobs: &Selection, answer: Answer<Vec<JobRow>>, now: Instant) {
        match self.select_open(jobs) {
            Ok(ids) => self.say(ids, true, Reply::Paused(answer), now),
            // A client that has gone needs no answer, here and below.
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// `All` also ends a pause of starts.
    pub(super) fn unpause(&mut self, jobs: &Selection, answer: Answer<Unpaused>, now: Instant) {
        let mut ids = match self.select_open(jobs) {
            Ok(ids) => ids,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        let mut starts = false;
        if *jobs == Selection::All {
            ids.retain(|id| self.jobs.get(id).is_some_and(|job| job.paused || job.pause_under_way.is_some()));
            starts = !self.storm.may_start(now);
            self.storm.clear();
        }
        self.say(ids, false, Reply::Unpaused { answer, starts }, now);
    }

    /// All of `All`, and of a batch, that can still be paused; of those that were named themselves each must be.
    fn select_open(&self, jobs: &Selection) -> Result<Vec<JobId>, Refusal> {
        if self.draining {
            let why = "the server is stopping, and its jobs with it: ask again when it runs".to_owned();
            return Err(Refusal { why, usage: false });
        }
        let (open, over): (Vec<_>, Vec<_>) =
            self.select_named(jobs)?.into_iter().partition(|(id, _)| self.jobs.get(id).is_some_and(is_open));
        let over: Vec<_> = over.iter().filter(|(_, named)| *named).map(|(id, _)| id.as_str()).collect();
        if over.is_empty() {
            return Ok(open.into_iter().map(|(id, _)| id).collect());
        }
        let names = over.join(", ");
        Err(usage(format!("{names}: ended, or about to end; nothing was done: name only jobs that go on")))
    }

    fn say(&mut self, ids: Vec<JobId>, paused: bool, reply: Reply, now: Instant) {
        let mut left = BTreeMap::new();
        for id in &ids {
            self.say_one(id, paused);
            left.extend(self.jobs.get(id).and_then(|job| job.pause_under_way).map(|order| (id.clone(), order)));
        }
        self.pauses.push(Awaiting { ids, left, failed: Vec::new(), reply });
        self.answer_pauses(now);
    }

    fn say_one(&mut self, id: &JobId, paused: bool) {
        let order = self.next_order();
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.paused != paused) else { return };
        job.paused = paused;
        job.pause_under_way = Some(order);
        if paused && matches!(job.life, Life::Queued | Life::BackingOff { .. }) {
            if let Err(error) = job.step(Step::Pause) {
                tracing::error!(job = %id, %error, "a job cannot be paused");
            }
            self.queue.remove(id);
        }
        let event = if paused { Event::Paused {} } else { Event::Unpaused {} };
        self.write(id, event, Write::Pause { paused, order });
    }

    pub(super) fn wrote_pause(
        &mut self,
        id: &JobId,
        paused: bool,
        order: u64,
        result: Result<(), StoreError>,
        now: Instant,
    ) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let last = job.pause_under_way == Some(order);
        if last {
            job.pause_under_way = None;
            // As it is on disk, whatever became of this word.
            job.paused = job.progress.paused;
        }
        let failed = match result {
            Ok(()) => {
                job.tell_worker(if paused { WorkerMsg::Pause } else { WorkerMsg::Unpause });
                None
            }
            // It ended before the word came to its log, and its row says so.
            Err(_) if job.progress.outcome.is_some() => None,
            Err(error) => Some(error.to_string()),
        };
        if last && !job.paused && job.life == Life::Paused {
            let (rank, priority) = (job.rank(), job.progress.priority);
            match job.step(Step::Unpause) {
                Ok(()) => self.queue.push(id.clone(), rank, priority),
                Err(error) => tracing::error!(job = %id, %error, "a paused job cannot go on"),
            }
        }
        for waiting in &mut self.pauses {
            if waiting.left.get(id).is_some_and(|awaited| *awaited == order) {
                waiting.left.remove(id);
                waiting.failed.extend(failed.clone());
            }
        }
        self.answer_pauses(now);
    }

    fn answer_pauses(&mut self, now: Instant) {
        let (done, left): (Vec<_>, _) =
            std::mem::take(&mut self.pauses).into_iter().partition(|waiting: &Awaiting| waiting.left.is_empty());
        self.pauses = left;
        for Awaiting { ids, failed, reply, .. } in done {
            let rows = match failed.first() {
                None => Ok(ids.iter().filter_map(|id| Some(self.row(id, self.jobs.get(id)?, now))).collect()),
                Some(why) => {
                    let (failed, all) = (failed.len(), ids.len());
                    let why = format!("{failed} of {all} jobs stay as they were: {why}; mend that, and ask again");
                    Err(Refusal { why, usage: false })
                }
            };
            match reply {
                Reply::Paused(answer) => drop(answer.send(rows)),
                Reply::Unpaused { answer, starts } => {
                    drop(answer.send(rows.map(|rows| Unpaused { rows, starts })));
                }
            }
        }
    }
}

/// Whether there is anything left to pause.
fn is_open(job: &Job) -> bool {
    job.progress.outcome.is_none() && job.cancel.is_none() && !matches!(job.life, Life::Closing | Life::Ended)
}
