//! What was told lately, by key: nobody wants to read of one thing more than twice an hour, whatever it does meanwhile.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::memory::{ToldKey, age, ms};
use crate::alert::Key;

/// So often …
const TOLD_MAX: usize = 2;
/// … in any time of this length.
const WINDOW: Duration = Duration::from_secs(60 * 60);
/// Pace lets about nine messages out in an hour, of ten entries each.
pub const KEYS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Told {
    /// When each telling is an hour ago; the oldest first.
    keys: BTreeMap<Key, Vec<Instant>>,
}

impl Told {
    /// It may not be told before this; None: at any time.
    #[must_use]
    pub fn free_at(&self, key: &Key) -> Option<Instant> {
        let ends = self.keys.get(key)?;
        ends.len().checked_sub(TOLD_MAX).map(|at| ends[at])
    }

    #[must_use]
    pub fn is_free(&self, key: &Key, now: Instant) -> bool {
        self.free_at(key).is_none_or(|at| at <= now)
    }

    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    pub fn note(&mut self, key: Key, now: Instant) {
        self.prune(now);
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            let first = self.keys.iter().min_by_key(|(_, ends)| ends.last().copied()).map(|(key, _)| key.clone());
            first.and_then(|first| self.keys.remove(&first));
        }
        let ends = self.keys.entry(key).or_default();
        ends.push(now + WINDOW);
        // Older ones are over by then, or it would not have been free.
        let over = ends.len().saturating_sub(TOLD_MAX);
        ends.drain(..over);
    }

    pub fn prune(&mut self, now: Instant) {
        self.keys.retain(|_, ends| {
            ends.retain(|end| *end > now);
            !ends.is_empty()
        });
    }

    #[must_use]
    pub fn memory(&self, now: Instant, clock: SystemTime) -> Vec<ToldKey> {
        let at_ms = |end: &Instant| {
            let age = WINDOW.saturating_sub(end.saturating_duration_since(now));
            ms(clock).saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        };
        let lately = self.keys.iter().map(|(key, ends)| {
            let at_ms = ends.iter().filter(|end| **end > now).map(at_ms).collect();
            ToldKey { key: key.clone(), at_ms }
        });
        lately.filter(|told| !told.at_ms.is_empty()).collect()
    }

    #[must_use]
    pub fn recall(memory: Vec<ToldKey>, now: Instant, clock: SystemTime) -> Self {
        let mut told = Told::default();
        for ToldKey { key, at_ms } in memory.into_iter().take(KEYS_MAX) {
            let ages = at_ms.iter().map(|at_ms| age(*at_ms, clock));
            let mut ends: Vec<_> = ages.filter(|age| *age < WINDOW).map(|age| now + (WINDOW - age)).collect();
            ends.sort_unstable();
            let over = ends.len().saturating_sub(TOLD_MAX);
            ends.drain(..over);
            if !ends.is_empty() {
                told.keys.insert(key, ends);
            }
        }
        told
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::alert::Kind;

    fn key(number: usize) -> Key {
        Key { kind: Kind::JobAborted, subject: number.to_string() }
    }

    #[test]
    fn twice_an_hour_and_not_once_more() {
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let mut told = Told::default();
        assert!(told.is_free(&key(1), start));
        told.note(key(1), start);
        assert_eq!(told.free_at(&key(1)), None);
        told.note(key(1), start + minute);
        assert_eq!(told.free_at(&key(1)), Some(start + WINDOW));
        assert!(told.is_free(&key(2), start + minute));
        told.note(key(1), start + WINDOW);
        assert_eq!(told.free_at(&key(1)), Some(start + minute + WINDOW));
    }

    #[test]
    fn it_is_known_after_a_restart_and_a_clock_that_was_set_silences_for_an_hour_at_most() {
        let (now, clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let minute = Duration::from_secs(60);
        let mut told = Told::default();
        told.note(key(1), now);
        told.note(key(1), now + minute);
        let memory = told.memory(now + 2 * minute, clock);
        assert_eq!(memory, [ToldKey { key: key(1), at_ms: vec![ms(clock) - 120_000, ms(clock) - 60_000] }]);
        let recall = |clock| Told::recall(memory.clone(), now, clock).free_at(&key(1));
        assert_eq!(recall(clock), Some(now + 58 * minute));
        assert_eq!(recall(clock - 1_000 * minute), Some(now + 60 * minute));
        assert_eq!(recall(clock + 1_000 * minute), None);
    }

    #[test]
    fn it_remembers_a_bounded_number() {
        let now = Instant::now();
        let mut told = Told::default();
        for number in 0..KEYS_MAX + 10 {
            told.note(key(number), now + Duration::from_millis(number as u64));
        }
        assert_eq!(told.keys.len(), KEYS_MAX);
        assert!(told.contains(&key(KEYS_MAX + 9)) && !told.contains(&key(0)));
    }
}
