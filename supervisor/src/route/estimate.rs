//! How many tokens a text will turn out to be, learnt from what providers report.
//!
//! A worker estimates at a fixed number of bytes per token; models differ by a factor of three and languages by more.
//! Only reservations use what is learnt here: whether a window fits is judged by the fixed estimate, so that a job's fate
//! does not hang on which jobs ran before it.

#![deny(clippy::disallowed_methods)]

/// The weight of one report: a handful of them make an opinion, one of them none.
const WEIGHT: f64 = 0.2;
/// Reported over estimated; beyond these a report is odd rather than telling.
const RATIO_MIN: f64 = 0.25;
const RATIO_MAX: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Reported tokens for each that was estimated.
    ratio: f64,
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate { ratio: 1.0 }
    }
}

impl Estimate {
    #[must_use]
    pub fn tokens(&self, estimated: u64) -> f64 {
        estimated as f64 * self.ratio
    }

    pub fn learn(&mut self, estimated: u64, reported: u64) {
        if estimated == 0 || reported == 0 {
            return;
        }
        let ratio = (reported as f64 / estimated as f64).clamp(RATIO_MIN, RATIO_MAX);
        self.ratio += (ratio - self.ratio) * WEIGHT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_to_what_is_reported_and_one_odd_report_does_not_move_it_far() {
        let mut estimate = Estimate::default();
        for _ in 0..40 {
            estimate.learn(1_000, 1_500);
        }
        assert!((estimate.tokens(1_000) - 1_500.0).abs() < 1.0, "{estimate:?}");
        estimate.learn(1_000, u64::MAX);
        assert!(estimate.tokens(1_000) < 2_100.0, "{estimate:?}");
        estimate.learn(0, 7);
        estimate.learn(7, 0);
        assert!(estimate.tokens(1_000) > 1_500.0);
    }
}
