//! Processes of jobs as far as they are decided on: who starts, what an end means, who starts again.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ractor::{ActorId, ActorRuntime};
use ukai_notifier::{Alert, Source};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, Outcome};
use ukai_protocol::run_state::Progress;
use ukai_protocol::server_event::ServerEvent;
use ukai_protocol::{process, process_tree};

use super::ask::Answering;
use super::{Msg, State};
use crate::fault;
use crate::job::{Life, Step};
use crate::news::{self, About};
use crate::pool::actor::{Arguments, Begin, JobActor, Over, Stop};
use crate::pool::temp;
use crate::restart::{Death, Exit, Verdict};
use crate::route::fit::Wants;
use crate::route::router::Opening;
use crate::store::server_log;
use crate::store::{Appended, Reply, StateDir, StoreError, StoreMessage};

/// What the supervisor writes into a run's log.
#[derive(Debug)]
pub enum Write {
    Interrupted(Box<Over>),
    /// A person's word, by its number: to pause, or to go on.
    Pause {
        paused: bool,
        order: u64,
    },
    Finished(Outcome),
    /// Of the resumption of this number.
    Resumed {
        number: u64,
    },
    /// Of the ack of this number.
    Acked {
        number: u64,
    },
    /// The verdict on what was put to a person, and who waits for it to be written.
    Answered {
        event: Box<Event>,
        answering: Option<Box<Answering>>,
    },
}

impl State {
    pub(super) fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    pub(super) fn start_jobs(&mut self, now: Instant) {
        self.opening = None;
        if self.draining || !self.storm.may_start(now) {
            return;
        }
        // Jobs of a batch want the same: each want is looked at once.
        let held_up = std::cell::RefCell::new(Vec::<(Wants, Opening)>::new());
        loop {
            let (jobs, router, closing) = (&self.jobs, &self.router, &self.closing);
            let taken = self.queue.take(|id| {
                let Some(job) = jobs.get(id) else { return true };
                if !job.progress.asks.is_empty() || closing.holds(id) {
                    return false;
                }
                let wants = job.wants();
                if held_up.borrow().iter().any(|(known, _)| *known == wants) {
                    return false;
                }
                let opening = router.opens_at(&wants, now);
                if opening != Opening::Now {
                    held_up.borrow_mut().push((wants, opening));
                }
                opening == Opening::Now
            });
            let Some(id) = taken else { break };
            let Some(job) = self.jobs.get_mut(&id) else {
                self.queue.release(&id);
                continue;
            };
            let attempt = job.progress.attempt + 1;
            if let Err(error) = job.step(Step::Start { attempt }) {
                tracing::error!(job = %id, %error, "a queued job cannot be started");
                self.queue.release(&id);
                continue;
            }
            self.begin(&id, attempt, Begin::Spawn);
        }
        for (wants, opening) in held_up.into_inner() {
            // Whoever is held up wants to know whether a breaker may close.
            self.router.wish(&wants, now);
            if let Opening::At(at) = opening {
                self.opening = Some(self.opening.map_or(at, |earlier| earlier.min(at))).filter(|at| *at > now);
            }
        }
    }

