//! A reply with calls: each is judged, then they run in batches, each answered once.

#![deny(clippy::disallowed_methods)]

use std::time::Instant;

use ukai_protocol::event::{Event, ToolStatus};
use ukai_protocol::job::{Cause, CauseKind, Limit, Mode, Outcome};
use ukai_protocol::message::{Args, Call, Stop};
use ukai_protocol::policy::{Judgement, RuleList, Source, Verdict};
use ukai_protocol::run_state::{OpenCall, Stage};

use super::{ARGUMENTS_DEPTH_MAX, Effect, Machine, Phase};
use crate::query::limits;
use crate::tool::{Flags, partition};

impl Machine {
    pub(super) fn advance(&mut self, now: Instant) {
        if let Some(limit) = limits::expired(&self.spec.limits, &self.clocks, now) {
            return self.end_by(limit, now);
        }
        self.warn(now);
        if self.heed_stop(now) {
            return;
        }
        if let Some(cause) = self.fatal_in_reply() {
            return self.end(Outcome::Ended(cause), now);
        }
        match &self.state.turn {
            None => self.next_step(now),
            Some(_) if self.pausing => self.leave(),
            Some(turn) => {
                let asked = turn.calls.iter().filter(|open| open.stage == Stage::Asked);
                let asked: Vec<Call> = asked.map(|open| open.call.clone()).collect();
                if !asked.is_empty() {
                    self.judge(asked, now);
                } else if self.state.waits_for_a_person() {
                    self.clocks.pause(now);
                    self.flush();
                    self.phase = Phase::Waiting;
                } else {
                    self.next_batch(now);
                }
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
    pub(super) fn next_batch(&mut self, now: Instant) {
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
        self.consented.clear();
        for Runnable { call, flags, by_rule, consented } in runnable.into_iter().take(size) {
            let tool = call.tool.clone();
            calls.push(call.id.clone());
            self.consented.extend(consented.then(|| call.id.clone()));
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

    pub(super) fn start_tools(&mut self, calls: Vec<String>) {
        for id in &calls {
            let Some(OpenCall { call, stage: Stage::Started { input, .. } }) = self.state.open_call(id) else {
                continue;
            };
            let (tool, input) = (call.tool.clone(), input.clone());
            let consented = self.consented.contains(id);
            self.effects.push_back(Effect::StartTool { call: id.clone(), tool, input, consented });
        }
        self.phase = Phase::Running { open: calls, failed: None };
    }

    /// Whether a failure of this call ends those beside it.
    pub(super) fn cancels_siblings(&self, tool: &str, stage: &Stage) -> bool {
        let Stage::Started { input, .. } = stage else { return false };
        (self.flags)(tool, input).is_some_and(|flags| flags.cancels_siblings)
    }

    /// The calls of the turn that are still to run, in order. All others have their answer afterwards.
    fn settle_unrunnable(&mut self, now: Instant) -> Vec<Runnable> {
        let open: Vec<OpenCall> = self.state.turn.iter().flat_map(|turn| turn.calls.clone()).collect();
        let mut runnable = Vec::new();
        for OpenCall { call, stage } in open {
            let (id, tool) = (call.id.clone(), call.tool.clone());
            let by_rule = matches!(&stage, Stage::Judged { judgement, .. } if is_allowed_by_rule(judgement));
            let consented = matches!(&stage, Stage::Judged { judgement, .. } if is_consented(judgement));
            match stage {
                Stage::Asked | Stage::Put { .. } | Stage::Answered { .. } => {}
                Stage::Judged { judgement, .. } if judgement.verdict == Verdict::Deny => {
                    self.answer(&id, tool, ToolStatus::Denied, format!("denied: {}", judgement.why), now);
                }
                // Only after a crash: it may have run, and only what does no harm twice is run again.
                Stage::Started { read_only: false, idempotent: false, .. } => {
                    self.answer(&id, tool, ToolStatus::Unknown, "outcome unknown".to_owned(), now);
                }
                Stage::Judged { input, .. } | Stage::Started { input, .. } => match (self.flags)(&tool, &input) {
                    Some(flags) => runnable.push(Runnable { call, flags, by_rule, consented }),
                    None => {
                        let why = format!("not run: {tool} is not available");
                        self.answer(&id, tool, ToolStatus::Invalid, why, now);
                    }
                },
            }
        }
        runnable
    }

    /// What in the last reply ends the job, whoever looks at it: the machine that received it or, after a crash, the next.
    pub(super) fn fatal_in_reply(&self) -> Option<Cause> {
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
}

/// A call that is to run.
struct Runnable {
    call: Call,
    flags: Flags,
    /// Not by default, by a person or by what may yet be thought better of.
    by_rule: bool,
    /// By a person or a hook. What a process that died had started is not known to be so any more.
    consented: bool,
}

fn is_consented(judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Allow && matches!(judgement.source, Source::User(_) | Source::Hook { .. })
}

fn is_allowed_by_rule(judgement: &Judgement) -> bool {
    let allowed = matches!(judgement.source, Source::Rule { list: RuleList::Allow, .. });
    allowed && judgement.verdict == Verdict::Allow
}
