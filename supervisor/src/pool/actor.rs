//! The job actor: looks after one worker process, from before its start until after its last record is stored.
//!
//! It decides nothing about the job. It starts the process, lets it in, carries its words to the store and to the
//! supervisor actor, notices when it is hung, ends it when told to, and reports once: when the process and its tree are
//! gone, its connection has been read to its end, and all that it recorded is on disk. An exit can overtake the last
//! records, so nothing is judged before that.
//!
//! No handler waits: processes, disk and socket are dealt with in tasks whose results come back as messages.

use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, watch};
use ukai_protocol::event::{Event, ProcessMark};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec};
use ukai_protocol::lease::Answer;
use ukai_protocol::process_tree;
use ukai_protocol::run_state::RunState;
use ukai_protocol::secret::Secret;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker, Welcome};

use super::link::{self, Incoming, Link, Opening};
use super::silence::Silence;
use super::spawn::{self, Spawned};
use super::stderr::Stderr;
use super::{exit, reaper::Family};
use crate::actor::{LeaseWord, Msg as SupervisorMsg};
use crate::fault;
use crate::publish::Publisher;
use crate::restart::Exit;
use crate::settings::Settings;
use crate::store::{Appended, Numbered, Reply, StateDir, StoreError, StoreMessage};

/// A cancelled worker may take this long to end its tree by itself; with the sweep and a sync a cancel stays in 500 ms.
pub const CANCEL_GRACE: Duration = Duration::from_millis(300);
/// A worker that has recorded its end is expected to exit by itself within this.
const FINISHED_GRACE: Duration = Duration::from_secs(1);
/// A drained worker's records in flight are waited for this long before it is killed.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// For the end of stderr after the tree is gone: somebody outside of it may hold the pipe.
const STDERR_GRACE: Duration = Duration::from_millis(50);
/// Between two attempts at killing a tree that did not die.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// What all job actors share.
#[derive(Clone)]
pub struct Pool {
    pub settings: Arc<Settings>,
    pub store: ActorRef<StoreMessage>,
    pub publisher: Publisher,
    pub family: Family,
    pub start: spawn::Start,
}

pub struct Arguments {
    pub pool: Pool,
    pub supervisor: ActorRef<SupervisorMsg>,
    pub job: JobId,
    pub spec: Arc<JobSpec>,
    pub attempt: u32,
    pub begin: Begin,
}

pub enum Begin {
    Spawn,
    /// A worker that outlived its supervisor: it is expected to come back.
    Adopt {
        mark: ProcessMark,
        token_hash: String,
        recorded: u64,
    },
}

/// Why a worker is ended before it ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Cancel(CauseKind),
    /// The job cannot go on: its records cannot be written, or it speaks nonsense.
    Failed(Cause),
    Hung(String),
    /// The supervisor stops; the job goes on at its next start.
    Drain,
    /// It outlived its supervisor and did not come back.
    Orphan,
    /// It has recorded its end and did not exit.
    Overdue,
}

/// The one report of an attempt.
#[derive(Debug)]
pub struct Over {
    pub job: JobId,
    pub attempt: u32,
    pub exit: Exit,
    pub stop: Option<Stop>,
    pub stderr_tail: String,
    pub lived: Duration,
}

pub enum Msg {
    Spawned(Result<Box<Spawned>, String>),
    /// `Started` is durable, or is not.
    Admitted(Result<(), StoreError>),
    Hello {
        hello: Box<Hello>,
        incoming: Box<Incoming>,
    },
    Loaded(Result<Box<RunState>, StoreError>),
    FromWorker {
        link: u64,
        message: Box<ToSupervisor>,
        permit: OwnedSemaphorePermit,
    },
    LinkEnded {
        link: u64,
        why: Option<String>,
    },
    Recorded {
        link: u64,
        result: Result<Arc<Appended>, StoreError>,
        permit: OwnedSemaphorePermit,
    },
    Answer {
        call: u64,
        answer: Answer,
    },
    Stop(Stop),
    /// The grace of a stop is over.
    Kill,
    TreeEnded(Result<(), String>),
    Exited(Exit),
    /// Nobody of its tree is left.
    Swept {
        stderr_tail: String,
    },
    Tick {
        planned: Instant,
    },
    OrphanGraceOver,
}

pub struct JobActor;

