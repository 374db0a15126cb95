//! Rate limits with the headers of the real ones: buckets of requests and of tokens that refill evenly over the minute.
//!
//! A request is counted when it arrives; its tokens when its answer is known, so that they are what the reply reports. A
//! large answer leaves the bucket in debt, and the next request waits for it.

#![deny(clippy::disallowed_methods)]

mod given;

use std::time::{Duration, Instant};

use super::conversation::Wire;
use super::refusal::{Quota, Refusal};

pub use given::Rate;

/// Of one kind of thing.
#[derive(Debug)]
struct Bucket {
    per_minute: u32,
    size: f64,
    /// Below zero: debt.
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_minute: u32, size: u32, now: Instant) -> Bucket {
        Bucket { per_minute, size: size.into(), left: size.into(), at: now }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * f64::from(self.per_minute) / 60.0).min(self.size);
    }

    /// A request larger than the bucket needs a full one. A hair below is enough: the sum of many refills is not exact.
    fn holds(&self, wanted: f64) -> bool {
        self.left > wanted.min(self.size) - 1e-6
    }

    fn until(&self, level: f64) -> Duration {
        let seconds = (level.min(self.size) - self.left).max(0.0) * 60.0 / f64::from(self.per_minute);
        Duration::from_secs_f64(seconds)
    }

    fn take(&mut self, count: f64) {
        self.left -= count;
        // What is not there for want of exactness is no debt.
        if self.left.abs() < 1e-6 {
            self.left = 0.0;
        }
    }
}

#[derive(Debug)]
pub struct Limits {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// Which limit stands in the way, and for how long.
#[derive(Debug, PartialEq)]
pub struct Exhausted {
    pub counts: Quota,
    pub limit: u32,
    pub wait: Duration,
}

impl Limits {
    pub fn new(rate: &Rate, now: Instant) -> Limits {
        let requests = rate.requests.map(|rate| Bucket::new(rate.per_minute.get(), rate.burst.get(), now));
        let tokens = rate.tokens_per_minute.map(|tokens| Bucket::new(tokens.get(), tokens.get(), now));
        Limits { requests, tokens }
    }

    /// `tokens`: what the input is estimated at. A refused request counts in neither bucket.
    pub fn admit(&mut self, tokens: u64, now: Instant) -> Result<(), Exhausted> {
        let wanted = [(&mut self.requests, Quota::Requests, 1.0), (&mut self.tokens, Quota::Tokens, tokens as f64)];
        let mut longest: Option<Exhausted> = None;
        for (bucket, counts, wanted) in wanted {
            let Some(bucket) = bucket else { continue };
            bucket.refill(now);
            let wait = bucket.until(wanted);
            if !bucket.holds(wanted) && longest.as_ref().is_none_or(|other| other.wait < wait) {
                longest = Some(Exhausted { counts, limit: bucket.per_minute, wait });
            }
        }
        if let Some(exhausted) = longest {
            return Err(exhausted);
        }
        if let Some(requests) = &mut self.requests {
            requests.take(1.0);
        }
        Ok(())
    }

    /// What the answer to an admitted request has cost.
    pub fn charge(&mut self, tokens: u64) {
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens as f64);
        }
    }

    /// As they stand now; Gemini has none.
    pub fn headers(&self, wire: Wire, unix_seconds: f64) -> Vec<(String, String)> {
        let kinds = [(&self.requests, "requests"), (&self.tokens, "tokens")];
        let mut headers = Vec::new();
        for (bucket, kind) in kinds {
            let Some(bucket) = bucket else { continue };
            let limit = bucket.per_minute.to_string();
            let left = (bucket.left.max(0.0) as u64).to_string();
            let full = bucket.until(bucket.size);
            match wire {
                Wire::Openai => headers.extend([
                    (format!("x-ratelimit-limit-{kind}"), limit),
                    (format!("x-ratelimit-remaining-{kind}"), left),
                    (format!("x-ratelimit-reset-{kind}"), spelled(full)),
                ]),
                Wire::Anthropic => {
                    let at = ((unix_seconds + full.as_secs_f64()) * 1000.0) as i64;
                    let reset = jiff::Timestamp::from_millisecond(at).map(|at| format!("{at:.0}")).unwrap_or_default();
                    headers.extend([
                        (format!("anthropic-ratelimit-{kind}-limit"), limit),
                        (format!("anthropic-ratelimit-{kind}-remaining"), left),
                        (format!("anthropic-ratelimit-{kind}-reset"), reset),
                    ]);
                }
                Wire::Gemini => {}
            }
        }
        headers
    }
}

