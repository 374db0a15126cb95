//! Requests within time: in every window, however long, at most what flows in meanwhile and one burst.

use std::time::Instant;

#[derive(Clone, Debug)]
pub struct Rate {
    per_second: f64,
    burst: f64,
    since: Instant,
    requests: f64,
    /// The least of (requests before − what had flowed in by then), over all requests: the window that is fullest begins
    /// there.
    least: f64,
}

/// Sums of many parts are not exact.
const SLACK: f64 = 1e-3;

impl Rate {
    pub fn new(per_minute: u32, burst: u32, now: Instant) -> Self {
        let (per_second, burst) = (f64::from(per_minute) / 60.0, f64::from(burst));
        Rate { per_second, burst, since: now, requests: 0.0, least: f64::INFINITY }
    }

    /// A request; a probe is one too, but waits for nobody.
    pub fn leaves(&mut self, is_probe: bool, now: Instant) {
        if self.per_second == 0.0 {
            return;
        }
        let flowed = self.per_second * (now - self.since).as_secs_f64();
        self.least = self.least.min(self.requests - flowed);
        self.requests += 1.0;
        let in_window = self.requests - flowed - self.least;
        assert!(is_probe || in_window <= self.burst + SLACK, "too many requests in a time: {in_window}");
    }

    /// What was known of it was lost.
    pub fn begin_anew(&mut self) {
        self.least = f64::INFINITY;
    }
}