pub struct State {
    myself: ActorRef<Msg>,
    pool: Pool,
    supervisor: ActorRef<SupervisorMsg>,
    job: JobId,
    spec: Arc<JobSpec>,
    attempt: u32,
    began: Instant,
    token_hash: String,
    mark: Option<ProcessMark>,
    stderr: Option<Stderr>,
    adopted: bool,
    /// `Started` is durable: the worker may be let in.
    admitted: bool,
    /// It knocked before it could be let in, or while its state is loaded.
    knocking: Option<(Box<Hello>, Box<Incoming>)>,
    link: Option<Link>,
    links: u64,
    /// Connections that are not read to their end.
    open_links: usize,
    /// Tells their readers that nothing more will be written.
    gone: watch::Sender<bool>,
    /// A record of this link was turned away unread: what follows it will not fit either.
    broken_link: Option<u64>,
    unstored: usize,
    recorded: u64,
    silence: Silence,
    stop: Option<Stop>,
    exit: Option<Exit>,
    swept: Option<String>,
}

impl Actor for JobActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, myself: ActorRef<Msg>, arguments: Arguments) -> Result<State, ActorProcessingErr> {
        let Arguments { pool, supervisor, job, spec, attempt, begin } = arguments;
        let now = Instant::now();
        let Settings { heartbeat, hang, .. } = *pool.settings;
        let mut state = State {
            silence: Silence::new(now, heartbeat, hang),
            began: now,
            token_hash: String::new(),
            mark: None,
            stderr: None,
            adopted: false,
            admitted: false,
            knocking: None,
            link: None,
            links: 0,
            open_links: 0,
            gone: watch::Sender::new(false),
            broken_link: None,
            unstored: 0,
            recorded: 0,
            stop: None,
            exit: None,
            swept: None,
            myself,
            pool,
            supervisor,
            job,
            spec,
            attempt,
        };
        match begin {
            Begin::Spawn => state.spawn(),
            Begin::Adopt { mark, token_hash, recorded } => state.adopt(mark, token_hash, recorded),
        }
        state.next_tick(now);
        Ok(state)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Spawned(result) => state.spawned(result),
            Msg::Admitted(result) => state.admit(result),
            Msg::Hello { hello, incoming } => state.hello(hello, incoming),
            Msg::Loaded(result) => state.loaded(result),
            Msg::FromWorker { link, message, permit } => state.from_worker(link, *message, permit),
            Msg::LinkEnded { link, why } => state.link_ended(link, why),
            Msg::Recorded { link, result, permit } => state.recorded(link, result, permit),
            Msg::Answer { call, answer } => state.send(ToWorker::Answer { call, answer }),
            Msg::Stop(why) => state.stop(why),
            Msg::Kill => state.kill(Duration::ZERO),
            Msg::TreeEnded(result) => state.tree_ended(result),
            Msg::Exited(exit) => state.exited(exit),
            Msg::Swept { stderr_tail } => {
                state.swept = Some(stderr_tail);
                state.gone.send_replace(true);
                state.report_if_over();
            }
            Msg::Tick { planned } => state.tick(planned),
            Msg::OrphanGraceOver if state.links == 0 => state.stop(Stop::Orphan),
            Msg::OrphanGraceOver => {}
        }
        Ok(())
    }
}

// Its process.
impl State {
    fn spawn(&mut self) {
        let token = spawn::new_token();
        self.token_hash = spawn::token_hash(&token);
        let (pool, job, attempt, myself) = (self.pool.clone(), self.job.clone(), self.attempt, self.myself.clone());
        tokio::task::spawn_blocking(move || {
            let order = spawn::Order { job: &job, attempt, token: &token };
            let child = pool.family.start(|| (pool.start)(&pool.settings, &order), Child::id);
            let spawned = child.and_then(spawn::identified).map(Box::new);
            let program = pool.settings.worker_program.display();
            tell(&myself, Msg::Spawned(spawned.map_err(|error| format!("starting {program}: {error}"))));
        });
    }

    fn spawned(&mut self, result: Result<Box<Spawned>, String>) {
        let Spawned { child, stderr, mark } = match result {
            Ok(spawned) => *spawned,
            Err(why) => {
                self.exit = Some(Exit::NotStarted(why));
                self.swept = Some(String::new());
                return self.report_if_over();
            }
        };
        match stderr.map(Stderr::follow).transpose() {
            Ok(stderr) => self.stderr = stderr,
            Err(error) => tracing::error!(job = %self.job, %error, "a worker's stderr cannot be read"),
        }
        self.mark = Some(mark.clone());
        self.silence.heard(Instant::now());
        self.watch_exit(mark.clone(), Some(child));
        if self.stop.is_some() {
            return self.kill(Duration::ZERO);
        }
        let myself = self.myself.clone();
        let started = Event::Started { attempt: self.attempt, process: mark, token_hash: self.token_hash.clone() };
        self.unstored += 1;
        let reply = Reply::new(move |result: Result<Arc<Appended>, _>| tell(&myself, Msg::Admitted(result.map(drop))));
        self.store(StoreMessage::Append { job: self.job.clone(), from: None, events: vec![started], reply });
    }

