//! The socket side of an attempt: who is let in, what is carried to the store and to the supervisor, and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use ukai_protocol::event::Event;
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::run_state::RunState;
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Fingerprints;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker, Welcome};

use super::{Msg, State, Stop, tell};
use crate::actor::{LeaseWord, Msg as SupervisorMsg};
use crate::fault;
use crate::pool::link::{self, Incoming, Opening};
use crate::pool::spawn;
use crate::store::{Appended, Numbered, Reply, StateDir, StoreError, StoreMessage};

/// A worker that has recorded its end is expected to exit by itself within this.
const FINISHED_GRACE: Duration = Duration::from_secs(1);
/// After what commands are given to end by TERM: for the rounds of KILL.
const COMMANDS_MARGIN: Duration = Duration::from_millis(300);

impl State {
    pub(super) fn admit(&mut self, result: Result<(), StoreError>) {
        self.unstored -= 1;
        match result {
            Ok(()) => {
                self.admitted = true;
                self.let_in();
            }
            Err(error) => self.stop(Stop::Failed(fault::cause(&error))),
        }
        self.flush_drain();
        self.report_if_over();
    }

    pub(super) fn hello(&mut self, hello: Box<Hello>, incoming: Box<Incoming>) {
        if !self.knows(&hello.token) || hello.attempt != self.attempt {
            return link::reject(*incoming, format!("attempt {} of {} is not expected", hello.attempt, self.job));
        }
        if self.exit.is_some() || self.stop.is_some() {
            return link::reject(*incoming, format!("{} is being stopped", self.job));
        }
        if let Some((_, earlier)) = self.knocking.replace((hello, incoming)) {
            link::reject(*earlier, "it has connected again".to_owned());
        }
        self.let_in();
    }

    pub(super) fn knows(&self, token: &Secret) -> bool {
        // Hashes are compared, so that the time it takes tells nothing about the token.
        !self.token_hash.is_empty() && spawn::token_hash(token) == self.token_hash
    }

    pub(super) fn let_in(&mut self) {
        if !self.admitted || !self.placed {
            return;
        }
        match &self.knocking {
            None => {}
            Some((hello, _)) if hello.reconnect => self.welcome(None, self.recorded),
            Some(_) => {
                let myself = self.myself.clone();
                let reply = Reply::new(move |result| tell(&myself, Msg::Loaded(result)));
                self.store(StoreMessage::Load { job: self.job.clone(), reply });
            }
        }
    }

    pub(super) fn loaded(&mut self, result: Result<Box<RunState>, StoreError>) {
        match result {
            Ok(state) => {
                let recorded = state.progress.recorded;
                self.welcome(Some(state), recorded);
            }
            Err(error) => self.stop(Stop::Failed(fault::cause(&error))),
        }
    }

    pub(super) fn welcome(&mut self, state: Option<Box<RunState>>, acked: u64) {
        let Some((_, incoming)) = self.knocking.take() else { return };
        if self.stop.is_some() {
            return link::reject(*incoming, format!("{} is being stopped", self.job));
        }
        let settings = &self.pool.settings;
        let welcome = Welcome {
            job: self.job.clone(),
            spec: (*self.spec).clone(),
            state_bytes: 0,
            acked,
            heartbeat_ms: millis(settings.heartbeat),
            orphan_grace_ms: millis(settings.orphan_grace),
            outputs: StateDir::new(&settings.state_dir).run(&self.job).outputs(),
            env: self.pool.commands_env.of(&self.spec),
            term_grace_ms: millis(settings.term_grace),
            asks: settings.asks,
            // After a reconnect it has them, and the salt of those.
            secrets: if state.is_some() { (*self.pool.secrets).clone() } else { Fingerprints::default() },
            ports: settings.ports(),
            private: settings.private(),
        };
        let again = state.is_none();
        self.recorded = acked;
        self.links += 1;
        self.open_links += 1;
        self.silence.heard(Instant::now());
        self.link = Some(link::open(
            *incoming,
            self.links,
            Opening { welcome, state },
            self.myself.clone(),
            self.gone.subscribe(),
        ));
        self.tell_pausing(again);
    }

    pub(super) fn link_ended(&mut self, link: u64, why: Option<String>) {
        self.open_links -= 1;
        if let Some(why) = why {
            tracing::warn!(job = %self.job, attempt = self.attempt, why, "a worker's connection is closed");
        }
        if self.link.as_ref().is_some_and(|current| current.id == link) {
            self.link = None;
            self.tell_supervisor(SupervisorMsg::LinkLost { job: self.job.clone(), attempt: self.attempt });
        }
        self.report_if_over();
    }