impl Exhausted {
    /// Whole seconds, as every wire names them.
    fn seconds(&self) -> u64 {
        (self.wait.as_secs_f64().ceil() as u64).max(1)
    }

    pub fn refusal(&self, wire: Wire, model: &str) -> Refusal {
        match (wire, self.counts) {
            (Wire::Gemini, counts) => Refusal::minute(counts, self.limit, model, self.seconds()),
            (Wire::Openai, Quota::Tokens) => Refusal { kind: "tokens".to_owned(), ..Refusal::of_status(wire, 429) },
            _ => Refusal::of_status(wire, 429),
        }
    }

    /// Gemini says it in the body.
    pub fn header(&self, wire: Wire) -> Option<(String, String)> {
        (wire != Wire::Gemini).then(|| ("retry-after".to_owned(), self.seconds().to_string()))
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

    fn limits(rate: &str, now: Instant) -> Limits {
        Limits::new(&toml::from_str(rate).expect(rate), now)
    }

    /// Each request: when in milliseconds, its estimate, what it costs, and whether it is admitted.
    fn check(rate: &str, requests: &[(u64, u64, u64, bool)]) {
        let start = Instant::now();
        let mut limits = limits(rate, start);
        for (ms, estimate, cost, admitted) in requests {
            let found = limits.admit(*estimate, start + Duration::from_millis(*ms));
            assert_eq!(found.is_ok(), *admitted, "{rate} at {ms}: {found:?}");
            if found.is_ok() {
                limits.charge(*cost);
            }
        }
    }

    #[test]
    fn a_bucket_empties_and_refills_evenly() {
        let at = |ms, admitted| (ms, 1, 1, admitted);
        check(
            "requests_per_minute = 2",
            &[at(0, true), at(0, true), at(0, false), at(29_000, false), at(30_000, true), at(30_000, false)],
        );
        check(
            "requests_per_minute = 60\nburst = 2",
            &[
                at(0, true),
                at(0, true),
                at(0, false),
                at(999, false),
                at(1_000, true),
                at(60_000, true),
                at(60_000, true),
            ],
        );
        check("requests_per_minute = 60\nburst = 1", &[at(0, true), at(0, false), at(60_000, true), at(60_000, false)]);
    }

    #[test]
    fn tokens_are_charged_as_reported_and_debt_is_waited_for() {
        check(
            "tokens_per_minute = 600",
            &[(0, 100, 100, true), (0, 100, 1_100, true), (59_999, 1, 1, false), (60_200, 1, 1, true)],
        );
        // Above the size of the bucket: a full one is enough, and it leaves debt.
        check("tokens_per_minute = 600", &[(0, 9_000, 9_000, true), (0, 1, 1, false)]);
        check("tokens_per_minute = 600", &[(0, 1, 1, true), (0, 9_000, 1, false), (100, 9_000, 1, true)]);
        check("requests_per_minute = 1\ntokens_per_minute = 600", &[(0, 1, 1, true), (0, 1, 1, false)]);
    }

    #[test]
    fn each_wire_says_it_in_its_own_way() {
        let now = Instant::now();
        let mut limits = limits("requests_per_minute = 1\ntokens_per_minute = 600", now);
        limits.admit(10, now).expect("the bucket is full");
        limits.charge(300);
        let exhausted = limits.admit(10, now).expect_err("it is empty");
        let of = |wire| limits.headers(wire, 0.0).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(of(Wire::Openai), ["1", "0", "1m0s", "600", "300", "30s"]);
        assert_eq!(of(Wire::Anthropic), ["1", "0", "1970-01-01T00:01:00Z", "600", "300", "1970-01-01T00:00:30Z"]);
        assert_eq!(of(Wire::Gemini), Vec::<String>::new());
        assert_eq!(exhausted.header(Wire::Openai), Some(("retry-after".to_owned(), "60".to_owned())));
        assert_eq!(exhausted.header(Wire::Gemini), None);
        let body = exhausted.refusal(Wire::Gemini, "m").body(Wire::Gemini, "").to_string();
        assert!(body.contains("GenerateRequestsPerMinute") && body.contains(r#""retryDelay":"60s""#), "{body}");
        for (millis, text) in [(8, "8ms"), (1_500, "1.5s"), (360_000, "6m0s")] {
            assert_eq!(spelled(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn the_limit_that_lasts_longest_is_the_one_told() {
        let now = Instant::now();
        let mut limits = limits("requests_per_minute = 1\ntokens_per_minute = 600", now);
        limits.admit(10, now).expect("the bucket is full");
        limits.charge(1_800);
        let exhausted = limits.admit(600, now).expect_err("it is empty");
        assert_eq!((exhausted.counts, exhausted.seconds()), (Quota::Tokens, 180));
    }
}
