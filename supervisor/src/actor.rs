//! The supervisor actor: alone owns the job table, the queue, the router and the restart policy.
//!
//! Everything that is decided about a job is decided here, from what is on disk: the job actors look after processes
//! and report, the store answers. No handler waits for either. What each group of messages does stands in a file of
//! its own below.

mod ack;
mod ask;
mod attempt;
mod batch;
mod capability;
mod lease;
mod pause;
mod probe;
pub mod providers;
mod request;
mod resume;
mod routes;
pub mod server_log;
mod submit;
mod takeover;
mod worktree;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use ukai_notifier::{Alert, Notifier, What};
use ukai_protocol::control::{
    Answered, BatchRow, Decision, JobResult, JobRow, NewJob, ProviderRow, Selection, ServerStatus, ToBatch, ToResume,
    ToSee,
};
use ukai_protocol::id::JobId;
use ukai_protocol::job::CauseKind;
use ukai_protocol::lease::{Ask as LeaseAsk, Report};
use ukai_protocol::policy::Judgement;
use ukai_protocol::probe::ProbeAnswer;
use ukai_protocol::server_event::ServerEvent;
use ukai_protocol::session::Hello;

use crate::approval::{Approval, Ask};
use crate::batch::Batches;
use crate::examine::{Examination, Examined};
use crate::pool::actor::{Over, Pool};
use crate::pool::link::Incoming;
use crate::probe::ProbeError;
use crate::queue::Queue;
use crate::restart::Storm;
use crate::route::router::Router;
use crate::store::batch_file::BatchFile;
use crate::store::capabilities::Capabilities;
use crate::store::routes::Found;
use crate::store::server_log::ServerLog;
use crate::store::told::Told;
use crate::store::{Appended, Recovered, StoreError};
use crate::table::Job;

pub use ack::AttentionWanted;
pub use attempt::Write;
pub use batch::Occasion;
pub use pause::Unpaused;
pub use request::Idle;
pub use submit::{QUEUED_MAX, Submitted};

/// Why a request was not carried out. `usage`: the request itself was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    pub usage: bool,
}

pub type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// What a worker says about leases.
#[derive(Debug)]
pub enum LeaseWord {
    Ask(LeaseAsk),
    Withdraw {
        call: u64,
    },
    Report(Report),
    /// It came back from an earlier supervisor, and has said what it was told meanwhile.
    Returned,
}

pub enum Msg {
    // From clients.
    Submit {
        jobs: Vec<NewJob>,
        batch: Option<ToBatch>,
        answer: Answer<Submitted>,
    },
    List {
        jobs: Selection,
        answer: Answer<(Vec<JobRow>, u64)>,
    },
    /// A batch and its jobs, in the order of their lines.
    Batch {
        batch: String,
        answer: Answer<(BatchRow, Vec<JobId>)>,
    },
    Show {
        job: String,
        answer: Answer<(JobRow, JobResult)>,
    },
    Cancel {
        jobs: Selection,
        kind: CauseKind,
        answer: Answer<Vec<JobId>>,
    },
    Pause {
        jobs: Selection,
        answer: Answer<Vec<JobRow>>,
    },
    Unpause {
        jobs: Selection,
        answer: Answer<Unpaused>,
    },
    Resume {
        jobs: Vec<ToResume>,
        answer: Answer<Vec<JobId>>,
    },
    Ack {
        what: Vec<String>,
        all: bool,
        answer: Answer<Vec<ToSee>>,
    },
    /// The first, and how many there are; and the same of what waits for a person.
    Attention {
        answer: Answer<AttentionWanted>,
    },
    /// A person's word about a call that was put to one.
    Decide {
        what: String,
        decision: Decision,
        answer: Answer<Answered>,
    },
    /// The jobs that are meant, in the order of submission, each with the number of its last record.
    Resolve {
        jobs: Selection,
        answer: Answer<Vec<(JobId, u64)>>,
    },
    Status {
        answer: Answer<ServerStatus>,
    },
    Providers {
        answer: Answer<Vec<ProviderRow>>,
    },
    Why {
        job: String,
        answer: Answer<(JobId, Vec<String>)>,
    },
    ResetProviders {
        ids: Vec<String>,
        forget_wait: bool,
        answer: Answer<Vec<ProviderRow>>,
    },
    ProbeProviders {
        ids: Vec<String>,
        refresh: bool,
        answer: Answer<Examined>,
    },

