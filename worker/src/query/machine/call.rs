//! A model call: whether there is to be another, the lease for it, and what came of it.

#![deny(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use ukai_protocol::event::Event;
use ukai_protocol::job::{Cause, CauseKind, JobStatus, Mode, Outcome};
use ukai_protocol::lease::{AnswerClass, Ask, Grant};
use ukai_protocol::message::Message;

use super::record::millis;
use super::{DENIED_REPLIES_IN_A_ROW, EMPTY_RETRIES, Effect, Machine, Phase, SAME_CALL_DENIED};
use crate::provider::Answered;
use crate::provider::classify::Failure;
use crate::query::limits;

impl Machine {
    /// No call is open: the job has ended, must end, or goes on with a model call.
    pub(super) fn next_step(&mut self, now: Instant) {
        let ended = |kind, detail: &str| Outcome::Ended(Cause::new(kind, detail));
        let state = &self.state;
        if matches!(state.messages.last().map(Arc::as_ref), Some(Message::Assistant { .. })) {
            return self.complete(now);
        }
        let outcome = if state.empty_replies > EMPTY_RETRIES {
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
            None if self.pausing => self.leave(),
            None if self.look_at_prompt() => {}
            None => self.ask(0, now),
        }
    }

    pub(super) fn ask(&mut self, attempt: u32, now: Instant) {
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

    pub(super) fn ask_when_durable(&mut self, attempt: u32) {
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
        self.phase = Phase::Asking { attempt, noted: Vec::new() };
    }

    pub(super) fn granted(&mut self, attempt: u32, grant: Box<Grant>, now: Instant) {
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

    pub(super) fn replied(&mut self, grant: &Grant, answered: Answered, now: Instant) {
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

    pub(super) fn failed(&mut self, attempt: u32, grant: &Grant, failure: Failure, now: Instant) {
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

    pub(super) fn estimate(&mut self) -> u64 {
        self.overhead_tokens + self.context.window(&self.state.messages).tokens
    }
}
