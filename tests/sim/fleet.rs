//! Many query machines, the router and the fold on one clock, with providers that say "not before", fail and hang,
//! workers that die, and a person who pauses. The reference is what the providers remember: when each may be asked
//! again, and how many are asking.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use ukai_protocol::event::{Event, ProcessMark, ToolStatus, Why};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, ContextStrategy, Limits, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::lease::{Answer, AnswerClass, Grant, LimitsSeen, Timeouts, Wait, Wire};
use ukai_protocol::message::Usage;
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::run_state::RunState;
use ukai_supervisor::route::account::Rates;
use ukai_supervisor::route::fit::Wants;
use ukai_supervisor::route::router::Router;
use ukai_supervisor::settings::Provider;
use ukai_worker::context;
use ukai_worker::provider::Answered;
use ukai_worker::provider::classify::Failure;
use ukai_worker::query::machine::{Effect, Machine, Parts, Ruling};

use crate::query::{Script, assert_valid, flags, interrupted, seeds, spec};

const JOBS: u8 = 12;
const CONCURRENCY: usize = 3;
const PROVIDERS: [&str; 2] = ["first", "second"];
/// A run that takes longer than this has wedged.
const WEDGED: Duration = Duration::from_secs(24 * 3600);

fn script() -> Script {
    Script(vec![vec!["Look"; 2]; 6])
}

/// What is under way, by the life of the worker that it is for.
enum Coming {
    Ruling(String),
    Durable(Vec<Event>, u64),
    Told(u64, Answer),
    Attempted(Box<Grant>, Result<(), Box<Failure>>),
    Tool(String),
    Wake,
    RouterWake,
    Dies,
    Pause,
    Unpause,
}

struct Due {
    at: Instant,
    order: u64,
    job: u8,
    life: u32,
    what: Coming,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

struct Worker {
    life: u32,
    log: Vec<Event>,
    machine: Option<Machine>,
    calling: Option<Grant>,
    wake_at: Option<Instant>,
    paused: bool,
}

impl Worker {
    fn has_finished(&self) -> bool {
        self.log.iter().any(|event| matches!(event, Event::Finished { .. }))
    }
}

/// What a provider remembers.
#[derive(Default)]
struct Reference {
    not_before: Option<Instant>,
    in_flight: usize,
}

struct Fleet {
    seed: u64,
    rng: StdRng,
    now: Instant,
    began: Instant,
    order: u64,
    due: BinaryHeap<Due>,
    router: Router,
    router_wake_at: Option<Instant>,
    workers: BTreeMap<u8, Worker>,
    providers: BTreeMap<String, Reference>,
    requests: u64,
    /// Lives that ended for a pause.
    stops: u32,
}

fn id(job: u8) -> JobId {
    JobId::from_random([0, 0, 0, 0, job])
}

fn provider(name: &str) -> Provider {
    Provider {
        id: name.to_owned(),
        account: name.to_owned(),
        wire: Wire::Openai,
        url: String::new(),
        model: "m".to_owned(),
        key: None,
        context_window: 1_000_000,
        max_output: 1_000,
        prices: None,
        timeouts: Timeouts::default(),
        max_concurrency: Some(CONCURRENCY),
        supports_tools: None,
        rates: Rates::default(),
    }
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let mut fleet = Fleet {
            seed,
            rng: StdRng::seed_from_u64(seed),
            now,
            began: now,
            order: 0,
            due: BinaryHeap::new(),
            router: Router::new(PROVIDERS.map(provider).into(), usize::from(JOBS), false, now),
            router_wake_at: None,
            workers: BTreeMap::new(),
            providers: PROVIDERS.map(|name| (name.to_owned(), Reference::default())).into(),
            requests: 0,
            stops: 0,
        };
        for job in 0..JOBS {
            let log = vec![Event::Submitted { name: String::new(), prompt: "go".to_owned(), priority: 5, batch: None }];
            fleet
                .workers
                .insert(job, Worker { life: 0, log, machine: None, calling: None, wake_at: None, paused: false });
            fleet.begin(job);
        }
        fleet
    }

    fn later(&mut self, job: u8, after_ms: std::ops::Range<u64>, what: Coming) {
        let at = self.now + Duration::from_millis(self.rng.random_range(after_ms));
        self.push(job, at, what);
    }

    fn push(&mut self, job: u8, at: Instant, what: Coming) {
        self.order += 1;
        let life = self.workers[&job].life;
        self.due.push(Due { at, order: self.order, job, life, what });
    }

    fn fold(&self, job: u8) -> RunState {
        let mut state = RunState::default();
        for event in &self.workers[&job].log {
            state.apply(event).unwrap_or_else(|illegal| panic!("seed {}: {illegal}", self.seed));
        }
        state
    }