    pub(super) fn heard(&mut self, link: u64, message: ToSupervisor, permit: OwnedSemaphorePermit) {
        self.silence.heard(Instant::now());
        let word = match message {
            ToSupervisor::Record { attempt, n, events } => return self.record(link, attempt, n, events, permit),
            ToSupervisor::Heartbeat { .. } => return,
            ToSupervisor::Ending => {
                self.commands_end = true;
                self.myself.send_after(self.pool.settings.term_grace + COMMANDS_MARGIN, || Msg::Kill);
                return;
            }
            ToSupervisor::Settle { call, judgement } => {
                let (job, attempt) = (self.job.clone(), self.attempt);
                return self.tell_supervisor(SupervisorMsg::Settle { job, attempt, call, judgement });
            }
            ToSupervisor::Delta { step, text } => return self.pool.publisher.delta(&self.job, step, &text),
            ToSupervisor::Ask(ask) => LeaseWord::Ask(ask),
            ToSupervisor::Withdraw { call } => LeaseWord::Withdraw { call },
            ToSupervisor::Report(report) => LeaseWord::Report(report),
            ToSupervisor::Returned => LeaseWord::Returned,
        };
        // A stopped worker gets no lease, and what it was told counts; a lost link's asker is gone.
        let counts = self.stop.is_none() || matches!(word, LeaseWord::Report(_) | LeaseWord::Returned);
        if self.link.as_ref().is_some_and(|current| current.id == link) && counts {
            self.tell_supervisor(SupervisorMsg::Lease { job: self.job.clone(), attempt: self.attempt, word });
        }
    }

    pub(super) fn record(&mut self, link: u64, attempt: u32, n: u64, events: Vec<Event>, permit: OwnedSemaphorePermit) {
        if attempt != self.attempt || events.iter().any(Event::is_supervisors) {
            let detail = format!("the worker of attempt {} recorded what is not its to record", self.attempt);
            return self.stop(Stop::Failed(Cause::new(CauseKind::Internal, detail)));
        }
        if self.broken_link == Some(link) || matches!(self.stop, Some(Stop::Failed(_))) {
            return;
        }
        self.unstored += 1;
        let myself = self.myself.clone();
        let reply = Reply::new(move |result| tell(&myself, Msg::Recorded { link, result, permit }));
        let from = Some(Numbered { attempt, n });
        self.store(StoreMessage::Append { job: self.job.clone(), from, events, reply });
    }

    pub(super) fn recorded(
        &mut self,
        link: u64,
        result: Result<Arc<Appended>, StoreError>,
        permit: OwnedSemaphorePermit,
    ) {
        self.unstored -= 1;
        self.silence.heard(Instant::now());
        match result {
            Ok(appended) => {
                self.recorded = self.recorded.max(appended.progress.recorded);
                self.send(ToWorker::Ack { n: self.recorded });
                if appended.progress.outcome.is_some() && self.exit.is_none() && self.stop.is_none() {
                    self.myself.send_after(FINISHED_GRACE, || Msg::Stop(Stop::Overdue));
                }
            }
            // Too much at once, or what followed such a one: the worker connects again and sends it again.
            Err(StoreError::Full { .. }) => self.break_link(link),
            Err(StoreError::Gap { .. }) if self.broken_link == Some(link) => {}
            Err(error) => self.stop(Stop::Failed(fault::cause(&error))),
        }
        drop(permit);
        self.flush_drain();
        self.report_if_over();
    }

    pub(super) fn break_link(&mut self, link: u64) {
        self.broken_link = Some(link);
        if self.link.as_ref().is_some_and(|current| current.id == link) {
            self.link = None;
            self.tell_supervisor(SupervisorMsg::LinkLost { job: self.job.clone(), attempt: self.attempt });
        }
    }

    /// A drained worker is killed when what it sent is on disk.
    pub(super) fn flush_drain(&mut self) {
        if self.unstored == 0 && self.stop == Some(Stop::Drain) {
            self.kill(Duration::ZERO);
        }
    }

    pub(super) fn send(&mut self, message: ToWorker) {
        if self.link.as_ref().is_some_and(|link| !link.send(message)) && self.stop.is_none() {
            self.stop(Stop::Hung("it does not read what it is sent".to_owned()));
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
