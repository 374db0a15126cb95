//! The circuit breaker of one provider account (spec §5): CLOSED → OPEN → HALF_OPEN → CLOSED.
//!
//! Why not the breaker of a library: those count what their callers see, and wedge when a caller goes away with a permit
//! in its hand. Here every admission carries the generation that it was made in, and an answer of an older generation
//! changes nothing; a probe has a lease of its own, ends by itself when that is over, and frees its place whatever came
//! of it. So HALF_OPEN always ends: in CLOSED, or in OPEN for longer.
//!
//! No normal request passes a breaker that is not CLOSED. What a provider named ("not before") is the account's to keep
//! (`account`); the breaker is only told of it, since OPEN lasts at least as long.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// So many 429s within [`LIMITED_WINDOW`] open.
const LIMITED_MAX: usize = 3;
const LIMITED_WINDOW: Duration = Duration::from_secs(60);
/// So many in a row open.
const UNAVAILABLE_MAX: u32 = 5;
const TIMEOUTS_MAX: u32 = 3;
/// OPEN lasts this long, doubling while it re-opens …
const OPEN_MIN: Duration = Duration::from_secs(60);
/// … up to this. Only what a provider names itself is longer.
const OPEN_MAX: Duration = Duration::from_secs(15 * 60);
/// A probe that has not answered by then has failed.
pub const PROBE_LEASE: Duration = Duration::from_secs(30);
/// Of a trial's probes this many must succeed, …
const PROBES_TO_CLOSE: u32 = 2;
/// … and with this many failures two of three cannot succeed any more.
const PROBES_TO_REOPEN: u32 = 2;
/// Probes in a row that ended in neither (a 400, a killed process) before the trial is given up: HALF_OPEN is no place
/// to stay, and asking on and on is what it is there to prevent.
const NEITHER_MAX: u32 = 5;
/// From a probe that did not succeed to the next, doubling with each that ended in neither.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Breaker {
    state: State,
    /// Of the admissions that are valid now; grows with every transition.
    generation: u64,
    /// How often it has opened since it was last wholly well.
    opened: u32,
    /// After a trial, as many requests may be in flight; None = wholly well.
    ramp: Option<Ramp>,
    probes: u64,
}

#[derive(Debug)]
enum State {
    Closed(Counts),
    Open { until: Until, why: Why },
    HalfOpen(Trial),
}

/// What speaks against the account while it is CLOSED.
#[derive(Debug, Default)]
struct Counts {
    /// The 429s of the last minute.
    limited: VecDeque<Instant>,
    unavailable: u32,
    timeouts: u32,
}

#[derive(Debug)]
struct Trial {
    successes: u32,
    failures: u32,
    neither: u32,
    in_flight: Option<Probe>,
    /// Not before this.
    next: Instant,
}

#[derive(Debug)]
struct Ramp {
    in_flight_max: usize,
    successes: usize,
}

/// The one request that may pass in HALF_OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub id: u64,
    pub generation: u64,
    pub until: Instant,
}

/// When OPEN ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    At(Instant),
    /// When a person resets it.
    Reset,
}

/// What opened it; these words stand on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Three 429s within a minute.
    Limited,
    /// Five failures in a row.
    Unavailable,
    /// Three timeouts in a row.
    Timeouts,
    /// The provider named an instant more than a minute ahead.
    LongWait,
    /// 401, 402, 403, a spent quota.
    Closed,
    /// The provider named an instant that no clock reaches.
    UntilReset,
    /// The probes failed, or brought no verdict.
    Probes,
}

/// A failure that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// 429 that named no instant, or one at most a minute ahead.
    Limited,
    Unavailable,
    Timeout,
    /// These open at once, until then.
    Shut(Why, Until),
}

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure(Failed),
    /// It says nothing about the account: cancelled, killed, answered with another 4xx.
    Neither,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Closed,
    Open { until: Until, why: Why },
    HalfOpen,
}

/// What of it outlives the supervisor, where it is not CLOSED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub until: Until,
    pub why: Why,
    pub opened: u32,
}

/// The same where it is CLOSED: a start is no way around what speaks against the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// When the 429s of the last minute came.
    pub limited: Vec<Instant>,
    pub unavailable: u32,
    pub timeouts: u32,
    /// After a trial, as many may be in flight.
    pub in_flight_max: Option<usize>,
    pub opened: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker { state: State::Closed(Counts::default()), generation: 0, opened: 0, ramp: None, probes: 0 }
    }
}

