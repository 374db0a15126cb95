//! The query loop: window → limits → lease → model call → reply recorded → tools → results recorded → again.
//!
//! It does no IO. It is told what happened (`handle_*`), hands out what is to be done (`poll_effect`), and says when it
//! wants to be woken (`poll_timeout`). All it knows is the fold of the events it has recorded, so a machine built from
//! the log of a dead one goes on as that one would have.
//!
//! Three rules of durability are decided here and nowhere else. An intent is on disk before it acts: a tool starts when
//! the record with its `ToolStarted` is acknowledged; one that only reads, that may run beside others and that a rule
//! allows has nothing to be sorry for, and starts while that record is on its way (spec §3, early start). No call is
//! asked for before the reply that led to it is on disk, so that a crash repeats at most the step that was under way.
//! And the results of a batch may travel to the provider during their own sync. Between these, events gather and share
//! one record: a reply, its verdicts and the first tools' starts are one sync.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ukai_protocol::event::{Event, ToolStatus, WaitingFor};
use ukai_protocol::job::{Cause, CauseKind, JobSpec, JobStatus, Limit, Mode, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, LimitsSeen, Report, WaitWhy};
use ukai_protocol::message::{Args, Call, Message, Stop, Usage};
use ukai_protocol::policy::{Judgement, RuleList, Source, Verdict};
use ukai_protocol::run_state::{Illegal, OpenCall, RunState, Stage};

use super::limits::{self, Clocks, WARN_AT};
use crate::context::Context;
use crate::provider::Answered;
use crate::provider::classify::Failure;
use crate::tool::output::told;
use crate::tool::{Flags, partition};

/// An empty reply is asked for again this often (spec §3).
const EMPTY_RETRIES: u32 = 2;
/// The object itself is level 1 (spec §5).
const ARGUMENTS_DEPTH_MAX: usize = 32;
/// When the model cannot go on (spec §8).
const DENIED_REPLIES_IN_A_ROW: u32 = 3;
const SAME_CALL_DENIED: u32 = 5;
/// Verdicts by rule come within this; when they do not (somebody is asked), the reply is recorded without them.
const JUDGING_QUICK: Duration = Duration::from_millis(20);

/// What the shell is to do.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Decide on this call; the answer is [`Machine::handle_ruling`], whenever it comes.
    Judge(Call),
    /// Make these durable; `n` numbers the first of them. The answer is [`Machine::handle_acked`].
    Record {
        n: u64,
        events: Vec<Event>,
    },
    /// The answers are [`Machine::handle_answer`].
    Ask(Ask),
    Withdraw {
        call: u64,
    },
    Report(Report),
    /// One attempt under this lease; the answer is [`Machine::handle_attempted`].
    CallModel(Box<Grant>),
    StopModel,
    /// The answer is [`Machine::handle_tool`].
    StartTool {
        call: String,
        tool: String,
        input: Json,
    },
    StopTools,
    /// Nothing more will be done; the process may end.
    Exit,
    /// The fold refused an event of this machine's own: a fault of ours, and no state to go on from.
    Fault(Illegal),
}

/// What was decided on one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// `input` is what was judged, and what will run.
    Judged { input: Json, read_only: bool, judgement: Judgement },
    /// There is nothing to permit: no such tool, or not with such arguments.
    Invalid { why: String },
}

/// What waits for an answer.
#[derive(Debug, PartialEq)]
enum Phase {
    /// Nothing does; only between two decisions.
    Deciding,
    Asking {
        attempt: u32,
    },
    Calling {
        attempt: u32,
        grant: Box<Grant>,
    },
    Judging {
        open: Vec<String>,
        since: Instant,
    },
    /// The intent to start these is on its way to the disk.
    Starting {
        calls: Vec<String>,
        barrier: u64,
    },
    Running {
        open: Vec<String>,
    },
    /// The results are there, and the reply that asked for them is still on its way to the disk.
    Settling {
        attempt: u32,
    },
    /// The last records are on their way to the disk.
    Ending {
        barrier: u64,
    },
    Ended,
}

