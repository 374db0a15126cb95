//! Made-up runs for the store's tests: every event once, whole runs, and their logs.

use std::path::PathBuf;

use ukai_protocol::disk;
use ukai_protocol::disk::fault::{self, Effect, Fault, Injected, Operation};
use ukai_protocol::event::{Event, HookSaid, ProcessMark, ToolStatus, WaitingFor, Why};
use ukai_protocol::hook::HookPoint;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, ContextStrategy, JobSpec, Limit, Limits, Mode, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::lease::AnswerClass;
use ukai_protocol::message::{Args, Call, Opaque, Stop, Usage};
use ukai_protocol::policy::{Consent, Judgement, Policy, Rule, RuleList, Source};
use ukai_protocol::run_state::RunState;

use super::event_log::{self, Record};
use super::paths::{RunDir, StateDir};
use super::recovery::Replay;
use super::spec_file;

pub const AT: &str = "2026-11-29T12:00:00.000Z";

pub fn at() -> String {
    AT.to_owned()
}

pub fn id(number: u8) -> JobId {
    JobId::from_random([0, 0, 0, 0, number])
}

pub fn spec() -> JobSpec {
    JobSpec {
        name: "fix-a".to_owned(),
        prompt: "count\nthe \"files\"".to_owned(),
        workdir: PathBuf::from("/work"),
        env: vec!["CI".to_owned()],
        mode: Mode::Loop,
        provider: None,
        model: Some("m".to_owned()),
        context: ContextStrategy::KeepAll,
        window: Some(20_000),
        priority: 5,
        needs_tools: true,
        limits: Limits { max_cost_usd: Some(0.1 + 0.2), ..Limits::default() },
        worktree: false,
        hooks: Vec::new(),
        tools: Vec::new(),
        policy: Policy { deny: vec![Rule::new("Read(.env*)", "/work")], ..Policy::default() },
        batch: None,
    }
}

pub fn json(text: &str) -> Json {
    Json(serde_json::from_str(text).expect("test data"))
}

pub fn submitted() -> Event {
    Event::Submitted { name: "fix-a".to_owned(), prompt: "count\nthe \"files\"".to_owned(), priority: 5, batch: None }
}

pub fn started(attempt: u32) -> Event {
    let process = ProcessMark { pid: 4711, start_time: 123_456, boot_id: "b-1".to_owned() };
    Event::Started { attempt, process, token_hash: "00ff".to_owned() }
}

pub fn interrupted(attempt: u32) -> Event {
    Event::Interrupted { attempt, how: "signal 9".to_owned(), stderr_tail: String::new(), stopped: false }
}

pub fn leased(step: u64) -> Event {
    let [provider, account, model] = ["lab", "lab", "m"].map(str::to_owned);
    Event::Leased { step, lease: step + 10, provider, account, model }
}

