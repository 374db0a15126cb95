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

mod call;
mod end;
mod hooks;
mod record;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ukai_protocol::event::{Event, ToolStatus, WaitingFor};
use ukai_protocol::job::{JobSpec, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, WaitWhy};
use ukai_protocol::message::{Call, Message};
use ukai_protocol::policy::Judgement;
use ukai_protocol::run_state::{Illegal, OpenCall, RunState};

use super::limits::{self, Clocks};
use crate::context::Context;
use crate::hook::Occasion;
use crate::permission::Question;
use crate::provider::classify::Failure;
use crate::provider::{self, Answered};
use crate::tool::{Flags, ToolOutput};

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
        /// A person or a hook allowed it, where no rule may.
        consented: bool,
    },
    StopTools,
    /// Ask the owner's hooks; the answer is [`Machine::handle_hooked`].
    Hook(Occasion),
    StopHooks,
    /// A verdict of theirs on what was put to a person.
    Settle {
        call: String,
        judgement: Judgement,
    },
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
    /// A person is to decide; a no if none does until then (milliseconds since 1970).
    Ask { input: Json, read_only: bool, question: Question, deadline_ms: u64 },
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
        /// What the log says of its waiting.
        noted: Vec<WaitingFor>,
    },
    Calling {
        attempt: u32,
        grant: Box<Grant>,
    },
    Judging {
        open: Vec<String>,
        since: Instant,
    },
    /// The owner's hooks are asked what comes next.
    Hooking,
    /// What it asked a person, or what else may decide, has no answer. It waits without a process, if it can.
    Waiting,
    /// The intent to start these is on its way to the disk.
    Starting {
        calls: Vec<String>,
        barrier: u64,
    },
    Running {
        open: Vec<String>,
        /// Whose failure has cancelled the rest.
        failed: Option<String>,
    },
    /// The results are there, and the reply that asked for them is still on its way to the disk.
    Settling {
        attempt: u32,
    },
    /// The owner's hooks hear of the end before it is recorded.
    Parting {
        outcome: Outcome,
        unheard: usize,
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
    flags: FlagsOf,
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
    /// What was put to a person and hooks have not heard of; known to the supervisor when all below `asked_n` is on disk.
    asked: Vec<String>,
    asked_n: u64,
    /// Of the batch that starts or runs, what a person or a hook allowed.
    consented: Vec<String>,
    /// What hooks have to say to the model, until it is called.
    to_tell: Option<String>,
    prompt_looked_at: bool,
    /// Hooks that tell their owner of a question, and have not ended.
    notifying: usize,
    /// A person wants the job to pause: what is under way ends, nothing new begins.
    pausing: bool,
    /// What the last grant's provider takes for a million input tokens.
    input_price: f64,
}

/// What a call of a tool may do, by its input; None: no such tool can be run.
pub type FlagsOf = Box<dyn Fn(&str, &Json) -> Option<Flags> + Send + Sync>;

/// What a machine is built from, besides the state that it goes on from.
pub struct Parts {
    pub spec: JobSpec,
    pub context: Box<dyn Context>,
    pub flags: FlagsOf,
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
            asked: Vec::new(),
            asked_n: 0,
            consented: Vec::new(),
            to_tell: None,
            prompt_looked_at: false,
            notifying: 0,
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

    /// What the job allows a conversation, in tokens, where it says so.
    #[must_use]
    pub fn window_max(&self) -> Option<u64> {
        self.spec.window
    }