impl Breaker {
    #[must_use]
    pub fn standing(&self) -> Standing {
        match &self.state {
            State::Closed(_) => Standing::Closed,
            State::Open { until, why } => Standing::Open { until: *until, why: *why },
            State::HalfOpen(_) => Standing::HalfOpen,
        }
    }

    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How many requests may be in flight, if fewer than the account itself allows.
    #[must_use]
    pub fn in_flight_max(&self) -> Option<usize> {
        self.ramp.as_ref().map(|ramp| ramp.in_flight_max)
    }

    /// `concurrency`: what the account itself allows; there the ramp ends.
    pub fn succeeded(&mut self, generation: u64, concurrency: usize) {
        let State::Closed(counts) = &mut self.state else { return };
        if generation != self.generation {
            return;
        }
        counts.unavailable = 0;
        counts.timeouts = 0;
        let Some(ramp) = &mut self.ramp else { return };
        ramp.successes += 1;
        if ramp.successes < ramp.in_flight_max {
            return;
        }
        *ramp = Ramp { in_flight_max: ramp.in_flight_max.saturating_mul(2), successes: 0 };
        if ramp.in_flight_max >= concurrency {
            self.ramp = None;
            self.opened = 0;
        }
    }

    /// `not_before`: the latest instant that the provider has named.
    pub fn failed(&mut self, generation: u64, failed: Failed, not_before: Option<Instant>, now: Instant) {
        let State::Closed(counts) = &mut self.state else { return };
        if generation != self.generation {
            return;
        }
        let why = match failed {
            Failed::Shut(why, until) => return self.open(why, until, not_before, now),
            Failed::Limited => {
                counts.limited.push_back(now);
                counts.limited.retain(|at| now.saturating_duration_since(*at) < LIMITED_WINDOW);
                (counts.limited.len() >= LIMITED_MAX).then_some(Why::Limited)
            }
            Failed::Unavailable => {
                counts.unavailable += 1;
                (counts.unavailable >= UNAVAILABLE_MAX).then_some(Why::Unavailable)
            }
            Failed::Timeout => {
                counts.timeouts += 1;
                (counts.timeouts >= TIMEOUTS_MAX).then_some(Why::Timeouts)
            }
        };
        if let Some(why) = why {
            self.open(why, Until::At(now), not_before, now);
        }
    }

    /// The provider has named when it may be asked again, in an answer of whatever generation. More than `patience`
    /// ahead it opens at once; OPEN is never over before it, and no probe leaves before it.
    pub fn named(&mut self, until: Until, patience: Duration, now: Instant) {
        match (until, &mut self.state) {
            (_, State::Open { until: Until::Reset, .. }) => {}
            (Until::Reset, _) => self.open(Why::UntilReset, Until::Reset, None, now),
            (Until::At(named), State::Open { until: Until::At(at), .. }) => *at = named.max(*at),
            (Until::At(named), _) if named.saturating_duration_since(now) > patience => {
                self.open(Why::LongWait, Until::At(named), None, now);
            }
            (Until::At(_), State::Closed(_)) => {}
            (Until::At(named), State::HalfOpen(trial)) => trial.next = named.max(trial.next),
        }
    }

    fn open(&mut self, why: Why, until: Until, not_before: Option<Instant>, now: Instant) {
        let least = now + OPEN_MIN.saturating_mul(1 << self.opened.min(8)).min(OPEN_MAX);
        let until = match until {
            Until::Reset => Until::Reset,
            Until::At(at) => Until::At(not_before.map_or(at, |named| named.max(at)).max(least)),
        };
        self.state = State::Open { until, why };
        self.generation += 1;
        self.opened = self.opened.saturating_add(1);
        self.ramp = None;
    }

    /// The next probe, if one may leave now. It is in flight until [`Breaker::probed`], or until its lease is over.
    pub fn take_probe(&mut self, now: Instant) -> Option<Probe> {
        let State::HalfOpen(trial) = &mut self.state else { return None };
        if trial.in_flight.is_some() || now < trial.next {
            return None;
        }
        self.probes += 1;
        let probe = Probe { id: self.probes, generation: self.generation, until: now + PROBE_LEASE };
        trial.in_flight = Some(probe);
        Some(probe)
    }

    /// The next probe has to wait for something else, too.
    pub fn delay_probe(&mut self, until: Instant) {
        if let State::HalfOpen(trial) = &mut self.state {
            trial.next = until.max(trial.next);
        }
    }