    // From the store.
    /// Records of a job are durable: the fold of its log.
    Recorded(Arc<Appended>),
    Created {
        submission: u64,
        place: usize,
        result: Result<Arc<Appended>, StoreError>,
    },
    Wrote {
        job: JobId,
        what: Write,
        result: Result<(), StoreError>,
    },

    /// What the jobs of a resumption are.
    SpecsRead {
        number: u64,
        specs: resume::Specs,
    },
    /// Records of the server's own log were written, or not.
    ServerLogged(Result<server_log::Logged, String>),
    /// A sink could not deliver so many alerts.
    AlertsLost {
        sink: String,
        count: u64,
        why: String,
    },
    RoutesSaved {
        revision: u64,
        result: io::Result<()>,
    },
    CapabilitiesSaved(io::Result<()>),
    /// One of those that a person wants to see has answered, or could not be asked.
    ExaminedOne {
        lease: u64,
        report: Option<Report>,
    },
    Examined {
        examined: Vec<Examination>,
        answer: Answer<Examined>,
    },
    Probed {
        lease: u64,
        result: Result<Box<ProbeAnswer>, ProbeError>,
    },
    /// A batch's file was written, or not.
    BatchSaved {
        occasion: Occasion,
        result: io::Result<()>,
    },

    /// The rules of a yes for ever are in the user's file, or could not be put there.
    RulesKept {
        ask: Ask,
        rules: Vec<String>,
        kept: Result<PathBuf, String>,
        answer: Answer<Answered>,
    },

    /// Those whose end an earlier supervisor did not settle.
    WorktreesLeft(Vec<JobId>),
    WorktreeClosed(JobId),

    // From workers and their job actors.
    Hello {
        hello: Box<Hello>,
        incoming: Box<Incoming>,
    },
    Lease {
        job: JobId,
        attempt: u32,
        word: LeaseWord,
    },
    /// A worker's hook, or another machine, has decided what was put to a person.
    Settle {
        job: JobId,
        attempt: u32,
        call: String,
        judgement: Judgement,
    },
    LinkLost {
        job: JobId,
        attempt: u32,
    },
    Over(Box<Over>),
    JobActorEnded {
        actor: ActorId,
        why: String,
    },

    // From the host.
    Wake,
    /// Answered when no process is left.
    Drain {
        answer: oneshot::Sender<()>,
    },
    /// Answered when nothing runs and nothing can start within a minute.
    Idle {
        answer: oneshot::Sender<Idle>,
    },
}

pub struct Supervisor;

pub struct Arguments {
    pub pool: Pool,
    pub notifier: Notifier,
    /// In the order of submission.
    pub recovered: Vec<Recovered>,
    pub batches: Vec<BatchFile>,
    /// What an earlier supervisor knew of the provider accounts.
    pub routes: Found,
    /// What providers named, as only the logs of jobs tell.
    pub told: Vec<Told>,
    pub capabilities: Capabilities,
    pub server_log: ServerLog,
    /// Filled with this actor before anything can be recorded.
    pub address: Arc<OnceLock<ActorRef<Msg>>>,
}

pub struct State {
    myself: ActorRef<Msg>,
    pool: Pool,
    notifier: Notifier,
    jobs: BTreeMap<JobId, Job>,
    orders: u64,
    queue: Queue,
    router: Router,
    routes: routes::Routes,
    capabilities: capability::Known,
    storm: Storm,
    batches: Batches,
    batch_files: batch::Files,
    /// A run of which it is not known whether it is of a batch.
    unreadable: Option<JobId>,
    submissions: HashMap<u64, submit::Submission>,
    lists: VecDeque<submit::Waiting>,
    cancels: Vec<request::Cancelling>,
    pauses: Vec<pause::Awaiting>,
    resumptions: HashMap<u64, resume::Resumption>,
    acks: Vec<ack::Acking>,
    resets: Vec<providers::Resetting>,
    server_log: server_log::Writing,
    approval: Approval,
    closing: worktree::Closing,
    /// Who backs off, in the order in which they are due. One that has meanwhile been cancelled or paused is passed over.
    backoffs: BTreeSet<(Instant, JobId)>,
    draining: bool,
    drains: Vec<oneshot::Sender<()>>,
    idlers: Vec<oneshot::Sender<Idle>>,
    /// When a queued job's provider will be near enough to start it.
    opening: Option<Instant>,
    alarm: Option<(Instant, tokio::task::JoinHandle<()>)>,
}