    /// The step that is being worked on, from 1.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.state.progress.used.steps + 1
    }

    /// Begins, or goes on where the log ends. `system` is recorded unless an earlier attempt has done so.
    pub fn start(&mut self, system: Event, now: Instant) {
        let resumed = self.state.system.is_some();
        if !resumed {
            self.record(system);
        }
        if !self.begin_session(resumed) {
            self.advance(now);
        }
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
            Ruling::Ask { input, read_only, question, deadline_ms } => {
                let Question { rule, why, missing, .. } = question;
                let call = call.to_owned();
                self.asked.push(call.clone());
                self.asked_n = u64::MAX;
                self.record(Event::AskOpened { call, tool, input, read_only, rule, why, missing, deadline_ms });
            }
            Ruling::Invalid { why } => self.answer(call, tool, ToolStatus::Invalid, why, now),
        }
        if all_judged {
            self.phase = Phase::Deciding;
            self.advance(now);
        }
    }

    /// What was put to a person has its verdict. It is on disk already, by the hand of the supervisor.
    pub fn handle_answered(&mut self, answered: &Event, now: Instant) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::Ended) {
            return;
        }
        if let Err(illegal) = self.state.apply(answered) {
            // A repetition after a lost connection; the first one holds.
            tracing::debug!(%illegal, "an answer that is not waited for");
            return;
        }
        if self.phase == Phase::Waiting && !self.state.waits_for_a_person() {
            // Whoever was slower.
            self.drop_what_runs();
            self.clocks.resume(now);
            self.phase = Phase::Deciding;
            self.advance(now);
        }
    }

    /// After a lost connection. What it waits for beside these was answered meanwhile, and a later attempt knows how.
    pub fn handle_still_asked(&mut self, calls: &[String]) {
        if self.phase == Phase::Waiting && self.state.put_to_a_person().any(|call| calls.iter().all(|id| id != call)) {
            self.leave();
        }
    }

    /// Leave, if nothing but a person's answer is waited for.
    pub fn handle_park(&mut self) {
        if self.phase == Phase::Waiting {
            self.leave();
        }
    }

    /// All events numbered below `n` are on disk.
    pub fn handle_acked(&mut self, n: u64) {
        self.acked = self.acked.max(n);
        self.ask_hooks();
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
            Phase::Asking { attempt, .. } if call == self.step() => attempt,
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
                    WaitWhy::NotBefore | WaitWhy::Backoff | WaitWhy::Breaker => WaitingFor::Provider,
                    WaitWhy::Concurrency | WaitWhy::Rate => WaitingFor::Lease,
                };
                // Told anew whenever the wait moves, and written down once for each thing that is waited for: a log does
                // not grow while nothing happens.
                if let Phase::Asking { noted, .. } = &mut self.phase
                    && !noted.contains(&why)
                {
                    noted.push(why);
                    self.record(Event::Waiting { why, wait_ms: until_ms });
                }
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
        self.report_of(provider::report(&grant, &result));
        match result {
            Ok(answered) => self.replied(&grant, answered, now),
            Err(failure) => self.failed(attempt, &grant, failure, now),
        }
    }

    pub fn handle_tool(&mut self, call: &str, mut done: ToolOutput, now: Instant) {
        let Phase::Running { open, failed } = &mut self.phase else { return };
        let Some(place) = open.iter().position(|open| open == call) else { return };
        open.swap_remove(place);
        let batch_done = open.is_empty();
        let failed_before = failed.clone();
        let Some(OpenCall { call: Call { tool, .. }, stage }) = self.state.open_call(call).cloned() else { return };
        if let Some(culprit) = failed_before {
            if done.status == ToolStatus::Cancelled {
                done.output = format!("cancelled: {culprit} failed");
            }
        } else if !batch_done && done.status != ToolStatus::Ok && self.cancels_siblings(&tool, &stage) {
            // Those that nobody would use the result of end now; what has its own end already keeps it.
            self.effects.push_back(Effect::StopTools);
            if let Phase::Running { failed, .. } = &mut self.phase {
                *failed = Some(tool.clone());
            }
        }
        self.answer_with(call, tool, done, now);
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
            Phase::Settling { .. } | Phase::Asking { .. } | Phase::Judging { .. } | Phase::Hooking | Phase::Waiting => {
                self.leave()
            }
            Phase::Deciding
            | Phase::Calling { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Parting { .. }
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
            Phase::Parting { .. } | Phase::Ending { .. } | Phase::Ended => None,
            Phase::Judging { since, .. } if !self.pending.is_empty() => {
                Some(limits.map_or(since + JUDGING_QUICK, |moment| moment.min(since + JUDGING_QUICK)))
            }
            _ => limits,
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Parting { .. } | Phase::Ending { .. } | Phase::Ended) {
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
}
