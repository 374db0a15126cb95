//! How fast one message may follow another: slower and slower while alerts keep coming.
//!
//! Why not a token bucket: that lets a storm go on at its rate for ever. Somebody who has read three messages about it
//! knows; from then on one every ten minutes says all there is to say.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant, SystemTime};

use super::memory::{PaceMemory, age, ms};

/// From the first message to the second, from that to the third, and from there on.
const WAITS: [Duration; 3] = [Duration::from_secs(30), Duration::from_secs(2 * 60), Duration::from_secs(10 * 60)];
/// Without a message for as long, the next one is a first one again. Longer than the longest wait, or that would be none.
const QUIET: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Default)]
pub struct Pace {
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    /// Of [`WAITS`], the one that follows it.
    wait: usize,
    /// When it is over.
    next: Instant,
    quiet: Instant,
}

impl Pace {
    /// Not before this.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.last.as_ref().map(|last| last.next)
    }

    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }

    /// Whether the last message of a process may go a wait early. Not where the waits have grown to their longest: a shell
    /// loop around `ukai run` is a storm like any other.
    #[must_use]
    pub fn may_hurry(&self) -> bool {
        self.last.as_ref().is_none_or(|last| last.wait + 1 < WAITS.len())
    }

    pub fn sent(&mut self, now: Instant) {
        let wait = match &self.last {
            Some(last) if now < last.quiet => (last.wait + 1).min(WAITS.len() - 1),
            _ => 0,
        };
        self.last = Some(Last { wait, next: now + WAITS[wait], quiet: now + QUIET });
    }

    #[must_use]
    pub fn memory(&self, now: Instant, clock: SystemTime) -> PaceMemory {
        let Some(last) = self.last.as_ref().filter(|last| now < last.quiet) else { return PaceMemory::default() };
        let age = QUIET.saturating_sub(last.quiet - now);
        let last_ms = ms(clock).saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        PaceMemory { messages: last.wait as u64 + 1, last_ms }
    }

    #[must_use]
    pub fn recall(memory: &PaceMemory, now: Instant, clock: SystemTime) -> Self {
        let age = age(memory.last_ms, clock);
        if memory.messages == 0 || age >= QUIET {
            return Pace::default();
        }
        let wait = usize::try_from(memory.messages - 1).unwrap_or(usize::MAX).min(WAITS.len() - 1);
        let next = now + WAITS[wait].saturating_sub(age);
        Pace { last: Some(Last { wait, next, quiet: now + (QUIET - age) }) }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_begin_anew_after_quiet() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.is_over(start));
        let mut now = start;
        for (hurry, wait_s) in [(true, 30), (true, 120), (false, 600), (false, 600)] {
            pace.sent(now);
            assert_eq!(pace.next(), Some(now + Duration::from_secs(wait_s)));
            assert_eq!(pace.may_hurry(), hurry);
            now += Duration::from_secs(wait_s);
            assert!(pace.is_over(now) && !pace.is_over(now - Duration::from_millis(1)));
        }
        now += QUIET;
        pace.sent(now);
        assert_eq!(pace.next(), Some(now + WAITS[0]));
    }

    #[test]
    fn a_restart_is_no_way_around_it_whatever_the_clock_does() {
        let (now, clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.sent(now);
        }
        let memory = pace.memory(now + Duration::from_secs(60), clock);
        assert_eq!(memory, PaceMemory { messages: 3, last_ms: ms(clock) - 60_000 });
        let minute = Duration::from_secs(60);
        // The clock goes on, is set back by a year, is set forward by one.
        for (clock, next) in [(clock, minute * 9), (clock - minute * 525_600, minute * 10)] {
            let recalled = Pace::recall(&memory, now, clock);
            assert_eq!(recalled.next(), Some(now + next));
            assert!(!recalled.may_hurry());
        }
        assert!(Pace::recall(&memory, now, clock + minute * 525_600).is_over(now));
        let absurd = PaceMemory { messages: u64::MAX, last_ms: u64::MAX };
        assert_eq!(Pace::recall(&absurd, now, clock).next(), Some(now + WAITS[2]));
    }
}