pub struct Machine {
    spec: JobSpec,
    state: RunState,
    context: Box<dyn Context>,
    flags: fn(&str, &Json) -> Option<Flags>,
    /// System prompt and tool list, in tokens: what every call carries besides the window.
    overhead_tokens: u64,
    clocks: Clocks,
    phase: Phase,
    effects: VecDeque<Effect>,
    /// Folded, not yet handed out.
    pending: Vec<Event>,
    /// Number of the first of `pending` among this attempt's events.
    next_n: u64,
    /// All events numbered below are on disk.
    acked: u64,
    /// What must be on disk before another call is asked for: the last reply.
    replied_n: u64,
    /// A person wants the job to pause: what is under way ends, nothing new begins.
    pausing: bool,
    /// What the last grant's provider takes for a million input tokens.
    input_price: f64,
}

/// What a machine is built from, besides the state that it goes on from.
pub struct Parts {
    pub spec: JobSpec,
    pub context: Box<dyn Context>,
    pub flags: fn(&str, &Json) -> Option<Flags>,
    pub overhead_tokens: u64,
}

impl Machine {
    /// Goes on from `state`, which has recorded `recorded` events in this attempt already.
    #[must_use]
    pub fn new(parts: Parts, state: RunState, now: Instant) -> Self {
        Machine {
            clocks: Clocks::new(&state.progress.used, now),
            next_n: state.progress.recorded,
            acked: state.progress.recorded,
            replied_n: 0,
            pausing: false,
            spec: parts.spec,
            state,
            context: parts.context,
            flags: parts.flags,
            overhead_tokens: parts.overhead_tokens,
            phase: Phase::Deciding,
            effects: VecDeque::new(),
            pending: Vec::new(),
            input_price: 0.0,
        }
    }

    #[must_use]
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The conversation as the next call is to carry it.
    pub fn window(&mut self) -> Vec<Arc<Message>> {
        self.context.window(&self.state.messages).messages.into_owned()
    }

