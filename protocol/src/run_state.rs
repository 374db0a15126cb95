//! The state of a run: the fold of its events, by one function, live and on resume.
//!
//! [`Progress`] is the small part that lists and results show; [`RunState`] adds the conversation. Both are built by
//! `apply` alone, so what a worker resumes from is what any reader of the log would compute.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::control::DeniedCall;
use crate::event::{BatchPlace, Event, FileChange, HookSaid, ProcessMark, SeenFile, ToolStatus, WaitingFor, Why};
use crate::hook::HookPoint;
use crate::job::{CauseKind, JobStatus, Limit, Limits, Outcome, Reason, Used};
use crate::json::Json;
use crate::message::{Args, Call, Message, Opaque, Stop, Usage};
use crate::policy::{Judgement, Source, Verdict};

/// Denied calls that a result names; more are only counted.
pub const DENIED_KEPT_MAX: usize = 100;
/// Changed files that a result names: with the bound on their text, a result fits into a frame beside its other parts.
pub const FILES_CHANGED_MAX: usize = 1_000;
pub const FILES_CHANGED_BYTES_MAX: usize = 256 * 1024;
/// More files than a job changes one by one. Of more the oldest are forgotten and have to be read again.
pub const SEEN_FILES_MAX: usize = 1_000;
/// Rules granted to one job while it runs; of more the oldest are forgotten, and asked again.
const GRANTED_MAX: usize = 100;
/// Notices that `show` names; with the bound on their text, a state stays small. More are in the log alone.
pub const NOTICES_KEPT_MAX: usize = 20;
pub const NOTICE_BYTES_MAX: usize = 2 * 1024;
/// Distinct denied calls of which the repetitions are counted.
const DENIED_COUNTED_MAX: usize = 64;

/// An event that cannot follow what came before: the log is not one that ukai wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} cannot follow here: {why}")]
pub struct Illegal {
    pub event: &'static str,
    pub why: String,
}

/// Where a job stands, without its conversation. Its size does not grow with the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Events folded so far: the next `seq` less one.
    pub seq: u64,
    pub name: String,
    pub priority: u8,
    #[serde(default)]
    pub batch: Option<BatchPlace>,
    pub status: JobStatus,
    /// A person wants it to pause, whether its process has gone already or not.
    #[serde(default)]
    pub paused: bool,
    /// Attempts that went on after a pause, and not after a crash.
    #[serde(default)]
    pub unpaused_starts: u32,
    /// The last attempt crashed, also if it has been paused since then.
    #[serde(default)]
    pub crashed: bool,
    pub attempt: u32,
    pub process: Option<ProcessMark>,
    pub token_hash: String,
    /// Events of the current attempt's worker that are in the log.
    pub recorded: u64,
    /// Starts since an attempt last got somewhere.
    pub fruitless_starts: u32,
    pub used: Used,
    pub provider: Option<String>,
    pub denied: Vec<DeniedCall>,
    pub denied_count: u64,
    /// What waits for a person, in the order in which it was asked.
    #[serde(default)]
    pub asks: Vec<OpenAsk>,
    /// The first of them, each path once, in the order of their first change.
    #[serde(default)]
    pub files_changed: Vec<FileChange>,
    /// What ukai has to say of how the job runs, each text once, the first of them.
    #[serde(default)]
    pub notices: Vec<String>,
    pub attention: Option<String>,
    /// A Stop hook wanted the last answer sent back.
    #[serde(default)]
    pub objected: bool,
    pub outcome: Option<Outcome>,
    /// Where a person set others than it was submitted with.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// How often a person let it go on after an end.
    #[serde(default)]
    pub resumes: u32,
    /// The last reply's text; the result once ended.
    pub text: String,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            seq: 0,
            name: String::new(),
            priority: 0,
            batch: None,
            status: JobStatus::Queued,
            paused: false,
            unpaused_starts: 0,
            crashed: false,
            attempt: 0,
            process: None,
            token_hash: String::new(),
            recorded: 0,
            fruitless_starts: 0,
            used: Used::default(),
            provider: None,
            denied: Vec::new(),
            denied_count: 0,
            asks: Vec::new(),
            files_changed: Vec::new(),
            notices: Vec::new(),
            attention: None,
            objected: false,
            outcome: None,
            limits: None,
            resumes: 0,
            text: String::new(),
        }
    }
}

