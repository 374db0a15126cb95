//! What a job may still consume, and when time itself ends it.
//!
//! Ceilings are checked before firing: what is used, plus what the next act is known to cost. Time is two clocks.
//! `run_time` runs while the job works and stands still while it waits for others (a lease, a provider's "not before");
//! `wall` runs as long as a worker lives. Both are monotonic, so a suspended machine or a corrected clock trips nothing.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ukai_protocol::job::{Limit, Limits, Used};

/// A notice goes out once per limit when this share of it is used (spec §6).
pub const WARN_AT: f64 = 0.8;

/// The two clocks of an attempt, starting from what earlier attempts consumed.
#[derive(Clone, Debug)]
pub struct Clocks {
    run_before: Duration,
    /// Since when it has been working; `None` while it waits.
    running_since: Option<Instant>,
    wall_before: Duration,
    began: Instant,
}

impl Clocks {
    #[must_use]
    pub fn new(used: &Used, now: Instant) -> Self {
        Clocks {
            run_before: Duration::from_millis(used.run_time_ms),
            running_since: Some(now),
            wall_before: Duration::from_millis(used.wall_ms),
            began: now,
        }
    }

    /// Waiting for others begins: `run_time` stands still.
    pub fn pause(&mut self, now: Instant) {
        self.run_before = self.run_time(now);
        self.running_since = None;
    }

    pub fn resume(&mut self, now: Instant) {
        self.running_since.get_or_insert(now);
    }

    #[must_use]
    pub fn run_time(&self, now: Instant) -> Duration {
        self.run_before + self.running_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    #[must_use]
    pub fn wall(&self, now: Instant) -> Duration {
        self.wall_before + now.saturating_duration_since(self.began)
    }

    /// When the next of these moments comes, if nothing else changes: 80 % or all of either clock.
    #[must_use]
    pub fn next_moment(&self, limits: &Limits, warned: &[Limit], now: Instant) -> Option<Instant> {
        let mut moments = Vec::with_capacity(2);
        let mut consider = |limit, used: Duration, max_ms: u64| {
            let share = if warned.contains(&limit) { 1.0 } else { WARN_AT };
            let at = Duration::from_millis(max_ms).mul_f64(share);
            moments.extend(now.checked_add(at.saturating_sub(used)));
        };
        if self.running_since.is_some() {
            consider(Limit::RunTime, self.run_time(now), limits.run_time_ms);
        }
        consider(Limit::MaxWall, self.wall(now), limits.max_wall_ms);
        moments.into_iter().min()
    }
}

/// One limit, as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub limit: Limit,
    pub used: f64,
    pub max: f64,
}

/// All limits that apply to the job, with what is used now.
pub fn standings(limits: &Limits, used: &Used, clocks: &Clocks, now: Instant) -> impl Iterator<Item = Standing> {
    let counted = [
        (Limit::Steps, used.steps as f64, limits.steps as f64),
        (Limit::ToolCalls, used.tool_calls as f64, limits.tool_calls as f64),
        (Limit::Tokens, used.tokens() as f64, limits.tokens as f64),
        (Limit::RunTime, clocks.run_time(now).as_secs_f64(), limits.run_time_ms as f64 / 1e3),
        (Limit::MaxWall, clocks.wall(now).as_secs_f64(), limits.max_wall_ms as f64 / 1e3),
    ];
    let cost = limits.max_cost_usd.map(|max| (Limit::Cost, used.cost_usd, max));
    counted.into_iter().chain(cost).map(|(limit, used, max)| Standing { limit, used, max })
}

/// The time limit that has run out, if one has.
#[must_use]
pub fn expired(limits: &Limits, clocks: &Clocks, now: Instant) -> Option<Limit> {
    if clocks.run_time(now) >= Duration::from_millis(limits.run_time_ms) {
        Some(Limit::RunTime)
    } else if clocks.wall(now) >= Duration::from_millis(limits.max_wall_ms) {
        Some(Limit::MaxWall)
    } else {
        None
    }
}

/// The limit that a model call with `estimate` input tokens, priced at `input_price` USD per million, would exceed.
#[must_use]
pub fn forbids_call(limits: &Limits, used: &Used, estimate: u64, input_price: f64) -> Option<Limit> {
    let cost = used.cost_usd + estimate as f64 * input_price / 1e6;
    if used.steps >= limits.steps {
        Some(Limit::Steps)
    } else if used.tokens().saturating_add(estimate) > limits.tokens {
        Some(Limit::Tokens)
    } else if limits.max_cost_usd.is_some_and(|max| cost > max || used.cost_usd >= max) {
        Some(Limit::Cost)
    } else {
        None
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test may begin now")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waiting_stops_one_clock_and_not_the_other() {
        let start = Instant::now();
        let mut clocks = Clocks::new(&Used { run_time_ms: 500, wall_ms: 700, ..Used::default() }, start);
        clocks.pause(start + SECOND);
        clocks.pause(start + 2 * SECOND);
        clocks.resume(start + 5 * SECOND);
        clocks.resume(start + 6 * SECOND);
        assert_eq!(clocks.run_time(start + 7 * SECOND), Duration::from_millis(3_500));
        assert_eq!(clocks.wall(start + 7 * SECOND), Duration::from_millis(7_700));
    }

    #[test]
    fn a_call_is_forbidden_before_it_exceeds() {
        let limits = Limits { steps: 3, tokens: 100, max_cost_usd: Some(1.0), ..Limits::default() };
        let used = |steps, input_tokens, cost_usd| Used { steps, input_tokens, cost_usd, ..Used::default() };
        for (used, estimate, price, expected) in [
            (used(2, 50, 0.0), 50, 0.0, None),
            (used(3, 0, 0.0), 0, 0.0, Some(Limit::Steps)),
            (used(0, 50, 0.0), 51, 0.0, Some(Limit::Tokens)),
            (used(0, 0, 0.9), 50, 1_000.0, None),
            (used(0, 0, 0.9), 50, 3_000.0, Some(Limit::Cost)),
            (used(0, 0, 1.0), 0, 0.0, Some(Limit::Cost)),
        ] {
            assert_eq!(forbids_call(&limits, &used, estimate, price), expected, "{used:?} {estimate}");
        }
    }

    #[test]
    fn the_next_moment_is_the_warning_and_then_the_end() {
        let start = Instant::now();
        let limits = Limits { run_time_ms: 10_000, max_wall_ms: 100_000, ..Limits::default() };
        let mut clocks = Clocks::new(&Used::default(), start);
        assert_eq!(clocks.next_moment(&limits, &[], start), Some(start + 8 * SECOND));
        assert_eq!(clocks.next_moment(&limits, &[Limit::RunTime], start), Some(start + 10 * SECOND));
        clocks.pause(start);
        assert_eq!(clocks.next_moment(&limits, &[], start), Some(start + 80 * SECOND));
        assert_eq!(expired(&limits, &clocks, start + 99 * SECOND), None);
        assert_eq!(expired(&limits, &clocks, start + 100 * SECOND), Some(Limit::MaxWall));
    }
}