    fn adopt(&mut self, mark: ProcessMark, token_hash: String, recorded: u64) {
        self.token_hash = token_hash;
        self.recorded = recorded;
        self.adopted = true;
        self.admitted = true;
        self.mark = Some(mark.clone());
        self.watch_exit(mark, None);
        self.myself.send_after(self.pool.settings.orphan_grace, || Msg::OrphanGraceOver);
    }

    fn watch_exit(&self, mark: ProcessMark, child: Option<Child>) {
        let (myself, family, job) = (self.myself.clone(), self.pool.family, self.job.clone());
        tokio::spawn(async move {
            if let Err(error) = exit::ended(&mark).await {
                // Waiting for the child below still notices its end; an adopted one is noticed by its silence.
                tracing::error!(%job, pid = mark.pid, %error, "a worker cannot be watched");
                if child.is_none() {
                    return;
                }
            }
            let status = tokio::task::spawn_blocking(move || {
                child.map_or(Exit::Unknown, |mut child| {
                    let status = exit::status(&mut child);
                    family.reaped(child.id());
                    status
                })
            });
            tell(&myself, Msg::Exited(status.await.unwrap_or(Exit::Unknown)));
        });
    }

    fn exited(&mut self, exit: Exit) {
        if self.exit.is_some() {
            return;
        }
        self.exit = Some(exit);
        // Who knocked and was not let in never will be.
        self.knocking = None;
        let (myself, family) = (self.myself.clone(), self.pool.family);
        let (mark, stderr, job) = (self.mark.clone(), self.stderr.take(), self.job.clone());
        tokio::spawn(async move {
            let swept = tokio::task::spawn_blocking(move || {
                if let Some(mark) = mark {
                    process_tree::end(&mark, Duration::ZERO)?;
                }
                family.sweep();
                Ok::<_, std::io::Error>(())
            });
            match swept.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%job, %error, "a dead worker's tree could not be ended"),
                Err(error) => tracing::error!(%job, %error, "the sweep after a worker's end failed"),
            }
            let stderr_tail = match stderr {
                Some(stderr) => stderr.finish(STDERR_GRACE).await,
                None => String::new(),
            };
            tell(&myself, Msg::Swept { stderr_tail });
        });
    }

    fn report_if_over(&mut self) {
        if self.open_links > 0 || self.unstored > 0 {
            return;
        }
        let (Some(exit), Some(stderr_tail)) = (&self.exit, &self.swept) else { return };
        let over = Over {
            job: self.job.clone(),
            attempt: self.attempt,
            exit: exit.clone(),
            stop: self.stop.clone(),
            stderr_tail: stderr_tail.clone(),
            lived: self.began.elapsed(),
        };
        self.tell_supervisor(SupervisorMsg::Over(Box::new(over)));
        self.myself.stop(None);
    }

    fn stop(&mut self, why: Stop) {
        if self.exit.is_some() {
            return;
        }
        tracing::info!(job = %self.job, attempt = self.attempt, ?why, "a worker is stopped");
        match &why {
            Stop::Cancel(_) | Stop::Failed(_) if self.link.is_some() => {
                let kind = match &why {
                    Stop::Cancel(kind) => *kind,
                    Stop::Failed(cause) => cause.kind,
                    _ => CauseKind::Internal,
                };
                self.send(ToWorker::Cancel { kind });
                self.myself.send_after(CANCEL_GRACE, || Msg::Kill);
            }
            Stop::Drain if self.unstored > 0 && self.admitted => {
                self.myself.send_after(DRAIN_GRACE, || Msg::Kill);
            }
            Stop::Hung(_) => self.kill(self.pool.settings.term_grace),
            _ => self.kill(Duration::ZERO),
        }
        // The first reason stands, but for a person's: theirs is above ours.
        if self.stop.is_none() || matches!(why, Stop::Cancel(_)) {
            self.stop = Some(why);
        }
    }

    /// Before the process exists there is nothing to kill: `spawned` does it then.
    fn kill(&mut self, grace: Duration) {
        let Some(mark) = self.mark.clone().filter(|_| self.exit.is_none()) else { return };
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            let result = process_tree::end(&mark, grace).map_err(|error| error.to_string());
            tell(&myself, Msg::TreeEnded(result));
        });
    }

    fn tree_ended(&mut self, result: Result<(), String>) {
        if let Err(why) = result {
            tracing::error!(job = %self.job, why, "a worker's tree could not be ended; trying again");
            self.myself.send_after(KILL_AGAIN, || Msg::Kill);
        } else if self.exit.is_none() && self.adopted {
            // Should it be one that cannot be watched: a child's exit always comes by itself.
            self.exited(Exit::Unknown);
        }
    }

    fn tick(&mut self, planned: Instant) {
        let now = Instant::now();
        let ours = self.unstored > 0 || self.mark.is_none() || self.knocking.is_some();
        if self.silence.tick(planned, now, ours) && self.stop.is_none() {
            self.stop(Stop::Hung(format!("nothing heard of it for {} s", self.pool.settings.hang.as_secs_f64())));
        }
        self.next_tick(now);
    }

    fn next_tick(&self, now: Instant) {
        let planned = now + self.pool.settings.heartbeat;
        self.myself.send_after(self.pool.settings.heartbeat, move || Msg::Tick { planned });
    }
}

