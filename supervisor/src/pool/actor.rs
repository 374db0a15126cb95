//! The job actor: looks after one worker process, from before its start until after its last record is stored.
//!
//! It decides nothing about the job. It starts the process, lets it in, carries its words to the store and to the
//! supervisor actor, notices when it is hung, ends it when told to, and reports once: when the process and its tree are
//! gone, its connection has been read to its end, and all that it recorded is on disk. An exit can overtake the last
//! records, so nothing is judged before that.
//!
//! No handler waits: processes, disk and socket are dealt with in tasks whose results come back as messages.

mod connection;
mod pause;
mod process;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, watch};
use ukai_protocol::event::ProcessMark;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, JobSpec};
use ukai_protocol::lease::Answer;
use ukai_protocol::policy::Judgement;
use ukai_protocol::run_state::RunState;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker};

use self::pause::Pausing;
use super::commands_env::CommandsEnv;
use super::link::{Incoming, Link};
use super::reaper::Family;
use super::silence::Silence;
use super::spawn::{self, Spawned};
use super::stderr::Stderr;
use crate::actor::Msg as SupervisorMsg;
use crate::publish::Publisher;
use crate::restart::Exit;
use crate::settings::Settings;
use crate::store::{Appended, StoreError, StoreMessage};
use crate::worktree::Worktrees;
use crate::worktree::place::Place;
use ukai_protocol::secret::fingerprint::Fingerprints;

/// What all job actors share.
#[derive(Clone)]
pub struct Pool {
    pub settings: Arc<Settings>,
    pub store: ActorRef<StoreMessage>,
    pub publisher: Publisher,
    pub family: Family,
    pub start: spawn::Start,
    /// For workers, which are lent a key at a time and must record none.
    pub secrets: Arc<Fingerprints>,
    pub commands_env: Arc<CommandsEnv>,
    pub worktrees: Worktrees,
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
        paused: bool,
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
    /// It was told to pause, and ended for that.
    pub paused: bool,
    pub stderr_tail: String,
    pub lived: Duration,
}

pub enum Msg {
    /// Where it works, if in a worktree; before it is started.
    Placed(Result<Place, String>),
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
    /// A person's word is on disk: let the call under way end, or go on.
    Pause,
    Unpause,
    /// These, of what it put to a person, are not answered.
    StillAsked {
        calls: Vec<String>,
    },
    /// Go, if nothing but a person's answer is waited for.
    Park,
    Answered {
        call: String,
        tool: String,
        judgement: Judgement,
        granted: Vec<String>,
    },
    Stop(Stop),
    /// The grace of a stop is over.
    Kill,
    /// The time is over that a cancelled worker has when nothing keeps it.
    CancelOver,
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
    /// Where it works is known; `spec` says so.
    placed: bool,
    /// Breaks off what is done before it is started.
    unwanted: Arc<AtomicBool>,
    /// `Started` is durable: the worker may be let in.
    admitted: bool,
    /// It knocked before it could be let in, or while its state is loaded.
    knocking: Option<(Box<Hello>, Box<Incoming>)>,
    link: Option<Link>,
    links: u64,
    /// Connections that are not read to their end.
    open_links: usize,
    /// Cancelled, it waits for its commands to end: that may take as long as they are given.
    commands_end: bool,
    /// Tells their readers that nothing more will be written.
    gone: watch::Sender<bool>,
    /// A record of this link was turned away unread: what follows it will not fit either.
    broken_link: Option<u64>,
    unstored: usize,
    recorded: u64,
    silence: Silence,
    pausing: Pausing,
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
            placed: !spec.worktree,
            unwanted: Arc::default(),
            admitted: false,
            knocking: None,
            link: None,
            links: 0,
            open_links: 0,
            gone: watch::Sender::new(false),
            commands_end: false,
            broken_link: None,
            unstored: 0,
            recorded: 0,
            pausing: Pausing::No,
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
            Begin::Adopt { mark, token_hash, recorded, paused } => {
                state.pausing = if paused { Pausing::Yes } else { Pausing::No };
                state.adopt(mark, token_hash, recorded);
            }
        }
        state.next_tick(now);
        Ok(state)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Placed(place) => state.placed(place),
            Msg::Spawned(result) => state.spawned(result),
            Msg::Admitted(result) => state.admit(result),
            Msg::Hello { hello, incoming } => state.hello(hello, incoming),
            Msg::Loaded(result) => state.loaded(result),
            Msg::FromWorker { link, message, permit } => state.heard(link, *message, permit),
            Msg::LinkEnded { link, why } => state.link_ended(link, why),
            Msg::Recorded { link, result, permit } => state.recorded(link, result, permit),
            Msg::Answer { call, answer } => state.send(ToWorker::Answer { call, answer }),
            Msg::Pause => state.pause(),
            Msg::Unpause => state.unpause(),
            Msg::StillAsked { calls } => state.send(ToWorker::StillAsked { calls }),
            Msg::Park => state.send(ToWorker::Park),
            Msg::Answered { call, tool, judgement, granted } => {
                state.send(ToWorker::Answered { call, tool, judgement, granted });
            }
            Msg::Stop(why) => state.stop(why),
            Msg::Kill => state.kill(Duration::ZERO),
            Msg::CancelOver if state.commands_end => {}
            Msg::CancelOver => state.kill(Duration::ZERO),
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

impl State {
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
