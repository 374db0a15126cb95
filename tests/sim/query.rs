//! The query machine and the fold, killed at every moment at which a process can die.
//!
//! The world around it is a disk that acknowledges late, a model that answers from a script, and tools that count how
//! often they ran. A kill drops the machine and everything on its way to it; what was on its way to the disk may have
//! arrived or not. A person pauses and thinks better of it at any moment, and lets go on whatever has stopped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use ukai_protocol::event::{Event, ProcessMark, ToolStatus, Why};
use ukai_protocol::job::{CauseKind, ContextStrategy, JobSpec, JobStatus, Limit, Limits, Mode, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::lease::{Answer, AnswerClass, Grant, LimitsSeen, Timeouts, WaitWhy, Wire};
use ukai_protocol::message::{Args, Call, Message, Stop, Usage};
use ukai_protocol::policy::{Consent, Judgement, Policy, RuleList, Source};
use ukai_protocol::run_state::RunState;
use ukai_worker::context;
use ukai_worker::permission::Question;
use ukai_worker::provider::Answered;
use ukai_worker::provider::classify::Failure;
use ukai_worker::provider::wire::{Reply, Reported};
use ukai_worker::query::machine::{Effect, Machine, Parts, Ruling};
use ukai_worker::tool::{Flags, ToolOutput};

/// Enough for the longest script with every interruption.
const TURNS_MAX: usize = 100_000;

pub fn spec(limits: Limits) -> JobSpec {
    JobSpec {
        name: "sim".to_owned(),
        prompt: "go".to_owned(),
        workdir: "/".into(),
        env: Vec::new(),
        mode: Mode::Loop,
        provider: None,
        model: None,
        context: ContextStrategy::KeepAll,
        window: None,
        priority: 5,
        needs_tools: false,
        limits,
        worktree: false,
        hooks: Vec::new(),
        tools: Vec::new(),
        policy: Policy::default(),
        batch: None,
    }
}

/// `Look` only reads, and a rule allows it; `Act` must not happen twice; the verdict on `Forbidden` is no.
pub fn flags(tool: &str, _: &Json) -> Option<Flags> {
    match tool {
        "Look" => Some(Flags { read_only: true, concurrency_safe: true, idempotent: true, ..Flags::default() }),
        "Act" | "Forbidden" | "Ask" => Some(Flags::default()),
        _ => None,
    }
}

/// The model: what it says depends on the conversation alone, as with a real one at temperature 0.
#[derive(Clone)]
pub struct Script(pub Vec<Vec<&'static str>>);

/// A tool of this name in a reply: the reply was cut at the output limit.
const CUT: &str = "Cut";

impl Script {
    pub fn reply(&self, messages: &[Arc<Message>]) -> Reply {
        let turn = messages.iter().filter(|message| matches!(***message, Message::Assistant { .. })).count();
        let tools = self.0.get(turn).cloned().unwrap_or_default();
        let call = |(place, tool): (usize, &&str)| Call {
            id: format!("t{turn}c{place}"),
            tool: (*tool).to_owned(),
            args: Args::Whole(Json::default()),
        };
        let calls: Vec<Call> = tools.iter().enumerate().map(call).collect();
        let text = if calls.is_empty() { format!("done after {turn}") } else { String::new() };
        let stop = if tools.contains(&CUT) { Stop::Length } else { Stop::Unknown };
        Reply { text, calls, opaque: Vec::new(), stop, usage: Reported::default(), bytes: 0 }
    }
}

/// What is under way to the machine.
enum Coming {
    Ruling(String),
    Ack(u64),
    Answer(u64, Answer),
    Attempted(u64),
    Tool(String, String),
    /// Pause, or go on.
    Person(bool),
    /// What was put to a person is answered, and on disk.
    Answered(Event),
    /// It need not wait for a person as a process.
    Park,
}

struct World {
    rng: StdRng,
    script: Script,
    limits: Limits,
    /// The log, as it is on disk.
    log: Vec<Event>,
    now: Instant,
    ran: BTreeMap<String, u32>,
    kills: u32,
    /// How likely a person says something at each moment.
    moody: f64,
    /// What they said last, and whether the machine that lives has heard that it is to pause.
    paused: bool,
    heard: bool,
    ever_heard: bool,
    /// The machine that lives was told that it need not wait.
    parked: bool,
    /// Lives that ended for a pause.
    stops: u32,
}

/// One life of a worker ends.
enum End {
    Exit,
    Killed,
}

impl World {
    fn new(seed: u64, script: Script, limits: Limits) -> Self {
        let mut world = World {
            rng: StdRng::seed_from_u64(seed),
            script,
            limits,
            log: Vec::new(),
            now: Instant::now(),
            ran: BTreeMap::new(),
            kills: 0,
            moody: 0.0,
            paused: false,
            heard: false,
            ever_heard: false,
            parked: false,
            stops: 0,
        };
        world.log.push(Event::Submitted { name: "sim".to_owned(), prompt: "go".to_owned(), priority: 5, batch: None });
        world
    }

    fn fold(&self) -> RunState {
        let mut state = RunState::default();
        for event in &self.log {
            state.apply(event).expect("the log is one that the fold accepts");
        }
        state
    }

    /// Runs lives until one exits; `kill_at(n)` says whether to kill when the n-th thing happens in a life.
    fn run(&mut self, mut kill_at: impl FnMut(&mut StdRng, usize) -> bool) -> RunState {
        for attempt in 1.. {
            let process = ProcessMark { pid: attempt, start_time: 1, boot_id: String::new() };
            self.log.push(Event::Started { attempt, process, token_hash: String::new() });
            match self.life(&mut kill_at) {
                End::Exit if self.fold().progress.outcome.is_some() => return self.fold(),
                // Only a pause makes it leave before its end, perhaps one that was taken back too late; or a person's silence.
                End::Exit => {
                    assert!(self.ever_heard || self.parked, "it left, and nobody had told it to");
                    self.stops += 1;
                    self.log.push(interrupted(attempt, "paused by a person", true));
                    self.go_on(JobStatus::Queued);
                }
                // Its last record came through: the job had ended when it was killed.
                End::Killed if self.fold().progress.outcome.is_some() => return self.fold(),
                End::Killed => {
                    self.kills += 1;
                    self.log.push(interrupted(attempt, "killed", false));
                    self.go_on(JobStatus::Interrupted);
                }
            }
        }
        unreachable!("lives are numbered without end")
    }

    /// No process is left; who is paused is let go on, and stands in the queue as what it is.
    fn go_on(&mut self, status: JobStatus) {
        if std::mem::take(&mut self.paused) {
            assert_eq!(self.fold().progress.status, JobStatus::Paused);
            self.log.push(Event::Unpaused {});
        }
        // Who waits for a person is not started for that.
        while let Some(answered) = self.answer() {
            assert_eq!(self.fold().progress.status, JobStatus::Waiting);
            self.log.push(answered);
        }
        assert_eq!(self.fold().progress.status, status);
    }

    /// What a person says to the first question on disk: always the same to the same.
    fn answer(&self) -> Option<Event> {
        let asks = self.fold().progress.asks;
        let ukai_protocol::run_state::OpenAsk { call, tool, .. } = asks.into_iter().next()?;
        let judgement = match call.len() + usize::from(call.ends_with('1')) {
            even if even % 2 == 0 => Judgement::allow(Source::User(Consent::Once)),
            _ => Judgement::deny(Source::UserReject { text: "no".to_owned() }, "a person said no: no"),
        };
        Some(Event::AskAnswered { call, tool, judgement, granted: Vec::new() })
    }

    fn life(&mut self, kill_at: &mut impl FnMut(&mut StdRng, usize) -> bool) -> End {
        let parts = Parts {
            spec: spec(self.limits),
            context: context::strategy(ContextStrategy::KeepAll),
            flags: Box::new(flags),
            overhead_tokens: 10,
        };
        let mut machine = Machine::new(parts, self.fold(), self.now);
        machine.start(Event::Injected { why: Why::System, text: "system".to_owned() }, self.now);
        (self.heard, self.ever_heard, self.parked) = (false, false, false);
        let mut coming: VecDeque<Coming> = VecDeque::new();
        let mut to_disk: VecDeque<(u64, Vec<Event>)> = VecDeque::new();
        for turn in 0..TURNS_MAX {
            while let Some(effect) = machine.poll_effect() {
                let begins = match &effect {
                    Effect::Judge(_) | Effect::Ask(_) | Effect::CallModel(_) => true,
                    Effect::Record { events, .. } => {
                        events.iter().any(|event| matches!(event, Event::ToolStarted { .. }))
                    }
                    _ => false,
                };
                assert!(!begins || !self.heard, "{effect:?} begins after the pause was heard");
                match effect {
                    Effect::Judge(call) => coming.push_back(Coming::Ruling(call.id)),
                    Effect::Record { n, events } => to_disk.push_back((n, events)),
                    Effect::Ask(ask) => {
                        let on_disk = self.fold().progress.used.steps;
                        assert_eq!(on_disk + 1, ask.call, "a call is asked for before the last reply is on disk");
                        if self.rng.random_bool(0.2) {
                            let wait = Answer::Wait { why: WaitWhy::Backoff, until_ms: Some(100) };
                            coming.push_back(Coming::Answer(ask.call, wait));
                        }
                        coming.push_back(Coming::Answer(ask.call, Answer::Grant(Box::new(grant(ask.call)))));
                    }
                    Effect::CallModel(grant) => {
                        let answered =
                            |event: &Event| matches!(event, Event::Replied { step, .. } if *step == grant.lease);
                        assert!(!self.log.iter().any(answered), "step {} was answered and is asked again", grant.lease);
                        coming.push_back(Coming::Attempted(grant.lease));
                    }
                    Effect::StartTool { call, tool, .. } => {
                        let durable =
                            |event: &Event| matches!(event, Event::ToolStarted { call: id, .. } if *id == call);
                        let harmless = tool == "Look";
                        assert!(
                            harmless || self.log.iter().any(durable),
                            "{call} started before its intent was on disk"
                        );
                        *self.ran.entry(call.clone()).or_default() += 1;
                        coming.push_back(Coming::Tool(call, tool));
                    }
                    Effect::Exit => {
                        assert!(to_disk.is_empty(), "it left before its last records were on disk");
                        return End::Exit;
                    }
                    Effect::Fault(illegal) => panic!("{illegal}"),
                    Effect::Withdraw { .. }
                    | Effect::Report(_)
                    | Effect::StopModel
                    | Effect::StopTools
                    | Effect::Hook(_)
                    | Effect::StopHooks
                    | Effect::Settle { .. } => {}
                }
            }
            if kill_at(&mut self.rng, turn) {
                let arrived = self.rng.random_range(0..=to_disk.len());
                to_disk.drain(..arrived).for_each(|(_, events)| self.log.extend(events));
                if let Some((_, events)) = to_disk.pop_front() {
                    // A record may be torn between its events.
                    let kept = self.rng.random_range(0..=events.len());
                    self.log.extend(events.into_iter().take(kept));
                }
                return End::Killed;
            }
            let ended = self.log.iter().any(|event| matches!(event, Event::Finished { .. }));
            if self.rng.random_bool(self.moody) && !ended {
                self.paused = !self.paused;
                self.log.push(if self.paused { Event::Paused {} } else { Event::Unpaused {} });
                coming.push_back(Coming::Person(self.paused));
            }
            if self.rng.random_bool(0.3)
                && !ended
                && let Some(answered) = self.answer()
            {
                self.log.push(answered.clone());
                coming.push_back(Coming::Answered(answered));
            }
            if self.rng.random_bool(0.1) && !self.fold().progress.asks.is_empty() {
                coming.push_back(Coming::Park);
            }
            self.something_happens(&mut machine, &mut coming, &mut to_disk);
        }
        panic!("no end after {TURNS_MAX} turns");
    }

    fn something_happens(
        &mut self,
        machine: &mut Machine,
        coming: &mut VecDeque<Coming>,
        to_disk: &mut VecDeque<(u64, Vec<Event>)>,
    ) {
        self.now += Duration::from_millis(self.rng.random_range(0..20));
        if machine.poll_timeout(self.now).is_some_and(|at| at <= self.now) {
            machine.handle_timeout(self.now);
            return;
        }
        // The disk is one of the things that can come next.
        let place = self.rng.random_range(0..=coming.len());
        if place == coming.len() || coming.is_empty() {
            if let Some((n, events)) = to_disk.pop_front() {
                coming.push_back(Coming::Ack(n + events.len() as u64));
                self.log.extend(events);
            }
            return;
        }
        // Acks keep their order among themselves; everything else may overtake.
        let place = match coming[place] {
            Coming::Ack(_) => coming.iter().position(|thing| matches!(thing, Coming::Ack(_))).expect("it is one"),
            Coming::Person(_) => coming.iter().position(|thing| matches!(thing, Coming::Person(_))).expect("it is one"),
            Coming::Answer(..) => {
                coming.iter().position(|thing| matches!(thing, Coming::Answer(..))).expect("it is one")
            }
            _ => place,
        };
        match coming.remove(place).expect("it is inside") {
            Coming::Ack(n) => machine.handle_acked(n),
            Coming::Answer(call, answer) => machine.handle_answer(call, answer, self.now),
            Coming::Ruling(call) => {
                let denied = machine.state().open_call(&call).is_some_and(|open| open.call.tool == "Forbidden");
                let looks = machine.state().open_call(&call).is_some_and(|open| open.call.tool == "Look");
                let rule = || Source::Rule { list: RuleList::Allow, rule: "Look".to_owned() };
                let judgement = match denied {
                    true => Judgement::deny(Source::NoOneToAsk, "nobody can be asked"),
                    false if looks => Judgement::allow(rule()),
                    false => Judgement::allow(Source::Default),
                };
                let asked = machine.state().open_call(&call).is_some_and(|open| open.call.tool == "Ask");
                if asked {
                    let (input, question) = (Json::default(), Question::unlisted("no rule"));
                    let ruling = Ruling::Ask { input, read_only: false, question, deadline_ms: 0 };
                    machine.handle_ruling(&call, ruling, self.now);
                    return;
                }
                let ruling = Ruling::Judged { input: Json::default(), read_only: !denied, judgement };
                machine.handle_ruling(&call, ruling, self.now);
            }
            Coming::Attempted(lease) => {
                let result = if self.rng.random_bool(0.1) {
                    Err(Failure { class: AnswerClass::Unavailable, ..Failure::withdrawn() })
                } else {
                    let reply = self.script.reply(&machine.window());
                    let usage = Usage { input: 10, cached: 0, output: 5, estimated: false };
                    Ok(Answered { reply, usage, limits_seen: LimitsSeen::default(), wait: None })
                };
                machine.handle_attempted(lease, result, self.now);
            }
            Coming::Person(pause) => {
                self.heard = pause;
                self.ever_heard |= pause;
                if pause { machine.handle_pause() } else { machine.handle_unpause() }
            }
            Coming::Answered(event) => machine.handle_answered(&event, self.now),
            Coming::Park => {
                self.parked = true;
                machine.handle_park();
            }
            Coming::Tool(call, tool) => {
                let done = ToolOutput::new(ToolStatus::Ok, format!("{tool} says {call}"));
                machine.handle_tool(&call, done, self.now);
            }
        }
    }
}

pub fn interrupted(attempt: u32, how: &str, stopped: bool) -> Event {
    Event::Interrupted { attempt, how: how.to_owned(), stderr_tail: String::new(), stopped }
}

fn grant(step: u64) -> Grant {
    Grant {
        lease: step,
        generation: 0,
        provider: "sim".to_owned(),
        account: "sim".to_owned(),
        wire: Wire::Openai,
        url: String::new(),
        model: String::new(),
        key: None,
        timeouts: Timeouts::default(),
        context_window: 1_000_000,
        max_output: 1_000,
        prices: None,
    }
}

/// In every wire a call has exactly one result, directly after it and in order.
pub fn assert_valid(messages: &[Arc<Message>]) {
    let mut open: VecDeque<&str> = VecDeque::new();
    for message in messages {
        match &**message {
            Message::Result { call, .. } => assert_eq!(open.pop_front(), Some(call.as_str())),
            Message::User { .. } => assert!(open.is_empty()),
            Message::Assistant { calls, .. } => {
                assert!(open.is_empty(), "{open:?} have no result");
                open.extend(calls.iter().map(|call| call.id.as_str()));
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result");
}

fn check(seed: u64, script: &Script, limits: Limits, kill_at: impl FnMut(&mut StdRng, usize) -> bool) -> u32 {
    check_moody(seed, script, limits, 0.0, kill_at)
}

/// The lives that ended for a pause.
fn check_moody(
    seed: u64,
    script: &Script,
    limits: Limits,
    moody: f64,
    kill_at: impl FnMut(&mut StdRng, usize) -> bool,
) -> u32 {
    let undisturbed = World::new(seed, script.clone(), limits).run(|_, _| false);
    let mut world = World { moody, ..World::new(seed, script.clone(), limits) };
    let state = world.run(kill_at);
    let context = format!("seed {seed}, {} kills, {} stops", world.kills, world.stops);
    assert_valid(&state.messages);
    let ends = world.log.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
    assert_eq!(ends, 1, "{context}");
    for (call, times) in &world.ran {
        let acts = state
            .messages
            .iter()
            .any(|message| matches!(&**message, Message::Result { call: id, tool, .. } if id == call && matches!(&**tool, "Act" | "Ask")));
        assert!(!acts || *times == 1, "{call} acted {times} times: {context}");
    }
    let unknown =
        |message: &Arc<Message>| matches!(&**message, Message::Result { text, .. } if text == "outcome unknown");
    assert_eq!(state.progress.restarts(), world.kills, "{context}");
    if world.kills == 0 {
        assert!(!state.messages.iter().any(unknown) && world.ran.values().all(|times| *times == 1), "{context}");
    }
    if !state.messages.iter().any(unknown) {
        assert_eq!(state.messages, undisturbed.messages, "{context}");
        assert_eq!(state.progress.outcome, undisturbed.progress.outcome, "{context}");
        assert_eq!(state.progress.used.steps, undisturbed.progress.used.steps, "{context}");
    }
    world.stops
}

fn scripts() -> Vec<Script> {
    vec![
        Script(vec![]),
        Script(vec![vec!["Look"], vec!["Look", "Look", "Act"], vec!["Act", "Look"]]),
        Script(vec![vec!["Forbidden", "Look"], vec!["Unknown", "Look", "Forbidden"]]),
        Script(vec![vec!["Look"; 12], vec!["Act"], vec!["Look"; 3]]),
        Script(vec![vec!["Look"; 2]; 20]),
        Script(vec![vec!["Look"], vec!["Look", CUT]]),
        Script(vec![vec!["Ask"], vec!["Look", "Ask", "Forbidden", "Ask", "Act"], vec!["Ask", "Ask"]]),
    ]
}

pub fn seeds() -> Vec<u64> {
    match std::env::var("UKAI_SIM_SEED") {
        Ok(seed) => vec![seed.parse().expect("UKAI_SIM_SEED is a number")],
        Err(_) => (0..200).collect(),
    }
}

#[test]
fn a_kill_at_each_moment_of_a_run_changes_nothing() {
    for script in scripts() {
        for moment in 0..60 {
            let mut killed = false;
            check(moment as u64, &script, Limits { tool_calls: 100, ..Limits::default() }, |_, turn| {
                let now = turn == moment && !killed;
                killed |= now;
                now
            });
        }
    }
}

#[test]
fn kills_at_random_moments_change_nothing() {
    for script in scripts() {
        for seed in seeds() {
            let limits = Limits { tool_calls: 100, ..Limits::default() };
            check(seed, &script, limits, |rng, _| rng.random_bool(0.05));
        }
    }
}

#[test]
fn pauses_at_random_moments_cost_no_step_no_tool_and_no_restart() {
    let limits = Limits { tool_calls: 100, ..Limits::default() };
    let stops: u32 = scripts()
        .iter()
        .flat_map(|script| seeds().into_iter().map(move |seed| (script, seed)))
        .map(|(script, seed)| {
            let alone = check_moody(seed, script, limits, 0.05, |_, _| false);
            alone + check_moody(seed, script, limits, 0.05, |rng, _| rng.random_bool(0.03))
        })
        .sum();
    assert!(stops > 0 || seeds().len() == 1, "no pause met a living worker");
}

#[test]
fn each_counted_limit_ends_the_job_before_the_act_that_would_exceed_it() {
    let script = Script(vec![vec!["Look"; 3]; 30]);
    for (limits, limit) in [
        (Limits { steps: 4, ..Limits::default() }, Limit::Steps),
        (Limits { tool_calls: 7, ..Limits::default() }, Limit::ToolCalls),
        (Limits { tokens: 500, tool_calls: 1_000, ..Limits::default() }, Limit::Tokens),
        (Limits { run_time_ms: 300, tool_calls: 1_000, ..Limits::default() }, Limit::RunTime),
        (Limits { max_wall_ms: 300, tool_calls: 1_000, ..Limits::default() }, Limit::MaxWall),
    ] {
        for seed in seeds() {
            let mut world = World::new(seed, script.clone(), limits);
            let state = world.run(|_, _| false);
            let Some(Outcome::Ended(cause)) = &state.progress.outcome else {
                panic!("seed {seed}: {limit} did not end it")
            };
            assert_eq!(cause.kind, CauseKind::Limit(limit), "seed {seed}: {}", cause.detail);
            assert!(state.progress.used.steps <= limits.steps && state.progress.used.tool_calls <= limits.tool_calls);
            assert_valid(&state.messages);
            // What the next call would take may end a job that has not used four fifths yet.
            let due = limit != Limit::Tokens || state.progress.used.tokens() >= limits.tokens * 4 / 5;
            assert_eq!(state.warned.contains(&limit), due, "seed {seed}: the notice at 80 % of {limit}");
        }
    }
}

#[test]
fn a_model_that_only_runs_into_walls_is_stopped() {
    let state = World::new(1, Script(vec![vec!["Forbidden"]; 9]), Limits::default()).run(|_, _| false);
    let Some(Outcome::Ended(cause)) = &state.progress.outcome else { panic!("it went on") };
    assert_eq!(cause.kind, CauseKind::CannotGoOn);
    assert_eq!(state.progress.used.steps, 3);
    assert!(state.progress.denied.iter().all(|denied| denied.source == Source::NoOneToAsk));
}
