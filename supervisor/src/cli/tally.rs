//! What became of many jobs, in one look: counts, sums, the worst end.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use ukai_protocol::control::JobRow;
use ukai_protocol::job::{JobStatus, Outcome, Used};

use super::failure::FAILED;
use super::table::time;

/// How bad an end is, from the worst (spec §14). Anything else is 0.
const WORST_FIRST: [u8; 7] = [6, 1, 5, 4, 3, 130, 7];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub jobs: u64,
    pub completed: u64,
    pub aborted: u64,
    pub cancelled: u64,
    /// Under way: a process of theirs lives, or is about to.
    pub running: u64,
    pub waiting: u64,
    pub queued: u64,
    pub paused: u64,
    pub attention: u64,
    pub restarts: u64,
    pub used: Used,
    /// Of those that did not complete: why, and how many.
    pub causes: BTreeMap<String, u64>,
    codes: Vec<u8>,
}

impl Tally {
    pub fn add(&mut self, row: &JobRow) {
        self.jobs += 1;
        *(match row.status {
            JobStatus::Completed => &mut self.completed,
            JobStatus::Aborted => &mut self.aborted,
            JobStatus::Cancelled => &mut self.cancelled,
            JobStatus::Starting | JobStatus::Running => &mut self.running,
            JobStatus::Waiting => &mut self.waiting,
            JobStatus::Queued | JobStatus::Interrupted => &mut self.queued,
            JobStatus::Paused => &mut self.paused,
        }) += 1;
        self.attention += u64::from(row.attention);
        self.restarts += u64::from(row.restarts);
        let Used { steps, tool_calls, input_tokens, output_tokens, run_time_ms, wall_ms, cost_usd } = row.used;
        let sum = &mut self.used;
        for (sum, one) in [
            (&mut sum.steps, steps),
            (&mut sum.tool_calls, tool_calls),
            (&mut sum.input_tokens, input_tokens),
            (&mut sum.output_tokens, output_tokens),
            (&mut sum.run_time_ms, run_time_ms),
            (&mut sum.wall_ms, wall_ms),
        ] {
            *sum = sum.saturating_add(one);
        }
        sum.cost_usd += cost_usd;
        if let Some(Outcome::Ended(cause)) = &row.outcome {
            *self.causes.entry(format!("{}({})", cause.kind.reason(), cause.kind)).or_default() += 1;
        }
        let code = match (&row.outcome, row.status.is_ended()) {
            (Some(outcome), _) => outcome.exit_code(),
            // Ended and nobody knows how.
            (None, true) => FAILED,
            (None, false) => 0,
        };
        if code != 0 && !self.codes.contains(&code) {
            self.codes.push(code);
        }
    }

    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a JobRow>) -> Self {
        let mut tally = Tally::default();
        rows.into_iter().for_each(|row| tally.add(row));
        tally
    }

    #[must_use]
    pub fn ended(&self) -> u64 {
        self.completed + self.aborted + self.cancelled
    }

    /// 0 if all that ended completed, else the worst (spec §14).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        WORST_FIRST.into_iter().find(|code| self.codes.contains(code)).unwrap_or(0)
    }

    /// How they stand, such as `198 completed, 2 aborted, 1 needs attention`.
    #[must_use]
    pub fn standing(&self) -> String {
        let counts = [
            (self.completed, "completed"),
            (self.aborted, "aborted"),
            (self.cancelled, "cancelled"),
            (self.running, "running"),
            (self.waiting, "waiting for a provider"),
            (self.paused, "paused"),
            (self.queued, "queued"),
        ];
        let mut words: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        match self.attention {
            0 => {}
            1 => words.push("1 needs attention".to_owned()),
            count => words.push(format!("{count} need attention")),
        }
        words.join(", ")
    }

    /// What they have consumed, such as `120 steps, 45000 tokens, 1m02s of work`.
    #[must_use]
    pub fn spent(&self) -> String {
        let used = &self.used;
        let cost = if used.cost_usd > 0.0 { format!(", {:.4} USD", used.cost_usd) } else { String::new() };
        let restarts = if self.restarts > 0 { format!(", {} restarts", self.restarts) } else { String::new() };
        format!("{} steps, {} tokens{cost}, {} of work{restarts}", used.steps, used.tokens(), time(used.run_time_ms))
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, CauseKind, Limit};
    use ukai_protocol::run_state::Progress;

    use super::*;

    fn row(outcome: Option<Outcome>) -> JobRow {
        let status = outcome.as_ref().map_or(JobStatus::Queued, Outcome::status);
        JobRow { status, outcome, ..JobRow::of(JobId::from_random([0; 5]), &Progress::default(), String::new()) }
    }

    fn ended(kind: CauseKind) -> Option<Outcome> {
        Some(Outcome::Ended(Cause::new(kind, "")))
    }

    #[test]
    fn the_worst_end_is_the_exit_code() {
        let completed = |attention| Some(Outcome::Completed { attention });
        let limit = ended(CauseKind::Limit(Limit::Steps));
        let (cancelled, io, loops) = (ended(CauseKind::Cancel), ended(CauseKind::Io(28)), ended(CauseKind::Internal));
        for (outcomes, code) in [
            (vec![], 0),
            (vec![completed(false), completed(false)], 0),
            (vec![completed(false), None], 0),
            (vec![completed(false), completed(true)], 7),
            (vec![completed(true), cancelled.clone(), limit.clone()], 4),
            (vec![loops, io], 6),
            (vec![ended(CauseKind::CannotGoOn), ended(CauseKind::Attempts)], 5),
            (vec![cancelled, completed(true)], 130),
        ] {
            let rows: Vec<_> = outcomes.into_iter().map(row).collect();
            assert_eq!(Tally::of(&rows).exit_code(), code, "{rows:?}");
        }
    }

    #[test]
    fn a_look_says_what_there_is_and_nothing_else() {
        let mut rows = vec![row(None), row(Some(Outcome::Completed { attention: false }))];
        rows[1].used = Used { steps: 3, input_tokens: 10, output_tokens: 2, run_time_ms: 1_500, ..Used::default() };
        assert_eq!(Tally::of(&rows).standing(), "1 completed, 1 queued");
        assert_eq!(Tally::of(&rows).spent(), "3 steps, 12 tokens, 1.5s of work");
        rows.push(JobRow { attention: true, ..row(ended(CauseKind::Limit(Limit::Steps))) });
        rows[1].used.cost_usd = 0.25;
        let tally = Tally::of(&rows);
        assert_eq!(tally.standing(), "1 completed, 1 aborted, 1 queued, 1 needs attention");
        assert_eq!(tally.spent(), "3 steps, 12 tokens, 0.2500 USD, 1.5s of work");
        assert_eq!(tally.causes, [("breaker_open(limit(steps))".to_owned(), 1)].into());
    }
}
