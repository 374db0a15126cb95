//! How long to wait when nobody has said how long.
//!
//! Full jitter: spreading over the whole range is what keeps many workers that failed together from coming back
//! together. The floor keeps a lucky draw from being a hot loop.

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

const FLOOR: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_secs(2);
const CEILING: Duration = Duration::from_secs(300);
/// A wait that was named is stretched by up to this part of it: twenty workers were told the same instant.
const SPREAD: f64 = 0.1;

/// max(1 s, uniform(0, min(300 s, 2 s × 2ⁿ))), `roll` being uniform in 0..1.
#[must_use]
pub fn full_jitter(n: u32, roll: f64) -> Duration {
    let range = STEP.saturating_mul(1 << n.min(16)).min(CEILING);
    range.mul_f64(roll.clamp(0.0, 1.0)).max(FLOOR)
}

/// What is added to a named wait: 0 to 10 % of it.
#[must_use]
pub fn spread(wait: Duration, roll: f64) -> Duration {
    wait.mul_f64(SPREAD * roll.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: u32, roll: f64, expected_ms: u64) {
        assert_eq!(full_jitter(n, roll), Duration::from_millis(expected_ms), "n {n}, roll {roll}");
    }

    #[test]
    fn the_range_doubles_from_two_seconds_to_five_minutes_and_never_falls_below_one() {
        check(0, 0.0, 1_000);
        check(0, 1.0, 2_000);
        check(1, 1.0, 4_000);
        check(3, 0.5, 8_000);
        check(8, 1.0, 300_000);
        check(u32::MAX, 1.0, 300_000);
        check(u32::MAX, 0.0, 1_000);
    }

    #[test]
    fn a_named_wait_is_never_shortened() {
        for roll in [0.0, 0.3, 1.0, 7.0, -1.0] {
            let added = spread(Duration::from_secs(10), roll);
            assert!(added <= Duration::from_secs(1), "{added:?}");
        }
    }
}
