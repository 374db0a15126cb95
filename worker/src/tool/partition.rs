//! Which calls of one reply run together: neighbours that are safe beside others, up to a bound. All else runs alone.
//!
//! Order is never changed. A safe call behind an unsafe one waits for it, since it may want to see what that did.

#![deny(clippy::disallowed_methods)]

use std::ops::Range;

/// Calls that run at once: enough to hide the disk's latency, few enough for two cores and one worker's memory.
pub const BATCH_CALLS_MAX: usize = 8;

/// Splits the calls of a reply, each given as whether it is concurrency-safe, into batches in order.
#[must_use]
pub fn partition(safe: &[bool]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    for (at, is_safe) in safe.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if *is_safe && safe[batch.start] && batch.len() < BATCH_CALLS_MAX => batch.end = at + 1,
            _ => batches.push(at..at + 1),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_run_together_and_the_rest_alone() {
        for (safe, batches) in [
            ("", &[][..]),
            ("s", &[Range { start: 0, end: 1 }]),
            ("ss", &[Range { start: 0, end: 2 }]),
            ("sus", &[0..1, 1..2, 2..3]),
            ("uu", &[0..1, 1..2]),
            ("ssuss", &[0..2, 2..3, 3..5]),
            ("sssssssss", &[0..8, 8..9]),
        ] {
            let flags: Vec<bool> = safe.chars().map(|c| c == 's').collect();
            assert_eq!(partition(&flags), *batches, "{safe}");
        }
    }

    proptest! {
        #[test]
        fn every_call_is_in_one_batch_in_order(safe in proptest::collection::vec(any::<bool>(), 0..60)) {
            let batches = partition(&safe);
            let flat: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..safe.len()).collect::<Vec<_>>());
            for batch in &batches {
                prop_assert!(batch.len() <= BATCH_CALLS_MAX);
                prop_assert!(batch.len() == 1 || safe[batch.clone()].iter().all(|safe| *safe));
            }
            for pair in batches.windows(2) {
                let joinable = safe[pair[0].start] && safe[pair[1].start] && pair[0].len() < BATCH_CALLS_MAX;
                prop_assert!(!joinable);
            }
        }
    }
}