    /// A probe that is not in flight (any more) changes nothing.
    pub fn probed(&mut self, probe: u64, verdict: Verdict, not_before: Option<Instant>, now: Instant) {
        let State::HalfOpen(trial) = &mut self.state else { return };
        let Some(in_flight) = trial.in_flight.filter(|in_flight| in_flight.id == probe) else { return };
        trial.in_flight = None;
        // Whether somebody has looked since its lease was over must not decide what its late word counts.
        let verdict = if in_flight.until <= now { Verdict::Failure(Failed::Timeout) } else { verdict };
        match verdict {
            Verdict::Success => {
                trial.successes += 1;
                trial.neither = 0;
                if trial.successes >= PROBES_TO_CLOSE {
                    return self.close();
                }
            }
            Verdict::Failure(Failed::Shut(why, until)) => return self.open(why, until, not_before, now),
            Verdict::Failure(_) => {
                trial.failures += 1;
                trial.neither = 0;
                trial.next = now + PROBE_PAUSE;
                if trial.failures >= PROBES_TO_REOPEN {
                    return self.open(Why::Probes, Until::At(now), not_before, now);
                }
            }
            Verdict::Neither => {
                trial.next = now + PROBE_PAUSE.saturating_mul(1 << trial.neither.min(8));
                trial.neither += 1;
                if trial.neither >= NEITHER_MAX {
                    return self.open(Why::Probes, Until::At(now), not_before, now);
                }
            }
        }
        trial.next = not_before.map_or(trial.next, |named| named.max(trial.next));
    }

    fn close(&mut self) {
        self.state = State::Closed(Counts::default());
        self.generation += 1;
        self.ramp = Some(Ramp { in_flight_max: 1, successes: 0 });
    }

    /// A person says that it is well again: what it was is forgotten.
    pub fn reset(&mut self) {
        let (generation, probes) = (self.generation + 1, self.probes);
        *self = Breaker { generation, probes, ..Breaker::default() };
    }

    /// When OPEN or a probe's lease ends, or the next probe may leave.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Closed(_) | State::Open { until: Until::Reset, .. } => None,
            State::Open { until: Until::At(at), .. } => Some(*at),
            State::HalfOpen(trial) => Some(trial.in_flight.map_or(trial.next, |probe| probe.until)),
        }
    }

    pub fn handle_timeout(&mut self, not_before: Option<Instant>, now: Instant) {
        match &self.state {
            State::Open { until: Until::At(at), .. } if *at <= now => {
                // Later than OPEN itself where a supervisor before this one was told so in HALF_OPEN.
                let next = not_before.map_or(*at, |named| named.max(*at));
                let trial = Trial { successes: 0, failures: 0, neither: 0, in_flight: None, next };
                self.state = State::HalfOpen(trial);
                self.generation += 1;
            }
            State::HalfOpen(Trial { in_flight: Some(probe), .. }) if probe.until <= now => {
                self.probed(probe.id, Verdict::Failure(Failed::Timeout), not_before, now);
            }
            _ => {}
        }
    }

    /// What a later supervisor has to know; None where it is CLOSED and well.
    #[must_use]
    pub fn memory(&self, now: Instant) -> Option<Memory> {
        match &self.state {
            State::Closed(_) => None,
            State::Open { until, why } => Some(Memory { until: *until, why: *why, opened: self.opened }),
            // Its trial begins anew, when the probe in flight has ended or the next was due.
            State::HalfOpen(trial) => {
                let until = trial.in_flight.map_or(trial.next, |probe| probe.until).max(now);
                Some(Memory { until: Until::At(until), why: Why::Probes, opened: self.opened })
            }
        }
    }

    /// What speaks against it while it is CLOSED.
    #[must_use]
    pub fn tally(&self) -> Option<Tally> {
        let State::Closed(counts) = &self.state else { return None };
        let in_flight_max = self.in_flight_max();
        let limited = counts.limited.iter().copied().collect();
        let Counts { unavailable, timeouts, .. } = *counts;
        let tally = Tally { limited, unavailable, timeouts, in_flight_max, opened: self.opened };
        (tally != Tally::default()).then_some(tally)
    }

    pub fn recall_tally(&mut self, tally: Tally) {
        let Tally { limited, unavailable, timeouts, in_flight_max, opened } = tally;
        self.state = State::Closed(Counts { limited: limited.into(), unavailable, timeouts });
        self.ramp = in_flight_max.map(|in_flight_max| Ramp { in_flight_max: in_flight_max.max(1), successes: 0 });
        self.opened = opened;
    }

    pub fn recall(&mut self, memory: Memory) {
        let Memory { until, why, opened } = memory;
        self.state = State::Open { until, why };
        self.opened = opened.max(1);
        self.generation += 1;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;