pub fn replied(step: u64, calls: &[&str]) -> Event {
    let call = |id: &&str| Call {
        id: (*id).to_owned(),
        tool: "Read".to_owned(),
        args: Args::Whole(json(r#"{"file_path":"a.rs","offset":1.5}"#)),
    };
    Event::Replied {
        step,
        text: format!("step {step} — \u{1b}[0m\u{2028}é"),
        calls: calls.iter().map(call).collect(),
        opaque: vec![Opaque { provider: "lab".to_owned(), data: json(r#"{"signature":"x=="}"#) }],
        stop: Stop::Calls,
        usage: Usage { input: 100, cached: 10, output: 7, estimated: false },
        cost_usd: 0.1,
        run_time_ms: step * 100,
        wall_ms: step * 110,
    }
}

pub fn judged(call: &str) -> Event {
    let source = Source::Rule { list: RuleList::Allow, rule: "Read".to_owned() };
    Event::Judged {
        call: call.to_owned(),
        tool: "Read".to_owned(),
        input: json(r#"{"file_path":"a.rs"}"#),
        read_only: true,
        judgement: Judgement::allow(source),
    }
}

pub fn tool_started(call: &str) -> Event {
    Event::ToolStarted { call: call.to_owned(), tool: "Read".to_owned(), read_only: true, idempotent: true }
}

pub fn tool_finished(call: &str, output: &str) -> Event {
    Event::ToolFinished {
        call: call.to_owned(),
        tool: "Read".to_owned(),
        status: ToolStatus::Ok,
        output: output.to_owned(),
        run_time_ms: 130,
        wall_ms: 140,
        files_changed: Vec::new(),
        seen: Vec::new(),
    }
}

pub fn attention() -> Event {
    Event::Attention { why: "look".to_owned() }
}

pub fn finished() -> Event {
    Event::Finished { outcome: Outcome::Completed { attention: false }, text: "done".to_owned() }
}

pub fn aborted(errno: i32) -> Event {
    let cause = Cause::new(CauseKind::Io(errno), "appending");
    Event::Finished { outcome: Outcome::Ended(cause), text: String::new() }
}

/// Every event once, in the order of the vocabulary. The match makes a new variant fail to compile until it is here,
/// and thereby in the golden file.
pub fn every_event() -> Vec<Event> {
    let all = vec![
        submitted(),
        started(1),
        interrupted(1),
        Event::Paused {},
        Event::Unpaused {},
        Event::Injected { why: Why::System, text: "You are ukai.".to_owned() },
        leased(1),
        Event::AttemptFailed {
            step: 1,
            provider: "lab".to_owned(),
            class: AnswerClass::RateLimited,
            detail: "429".to_owned(),
            wait_ms: Some(17_000),
            usage: None,
            cost_usd: 0.0,
            run_time_ms: 90,
            wall_ms: 95,
        },
        Event::Waiting { why: WaitingFor::Provider, wait_ms: None },
        replied(1, &["c-1"]),
        judged("c-1"),
        tool_started("c-1"),
        tool_finished("c-1", "line one\nline two"),
        Event::LimitWarned { limit: Limit::Tokens, used: 400_000.0, max: 500_000.0 },
        Event::Recovered { torn_bytes: 12 },
        attention(),
        finished(),
        Event::Acked {},
        Event::Resumed { limits: Limits { steps: 50, ..Limits::default() } },
        Event::AskOpened {
            call: "c-1".to_owned(),
            tool: "Bash".to_owned(),
            input: Json::default(),
            read_only: false,
            rule: Some("Bash(npm:*)".to_owned()),
            why: "the rule wants a person asked".to_owned(),
            missing: Vec::new(),
            deadline_ms: 1_796_040_000_000,
        },
        Event::AskAnswered {
            call: "c-1".to_owned(),
            tool: "Bash".to_owned(),
            judgement: Judgement::allow(Source::User(Consent::Always)),
            granted: vec!["Bash(npm test)".to_owned()],
        },
        Event::HookRan {
            on: HookPoint::PreToolUse,
            hook: "./guard.sh".to_owned(),
            call: Some("c-1".to_owned()),
            said: HookSaid::Blocked,
            detail: "not here".to_owned(),
            context: "look there".to_owned(),
            duration_ms: 12,
        },
    ];
    for (place, event) in all.iter().enumerate() {
        let expected = match event {
            Event::Submitted { .. } => 0,
            Event::Started { .. } => 1,
            Event::Interrupted { .. } => 2,
            Event::Paused {} => 3,
            Event::Unpaused {} => 4,
            Event::Injected { .. } => 5,
            Event::Leased { .. } => 6,
            Event::AttemptFailed { .. } => 7,
            Event::Waiting { .. } => 8,
            Event::Replied { .. } => 9,
            Event::Judged { .. } => 10,
            Event::ToolStarted { .. } => 11,
            Event::ToolFinished { .. } => 12,
            Event::LimitWarned { .. } => 13,
            Event::Recovered { .. } => 14,
            Event::Attention { .. } => 15,
            Event::Finished { .. } => 16,
            Event::Acked {} => 17,
            Event::Resumed { .. } => 18,
            Event::AskOpened { .. } => 19,
            Event::AskAnswered { .. } => 20,
            Event::HookRan { .. } => 21,
        };
        assert_eq!(place, expected, "{}", event.name());
    }
    all
}

/// What a worker records in one step with one tool.
pub fn step(step: u64) -> Vec<Event> {
    let call = format!("c-{step}");
    let output = format!("output {step}");
    vec![leased(step), replied(step, &[&call]), judged(&call), tool_started(&call), tool_finished(&call, &output)]
}

/// A run that is under way after `steps` steps.
pub fn run(steps: u64) -> Vec<Event> {
    let begin = [submitted(), started(1), Event::Injected { why: Why::System, text: "You are ukai.".to_owned() }];
    begin.into_iter().chain((1..=steps).flat_map(step)).collect()
}

pub fn log_of(events: &[Event]) -> Vec<u8> {
    let line = |(place, event): (usize, &Event)| {
        let record = Record { seq: place as u64 + 1, at: at(), event: event.clone() };
        event_log::encode(&record).expect("test data").into_bytes()
    };
    events.iter().enumerate().flat_map(line).collect()
}

pub fn fold(events: &[Event]) -> RunState {
    let mut state = RunState::default();
    for event in events {
        state.apply(event).expect("test data");
    }
    state
}

pub fn replay(log: &[u8]) -> Replay {
    let mut replay = Replay::default();
    replay.feed(log).expect("a sound log");
    replay
}

/// A state directory of its own, gone with the test.
pub struct Temp {
    _folder: tempfile::TempDir,
    pub state: StateDir,
}

impl Temp {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("temp");
        let state = StateDir::new(folder.path().canonicalize().expect("temp"));
        state.create().expect("folders");
        Temp { _folder: folder, state }
    }

    /// With run 1 in it, as a store would have left it.
    pub fn with(events: &[Event]) -> Self {
        let temp = Temp::new();
        let run = temp.run();
        disk::create_dir(&run.outputs()).expect("outputs");
        spec_file::save(&run.spec(), &spec()).expect("job.json");
        std::fs::write(run.log(), log_of(events)).expect("events.jsonl");
        temp
    }

    pub fn run(&self) -> RunDir {
        self.state.run(&id(1))
    }

    pub fn log(&self) -> Vec<u8> {
        std::fs::read(self.run().log()).expect("events.jsonl")
    }

    /// The events in the log of run 1, which must be sound.
    pub fn events(&self) -> Vec<Event> {
        let log = self.log();
        replay(&log);
        let text = String::from_utf8(log).expect("text");
        text.lines().zip(1..).map(|(line, seq)| event_log::decode(line.as_bytes(), seq).expect("sound").event).collect()
    }

    /// Something goes wrong with run 1's log.
    pub fn fault(&self, operation: Operation, skip: u32, times: u32, effect: Effect) -> Injected {
        fault::inject(Fault { under: self.run().log(), operation, skip, times, effect })
    }
}