impl Progress {
    /// How often a new process carried the job on, pauses apart.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.attempt.saturating_sub(1).saturating_sub(self.unpaused_starts)
    }

    /// Folds one event in. On `Illegal` nothing has changed.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let illegal = |why: &str| Err(Illegal { event: event.name(), why: why.to_owned() });
        match event {
            Event::Submitted { .. } if self.seq > 0 => return illegal("the run has begun"),
            Event::Submitted { .. } | Event::Recovered { .. } => {}
            _ if self.seq == 0 => return illegal("a run begins with Submitted"),
            Event::Attention { .. } | Event::Acked {} => {}
            Event::Resumed { .. } if !matches!(self.outcome, Some(Outcome::Ended(_))) => {
                return illegal("only what ended without having completed is resumed");
            }
            Event::Resumed { .. } => {}
            _ if self.outcome.is_some() => return illegal("the run has finished"),
            Event::Started { attempt, .. } if *attempt <= self.attempt => return illegal("that attempt has been"),
            _ => {}
        }
        self.seq += 1;
        if !event.is_supervisors() {
            self.recorded += 1;
        }
        if event.is_progress() {
            self.fruitless_starts = 0;
        }
        match event {
            Event::Submitted { name, priority, batch, .. } => {
                self.name.clone_from(name);
                self.priority = *priority;
                self.batch.clone_from(batch);
            }
            Event::Paused {} => {
                self.paused = true;
                if self.process.is_none() {
                    self.status = JobStatus::Paused;
                }
            }
            Event::Unpaused {} => {
                self.paused = false;
                if self.status == JobStatus::Paused {
                    self.status = self.without_process();
                }
            }
            Event::Started { attempt, process, token_hash } => {
                // A pause may come between a start and its record, so its status does not say it all. Snapshots of
                // earlier versions know of a crash by the status alone.
                if self.attempt > 0 && !self.crashed && self.status != JobStatus::Interrupted {
                    self.unpaused_starts += 1;
                }
                self.status = JobStatus::Starting;
                self.attempt = *attempt;
                self.process = Some(process.clone());
                self.token_hash.clone_from(token_hash);
                self.recorded = 0;
                self.fruitless_starts += 1;
            }
            Event::Interrupted { stopped, .. } => {
                self.process = None;
                self.crashed = !stopped;
                if *stopped {
                    self.fruitless_starts = self.fruitless_starts.saturating_sub(1);
                }
                self.status = if self.paused { JobStatus::Paused } else { self.without_process() };
            }
            Event::Leased { provider, .. } => {
                self.status = JobStatus::Running;
                self.provider = Some(provider.clone());
            }
            Event::AttemptFailed { usage, cost_usd, run_time_ms, wall_ms, .. } => {
                self.spend(&usage.unwrap_or_default(), *cost_usd);
                self.clocks(*run_time_ms, *wall_ms);
            }
            Event::Waiting { why: WaitingFor::Lease | WaitingFor::Provider, .. } => self.status = JobStatus::Waiting,
            Event::Replied { text, usage, cost_usd, run_time_ms, wall_ms, .. } => {
                self.status = JobStatus::Running;
                self.objected = false;
                self.used.steps += 1;
                self.spend(usage, *cost_usd);
                self.clocks(*run_time_ms, *wall_ms);
                self.text.clone_from(text);
            }
            Event::Judged { tool, input, judgement, .. } => self.judged(tool, input, judgement),
            Event::AskOpened { call, tool, input, rule, why, missing, deadline_ms, .. } => {
                self.asks.push(OpenAsk {
                    call: call.clone(),
                    tool: tool.clone(),
                    input: input.clone(),
                    rule: rule.clone(),
                    why: why.clone(),
                    missing: missing.clone(),
                    deadline_ms: *deadline_ms,
                });
                self.status = JobStatus::Waiting;
            }
            Event::AskAnswered { call, judgement, .. } => {
                if let Some(place) = self.asks.iter().position(|open| open.call == *call) {
                    let asked = self.asks.remove(place);
                    self.judged(&asked.tool, &asked.input, judgement);
                }
                if self.asks.is_empty() && self.status == JobStatus::Waiting {
                    self.status = if self.process.is_some() { JobStatus::Running } else { self.without_process() };
                }
            }
            Event::ToolStarted { .. } => self.status = JobStatus::Running,
            Event::ToolFinished { status, run_time_ms, wall_ms, files_changed, .. } => {
                self.clocks(*run_time_ms, *wall_ms);
                self.changed(files_changed);
                if matches!(status, ToolStatus::Ok | ToolStatus::Failed | ToolStatus::NotFinished | ToolStatus::Unknown)
                {
                    self.used.tool_calls += 1;
                }
            }
            Event::Injected { why: Why::Notice, text } => self.note(text),
            Event::Injected { why: Why::Alarm, text } => {
                self.note(text);
                self.attention = Some(text.clone());
            }
            Event::Attention { why } => self.attention = Some(why.clone()),
            Event::Acked {} => self.attention = None,
            Event::Resumed { limits } => {
                self.limits = Some(*limits);
                self.resumes += 1;
                self.outcome = None;
                self.status = JobStatus::Queued;
                self.paused = false;
                // Whatever ended it, its next start is a first one: neither a crash's successor nor its heir.
                self.crashed = false;
                self.fruitless_starts = 0;
            }
            Event::Finished { outcome, text } => {
                self.status = outcome.status();
                self.process = None;
                self.asks.clear();
                self.outcome = Some(outcome.clone());
                self.text.clone_from(text);
                match outcome {
                    Outcome::Completed { attention: false } => {}
                    // Who ended it knows.
                    Outcome::Ended(cause) if cause.kind.reason() == Reason::UserInterrupt => {}
                    Outcome::Completed { attention: true } => {
                        let why = match self.objected {
                            true => "its Stop hook wanted the answer sent back once more than may be",
                            false => "what it asked for was denied, and nothing was carried out",
                        };
                        self.attention = Some(why.to_owned());
                    }
                    Outcome::Ended(cause) => self.attention = Some(format!("{}: {}", cause.kind, cause.detail)),
                }
            }
            Event::HookRan { on: HookPoint::Stop, said: HookSaid::Blocked, .. } => self.objected = true,
            Event::Injected { .. } | Event::HookRan { .. } | Event::LimitWarned { .. } | Event::Recovered { .. } => {}
        }
        Ok(())
    }

    /// Where an unpaused job stands that no process carries. One that a person is asked about is not started for that.
    fn without_process(&self) -> JobStatus {
        match (self.asks.is_empty(), self.crashed) {
            (false, _) => JobStatus::Waiting,
            (true, true) => JobStatus::Interrupted,
            // A person thought better of a pause after the worker had begun to stop, or has answered.
            (true, false) => JobStatus::Queued,
        }
    }

    fn judged(&mut self, tool: &str, input: &Json, judgement: &Judgement) {
        if judgement.verdict == Verdict::Allow {
            return;
        }
        self.denied_count += 1;
        if self.denied.len() < DENIED_KEPT_MAX {
            let (source, missing) = (judgement.source.clone(), judgement.missing.clone());
            self.denied.push(DeniedCall { tool: tool.to_owned(), input: input.clone(), source, missing });
        }
    }

    /// As reported: a provider may say anything.
    fn spend(&mut self, usage: &Usage, cost_usd: f64) {
        self.used.input_tokens = self.used.input_tokens.saturating_add(usage.input);
        self.used.output_tokens = self.used.output_tokens.saturating_add(usage.output);
        self.used.cost_usd += cost_usd;
    }

    /// What was created stays so, however often it is written later.
    fn changed(&mut self, files: &[FileChange]) {
        for file in files {
            let bytes: usize = self.files_changed.iter().map(|known| known.path.len()).sum();
            let room =
                self.files_changed.len() < FILES_CHANGED_MAX && bytes + file.path.len() <= FILES_CHANGED_BYTES_MAX;
            if room && !self.files_changed.iter().any(|known| known.path == file.path) {
                self.files_changed.push(file.clone());
            }
        }
    }

    fn note(&mut self, text: &str) {
        let is_small = text.len() <= NOTICE_BYTES_MAX && self.notices.len() < NOTICES_KEPT_MAX;
        if is_small && !self.notices.iter().any(|known| known == text) {
            self.notices.push(text.to_owned());
        }
    }

    /// The worker counts from what its attempt began with; a clock never runs back.
    fn clocks(&mut self, run_time_ms: u64, wall_ms: u64) {
        self.used.run_time_ms = self.used.run_time_ms.max(run_time_ms);
        self.used.wall_ms = self.used.wall_ms.max(wall_ms);
    }
}