    fn begin(&mut self, job: u8) {
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        worker.life += 1;
        worker.wake_at = None;
        let process = ProcessMark { pid: 1, start_time: 1, boot_id: String::new() };
        worker.log.push(Event::Started { attempt: worker.life, process, token_hash: String::new() });
        let parts = Parts {
            spec: spec(Limits { run_time_ms: 3_600_000, ..Limits::default() }),
            context: context::strategy(ContextStrategy::KeepAll),
            flags,
            overhead_tokens: 10,
        };
        let mut machine = Machine::new(parts, self.fold(job), self.now);
        machine.start(Event::Injected { why: Why::System, text: "system".to_owned() }, self.now);
        self.workers.get_mut(&job).expect("it is one of ours").machine = Some(machine);
        if self.rng.random_bool(0.3) {
            self.later(job, 1..20_000, Coming::Dies);
        }
        if self.rng.random_bool(0.3) {
            self.later(job, 1..20_000, Coming::Pause);
        }
        self.carry_on(job);
    }

    fn carry_on(&mut self, job: u8) {
        let machine = |fleet: &mut Self| fleet.workers.get_mut(&job).and_then(|worker| worker.machine.take());
        let Some(mut machine) = machine(self) else { return };
        while let Some(effect) = machine.poll_effect() {
            let begins = matches!(effect, Effect::Judge(_) | Effect::Ask(_) | Effect::CallModel(_));
            assert!(!begins || !self.workers[&job].paused, "seed {}: {effect:?} under a pause", self.seed);
            match effect {
                Effect::Judge(call) => self.later(job, 0..2, Coming::Ruling(call.id)),
                Effect::Record { n, events } => {
                    let upto = n + events.len() as u64;
                    self.later(job, 1..2, Coming::Durable(events, upto));
                }
                Effect::Ask(ask) => {
                    let roll = self.rng.random();
                    self.router.ask(&id(job), ask, Wants::default(), self.now, roll);
                }
                Effect::Withdraw { call } => self.router.withdraw(&id(job), call, self.now),
                Effect::Report(report) => {
                    if let Some(grant) = self.workers.get_mut(&job).and_then(|worker| worker.calling.take()) {
                        let reference = self.providers.get_mut(&grant.provider).expect("it is one of ours");
                        reference.in_flight -= 1;
                        if let Some(Wait::For(ms)) = report.wait {
                            let at = self.now + Duration::from_millis(ms);
                            reference.not_before = reference.not_before.max(Some(at));
                        }
                    }
                    let roll = self.rng.random();
                    self.router.report(&id(job), &report, self.now, roll);
                }
                Effect::CallModel(grant) => self.request(job, grant),
                Effect::StartTool { call, .. } => self.later(job, 1..100, Coming::Tool(call)),
                Effect::Fault(illegal) => panic!("seed {}: {illegal}", self.seed),
                Effect::Exit if !self.workers[&job].has_finished() => return self.gone(job, true),
                Effect::StopModel | Effect::StopTools | Effect::Exit => {}
            }
        }
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        let wake_at = machine.poll_timeout(self.now).filter(|at| worker.wake_at.is_none_or(|planned| *at < planned));
        worker.machine = Some(machine);
        if let Some(at) = wake_at {
            worker.wake_at = Some(at);
            self.push(job, at, Coming::Wake);
        }
        self.hand_out();
    }

    /// Its process has ended before the job. A paused one stays away until a person lets it go on.
    fn gone(&mut self, job: u8, stopped: bool) {
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        worker.machine = None;
        // With the process goes its connection, and the provider stops at that.
        if let Some(grant) = worker.calling.take() {
            assert!(!stopped, "seed {}: it stopped in the middle of a call", self.seed);
            self.providers.get_mut(&grant.provider).expect("it is one of ours").in_flight -= 1;
        }
        worker.log.push(interrupted(worker.life, "it ended", stopped));
        let paused = worker.paused;
        self.stops += u32::from(stopped);
        self.router.gone(&id(job), self.now);
        if paused { self.hand_out() } else { self.begin(job) }
    }

    fn pause(&mut self, job: u8) {
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        if worker.has_finished() || std::mem::replace(&mut worker.paused, true) {
            return;
        }
        worker.log.push(Event::Paused {});
        worker.machine.iter_mut().for_each(Machine::handle_pause);
        self.later(job, 1..30_000, Coming::Unpause);
    }

    /// A person lets it go on, whatever has become of it meanwhile.
    fn unpause(&mut self, job: u8) {
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        if worker.has_finished() || !std::mem::take(&mut worker.paused) {
            return;
        }
        worker.log.push(Event::Unpaused {});
        match &mut worker.machine {
            Some(machine) => machine.handle_unpause(),
            None => self.begin(job),
        }
    }