impl Actor for Supervisor {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, myself: ActorRef<Msg>, arguments: Arguments) -> Result<State, ActorProcessingErr> {
        let Arguments { pool, notifier, recovered, batches, routes, told, capabilities, server_log, address } =
            arguments;
        if address.set(myself.clone()).is_err() {
            return Err("the address of the supervisor is taken".into());
        }
        let settings = pool.settings.clone();
        let now = Instant::now();
        Ok({
            let mut state = State {
                myself,
                notifier,
                jobs: BTreeMap::new(),
                orders: 0,
                queue: Queue::new(settings.max_workers),
                router: Router::new(settings.providers.clone(), settings.max_workers, settings.park, now),
                routes: routes::Routes::default(),
                capabilities: capability::Known::new(capabilities),
                storm: Storm::default(),
                batches: Batches::default(),
                batch_files: batch::Files::default(),
                unreadable: None,
                submissions: HashMap::new(),
                lists: VecDeque::new(),
                cancels: Vec::new(),
                pauses: Vec::new(),
                resumptions: HashMap::new(),
                acks: Vec::new(),
                resets: Vec::new(),
                server_log: server_log::Writing::new(server_log),
                approval: Approval::default(),
                closing: worktree::Closing::default(),
                backoffs: BTreeSet::new(),
                draining: false,
                drains: Vec::new(),
                idlers: Vec::new(),
                opening: None,
                alarm: None,
                pool,
            };
            state.recall_routes(routes, told, now);
            state.recall_capabilities();
            state.take_over(batches, recovered, now);
            state
        })
    }

    async fn post_start(&self, _: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.tell_done_batches();
        state.look_for_worktrees();
        state.settle(Instant::now());
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        match message {
            Msg::Submit { jobs, batch, answer } => state.submit(jobs, batch, answer),
            Msg::List { jobs, answer } => state.list(&jobs, answer, now),
            Msg::Batch { batch, answer } => state.batch(&batch, answer),
            Msg::Show { job, answer } => state.show(&job, answer, now),
            Msg::Cancel { jobs, kind, answer } => state.cancel(&jobs, kind, answer),
            Msg::Pause { jobs, answer } => state.pause(&jobs, answer, now),
            Msg::Unpause { jobs, answer } => state.unpause(&jobs, answer, now),
            Msg::Resume { jobs, answer } => state.resume(jobs, answer),
            Msg::SpecsRead { number, specs } => state.specs_read(number, specs),
            Msg::Ack { what, all, answer } => state.ack(what, all, answer),
            Msg::Attention { answer } => state.attention(answer),
            Msg::ServerLogged(logged) => state.server_logged(logged),
            Msg::AlertsLost { sink, count, why } => {
                state.note(vec![ServerEvent::AlertsLost { sink, count, why }]);
            }
            Msg::Resolve { jobs, answer } => {
                // A client that has gone needs no answer, here and below.
                let seq = |id: &JobId| state.jobs.get(id).map_or(0, |job| job.progress.seq);
                let resolved = state.select(&jobs).map(|ids| ids.into_iter().map(|id| (seq(&id), id)));
                let _ = answer.send(resolved.map(|ids| ids.map(|(seq, id)| (id, seq)).collect()));
            }
            Msg::Status { answer } => state.status(answer),
            Msg::Providers { answer } => {
                let _ = answer.send(Ok(providers::rows(&state.router, now)));
            }
            Msg::Why { job, answer } => state.why(&job, answer, now),
            Msg::ResetProviders { ids, forget_wait, answer } => state.reset_providers(&ids, forget_wait, answer, now),
            Msg::ProbeProviders { ids, refresh, answer } => state.probe_providers(&ids, refresh, answer, now),
            Msg::CapabilitiesSaved(result) => state.capabilities_saved(result),
            Msg::ExaminedOne { lease, report } => state.router.probed(lease, report.as_ref(), now, rand::random()),
            Msg::Examined { examined, answer } => state.examined(examined, answer),
            Msg::Recorded(appended) => state.recorded(&appended, now),
            Msg::Created { submission, place, result } => state.created(submission, place, result),
            Msg::Wrote { job, what, result } => state.wrote(&job, what, result, now),
            Msg::RoutesSaved { revision, result } => state.routes_saved(revision, result),
            Msg::Probed { lease, result } => state.probed(lease, result, now),
            Msg::BatchSaved { occasion, result } => state.batch_saved(occasion, result),
            Msg::WorktreesLeft(left) => state.worktrees_left(left),
            Msg::WorktreeClosed(id) => state.worktree_closed(&id),
            Msg::Hello { hello, incoming } => state.hello(hello, incoming),
            Msg::Lease { job, attempt, word } => state.lease(&job, attempt, word, now),
            Msg::Settle { job, attempt, call, judgement } => state.settle_ask(&job, attempt, call, judgement),
            Msg::Decide { what, decision, answer } => state.decide(&what, decision, answer),
            Msg::RulesKept { ask, rules, kept, answer } => state.rules_kept(ask, rules, kept, answer, now),
            Msg::LinkLost { job, attempt } => state.link_lost(&job, attempt, now),
            Msg::Over(over) => state.over(*over, now),
            Msg::JobActorEnded { actor, why } => state.job_actor_ended(actor, &why),
            Msg::Wake => state.wake(now),
            Msg::Drain { answer } => state.drain(answer),
            Msg::Idle { answer } => state.idlers.push(answer),
        }
        state.settle(now);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (who, why) = match event {
            SupervisionEvent::ActorFailed(who, error) => (who, error.to_string()),
            SupervisionEvent::ActorTerminated(who, _, why) => (who, why.unwrap_or_default()),
            _ => return Ok(()),
        };
        if who.get_id() == state.pool.store.get_id() {
            if state.draining && !state.is_busy() {
                return Ok(());
            }
            // Without the store nothing can be promised any more. Workers stop by themselves; the next start goes on.
            tracing::error!(why, "the store has ended, and the supervisor with it");
            myself.stop(Some("the store has ended".to_owned()));
        } else {
            // Such news overtakes messages: its report, if it made one, is in the mailbox before this.
            let actor = who.get_id();
            myself.cast(Msg::JobActorEnded { actor, why })?;
        }
        Ok(())
    }
}

