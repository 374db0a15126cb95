//! A token bucket with debt: `now` in, an instant out (spec §5).
//!
//! What is taken may be more than is there: a request above the capacity waits for a full bucket, goes, and leaves debt,
//! rather than never. What a request reserves is an estimate, so a part of it comes back, or more is taken, when the
//! provider has said what it was.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// Sums of many refills are not exact; so much less than enough is enough.
const SLACK: f64 = 1e-6;
/// A debt beyond this is no number that a provider meant: as far as any instant is told.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Clone, Debug)]
pub struct Bucket {
    capacity: f64,
    per_second: f64,
    /// As of `at`; below zero is debt.
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Full. Refills `per_minute` evenly, up to `capacity`.
    #[must_use]
    pub fn new(per_minute: f64, capacity: f64, now: Instant) -> Self {
        Bucket { capacity, per_second: per_minute / 60.0, level: capacity, at: now }
    }

    /// What is in it now; below zero is debt.
    #[must_use]
    pub fn level(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level + passed * self.per_second).min(self.capacity)
    }

    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    #[must_use]
    pub fn per_minute(&self) -> f64 {
        self.per_second * 60.0
    }

    /// How full, from 0 to 1.
    #[must_use]
    pub fn fraction(&self, now: Instant) -> f64 {
        (self.level(now) / self.capacity).max(0.0)
    }

    /// From when on `amount` may be taken. One above the capacity waits for a full bucket.
    #[must_use]
    pub fn ready_at(&self, amount: f64, now: Instant) -> Instant {
        self.reaches(amount.min(self.capacity), now)
    }

    /// When the level will be this part of the capacity.
    #[must_use]
    pub fn fills_to(&self, fraction: f64, now: Instant) -> Instant {
        self.reaches(self.capacity * fraction, now)
    }

    fn reaches(&self, level: f64, now: Instant) -> Instant {
        let missing = level - self.level(now);
        if missing <= SLACK {
            return now;
        }
        // Rounded up to the nanosecond: who comes at that instant is not early.
        let wait = Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(WAIT_MAX).min(WAIT_MAX);
        now + wait + Duration::from_nanos(1)
    }

    /// A person forgives the debt.
    pub fn forgive(&mut self, now: Instant) {
        self.set(self.level(now).max(0.0), now);
    }

    pub fn take(&mut self, amount: f64, now: Instant) {
        self.set(self.level(now) - amount, now);
    }

    pub fn give_back(&mut self, amount: f64, now: Instant) {
        self.set(self.level(now) + amount, now);
    }

    /// The provider says that so much is left. It may only lower what we believe.
    pub fn lower_to(&mut self, left: f64, now: Instant) {
        if left < self.level(now) {
            self.set(left, now);
        }
    }

    fn set(&mut self, level: f64, now: Instant) {
        self.level = level.min(self.capacity);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_starts_full_and_refills_evenly_up_to_its_capacity() {
        let now = Instant::now();
        let mut bucket = Bucket::new(60.0, 5.0, now);
        for _ in 0..5 {
            assert_eq!(bucket.ready_at(1.0, now), now);
            bucket.take(1.0, now);
        }
        let next = bucket.ready_at(1.0, now);
        assert!(next > now + SECOND && next < now + SECOND + Duration::from_millis(1), "{:?}", next - now);
        assert_eq!(bucket.level(now + SECOND * 3_600), 5.0);
    }

    #[test]
    fn above_the_capacity_waits_for_a_full_bucket_goes_and_leaves_debt() {
        let now = Instant::now();
        let mut bucket = Bucket::new(600.0, 600.0, now);
        assert_eq!(bucket.ready_at(1_000.0, now), now);
        bucket.take(1_000.0, now);
        assert_eq!(bucket.level(now), -400.0);
        assert_eq!(bucket.fraction(now), 0.0);
        assert!(bucket.ready_at(1_000.0, now) > now + SECOND * 99, "another one waits until it is full again");
        // It took less than it had reserved.
        bucket.give_back(900.0, now);
        assert_eq!(bucket.level(now), 500.0);
    }

    #[test]
    fn a_provider_may_only_lower_what_we_believe() {
        let now = Instant::now();
        let mut bucket = Bucket::new(60.0, 10.0, now);
        bucket.lower_to(50.0, now);
        assert_eq!(bucket.level(now), 10.0);
        bucket.lower_to(2.0, now);
        bucket.lower_to(7.0, now);
        assert_eq!(bucket.level(now), 2.0);
    }

    #[test]
    fn a_clock_that_stands_or_is_behind_refills_nothing() {
        let now = Instant::now() + SECOND * 10;
        let mut bucket = Bucket::new(60.0, 2.0, now);
        bucket.take(2.0, now);
        assert_eq!(bucket.level(now - SECOND * 5), 0.0);
        bucket.take(1.0, now - SECOND * 5);
        assert_eq!(bucket.level(now + SECOND), 0.0);
    }

    proptest! {
        #[test]
        fn granted_is_never_more_than_rate_times_time_plus_burst(
            per_minute in 1u32..1_000, capacity in 1u32..50,
            steps in prop::collection::vec((0u64..5_000, 1u32..5, 0u32..60), 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let (per_minute, capacity) = (f64::from(per_minute), f64::from(capacity));
            let mut bucket = Bucket::new(per_minute, capacity, now);
            let mut granted = 0.0;
            for (ms, amount, left) in steps {
                let amount = f64::from(amount).min(capacity);
                now += Duration::from_millis(ms);
                if bucket.ready_at(amount, now) <= now {
                    bucket.take(amount, now);
                    granted += amount;
                }
                bucket.lower_to(f64::from(left), now);
                let allowed = per_minute / 60.0 * (now - start).as_secs_f64() + capacity;
                prop_assert!(granted <= allowed + 1e-3, "{granted} of {allowed}");
                prop_assert!(bucket.level(now) <= capacity);
                // Whoever waits as long as it was told is served.
                let at = bucket.ready_at(amount, now);
                prop_assert!(bucket.ready_at(amount, at) <= at);
            }
        }
    }
}
