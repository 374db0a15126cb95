//! What waits to be told: one entry for each key up to a bound, and beyond it numbers.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use super::class::Class;
use crate::alert::{Key, Source, What};

/// A batch of a thousand jobs that all abort can be named; more than ten of them never are.
pub const WAITING_MAX: usize = 1_000;

/// Alerts of one key.
#[derive(Debug)]
pub struct Waiting {
    /// The latest.
    pub what: What,
    pub times: u64,
    /// The first.
    pub at: SystemTime,
    pub late: bool,
    pub sources: Vec<Source>,
    /// It is held until then, so that what belongs to it can join.
    pub due: Instant,
}

/// Alerts of one class that are only counted, but for one to show.
#[derive(Debug)]
pub struct Bundle {
    pub count: u64,
    pub sample: What,
    pub at: SystemTime,
    pub late: bool,
    pub sources: Vec<Source>,
    pub due: Instant,
}

pub type Bundles = BTreeMap<Class, Bundle>;

/// Puts it with its like.
pub fn bundle(bundles: &mut Bundles, waiting: Waiting) {
    let Waiting { what, times, at, late, sources, due } = waiting;
    add(bundles, Class::of(&what), Bundle { count: times, sample: what, at, late, sources, due });
}

pub fn add(bundles: &mut Bundles, class: Class, new: Bundle) {
    match bundles.get_mut(&class) {
        Some(bundle) => {
            bundle.count = bundle.count.saturating_add(new.count);
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
}