impl State {
    /// After every message: whoever may start starts, whoever is answered is told, and the next alarm is set.
    fn settle(&mut self, now: Instant) {
        self.answer_asks(now);
        self.start_jobs(now);
        self.save_routes(now);
        if self.may_lease(now) && !self.draining {
            self.router.place(now);
            self.save_routes(now);
            self.tell_leases();
            self.send_probes();
        }
        self.tell_breakers(now);
        self.save_capabilities();
        self.answer_resets(now);
        self.answer_drains();
        self.answer_idlers(now);
        self.set_alarm(now);
    }

    fn wake(&mut self, now: Instant) {
        self.alarm = None;
        self.storm.handle_timeout(now);
        self.router.handle_timeout(now);
        self.end_backoffs(now);
    }

    fn set_alarm(&mut self, now: Instant) {
        let backoff = self.backoffs.first().map(|(until, _)| *until);
        let next =
            [self.storm.poll_timeout(), self.routes_timeout(now), self.opening, backoff, self.approval.poll_timeout()];
        let next = next.into_iter().flatten().min();
        if next == self.alarm.as_ref().map(|(at, _)| *at) {
            return;
        }
        if let Some((_, earlier)) = self.alarm.take() {
            earlier.abort();
        }
        self.alarm = next.map(|at| {
            let myself = self.myself.clone();
            let alarm = tokio::spawn(async move {
                tokio::time::sleep_until(at.into()).await;
                // Without the actor nobody is to be woken.
                let _ = myself.cast(Msg::Wake);
            });
            (at, alarm)
        });
    }

    fn alert(&self, what: What) {
        self.notifier.alert(Alert { what, source: None, at: SystemTime::now(), late: false });
    }
}