    /// The step that is being worked on, from 1.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.state.progress.used.steps + 1
    }

    /// Begins, or goes on where the log ends. `system` is recorded unless an earlier attempt has done so.
    pub fn start(&mut self, system: Event, now: Instant) {
        if self.state.system.is_none() {
            self.record(system);
        }
        self.advance(now);
    }

    // --- what happened -------------------------------------------------------------------------------------------

    pub fn handle_ruling(&mut self, call: &str, ruling: Ruling, now: Instant) {
        let Phase::Judging { open, .. } = &mut self.phase else { return };
        let Some(place) = open.iter().position(|open| open == call) else { return };
        open.swap_remove(place);
        let all_judged = open.is_empty();
        let Some(tool) = self.state.open_call(call).map(|open| open.call.tool.clone()) else { return };
        match ruling {
            Ruling::Judged { input, read_only, judgement } => {
                self.record(Event::Judged { call: call.to_owned(), tool, input, read_only, judgement });
            }
            Ruling::Invalid { why } => self.answer(call, tool, ToolStatus::Invalid, why, now),
        }
        if all_judged {
            self.phase = Phase::Deciding;
            self.advance(now);
        }
    }

    /// All events numbered below `n` are on disk.
    pub fn handle_acked(&mut self, n: u64) {
        self.acked = self.acked.max(n);
        match &mut self.phase {
            Phase::Starting { calls, barrier } if n >= *barrier => {
                let calls = std::mem::take(calls);
                self.start_tools(calls);
            }
            Phase::Settling { attempt } => {
                let attempt = *attempt;
                self.ask_when_durable(attempt);
            }
            Phase::Ending { .. } => self.exit_when_durable(),
            _ => {}
        }
    }

    pub fn handle_answer(&mut self, call: u64, answer: Answer, now: Instant) {
        let attempt = match self.phase {
            Phase::Asking { attempt } if call == self.step() => attempt,
            // It came too late; what it grants goes back unused.
            _ => {
                if let Answer::Grant(grant) = answer {
                    self.report(&grant, AnswerClass::Withdrawn, None);
                }
                return;
            }
        };
        match answer {
            Answer::Wait { why, until_ms } => {
                let why = match why {
                    WaitWhy::NotBefore | WaitWhy::Backoff => WaitingFor::Provider,
                    WaitWhy::Concurrency => WaitingFor::Lease,
                };
                self.record(Event::Waiting { why, wait_ms: until_ms });
            }
            Answer::Grant(grant) => self.granted(attempt, grant, now),
            Answer::Park => self.stop(),
            Answer::Refuse { cause } => self.end(Outcome::Ended(cause), now),
        }
    }

    pub fn handle_attempted(&mut self, lease: u64, result: Result<Answered, Failure>, now: Instant) {
        let (attempt, grant) = match &self.phase {
            Phase::Calling { attempt, grant } if grant.lease == lease => (*attempt, grant.clone()),
            _ => return,
        };
        self.phase = Phase::Deciding;
        match result {
            Ok(answered) => {
                self.report_of(Report {
                    wait: answered.wait,
                    usage: Some(answered.usage),
                    limits_seen: answered.limits_seen,
                    ..report(&grant, AnswerClass::Success)
                });
                self.replied(&grant, answered, now);
            }
            Err(failure) => self.failed(attempt, &grant, failure, now),
        }
    }

    pub fn handle_tool(&mut self, call: &str, status: ToolStatus, output: String, now: Instant) {
        let Phase::Running { open } = &mut self.phase else { return };
        let Some(place) = open.iter().position(|open| open == call) else { return };
        open.swap_remove(place);
        let batch_done = open.is_empty();
        let Some(tool) = self.state.open_call(call).map(|open| open.call.tool.clone()) else { return };
        self.answer(call, tool, status, output, now);
        if batch_done {
            self.phase = Phase::Deciding;
            self.advance(now);
        }
    }

    /// Somebody wants the job to stop. Nothing new is recorded: its terminal event is the supervisor's, who writes it
    /// when this process is gone.
    pub fn handle_cancel(&mut self) {
        self.stop();
    }

    /// Let the call under way end and begin nothing new. A model call is one, and so is a batch of tools from the
    /// moment at which its intent was recorded; waiting for a lease or for verdicts is none.
    pub fn handle_pause(&mut self) {
        self.pausing = true;
        match self.phase {
            Phase::Settling { .. } | Phase::Asking { .. } | Phase::Judging { .. } => self.leave(),
            Phase::Deciding
            | Phase::Calling { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Ending { .. }
            | Phase::Ended => {}
        }
    }

    /// Go on after all. Where the last records are on their way already it is too late, and a later attempt goes on.
    pub fn handle_unpause(&mut self) {
        self.pausing = false;
    }

    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let limits = self.clocks.next_moment(&self.spec.limits, &self.state.warned, now);
        match self.phase {
            Phase::Ending { .. } | Phase::Ended => None,
            Phase::Judging { since, .. } if !self.pending.is_empty() => {
                Some(limits.map_or(since + JUDGING_QUICK, |moment| moment.min(since + JUDGING_QUICK)))
            }
            _ => limits,
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::Ended) {
            return;
        }
        if let Some(limit) = limits::expired(&self.spec.limits, &self.clocks, now) {
            self.end_by(limit, now);
        } else {
            self.warn(now);
            if matches!(self.phase, Phase::Judging { since, .. } if now >= since + JUDGING_QUICK) {
                self.flush();
            }
        }
    }

    // --- what is to be done --------------------------------------------------------------------------------------

    /// The next thing to do. While calls are being judged the reply waits for the verdicts, to share their sync.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        // A lease alone is worth no sync of its own: it goes with what came of it.
        let worth_a_sync = self.pending.iter().any(|event| !matches!(event, Event::Leased { .. }));
        if worth_a_sync && !matches!(self.phase, Phase::Judging { .. }) {
            self.flush();
            return self.effects.pop_front();
        }
        None
    }

    // --- decisions -----------------------------------------------------------------------------------------------

    fn advance(&mut self, now: Instant) {
        if let Some(limit) = limits::expired(&self.spec.limits, &self.clocks, now) {
            return self.end_by(limit, now);
        }
        self.warn(now);
        if let Some(cause) = self.fatal_in_reply() {
            return self.end(Outcome::Ended(cause), now);
        }
        match &self.state.turn {
            None => self.next_step(now),
            Some(_) if self.pausing => self.leave(),
            Some(turn) => {
                let asked = turn.calls.iter().filter(|open| open.stage == Stage::Asked);
                let asked: Vec<Call> = asked.map(|open| open.call.clone()).collect();
                if asked.is_empty() { self.next_batch(now) } else { self.judge(asked, now) }
            }
        }
    }

    fn judge(&mut self, asked: Vec<Call>, now: Instant) {
        let mut open = Vec::new();
        for call in asked {
            match &call.args {
                Args::Broken { why, .. } => {
                    let (id, tool) = (call.id.clone(), call.tool.clone());
                    let why = format!("not run: the arguments did not arrive whole ({why}); send the call again");
                    self.answer(&id, tool, ToolStatus::Invalid, why, now);
                }
                Args::Whole(_) => {
                    open.push(call.id.clone());
                    self.effects.push_back(Effect::Judge(call));
                }
            }
        }
        if open.is_empty() {
            self.advance(now);
        } else {
            self.phase = Phase::Judging { open, since: now };
        }
    }

    /// Answers what will not run, then starts the next batch of what will.
    fn next_batch(&mut self, now: Instant) {
        let runnable = self.settle_unrunnable(now);
        if runnable.is_empty() {
            return self.next_step(now);
        }
        let used = self.state.progress.used.tool_calls;
        let room = self.spec.limits.tool_calls.saturating_sub(used);
        let safe: Vec<bool> = runnable.iter().map(|runnable| runnable.flags.concurrency_safe).collect();
        let first = partition::partition(&safe).first().map_or(0, ExactSizeIterator::len);
        let size = first.min(usize::try_from(room).unwrap_or(usize::MAX));
        if size == 0 {
            return self.end_by(Limit::ToolCalls, now);
        }
        let mut calls = Vec::with_capacity(size);
        let mut harmless = true;
        for Runnable { call, flags, by_rule } in runnable.into_iter().take(size) {
            let tool = call.tool.clone();
            calls.push(call.id.clone());
            let Flags { read_only, idempotent, concurrency_safe, .. } = flags;
            harmless &= by_rule && read_only && concurrency_safe;
            self.record(Event::ToolStarted { call: call.id, tool, read_only, idempotent });
        }
        self.flush();
        if harmless {
            self.start_tools(calls);
        } else {
            self.phase = Phase::Starting { calls, barrier: self.next_n };
        }
    }

    fn start_tools(&mut self, calls: Vec<String>) {
        for id in &calls {
            let Some(OpenCall { call, stage: Stage::Started { input, .. } }) = self.state.open_call(id) else {
                continue;
            };
            let (tool, input) = (call.tool.clone(), input.clone());
            self.effects.push_back(Effect::StartTool { call: id.clone(), tool, input });
        }
        self.phase = Phase::Running { open: calls };
    }

    /// The calls of the turn that are still to run, in order. All others have their answer afterwards.
    fn settle_unrunnable(&mut self, now: Instant) -> Vec<Runnable> {
        let open: Vec<OpenCall> = self.state.turn.iter().flat_map(|turn| turn.calls.clone()).collect();
        let mut runnable = Vec::new();
        for OpenCall { call, stage } in open {
            let (id, tool) = (call.id.clone(), call.tool.clone());
            let by_rule = matches!(&stage, Stage::Judged { judgement, .. } if is_allowed_by_rule(judgement));
            match stage {
                Stage::Asked | Stage::Answered { .. } => {}
                Stage::Judged { judgement, .. } if judgement.verdict == Verdict::Deny => {
                    self.answer(&id, tool, ToolStatus::Denied, format!("denied: {}", judgement.why), now);
                }
                // Only after a crash: it may have run, and only what does no harm twice is run again.
                Stage::Started { read_only: false, idempotent: false, .. } => {
                    self.answer(&id, tool, ToolStatus::Unknown, "outcome unknown".to_owned(), now);
                }
                Stage::Judged { input, .. } | Stage::Started { input, .. } => match (self.flags)(&tool, &input) {
                    Some(flags) => runnable.push(Runnable { call, flags, by_rule }),
                    None => {
                        let why = format!("not run: {tool} is not available");
                        self.answer(&id, tool, ToolStatus::Invalid, why, now);
                    }
                },
            }
        }
        runnable
    }

    /// No call is open: the job has ended, must end, or goes on with a model call.
    fn next_step(&mut self, now: Instant) {
        let ended = |kind, detail: &str| Outcome::Ended(Cause::new(kind, detail));
        let state = &self.state;
        let outcome = if matches!(state.messages.last().map(Arc::as_ref), Some(Message::Assistant { .. })) {
            Some(Outcome::Completed { attention: state.hands.need_attention() })
        } else if state.empty_replies > EMPTY_RETRIES {
            Some(ended(CauseKind::EmptyReply, "the model answered with nothing, three times in a row"))
        } else if state.denials.replies_in_a_row >= DENIED_REPLIES_IN_A_ROW {
            Some(ended(CauseKind::CannotGoOn, "every call of three replies in a row was denied"))
        } else if state.denials.times.iter().any(|(_, times)| *times >= SAME_CALL_DENIED) {
            Some(ended(CauseKind::CannotGoOn, "the same denied call came five times"))
        } else {
            None
        };
        match outcome {
            Some(outcome) => self.end(outcome, now),
            None => self.ask(0, now),
        }
    }

    fn ask(&mut self, attempt: u32, now: Instant) {
        if self.pausing {
            return self.leave();
        }
        let tokens = self.estimate();
        if let Some(limit) =
            limits::forbids_call(&self.spec.limits, &self.state.progress.used, tokens, self.input_price)
        {
            return self.end_before_call(limit, tokens, now);
        }
        if let Some(window) = self.spec.window.filter(|window| tokens > *window) {
            let detail = format!("the conversation has about {tokens} tokens, the job's window is {window}");
            return self.end(Outcome::Ended(Cause::new(CauseKind::ContextOverflow, detail)), now);
        }
        // The results go first, so that their sync overlaps the lease and the call.
        self.flush();
        self.clocks.pause(now);
        self.ask_when_durable(attempt);
    }

    fn ask_when_durable(&mut self, attempt: u32) {
        if self.acked < self.replied_n {
            self.phase = Phase::Settling { attempt };
            return;
        }
        let window = self.estimate();
        self.effects.push_back(Effect::Ask(Ask {
            call: self.step(),
            attempt,
            tools: self.spec.mode == Mode::Loop,
            window,
            max_output: 0,
            priority: self.spec.priority,
        }));
        self.phase = Phase::Asking { attempt };
    }

    fn granted(&mut self, attempt: u32, grant: Box<Grant>, now: Instant) {
        self.clocks.resume(now);
        self.input_price = grant.prices.map_or(0.0, |prices| prices.input);
        let estimate = self.estimate();
        if let Some(limit) =
            limits::forbids_call(&self.spec.limits, &self.state.progress.used, estimate, self.input_price)
        {
            self.report(&grant, AnswerClass::Withdrawn, None);
            return self.end_before_call(limit, estimate, now);
        }
        let seen_running = self.state.progress.status == JobStatus::Running;
        self.record(Event::Leased {
            step: self.step(),
            lease: grant.lease,
            provider: grant.provider.clone(),
            account: grant.account.clone(),
            model: grant.model.clone(),
        });
        // Whoever looks should not see it wait while it works; in the usual case it goes with what comes of it.
        if !seen_running {
            self.flush();
        }
        self.effects.push_back(Effect::CallModel(grant.clone()));
        self.phase = Phase::Calling { attempt, grant };
    }

    fn replied(&mut self, grant: &Grant, answered: Answered, now: Instant) {
        let reply = answered.reply;
        self.record(Event::Replied {
            step: self.step(),
            text: reply.text,
            calls: reply.calls,
            opaque: reply.opaque,
            stop: reply.stop,
            usage: answered.usage,
            cost_usd: grant.prices.map_or(0.0, |prices| prices.cost(&answered.usage)),
            run_time_ms: millis(self.clocks.run_time(now)),
            wall_ms: millis(self.clocks.wall(now)),
        });
        self.advance(now);
    }

    /// What in the last reply ends the job, whoever looks at it: the machine that received it or, after a crash, the next.
    fn fatal_in_reply(&self) -> Option<Cause> {
        let calls = self.state.turn.iter().flat_map(|turn| &turn.calls);
        match self.state.last_stop {
            Some(Stop::Length) => {
                let detail = "the reply was cut at the output limit; raise max_output of the provider";
                return Some(Cause::new(CauseKind::ContextOverflow, detail));
            }
            Some(Stop::Filter) => {
                let detail = "the provider's content filter stopped the reply";
                return Some(Cause::new(CauseKind::ProviderRejected, detail));
            }
            Some(Stop::End | Stop::Calls | Stop::Unknown) | None => {}
        }
        for open in calls {
            let tool = &open.call.tool;
            if self.spec.mode == Mode::Once {
                let detail = format!("the model asked for {tool} in mode once, which has no tools");
                return Some(Cause::new(CauseKind::ToolInOnce, detail));
            }
            if open.args().is_some_and(|args| args.depth() > ARGUMENTS_DEPTH_MAX) {
                let detail = format!("the arguments of {tool} nest deeper than {ARGUMENTS_DEPTH_MAX} levels");
                return Some(Cause::new(CauseKind::Depth, detail));
            }
        }
        None
    }

    fn failed(&mut self, attempt: u32, grant: &Grant, failure: Failure, now: Instant) {
        self.report_of(Report {
            wait: failure.wait,
            usage: failure.spent,
            limits_seen: failure.limits_seen,
            signature: failure.signature,
            ..report(grant, failure.class)
        });
        let fatal = failure.fatal.or(match failure.class {
            AnswerClass::ContextOverflow => Some(CauseKind::ContextOverflow),
            AnswerClass::Rejected => Some(CauseKind::ProviderRejected),
            _ => None,
        });
        self.record(Event::AttemptFailed {
            step: self.step(),
            provider: grant.provider.clone(),
            class: failure.class,
            detail: failure.detail.clone(),
            wait_ms: match failure.wait {
                Some(ukai_protocol::lease::Wait::For(ms)) => Some(ms),
                Some(ukai_protocol::lease::Wait::UntilReset) | None => None,
            },
            usage: failure.spent,
            cost_usd: match (grant.prices, failure.spent) {
                (Some(prices), Some(spent)) => prices.cost(&spent),
                _ => 0.0,
            },
            run_time_ms: millis(self.clocks.run_time(now)),
            wall_ms: millis(self.clocks.wall(now)),
        });
        match fatal {
            Some(kind) => {
                let detail = format!("{}: {}", grant.provider, failure.detail);
                self.end(Outcome::Ended(Cause::new(kind, detail)), now);
            }
            None => self.ask(attempt + 1, now),
        }
    }

    // --- ends ----------------------------------------------------------------------------------------------------

    fn end_by(&mut self, limit: Limit, now: Instant) {
        self.end_for(limit, "the next act would exceed it", now);
    }

    fn end_before_call(&mut self, limit: Limit, estimate: u64, now: Instant) {
        let cost = estimate as f64 * self.input_price / 1e6;
        match limit {
            Limit::Tokens => {
                self.end_for(limit, &format!("the next call would add about {estimate} and exceed it"), now);
            }
            Limit::Cost if cost > 0.0 => {
                let cost = round(cost, MICRODOLLAR);
                self.end_for(limit, &format!("the next call would add about {cost} USD and exceed it"), now);
            }
            _ => self.end_by(limit, now),
        }
    }

    fn end_for(&mut self, limit: Limit, why: &str, now: Instant) {
        let standing = limits::standings(&self.spec.limits, &self.state.progress.used, &self.clocks, now)
            .find(|standing| standing.limit == limit);
        let detail = standing.map_or_else(String::new, |standing| {
            let (unit, part) = match limit {
                Limit::RunTime | Limit::MaxWall => (" s", MILLISECOND),
                Limit::Cost => (" USD", MICRODOLLAR),
                Limit::Steps | Limit::ToolCalls | Limit::Tokens => ("", WHOLE),
            };
            let (used, max) = (round(standing.used, part), round(standing.max, part));
            format!("{used}{unit} of {max}{unit} used; {why}")
        });
        self.end(Outcome::Ended(Cause::new(CauseKind::Limit(limit), detail)), now);
    }

    fn end(&mut self, outcome: Outcome, now: Instant) {
        self.drop_what_runs();
        for open in self.state.closing_answers(&outcome) {
            self.answer(&open.call, open.tool, open.status, open.output.to_owned(), now);
        }
        let text = self.state.progress.text.clone();
        self.record(Event::Finished { outcome, text });
        self.flush();
        self.phase = Phase::Ending { barrier: self.next_n };
    }

    /// For a later attempt to go on. What ended under the pause must not be repeated, so it is on disk before the exit.
    fn leave(&mut self) {
        self.drop_what_runs();
        self.flush();
        self.phase = Phase::Ending { barrier: self.next_n };
        self.exit_when_durable();
    }

    fn exit_when_durable(&mut self) {
        if matches!(self.phase, Phase::Ending { barrier } if self.acked >= barrier) {
            self.phase = Phase::Ended;
            self.effects.push_back(Effect::Exit);
        }
    }

    fn stop(&mut self) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        self.drop_what_runs();
        self.flush();
        self.phase = Phase::Ended;
        self.effects.push_back(Effect::Exit);
    }

    fn drop_what_runs(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Deciding) {
            Phase::Asking { .. } => self.effects.push_back(Effect::Withdraw { call: self.step() }),
            Phase::Calling { grant, .. } => {
                self.effects.push_back(Effect::StopModel);
                self.report(&grant, AnswerClass::Withdrawn, None);
            }
            Phase::Running { .. } => self.effects.push_back(Effect::StopTools),
            Phase::Deciding
            | Phase::Judging { .. }
            | Phase::Starting { .. }
            | Phase::Settling { .. }
            | Phase::Ending { .. }
            | Phase::Ended => {}
        }
    }

    // --- records -------------------------------------------------------------------------------------------------

    fn answer(&mut self, call: &str, tool: String, status: ToolStatus, output: String, now: Instant) {
        // A result has its cap from its tool. What went wrong is told in many places, and often with what was asked for.
        let output = if status == ToolStatus::Ok { output } else { told(&output) };
        self.record(Event::ToolFinished {
            call: call.to_owned(),
            tool,
            status,
            output,
            run_time_ms: millis(self.clocks.run_time(now)),
            wall_ms: millis(self.clocks.wall(now)),
        });
    }

    fn warn(&mut self, now: Instant) {
        let standings: Vec<_> =
            limits::standings(&self.spec.limits, &self.state.progress.used, &self.clocks, now).collect();
        for standing in standings {
            if standing.used >= WARN_AT * standing.max && !self.state.warned.contains(&standing.limit) {
                let limits::Standing { limit, used, max } = standing;
                self.record(Event::LimitWarned { limit, used, max });
            }
        }
    }

    /// The fold is the only way into the state; what it refuses is a fault of this machine and ends the job.
    fn record(&mut self, event: Event) {
        match self.state.apply(&event) {
            Ok(()) => self.pending.push(event),
            Err(illegal) => self.effects.push_back(Effect::Fault(illegal)),
        }
    }

    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.pending);
        let n = self.next_n;
        self.next_n += events.len() as u64;
        if events.iter().any(|event| matches!(event, Event::Replied { .. })) {
            self.replied_n = self.next_n;
        }
        self.effects.push_back(Effect::Record { n, events });
    }

    fn report(&mut self, grant: &Grant, class: AnswerClass, usage: Option<Usage>) {
        self.report_of(Report { usage, ..report(grant, class) });
    }

    fn report_of(&mut self, report: Report) {
        self.effects.push_back(Effect::Report(report));
    }

    fn estimate(&mut self) -> u64 {
        self.overhead_tokens + self.context.window(&self.state.messages).tokens
    }
}

/// A call that is to run.
struct Runnable {
    call: Call,
    flags: Flags,
    /// Not by default, by a person or by what may yet be thought better of.
    by_rule: bool,
}

fn is_allowed_by_rule(judgement: &Judgement) -> bool {
    let allowed = matches!(judgement.source, Source::Rule { list: RuleList::Allow, .. });
    allowed && judgement.verdict == Verdict::Allow
}

fn report(grant: &Grant, class: AnswerClass) -> Report {
    Report {
        lease: grant.lease,
        generation: grant.generation,
        class,
        wait: None,
        limits_seen: LimitsSeen::default(),
        usage: None,
        signature: String::new(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const WHOLE: f64 = 1.0;
/// Of a second.
const MILLISECOND: f64 = 1e3;
/// Of a dollar: a short call costs no more.
const MICRODOLLAR: f64 = 1e6;

/// As many decimals as a person wants to read.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
