//! Whether a worker is hung: nothing heard of it for too long, counted only while we were there to hear.
//!
//! A machine that sleeps or a supervisor that is late hears nothing either, and so does one whose disk keeps a worker
//! waiting for its acknowledgement. A late supervisor blames no worker: the count then begins anew.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Silence {
    heard: Instant,
    hang: Duration,
    /// Between two looks; one that comes later than this after its time was late.
    heartbeat: Duration,
}

impl Silence {
    #[must_use]
    pub fn new(now: Instant, heartbeat: Duration, hang: Duration) -> Self {
        Silence { heard: now, hang, heartbeat }
    }

    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether it is hung. `ours`: something of the worker's waits for us.
    pub fn tick(&mut self, planned: Instant, now: Instant, ours: bool) -> bool {
        if ours || now.saturating_duration_since(planned) > self.heartbeat {
            self.heard = now;
        }
        now.saturating_duration_since(self.heard) > self.hang
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    /// Ticks as (planned, came, ours), in seconds; heard at 0, heartbeat 1 s, hang 10 s.
    fn check(ticks: &[(u64, u64, bool)], hung: bool) {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut silence = Silence::new(start, Duration::from_secs(1), Duration::from_secs(10));
        let seen = ticks.iter().map(|(planned, came, ours)| silence.tick(at(*planned), at(*came), *ours)).last();
        assert_eq!(seen, Some(hung), "{ticks:?}");
    }

    #[test]
    fn silence_above_the_bound_is_a_hang() {
        check(&[(10, 10, false)], false);
        check(&[(11, 11, false)], true);
    }

    #[test]
    fn a_late_supervisor_blames_no_worker() {
        check(&[(11, 13, false)], false);
        check(&[(11, 13, false), (14, 14, false)], false);
        check(&[(11, 13, false), (24, 24, false)], true);
    }

    #[test]
    fn a_worker_that_waits_for_our_disk_is_not_silent() {
        check(&[(11, 11, true)], false);
        check(&[(11, 11, true), (21, 21, false)], false);
    }
}