/// A question that is put to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenAsk {
    pub call: String,
    pub tool: String,
    pub input: Json,
    pub rule: Option<String>,
    pub why: String,
    #[serde(default)]
    pub missing: Vec<String>,
    /// Milliseconds since 1970, as it was when it was asked.
    pub deadline_ms: u64,
}

/// All that a worker needs to go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub progress: Progress,
    pub system: Option<String>,
    /// Shared, so that a model call takes the conversation along without a copy of its text.
    pub messages: Vec<Arc<Message>>,
    /// The last reply, while any of its calls has no answer.
    pub turn: Option<Turn>,
    pub denials: Denials,
    pub warned: Vec<Limit>,
    /// It asked for a tool that changes something, and whether one was carried out.
    pub hands: Hands,
    /// Empty replies in a row.
    pub empty_replies: u32,
    /// How the last reply stopped.
    pub last_stop: Option<Stop>,
    /// Rules that a person granted to this job while it ran.
    #[serde(default)]
    pub granted: Vec<String>,
    /// What it has seen of files and may overwrite, the last look last.
    #[serde(default)]
    pub seen: VecDeque<SeenFile>,
    #[serde(default)]
    pub hooks: Hooked,
}

/// What the owner's scripts have said that still counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hooked {
    /// The job is to end for this.
    pub stop: Option<String>,
    /// They have seen the prompt.
    pub prompt_judged: bool,
    /// How often they sent the model back.
    pub sent_back: u32,
    /// For the model, by the open call at the end of whose result it is told.
    pub context: Vec<(String, String)>,
}

