//! The ways out: an end that is recorded, a leave for a later attempt, a stop in which nothing new is said.

#![deny(clippy::disallowed_methods)]

use std::time::Instant;

use ukai_protocol::event::Event;
use ukai_protocol::job::{Cause, CauseKind, Limit, Outcome};
use ukai_protocol::lease::AnswerClass;

use super::{Effect, Machine, Phase};
use crate::query::limits;

impl Machine {
    pub(super) fn end_by(&mut self, limit: Limit, now: Instant) {
        self.end_for(limit, "the next act would exceed it", now);
    }

    pub(super) fn end_before_call(&mut self, limit: Limit, estimate: u64, now: Instant) {
        let cost = estimate as f64 * self.input_price / 1e6;
        match limit {
            Limit::Tokens => {
                self.end_for(limit, &format!("the next call would add about {estimate} and exceed it"), now);
            }
            Limit::Cost if cost > 0.0 => {
                let cost = limit.amount(cost);
                self.end_for(limit, &format!("the next call would add about {cost} and exceed it"), now);
            }
            _ => self.end_by(limit, now),
        }
    }

    pub(super) fn end_for(&mut self, limit: Limit, why: &str, now: Instant) {
        let standing = limits::standings(&self.spec.limits, &self.state.progress.used, &self.clocks, now)
            .find(|standing| standing.limit == limit);
        let detail = standing.map_or_else(String::new, |standing| {
            format!("{} of {} used; {why}", limit.amount(standing.used), limit.amount(standing.max))
        });
        self.end(Outcome::Ended(Cause::new(CauseKind::Limit(limit), detail)), now);
    }

    pub(super) fn end(&mut self, outcome: Outcome, now: Instant) {
        self.drop_what_runs();
        for open in self.state.closing_answers(&outcome) {
            self.answer(&open.call, open.tool, open.status, open.output.to_owned(), now);
        }
        if !self.part(&outcome) {
            self.finish(outcome);
        }
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        let text = self.state.progress.text.clone();
        self.record(Event::Finished { outcome, text });
        self.flush();
        self.phase = Phase::Ending { barrier: self.next_n };
    }

    /// For a later attempt to go on. What ended under the pause must not be repeated, so it is on disk before the exit.
    pub(super) fn leave(&mut self) {
        self.drop_what_runs();
        self.flush();
        self.phase = Phase::Ending { barrier: self.next_n };
        self.exit_when_durable();
    }

    pub(super) fn exit_when_durable(&mut self) {
        if matches!(self.phase, Phase::Ending { barrier } if self.acked >= barrier) {
            self.phase = Phase::Ended;
            self.effects.push_back(Effect::Exit);
        }
    }

    pub(super) fn stop(&mut self) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        self.drop_what_runs();
        self.flush();
        self.phase = Phase::Ended;
        self.effects.push_back(Effect::Exit);
    }

    pub(super) fn drop_what_runs(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Deciding) {
            Phase::Asking { .. } => self.effects.push_back(Effect::Withdraw { call: self.step() }),
            Phase::Calling { grant, .. } => {
                self.effects.push_back(Effect::StopModel);
                self.report(&grant, AnswerClass::Withdrawn, None);
            }
            Phase::Running { .. } => self.effects.push_back(Effect::StopTools),
            Phase::Judging { .. } | Phase::Hooking | Phase::Waiting | Phase::Parting { .. } => {
                self.effects.push_back(Effect::StopHooks);
            }
            Phase::Deciding | Phase::Starting { .. } | Phase::Settling { .. } | Phase::Ending { .. } | Phase::Ended => {
            }
        }
    }
}