    /// The router's words go to the workers they are for.
    fn hand_out(&mut self) {
        self.router.place(self.now);
        while let Some(told) = self.router.poll_event() {
            let job = (0..JOBS).find(|job| id(*job) == told.job).expect("it is one of ours");
            self.later(job, 0..1, Coming::Told(told.call, told.answer));
        }
        let next = self.router.poll_timeout().map(|at| at.max(self.now));
        if let Some(at) = next.filter(|at| self.router_wake_at.is_none_or(|planned| *at < planned)) {
            self.router_wake_at = Some(at);
            self.push(0, at, Coming::RouterWake);
        }
    }

    fn request(&mut self, job: u8, grant: Box<Grant>) {
        self.requests += 1;
        let reference = self.providers.get_mut(&grant.provider).expect("it is one of ours");
        let early = reference.not_before.filter(|not_before| *not_before > self.now);
        assert!(early.is_none(), "seed {}: {} was asked before its time", self.seed, grant.provider);
        reference.in_flight += 1;
        assert!(reference.in_flight <= CONCURRENCY, "seed {}: {} is asked by too many", self.seed, grant.provider);
        self.workers.get_mut(&job).expect("it is one of ours").calling = Some((*grant).clone());
        let failure = |class, wait| Err(Box::new(Failure { class, wait, ..Failure::withdrawn() }));
        let result = match self.rng.random_range(0..20) {
            0 => {
                let wait = Wait::For(self.rng.random_range(1_000..40_000));
                failure(AnswerClass::RateLimited, Some(wait))
            }
            1 => failure(AnswerClass::RateLimited, None),
            2 => failure(AnswerClass::Unavailable, None),
            3 => failure(AnswerClass::Timeout, None),
            _ => Ok(()),
        };
        self.later(job, 50..500, Coming::Attempted(grant, result));
    }

    fn run(mut self) -> Self {
        while let Some(due) = self.due.pop() {
            assert!(due.at.duration_since(self.began) < WEDGED, "seed {}: it has wedged", self.seed);
            self.now = due.at;
            self.happen(due);
        }
        self
    }

    fn happen(&mut self, Due { job, life, what, .. }: Due) {
        if let Coming::RouterWake = what {
            self.router_wake_at = None;
            self.router.handle_timeout(self.now);
            return self.hand_out();
        }
        if let Coming::Unpause = what {
            return self.unpause(job);
        }
        let now = self.now;
        let worker = self.workers.get_mut(&job).expect("it is one of ours");
        if worker.life != life {
            return;
        }
        let Some(machine) = &mut worker.machine else { return };
        match what {
            Coming::Ruling(call) => {
                let judgement = Judgement::allow(Source::Default);
                let ruling = Ruling::Judged { input: Json::default(), read_only: true, judgement };
                machine.handle_ruling(&call, ruling, now);
            }
            Coming::Durable(events, upto) => {
                worker.log.extend(events);
                machine.handle_acked(upto);
            }
            Coming::Told(call, answer) => machine.handle_answer(call, answer, now),
            Coming::Attempted(grant, result) => {
                let reply = script().reply(&machine.window());
                let usage = Usage { input: 10, cached: 0, output: 5, estimated: false };
                let answered = Answered { reply, usage, limits_seen: LimitsSeen::default(), wait: None };
                machine.handle_attempted(grant.lease, result.map(|()| answered).map_err(|failure| *failure), now);
            }
            Coming::Tool(call) => machine.handle_tool(&call, ToolStatus::Ok, "seen".to_owned(), now),
            Coming::Wake => {
                worker.wake_at = None;
                machine.handle_timeout(now);
            }
            Coming::Dies => {
                if !worker.has_finished() {
                    self.gone(job, false);
                }
                return;
            }
            Coming::Pause => self.pause(job),
            Coming::RouterWake | Coming::Unpause => {}
        }
        self.carry_on(job);
    }
}

#[test]
fn twelve_jobs_and_two_moody_providers_come_to_their_ends_and_nobody_is_asked_too_early() {
    let (mut seen, mut stops) = (BTreeSet::new(), 0);
    // Each seed is a night of twelve jobs; a few dozen have met every mixture of faults.
    for seed in seeds().into_iter().take(60) {
        let fleet = Fleet::new(seed).run();
        for job in 0..JOBS {
            let state = fleet.fold(job);
            assert_valid(&state.messages);
            let end = match state.progress.outcome {
                Some(Outcome::Completed { attention: false }) => "completed",
                Some(Outcome::Ended(cause)) if cause.kind == CauseKind::Attempts => "attempts",
                Some(Outcome::Ended(cause)) if cause.kind == CauseKind::AllOpen => "all_open",
                other => panic!("seed {seed}: job {job} ended {other:?}"),
            };
            seen.insert(end);
            let used = state.progress.used;
            assert!(used.run_time_ms <= used.wall_ms, "seed {seed}: {used:?}");
        }
        assert!(fleet.requests >= u64::from(JOBS), "seed {seed}");
        stops += fleet.stops;
    }
    assert!(stops > 0, "no pause met a living worker");
    assert!(seen.contains("completed"), "{seen:?}");
}