/// A reply whose calls are being answered. It enters `messages` whole, with all results in the order of the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub text: String,
    pub opaque: Vec<Opaque>,
    pub calls: Vec<OpenCall>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    pub call: Call,
    pub stage: Stage,
}

/// How far one call has come. Each stage holds only what is true in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Asked,
    /// Put to a person, who has not answered.
    Put {
        input: Json,
        read_only: bool,
    },
    Judged {
        input: Json,
        judgement: Judgement,
    },
    Started {
        input: Json,
        read_only: bool,
        idempotent: bool,
    },
    Answered {
        status: ToolStatus,
        output: String,
    },
}

/// Whether the model only ever runs into walls (spec §8: when it cannot go on).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Denials {
    /// Replies in a row of which every call was denied.
    pub replies_in_a_row: u32,
    /// How often each denied call came, by tool and input.
    pub times: Vec<(String, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hands {
    pub asked: bool,
    pub carried_out: bool,
    /// A call was denied since the policy does not load: whatever the job says, it did not do what it could.
    #[serde(default)]
    pub policy_broken: bool,
}

impl Hands {
    /// Whether a job that completed needs a person all the same.
    #[must_use]
    pub fn need_attention(&self) -> bool {
        self.policy_broken || (self.asked && !self.carried_out)
    }
}

impl RunState {
    /// Folds one event in. On `Illegal` nothing has changed.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        self.check(event)?;
        self.progress.apply(event)?;
        match event {
            Event::Submitted { prompt, .. } => self.messages.push(Message::User { text: prompt.clone() }.into()),
            Event::Injected { why: Why::System, text } => self.system = Some(text.clone()),
            Event::Injected { why: Why::Lost, text } => self.messages.push(Message::User { text: text.clone() }.into()),
            Event::Injected { why: Why::Hook, text } => self.told_by_hook(text),
            // It is in the progress, and the model is told nothing.
            Event::Injected { why: Why::Notice | Why::Alarm, .. } => {}
            Event::LimitWarned { limit, .. } => self.warned.push(*limit),
            Event::Replied { text, calls, opaque, stop, .. } => self.replied(text, calls, opaque, *stop),
            Event::Judged { call, tool, input, read_only, judgement } => {
                self.judged(call, tool, input, *read_only, judgement);
            }
            Event::AskOpened { call, input, read_only, .. } => {
                self.advance(call, Stage::Put { input: input.clone(), read_only: *read_only });
            }
            Event::AskAnswered { call, tool, judgement, granted } => {
                if let Some(Stage::Put { input, read_only }) = self.open_call(call).map(|open| open.stage.clone()) {
                    self.judged(call, tool, &input, read_only, judgement);
                }
                for rule in granted.iter().filter(|rule| !self.granted.contains(rule)).cloned().collect::<Vec<_>>() {
                    self.granted.truncate(GRANTED_MAX - 1);
                    self.granted.insert(0, rule);
                }
            }
            Event::ToolStarted { call, read_only, idempotent, .. } => {
                self.hands.carried_out |= !read_only;
                if let Some(input) = self.input_of(call) {
                    self.advance(call, Stage::Started { input, read_only: *read_only, idempotent: *idempotent });
                }
            }
            Event::ToolFinished { call, status, output, seen, .. } => {
                seen.iter().for_each(|file| self.saw(file));
                self.advance(call, Stage::Answered { status: *status, output: output.clone() });
                self.close_turn_if_answered();
            }
            Event::Finished { outcome, .. } => self.finish(outcome),
            Event::Resumed { .. } => {
                // A person looked at why it ended; what counts in a row begins again.
                self.denials = Denials::default();
                self.empty_replies = 0;
                self.hooks = Hooked::default();
            }
            Event::HookRan { on, call, said, detail, context, .. } => {
                self.hook_ran(*on, call.as_deref(), *said, detail, context);
            }
            Event::Started { .. }
            | Event::Interrupted { .. }
            | Event::Paused {}
            | Event::Unpaused {}
            | Event::Leased { .. }
            | Event::AttemptFailed { .. }
            | Event::Waiting { .. }
            | Event::Recovered { .. }
            | Event::Attention { .. }
            | Event::Acked {} => {}
        }
        Ok(())
    }

    /// One text of the user's follows no other: not every server takes two in a row.
    fn told_by_hook(&mut self, told: &str) {
        match self.messages.last_mut().map(Arc::make_mut) {
            Some(Message::User { text }) => {
                text.push_str("\n\n");
                text.push_str(told);
            }
            before => {
                // Behind a final answer it sends the model back.
                self.hooks.sent_back += u32::from(matches!(before, Some(Message::Assistant { .. })));
                self.messages.push(Message::User { text: told.to_owned() }.into());
            }
        }
    }

    fn hook_ran(&mut self, on: HookPoint, call: Option<&str>, said: HookSaid, detail: &str, context: &str) {
        let of_prompt = on == HookPoint::UserPromptSubmit;
        self.hooks.prompt_judged |= of_prompt;
        // A prompt that is blocked leaves nothing to do.
        let ends = match said {
            HookSaid::Stopped => true,
            HookSaid::Blocked | HookSaid::FailedClosed => of_prompt,
            HookSaid::Passed | HookSaid::Allowed | HookSaid::Asked | HookSaid::FailedOpen => false,
        };
        if ends && self.hooks.stop.is_none() {
            self.hooks.stop = Some(detail.to_owned());
        }
        if let Some(call) = call.filter(|call| !context.is_empty() && self.open_call(call).is_some()) {
            self.hooks.context.push((call.to_owned(), context.to_owned()));
        }
    }

    fn judged(&mut self, call: &str, tool: &str, input: &Json, read_only: bool, judgement: &Judgement) {
        self.hands.asked |= !read_only;
        self.hands.policy_broken |= judgement.source == Source::PolicyError;
        if judgement.verdict == Verdict::Deny {
            self.denials.count(tool, input);
        }
        self.advance(call, Stage::Judged { input: input.clone(), judgement: judgement.clone() });
    }

    fn saw(&mut self, file: &SeenFile) {
        self.seen.retain(|known| known.path != file.path);
        if self.seen.len() == SEEN_FILES_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(file.clone());
    }

    /// The call of the open turn with this id.
    #[must_use]
    pub fn open_call(&self, id: &str) -> Option<&OpenCall> {
        self.turn.as_ref()?.calls.iter().find(|open| open.call.id == id)
    }

    /// The calls of the open turn that were put to a person who has not answered.
    pub fn put_to_a_person(&self) -> impl Iterator<Item = &str> {
        let open = self.turn.iter().flat_map(|turn| &turn.calls);
        open.filter(|open| matches!(open.stage, Stage::Put { .. })).map(|open| &*open.call.id)
    }

    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        self.put_to_a_person().next().is_some()
    }

    fn check(&self, event: &Event) -> Result<(), Illegal> {
        let illegal = |why: String| Err(Illegal { event: event.name(), why });
        let stage = |call: &str| self.open_call(call).map(|open| &open.stage);
        match event {
            Event::Replied { .. } if self.turn.is_some() => illegal("calls of the last reply are open".to_owned()),
            Event::Judged { call, .. } if !matches!(stage(call), Some(Stage::Asked)) => {
                illegal(format!("{call} is not waiting to be judged"))
            }
            Event::AskOpened { call, .. } if !matches!(stage(call), Some(Stage::Asked)) => {
                illegal(format!("{call} is not waiting to be judged"))
            }
            Event::AskAnswered { call, .. } if !matches!(stage(call), Some(Stage::Put { .. })) => {
                illegal(format!("{call} was not put to a person, or has been answered"))
            }
            // A tool that was started before a crash may be started again: its stage is then Started already.
            Event::ToolStarted { call, .. }
                if !matches!(stage(call), Some(Stage::Judged { .. } | Stage::Started { .. })) =>
            {
                illegal(format!("{call} has not been judged"))
            }
            Event::ToolFinished { call, .. } if matches!(stage(call), None | Some(Stage::Answered { .. })) => {
                illegal(format!("{call} is not open"))
            }
            _ => Ok(()),
        }
    }

    fn replied(&mut self, text: &str, calls: &[Call], opaque: &[Opaque], stop: Stop) {
        self.last_stop = Some(stop);
        if calls.is_empty() {
            if text.trim().is_empty() {
                self.empty_replies += 1;
            } else {
                self.empty_replies = 0;
                self.messages.push(Arc::new(Message::Assistant {
                    text: text.to_owned(),
                    calls: Vec::new(),
                    opaque: opaque.to_vec(),
                }));
            }
            return;
        }
        self.empty_replies = 0;
        let calls = calls.iter().map(|call| OpenCall { call: call.clone(), stage: Stage::Asked }).collect();
        self.turn = Some(Turn { text: text.to_owned(), opaque: opaque.to_vec(), calls });
    }

    fn advance(&mut self, call: &str, stage: Stage) {
        let open = self.turn.iter_mut().flat_map(|turn| &mut turn.calls).find(|open| open.call.id == call);
        if let Some(open) = open {
            open.stage = stage;
        }
    }

    fn input_of(&self, call: &str) -> Option<Json> {
        match &self.open_call(call)?.stage {
            Stage::Judged { input, .. } | Stage::Started { input, .. } => Some(input.clone()),
            Stage::Asked | Stage::Put { .. } | Stage::Answered { .. } => None,
        }
    }

    fn close_turn_if_answered(&mut self) {
        if self.turn.as_ref().is_some_and(|turn| turn.calls.iter().all(OpenCall::is_answered)) {
            self.close_turn();
        }
    }

    /// Moves the turn into the conversation: the reply, then one result per call, in the order of the calls.
    fn close_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        self.hooks.context.clear();
        let all_denied =
            turn.calls.iter().all(|open| matches!(open.stage, Stage::Answered { status: ToolStatus::Denied, .. }));
        self.denials.replies_in_a_row = if all_denied { self.denials.replies_in_a_row + 1 } else { 0 };
        let calls = turn.calls.iter().map(|open| open.call.clone()).collect();
        self.messages.push(Message::Assistant { text: turn.text, calls, opaque: turn.opaque }.into());
        for open in turn.calls {
            let Stage::Answered { status, output } = open.stage else { continue };
            let (call, tool) = (open.call.id, open.call.tool);
            self.messages.push(Message::Result { call, tool, ok: status == ToolStatus::Ok, text: output }.into());
        }
    }

    /// Whatever died, the conversation is left valid: each open call is answered with what is known.
    fn finish(&mut self, outcome: &Outcome) {
        for answer in self.closing_answers(outcome) {
            self.advance(&answer.call, Stage::Answered { status: answer.status, output: answer.output.to_owned() });
        }
        self.close_turn();
    }

    /// What each open call is to be told if the job ends like this now.
    #[must_use]
    pub fn closing_answers(&self, outcome: &Outcome) -> Vec<ClosingAnswer> {
        let kind = match outcome {
            Outcome::Ended(cause) => Some(cause.kind),
            Outcome::Completed { .. } => None,
        };
        let open = self.turn.iter().flat_map(|turn| &turn.calls);
        open.filter_map(|open| {
            let (status, output) = match &open.stage {
                Stage::Answered { .. } => return None,
                Stage::Started { read_only, idempotent, .. } => ended_while_running(kind, *read_only || *idempotent),
                Stage::Asked | Stage::Put { .. } | Stage::Judged { .. } => ended_before(kind),
            };
            Some(ClosingAnswer { call: open.call.id.clone(), tool: open.call.tool.clone(), status, output })
        })
        .collect()
    }
}

