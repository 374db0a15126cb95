//! Workers and the router: asks in, answers out. The router decides; this only carries.

use std::time::Instant;

use ukai_protocol::id::JobId;
use ukai_protocol::lease::Answer;
use ukai_protocol::session::Hello;

use super::{LeaseWord, State};
use crate::job::Life;
use crate::pool::actor::Msg as WorkerMsg;
use crate::pool::link::{self, Incoming};

impl State {
    /// A worker has connected: its job actor judges it.
    pub(super) fn hello(&mut self, hello: Box<Hello>, incoming: Box<Incoming>) {
        let Some(worker) = self.jobs.get(&hello.job).and_then(|job| job.worker.clone()) else {
            return link::reject(*incoming, format!("no worker is expected for {}", hello.job));
        };
        if let Err(failed) = worker.cast(WorkerMsg::Hello { hello, incoming }) {
            // The actor ended just now; the connection closes with the message.
            tracing::debug!(%failed, "a worker came too late");
        }
    }

    pub(super) fn lease(&mut self, job: &JobId, attempt: u32, word: LeaseWord, now: Instant) {
        let Some(known) = self.jobs.get(job).filter(|known| known.life == Life::Attempt { attempt }) else { return };
        // Who is being stopped asks for nothing any more; what it was told still counts.
        let stopping = self.draining || known.cancel.is_some();
        match word {
            LeaseWord::Ask(_) if stopping => {}
            LeaseWord::Ask(mut ask) => {
                // The queue's word, not the worker's.
                ask.priority = known.progress.priority;
                let wants = known.wants();
                self.router.ask(job, ask, wants, now, rand::random());
            }
            LeaseWord::Withdraw { call } => self.router.withdraw(job, call, now),
            LeaseWord::Report(report) => self.router.report(job, &report, now, rand::random()),
            LeaseWord::Returned => {
                self.tell_still_asked(job);
                self.returned(job);
            }
        }
    }

    /// What it held comes back; a worker that connects again asks again.
    pub(super) fn link_lost(&mut self, job: &JobId, attempt: u32, now: Instant) {
        if self.jobs.get(job).is_some_and(|known| known.life == Life::Attempt { attempt }) {
            self.router.gone(job, now);
        }
    }

    pub(super) fn tell_leases(&mut self) {
        while let Some(told) = self.router.poll_event() {
            let Some(job) = self.jobs.get_mut(&told.job) else { continue };
            job.parked |= told.answer == Answer::Park;
            let worker = job.worker.as_ref();
            let answer = WorkerMsg::Answer { call: told.call, answer: told.answer };
            if worker.is_none_or(|worker| worker.cast(answer).is_err()) {
                // Its end is on the way to us, and gives back what it held.
                tracing::debug!(job = %told.job, "an answer for a worker that is gone");
            }
        }
    }
}
