//! What is known of one provider account: who waits behind what it said, and how many are asking it now.
//!
//! The breaker of spec §5 will stand here: `shut` becomes its OPEN, `generation` is already its own. Until then an
//! account is shut by an answer that no waiting cures, and stays so until the supervisor is started again.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use super::backoff;

#[derive(Debug)]
pub struct Account {
    pub name: String,
    concurrency_max: usize,
    in_flight: usize,
    not_before: Option<NotBefore>,
    shut: Option<String>,
    generation: u64,
    /// 429s in a row that named no wait.
    nameless: u32,
}

#[derive(Clone, Copy, Debug)]
struct NotBefore {
    at: Instant,
    /// The wait as it was named: the spread is a part of it.
    wait: Duration,
}

/// Whether the account may be asked, and if not, what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Open,
    /// Not earlier than this.
    NotBefore(Instant),
    /// As many as may are asking.
    Full,
    /// Until the supervisor is started again, for this reason.
    Shut(String),
}

impl Account {
    #[must_use]
    pub fn new(name: String, concurrency_max: usize) -> Self {
        Account {
            name,
            concurrency_max: concurrency_max.max(1),
            in_flight: 0,
            not_before: None,
            shut: None,
            generation: 0,
            nameless: 0,
        }
    }

    /// Providers that share an account share the narrowest of their bounds.
    pub fn narrow(&mut self, concurrency_max: usize) {
        self.concurrency_max = self.concurrency_max.min(concurrency_max.max(1));
    }

    /// `roll`: the asker's place in the spread after a named wait.
    #[must_use]
    pub fn standing(&self, now: Instant, roll: f64) -> Standing {
        if let Some(why) = &self.shut {
            return Standing::Shut(why.clone());
        }
        if let Some(NotBefore { at, wait }) = self.not_before {
            let at = at + backoff::spread(wait, roll);
            if at > now {
                return Standing::NotBefore(at);
            }
        }
        if self.in_flight >= self.concurrency_max { Standing::Full } else { Standing::Open }
    }

    /// What was told an earlier supervisor: `left` of a `wait`.
    pub fn recall(&mut self, left: Duration, wait: Duration, now: Instant) {
        self.told_to_wait(left, now);
        if let Some(NotBefore { wait: named, .. }) = &mut self.not_before {
            *named = wait.max(*named);
        }
    }

    /// The wait under way: until when, and how long it was when it was named.
    #[must_use]
    pub fn named_wait(&self) -> Option<(Instant, Duration)> {
        self.not_before.map(|NotBefore { at, wait }| (at, wait))
    }

    /// The instant that the provider named, without the spread.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before.map(|not_before| not_before.at)
    }

    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn take_slot(&mut self) {
        self.in_flight += 1;
    }

    pub fn free_slot(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[must_use]
    pub fn concurrency_max(&self) -> usize {
        self.concurrency_max
    }

    /// The provider named a wait. It only ever moves later: a shorter word of another request does not unsay it.
    pub fn told_to_wait(&mut self, wait: Duration, now: Instant) {
        self.nameless = 0;
        match now.checked_add(wait) {
            None => self.shut("it asked to wait longer than a clock can say".to_owned()),
            Some(at) if self.not_before.is_none_or(|before| before.at < at) => {
                self.not_before = Some(NotBefore { at, wait });
            }
            Some(_) => {}
        }
    }

    /// A 429 that named no wait binds all askers too, for as long as a backoff says.
    pub fn throttled(&mut self, roll: f64, now: Instant) {
        let wait = backoff::full_jitter(self.nameless, roll);
        let nameless = self.nameless.saturating_add(1);
        self.told_to_wait(wait, now);
        self.nameless = nameless;
    }

    pub fn succeeded(&mut self) {
        self.nameless = 0;
    }

    pub fn shut(&mut self, why: String) {
        if self.shut.is_none() {
            self.shut = Some(why);
            self.generation += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_shorter_wait_does_not_unsay_a_longer_one() {
        let now = Instant::now();
        let mut account = Account::new("a".into(), 4);
        account.told_to_wait(SECOND * 30, now);
        account.told_to_wait(SECOND, now);
        account.succeeded();
        assert_eq!(account.standing(now + SECOND * 29, 0.0), Standing::NotBefore(now + SECOND * 30));
        assert_eq!(account.standing(now + SECOND * 30, 0.0), Standing::Open);
        assert_eq!(account.standing(now + SECOND * 32, 1.0), Standing::NotBefore(now + SECOND * 33));
    }

    #[test]
    fn a_wait_beyond_all_clocks_shuts() {
        let now = Instant::now();
        let mut account = Account::new("a".into(), 1);
        account.told_to_wait(Duration::MAX, now);
        assert!(matches!(account.standing(now, 0.0), Standing::Shut(_)));
        assert_eq!(account.generation(), 1);
    }

    #[test]
    fn nameless_throttling_waits_longer_each_time_in_a_row() {
        let now = Instant::now();
        let mut account = Account::new("a".into(), 1);
        for expected in [2, 4, 8] {
            account.throttled(1.0, now);
            assert_eq!(account.standing(now, 0.0), Standing::NotBefore(now + SECOND * expected));
        }
    }
}