    pub(super) fn begin(&mut self, id: &JobId, attempt: u32, begin: Begin) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(spec) = job.spec.clone() else { return };
        job.parked = false;
        let arguments = Arguments {
            pool: self.pool.clone(),
            supervisor: self.myself.clone(),
            job: id.clone(),
            spec,
            attempt,
            begin,
        };
        // Instant: the actor's start is not waited for.
        match ActorRuntime::spawn_linked_instant(None, JobActor, arguments, self.myself.get_cell()) {
            Ok((worker, _)) => job.worker = Some(worker),
            Err(error) => {
                let exit = Exit::NotStarted(format!("its job actor: {error}"));
                self.report_lost(id, attempt, exit);
            }
        }
    }

    /// A job actor that ended without its report (a panic): its process is ended, and the report made up for.
    pub(super) fn job_actor_ended(&mut self, actor: ActorId, why: &str) {
        let lost = self.jobs.iter().find(|(_, job)| job.worker.as_ref().is_some_and(|worker| worker.get_id() == actor));
        let Some((id, Life::Attempt { attempt })) = lost.map(|(id, job)| (id.clone(), job.life)) else { return };
        tracing::error!(job = %id, why, "a job actor ended before its worker");
        self.report_lost(&id, attempt, Exit::Unknown);
    }

    fn report_lost(&mut self, id: &JobId, attempt: u32, exit: Exit) {
        let mark = self.jobs.get(id).and_then(|job| job.progress.process.clone());
        let (myself, family, job) = (self.myself.clone(), self.pool.family, id.clone());
        tokio::task::spawn_blocking(move || {
            if let Some(mark) = mark {
                if let Err(error) = process_tree::end(&mark, Duration::ZERO) {
                    tracing::error!(%job, %error, "the worker of a lost job actor could not be ended");
                }
                if !process::is_alive(&mark) {
                    family.reaped(mark.pid);
                }
            }
            family.sweep();
            let (stop, paused, stderr_tail, lived) = (None, false, String::new(), Duration::ZERO);
            // Without its supervisor a report is for nobody.
            let _ = myself.cast(Msg::Over(Box::new(Over { job, attempt, exit, stop, paused, stderr_tail, lived })));
        });
    }

    /// The fold of a job's log has moved.
    pub(super) fn recorded(&mut self, appended: &Appended, now: Instant) {
        let Some(job) = self.jobs.get_mut(&appended.job) else { return };
        job.progress = appended.progress.clone();
        if appended.records.iter().any(|record| record.event.is_progress() && !record.event.is_supervisors()) {
            self.storm.progressed();
        }
        let asked = |event: &Event| matches!(event, Event::AskOpened { .. } | Event::AskAnswered { .. });
        let limits = job.limits();
        if appended.records.iter().any(|record| asked(&record.event) || record.event.name() == "Finished") {
            self.sync_asks(&appended.job, false, now);
        }
        for record in &appended.records {
            let account = appended.progress.provider.as_deref().map(|provider| self.account_of(provider));
            let Progress { name, used, asks, .. } = &appended.progress;
            let about = About { id: &appended.job, name, account, used, asks, limits };
            if let Some(what) = news::of_job(&about, &record.event) {
                let source = Some(Source::Job { job: appended.job.clone(), seq: record.seq });
                let at = server_log::time(&record.at).unwrap_or_else(SystemTime::now);
                self.notifier.alert(Alert { what, source, at, late: false });
            }
        }
    }

    /// An attempt is over: its process is gone and everything it recorded is stored.
    pub(super) fn over(&mut self, over: Over, now: Instant) {
        let id = over.job.clone();
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.life == Life::Attempt { attempt: over.attempt }) else {
            return;
        };
        job.worker = None;
        if let Err(error) = job.step(Step::Gone) {
            tracing::error!(job = %id, %error, "the end of an attempt");
        }
        let (finished, cancel, parked) = (job.progress.outcome.is_some(), job.cancel, job.parked);
        let asks = !job.progress.asks.is_empty();
        self.returned(&id);
        self.router.gone(&id, now);
        self.queue.release(&id);
        match (&over.stop, cancel) {
            // Whoever recorded an end first has the last word.
            _ if finished => self.ended(&id),
            (_, Some(kind)) => self.close_cancelled(&id, kind),
            (Some(Stop::Cancel(kind)), None) => self.close_cancelled(&id, *kind),
            (Some(Stop::Failed(cause)), None) => self.close(&id, Outcome::Ended(cause.clone())),
            _ => {
                let (attempt, how, stopped) = (over.attempt, how(&over, parked, asks), over.paused || parked);
                if stopped {
                    tracing::info!(job = %id, attempt, how, "a worker has stopped");
                } else {
                    tracing::warn!(job = %id, attempt, how, "a worker died");
                }
                let stderr_tail = over.stderr_tail.clone();
                let interrupted = Event::Interrupted { attempt, how, stderr_tail, stopped };
                self.write(&id, interrupted, Write::Interrupted(Box::new(over)));
            }
        }
    }

    pub(super) fn close_cancelled(&mut self, id: &JobId, kind: CauseKind) {
        self.close(id, Outcome::Ended(Cause::new(kind, "it was cancelled by a person")));
    }

    /// Writes the end of a job that has no process.
    pub(super) fn close(&mut self, id: &JobId, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Err(error) = job.step(Step::Close) {
            return tracing::error!(job = %id, %error, "a job cannot be ended here");
        }
        self.queue.remove(id);
        let text = job.progress.text.clone();
        self.write(id, Event::Finished { outcome: outcome.clone(), text }, Write::Finished(outcome));
    }

    pub(super) fn write(&self, id: &JobId, event: Event, what: Write) {
        let (myself, job) = (self.myself.clone(), id.clone());
        let reply = Reply::new(move |result: Result<Arc<Appended>, StoreError>| {
            // Without its supervisor an answer is for nobody.
            let _ = myself.cast(Msg::Wrote { job, what, result: result.map(drop) });
        });
        // A store that has ended answers by dropping the reply.
        let _ = self.pool.store.cast(StoreMessage::Append { job: id.clone(), from: None, events: vec![event], reply });
    }

    pub(super) fn wrote(&mut self, id: &JobId, what: Write, result: Result<(), StoreError>, now: Instant) {
        if let (Write::Resumed { .. } | Write::Acked { .. }, Err(StoreError::Quarantined { why, .. })) =
            (&what, &result)
        {
            self.does_not_verify(id, why.clone());
        }
        match (what, result) {
            (Write::Finished(_), Ok(())) => self.ended(id),
            (Write::Finished(outcome), Err(error)) => self.ended_in_memory(id, outcome, &error),
            (Write::Interrupted(over), Ok(())) => self.interrupted(id, &over, now),
            (Write::Pause { paused, order }, result) => self.wrote_pause(id, paused, order, result, now),
            (Write::Resumed { number }, result) => self.wrote_resumed(id, number, result),
            (Write::Acked { number }, result) => self.wrote_ack(id, number, result),
            (Write::Answered { event, answering }, result) => self.wrote_answer(id, *event, answering, result, now),
            (Write::Interrupted(_), Err(error)) => self.close(id, Outcome::Ended(fault::cause(&error))),
        }
    }

    /// As it is configured now; one that is not any more is its own.
    pub(super) fn account_of<'a>(&'a self, provider: &'a str) -> &'a str {
        let configured = self.pool.settings.providers.iter().find(|known| known.id == provider);
        configured.map_or(provider, |known| &known.account)
    }

    /// The end could not be written: it is shown from memory, and the run is interrupted at the next start.
    fn ended_in_memory(&mut self, id: &JobId, outcome: Outcome, error: &StoreError) {
        tracing::error!(job = %id, %error, "the end of a job could not be recorded");
        if let Some(job) = self.jobs.get_mut(id) {
            let text = job.progress.text.clone();
            let finished = Event::Finished { outcome, text };
            if let Err(illegal) = job.progress.apply(&finished) {
                tracing::debug!(job = %id, %illegal, "it has ended already");
            }
            job.unwritten = true;
            let (limits, Progress { name, provider, used, .. }) = (job.limits(), job.progress.clone());
            let account = provider.as_deref().map(|provider| self.account_of(provider));
            let about = About { id, name: &name, account, used: &used, asks: &[], limits };
            if let Some(what) = news::of_job(&about, &finished) {
                self.alert(what);
            }
        }
        self.ended(id);
    }

    /// `Interrupted` is durable: what now?
    fn interrupted(&mut self, id: &JobId, over: &Over, now: Instant) {
        let draining = self.draining;
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (rank, priority) = (job.rank(), job.progress.priority);
        if let Some(kind) = job.cancel {
            return self.close_cancelled(id, kind);
        }
        let step = match &over.stop {
            // Also where it crashed, and where the word is only on its way, to or fro.
            _ if job.paused || job.progress.paused => Step::Pause,
            Some(Stop::Drain) => Step::Park,
            _ if draining => Step::Park,
            Some(Stop::Orphan) => Step::Requeue,
            _ if over.paused || job.parked => Step::Requeue,
            _ if over.exit == Exit::Unknown && over.stop.is_none() => Step::Requeue,
            _ => {
                let fruitless_starts = job.progress.fruitless_starts;
                let (exit, stderr_tail, lived) = (&over.exit, &*over.stderr_tail, over.lived);
                let death = Death { exit, stderr_tail, fruitless_starts, lived };
                let verdict = job.restarts.died(&death, rand::random());
                if fruitless_starts > 0
                    && let Some(pause) = self.storm.died(id.clone(), now)
                {
                    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    self.note(vec![ServerEvent::StartsPaused { pause_ms }]);
                }
                match verdict {
                    Verdict::Again { after } => Step::BackOff { until: now + after },
                    Verdict::GiveUp(cause) => {
                        return self.close(id, Outcome::Ended(cause));
                    }
                }
            }
        };
        if let Step::BackOff { until } = step {
            self.backoffs.insert((until, id.clone()));
        }
        if let Some(job) = self.jobs.get_mut(id)
            && let Err(error) = job.step(step)
        {
            tracing::error!(job = %id, %error, "what follows an interruption");
        }
        if step == Step::Requeue {
            self.queue.push(id.clone(), rank, priority);
        }
    }

    pub(super) fn end_backoffs(&mut self, now: Instant) {
        while let Some((until, id)) = self.backoffs.first().cloned().filter(|(until, _)| *until <= now) {
            self.backoffs.pop_first();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if job.life == (Life::BackingOff { until }) && job.step(Step::Due).is_ok() {
                self.queue.push(id, job.rank(), job.progress.priority);
            }
        }
    }

    /// A terminal event is durable and no process is left.
    pub(super) fn ended(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Err(error) = job.step(Step::End) {
            return tracing::error!(job = %id, %error, "the end of a job");
        }
        self.router.forget(id, Instant::now());
        let in_worktree = job.spec.take().is_some_and(|spec| spec.worktree);
        let (state, ended) = (StateDir::new(&self.pool.settings.state_dir), id.clone());
        tokio::task::spawn_blocking(move || temp::remove(&state, &ended));
        let batch_done = job.progress.batch.as_ref().is_some_and(|place| self.batches.ended(&place.id, id));
        self.answer_cancels(id);
        if in_worktree {
            self.close_worktree(id);
        }
        if batch_done {
            self.tell_done_batches();
        }
    }
}

/// In the words of the log.
fn how(over: &Over, parked: bool, asks: bool) -> String {
    match &over.stop {
        None if parked && asks => "it waits for a person, without a process".to_owned(),
        None if parked => "parked: no provider may be asked for long".to_owned(),
        Some(Stop::Hung(why)) => format!("hung ({why}), and ended: {}", over.exit),
        Some(Stop::Drain) => "the supervisor was stopped".to_owned(),
        Some(Stop::Orphan) => "supervisor was gone".to_owned(),
        None if over.paused => "paused by a person".to_owned(),
        None if over.exit == Exit::Unknown => "supervisor was gone".to_owned(),
        _ => over.exit.to_string(),
    }
}
