//! Events on their way to the disk: folded at once, handed out together.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ukai_protocol::event::{Event, ToolStatus};
use ukai_protocol::lease::{AnswerClass, Grant, Report};
use ukai_protocol::message::Usage;

use super::{Effect, Machine};
use crate::query::limits::{self, WARN_AT};
use crate::tool::ToolOutput;
use crate::tool::output::told;

impl Machine {
    pub(super) fn answer(&mut self, call: &str, tool: String, status: ToolStatus, output: String, now: Instant) {
        self.answer_with(call, tool, ToolOutput::new(status, output), now);
    }

    pub(super) fn answer_with(&mut self, call: &str, tool: String, done: ToolOutput, now: Instant) {
        let ToolOutput { status, output, files_changed, seen, notices } = done;
        for notice in notices {
            if !self.state.progress.notices.contains(&notice.text) {
                self.record(notice.event());
            }
        }
        // A result has its cap from its tool. What went wrong is told in many places, and often with what was asked for.
        let mut output = if status == ToolStatus::Ok { output } else { told(&output) };
        for (_, context) in self.state.hooks.context.iter().filter(|(of, _)| of == call) {
            output.push_str("\n\n");
            output.push_str(context);
        }
        self.record(Event::ToolFinished {
            call: call.to_owned(),
            tool,
            status,
            output,
            run_time_ms: millis(self.clocks.run_time(now)),
            wall_ms: millis(self.clocks.wall(now)),
            files_changed,
            seen,
        });
    }

    pub(super) fn warn(&mut self, now: Instant) {
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
    pub(super) fn record(&mut self, event: Event) {
        match self.state.apply(&event) {
            Ok(()) => self.pending.push(event),
            Err(illegal) => self.effects.push_back(Effect::Fault(illegal)),
        }
    }

    pub(super) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.pending);
        let n = self.next_n;
        self.next_n += events.len() as u64;
        if events.iter().any(|event| matches!(event, Event::Replied { .. })) {
            self.replied_n = self.next_n;
        }
        if !self.asked.is_empty() {
            self.asked_n = self.next_n;
        }
        self.effects.push_back(Effect::Record { n, events });
    }

    pub(super) fn report(&mut self, grant: &Grant, class: AnswerClass, usage: Option<Usage>) {
        self.report_of(Report { usage, ..report(grant, class) });
    }

    pub(super) fn report_of(&mut self, report: Report) {
        self.effects.push_back(Effect::Report(report));
    }
}

pub(super) fn report(grant: &Grant, class: AnswerClass) -> Report {
    Report {
        lease: grant.lease,
        generation: grant.generation,
        account: grant.account.clone(),
        class,
        ..Report::default()
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