// Its connection.
impl State {
    fn admit(&mut self, result: Result<(), StoreError>) {
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

    fn hello(&mut self, hello: Box<Hello>, incoming: Box<Incoming>) {
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

    fn knows(&self, token: &Secret) -> bool {
        // Hashes are compared, so that the time it takes tells nothing about the token.
        !self.token_hash.is_empty() && spawn::token_hash(token) == self.token_hash
    }

    fn let_in(&mut self) {
        if !self.admitted {
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

    fn loaded(&mut self, result: Result<Box<RunState>, StoreError>) {
        match result {
            Ok(state) => {
                let recorded = state.progress.recorded;
                self.welcome(Some(state), recorded);
            }
            Err(error) => self.stop(Stop::Failed(fault::cause(&error))),
        }
    }

    fn welcome(&mut self, state: Option<Box<RunState>>, acked: u64) {
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
        };
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
    }

    fn link_ended(&mut self, link: u64, why: Option<String>) {
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

    fn from_worker(&mut self, link: u64, message: ToSupervisor, permit: OwnedSemaphorePermit) {
        self.silence.heard(Instant::now());
        let word = match message {
            ToSupervisor::Record { attempt, n, events } => return self.record(link, attempt, n, events, permit),
            ToSupervisor::Heartbeat { .. } => return,
            ToSupervisor::Delta { step, text } => return self.pool.publisher.delta(&self.job, step, &text),
            ToSupervisor::Ask(ask) => LeaseWord::Ask(ask),
            ToSupervisor::Withdraw { call } => LeaseWord::Withdraw { call },
            ToSupervisor::Report(report) => LeaseWord::Report(report),
        };
        // A stopped worker gets no lease; a lost link's asker is gone.
        if self.link.as_ref().is_some_and(|current| current.id == link) && self.stop.is_none() {
            self.tell_supervisor(SupervisorMsg::Lease { job: self.job.clone(), attempt: self.attempt, word });
        }
    }

    fn record(&mut self, link: u64, attempt: u32, n: u64, events: Vec<Event>, permit: OwnedSemaphorePermit) {
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

    fn recorded(&mut self, link: u64, result: Result<Arc<Appended>, StoreError>, permit: OwnedSemaphorePermit) {
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

    fn break_link(&mut self, link: u64) {
        self.broken_link = Some(link);
        if self.link.as_ref().is_some_and(|current| current.id == link) {
            self.link = None;
            self.tell_supervisor(SupervisorMsg::LinkLost { job: self.job.clone(), attempt: self.attempt });
        }
    }

    /// A drained worker is killed when what it sent is on disk.
    fn flush_drain(&mut self) {
        if self.unstored == 0 && self.stop == Some(Stop::Drain) {
            self.kill(Duration::ZERO);
        }
    }

    fn send(&mut self, message: ToWorker) {
        if self.link.as_ref().is_some_and(|link| !link.send(message)) && self.stop.is_none() {
            self.stop(Stop::Hung("it does not read what it is sent".to_owned()));
        }
    }

    fn store(&self, message: StoreMessage) {
        // A store that has ended answers by dropping the reply.
        let _ = self.pool.store.cast(message);
    }

    fn tell_supervisor(&self, message: SupervisorMsg) {
        // Without its supervisor this actor ends too.
        let _ = self.supervisor.cast(message);
    }
}

/// What a task found out. An actor that has ended needs no more news.
fn tell(actor: &ActorRef<Msg>, message: Msg) {
    let _ = actor.cast(message);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