/// The answer to a call that the end of its job left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingAnswer {
    pub call: String,
    pub tool: String,
    pub status: ToolStatus,
    pub output: &'static str,
}

fn ended_while_running(kind: Option<CauseKind>, harmless: bool) -> (ToolStatus, &'static str) {
    match kind {
        Some(CauseKind::Limit(_)) => (ToolStatus::NotFinished, "not finished: limit"),
        Some(CauseKind::Cancel | CauseKind::Signal | CauseKind::UserAbort) => (ToolStatus::Cancelled, "cancelled"),
        _ if harmless => (ToolStatus::Cancelled, "not finished: the job ended"),
        _ => (ToolStatus::Unknown, "outcome unknown"),
    }
}

fn ended_before(kind: Option<CauseKind>) -> (ToolStatus, &'static str) {
    match kind {
        Some(CauseKind::Limit(_)) => (ToolStatus::NotRun, "not run: limit"),
        Some(CauseKind::Cancel | CauseKind::Signal | CauseKind::UserAbort) => (ToolStatus::Cancelled, "cancelled"),
        _ => (ToolStatus::NotRun, "not run: the job ended"),
    }
}

impl OpenCall {
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered { .. })
    }

    /// The arguments, if they arrived whole.
    #[must_use]
    pub fn args(&self) -> Option<&Json> {
        match &self.call.args {
            Args::Whole(json) => Some(json),
            Args::Broken { .. } => None,
        }
    }
}

impl Denials {
    fn count(&mut self, tool: &str, input: &Json) {
        let key = format!("{tool} {}", input.to_text());
        if let Some((_, times)) = self.times.iter_mut().find(|(seen, _)| *seen == key) {
            *times += 1;
        } else if self.times.len() < DENIED_COUNTED_MAX {
            self.times.push((key, 1));
        }
    }
}
