//! What waits to be told: one entry for each key up to a bound, and beyond it numbers.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use super::class::Class;
use super::counts;
use super::notice::Notices;
use crate::alert::{Key, Source, What};

/// A batch of a thousand jobs that all abort can be named; more than ten of them never are.
pub const WAITING_MAX: usize = 1_000;

/// When it goes. The earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// It is held until then, so that what belongs to it can join; then it is worth a message.
    At(Instant),
    /// The sink failed to take it: it asks for no message, and goes along with the next one.
    Along,
    /// A message that took it along failed too, perhaps for its sake: it goes when another one has arrived.
    Arrival,
}

impl Due {
    #[must_use]
    pub fn is_by(self, now: Instant) -> bool {
        matches!(self, Due::At(at) if at <= now)
    }

    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        match self {
            Due::At(at) => Some(at),
            Due::Along | Due::Arrival => None,
        }
    }

    /// Whether it goes with a message that another one asked for.
    #[must_use]
    pub fn may_go(self) -> bool {
        self != Due::Arrival
    }

    /// After the sink failed to take it.
    #[must_use]
    pub fn failed(self) -> Due {
        if matches!(self, Due::At(_)) { Due::Along } else { Due::Arrival }
    }

    /// After the sink took something.
    pub fn arrived(&mut self, now: Instant) {
        if self.instant().is_none() {
            *self = Due::At(now);
        }
    }
}

/// Alerts of one key.
#[derive(Debug)]
pub struct Waiting {
    /// The latest.
    pub what: What,
    pub times: u64,
    /// Of these the owner has been told that they were lost.
    pub lost: u64,
    /// The first.
    pub at: SystemTime,
    pub late: bool,
    pub sources: Vec<Source>,
    pub due: Due,
}

/// Alerts of one class that are only counted, but for one to show.
#[derive(Debug)]
pub struct Bundle {
    pub count: u64,
    /// Of these the owner has been told that they were lost.
    pub lost: u64,
    pub sample: What,
    /// Of these, the notices whose place an abort may yet take.
    pub notices: Notices,
    pub at: SystemTime,
    pub late: bool,
    pub sources: Vec<Source>,
    pub due: Due,
}

impl Waiting {
    /// The owner has not been told of so many that they were lost, and has to be if they are.
    #[must_use]
    pub fn unsaid(&self) -> u64 {
        if counts(&self.what) { self.times.saturating_sub(self.lost) } else { 0 }
    }

    /// The sink failed to take it.
    pub fn failed(&mut self) {
        (self.lost, self.late, self.due) = (self.times, true, self.due.failed());
    }
}

impl Bundle {
    /// The owner has not been told of so many that they were lost, and has to be if they are.
    #[must_use]
    pub fn unsaid(&self) -> u64 {
        if counts(&self.sample) { self.count.saturating_sub(self.lost) } else { 0 }
    }

    /// The sink failed to take them.
    pub fn failed(&mut self) {
        (self.lost, self.late, self.due) = (self.count, true, self.due.failed());
    }
}

pub type Bundles = BTreeMap<Class, Bundle>;

/// Puts it with its like.
pub fn bundle(bundles: &mut Bundles, waiting: Waiting) {
    let Waiting { what, times, lost, at, late, sources, due } = waiting;
    let (class, notices) = (Class::of(&what), Notices::of(&what, times));
    add(bundles, class, Bundle { count: times, lost, sample: what, notices, at, late, sources, due });
}

pub fn add(bundles: &mut Bundles, class: Class, new: Bundle) {
    match bundles.get_mut(&class) {
        Some(bundle) => {
            bundle.count = bundle.count.saturating_add(new.count);
            bundle.lost = bundle.lost.saturating_add(new.lost);
            bundle.notices.extend(new.notices);
            bundle.sources.extend(new.sources);
            bundle.due = bundle.due.min(new.due);
        }
        None => drop(bundles.insert(class, new)),
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    pub entries: BTreeMap<Key, Waiting>,
    /// That found no room.
    pub crowd: Bundles,
}

impl Queue {
    pub fn push(&mut self, new: Waiting) {
        let key = new.what.key();
        if let Some(waiting) = self.entries.get_mut(&key) {
            waiting.what = new.what;
            waiting.times = waiting.times.saturating_add(new.times);
            waiting.lost = waiting.lost.saturating_add(new.lost);
            waiting.sources.extend(new.sources);
            waiting.due = waiting.due.min(new.due);
            return;
        }
        if self.entries.len() < WAITING_MAX {
            self.entries.insert(key, new);
            return;
        }
        // What matters more takes the place of what matters least.
        let class = Class::of(&new.what);
        let least = self.entries.iter().max_by_key(|(_, waiting)| Class::of(&waiting.what));
        let least = least.filter(|(_, waiting)| Class::of(&waiting.what) > class).map(|(key, _)| key.clone());
        let counted = match least.and_then(|least| self.entries.remove(&least)) {
            Some(least) => {
                self.entries.insert(key, new);
                least
            }
            None => new,
        };
        bundle(&mut self.crowd, counted);
    }

    /// What the sink failed to take. A later one of its key may wait already.
    pub fn give_back(&mut self, earlier: Waiting) {
        let Some(waiting) = self.entries.get_mut(&earlier.what.key()) else { return self.push(earlier) };
        (waiting.at, waiting.late) = (earlier.at, earlier.late);
        waiting.times = waiting.times.saturating_add(earlier.times);
        waiting.lost = waiting.lost.saturating_add(earlier.lost);
        waiting.sources.extend(earlier.sources);
        waiting.due = waiting.due.min(earlier.due);
    }
}
