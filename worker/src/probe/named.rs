//! The latest "not before" in the head of any answer to a probe.
//!
//! An exchange tells of it only at its end, and a probe may have two of them or meet its deadline within one: what a
//! provider named binds all the same.

#![deny(clippy::disallowed_methods)]

use std::time::{Instant, SystemTime};

use http::HeaderMap;
use ukai_protocol::lease::Wait;

use crate::provider::retry_after;

#[derive(Default)]
pub(super) struct Named {
    /// And when its head was read.
    last: Option<(Wait, Instant)>,
}

impl Named {
    pub fn by(&mut self, headers: &HeaderMap, received_at: SystemTime, now: Instant) {
        let waits = self.left(now).into_iter().chain(retry_after::wait(headers, received_at));
        self.last = retry_after::latest(waits).map(|wait| (wait, now));
    }

    pub fn left(&self, now: Instant) -> Option<Wait> {
        let (wait, at) = self.last?;
        retry_after::left(wait, now.duration_since(at))
    }
}

#[cfg(test)]
// The instants are made up; one real one is needed to count from.
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn the_later_of_both_answers_holds() {
        let begun = Instant::now();
        for (quirk, first, second, expected) in [
            ("neither", None, None, None),
            ("the first, told at the deadline", Some("17"), None, Some(Wait::For(7_000))),
            ("the second", None, Some("17"), Some(Wait::For(12_000))),
            ("both, the first later", Some("30"), Some("17"), Some(Wait::For(20_000))),
            ("both, the second later", Some("20"), Some("17"), Some(Wait::For(12_000))),
            ("over", Some("1"), Some("5"), None),
            ("until reset", Some("1e30"), Some("5"), Some(Wait::UntilReset)),
        ] {
            let mut named = Named::default();
            for (at, value) in [(0, first), (5, second)] {
                let headers = value.map(|value| (RETRY_AFTER, HeaderValue::from_static(value))).into_iter().collect();
                named.by(&headers, SystemTime::UNIX_EPOCH, begun + Duration::from_secs(at));
            }
            assert_eq!(named.left(begun + Duration::from_secs(10)), expected, "{quirk}");
        }
    }
}
