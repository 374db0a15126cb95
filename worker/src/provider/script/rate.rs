//! A rate limit with the headers of the real ones: a bucket of requests that refills evenly over the minute.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use super::conversation::Wire;

#[derive(Debug)]
pub struct Bucket {
    per_minute: f64,
    left: f64,
    at: Instant,
}

#[derive(Debug, PartialEq)]
pub struct Admission {
    pub admitted: bool,
    pub left: u32,
    /// Until the next request is admitted; zero where one is left.
    pub next: Duration,
    /// Until the bucket is full.
    pub full: Duration,
}

impl Bucket {
    pub fn new(per_minute: u32, now: Instant) -> Bucket {
        Bucket { per_minute: per_minute.into(), left: per_minute.into(), at: now }
    }

    pub fn admit(&mut self, now: Instant) -> Admission {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * self.per_minute / 60.0).min(self.per_minute);
        // A hair below one is one: the sum of many refills is not exact.
        let admitted = self.left > 1.0 - 1e-6;
        if admitted {
            self.left = (self.left - 1.0).max(0.0);
        }
        let until = |level: f64| Duration::from_secs_f64(((level - self.left) * 60.0 / self.per_minute).max(0.0));
        Admission { admitted, left: self.left as u32, next: until(1.0), full: until(self.per_minute) }
    }

    pub fn headers(&self, wire: Wire, admission: &Admission, unix_seconds: f64) -> Vec<(String, String)> {
        let limit = self.per_minute.to_string();
        let left = admission.left.to_string();
        let mut headers = match wire {
            Wire::Openai => vec![
                ("x-ratelimit-limit-requests", limit),
                ("x-ratelimit-remaining-requests", left),
                ("x-ratelimit-reset-requests", spelled(admission.full)),
            ],
            Wire::Anthropic => {
                let at = ((unix_seconds + admission.full.as_secs_f64()) * 1000.0) as i64;
                let reset = jiff::Timestamp::from_millisecond(at).map(|at| format!("{at:.0}")).unwrap_or_default();
                vec![
                    ("anthropic-ratelimit-requests-limit", limit),
                    ("anthropic-ratelimit-requests-remaining", left),
                    ("anthropic-ratelimit-requests-reset", reset),
                ]
            }
        };
        if !admission.admitted {
            headers.push(("retry-after", (admission.next.as_secs_f64().ceil() as u64).max(1).to_string()));
        }
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// As OpenAI spells a reset: `8ms`, `1.5s`, `6m0s`.
fn spelled(left: Duration) -> String {
    match left.as_millis() {
        millis @ 0..1_000 => format!("{millis}ms"),
        millis @ 1_000..60_000 => format!("{}s", millis as f64 / 1_000.0),
        millis => format!("{}m{}s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant has no other beginning")]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_empties_and_refills_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket::new(2, start);
        for (ms, admitted) in
            [(0, true), (0, true), (0, false), (29_000, false), (30_000, true), (30_000, false), (61_000, true)]
        {
            assert_eq!(bucket.admit(start + Duration::from_millis(ms)).admitted, admitted, "{ms}");
        }
    }

    #[test]
    fn each_wire_has_its_own_headers() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1, now);
        bucket.admit(now);
        let refused = bucket.admit(now);
        let of = |wire| bucket.headers(wire, &refused, 0.0).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(of(Wire::Openai), ["1", "0", "1m0s", "60"]);
        assert_eq!(of(Wire::Anthropic), ["1", "0", "1970-01-01T00:01:00Z", "60"]);
        for (millis, text) in [(8, "8ms"), (1_500, "1.5s"), (360_000, "6m0s")] {
            assert_eq!(spelled(Duration::from_millis(millis)), text);
        }
    }
}
