//! Who starts next, and how many may run.
//!
//! Interrupted jobs go before new ones: they hold work half done, and what they wait for (a slot) was theirs. Then
//! priority 9 before 0, then who came first. A slot is held by name, so that giving one back twice changes nothing.

#![deny(clippy::disallowed_methods)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ukai_protocol::id::JobId;

/// Sorts as the queue runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: Rank,
    priority: Reverse<u8>,
    /// FIFO among equals.
    arrival: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// It ran before.
    Interrupted,
    New,
}

#[derive(Debug)]
pub struct Queue {
    slots_max: usize,
    arrivals: u64,
    waiting: BTreeMap<Place, JobId>,
    places: HashMap<JobId, Place>,
    running: BTreeSet<JobId>,
}

impl Queue {
    #[must_use]
    pub fn new(slots_max: usize) -> Self {
        Queue { slots_max, arrivals: 0, waiting: BTreeMap::new(), places: HashMap::new(), running: BTreeSet::new() }
    }

    /// A job that waits already keeps its place.
    pub fn push(&mut self, job: JobId, rank: Rank, priority: u8) {
        if self.places.contains_key(&job) {
            return;
        }
        let place = Place { rank, priority: Reverse(priority), arrival: self.arrivals };
        self.arrivals += 1;
        self.places.insert(job.clone(), place);
        self.waiting.insert(place, job);
    }

    pub fn remove(&mut self, job: &JobId) -> bool {
        match self.places.remove(job) {
            Some(place) => self.waiting.remove(&place).is_some(),
            None => false,
        }
    }

    /// The first that `may_start`, if a slot is free; it holds the slot from now on.
    pub fn take(&mut self, may_start: impl Fn(&JobId) -> bool) -> Option<JobId> {
        if self.running.len() >= self.slots_max {
            return None;
        }
        let job = self.waiting.values().find(|job| may_start(job))?.clone();
        self.remove(&job);
        self.running.insert(job.clone());
        Some(job)
    }

    /// For a process found running: it has a slot, whatever the number.
    pub fn hold(&mut self, job: JobId) {
        self.running.insert(job);
    }

    pub fn release(&mut self, job: &JobId) {
        self.running.remove(job);
    }

    /// How many start before it.
    #[must_use]
    pub fn position(&self, job: &JobId) -> Option<usize> {
        let place = self.places.get(job)?;
        Some(self.waiting.range(..place).count())
    }

    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// In the order of their start.
    pub fn iter(&self) -> impl Iterator<Item = &JobId> {
        self.waiting.values()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u8) -> JobId {
        JobId::from_random([0, 0, 0, 0, number])
    }

    fn check(slots: usize, pushed: &[(u8, Rank, u8)], expected: &[u8]) {
        let mut queue = Queue::new(slots);
        for (job, rank, priority) in pushed {
            queue.push(id(*job), *rank, *priority);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(|_| true)).collect();
        assert_eq!(taken, expected.iter().map(|job| id(*job)).collect::<Vec<_>>(), "{pushed:?}");
    }

    #[test]
    fn nine_goes_first_and_equals_in_the_order_of_arrival() {
        use Rank::New;
        check(9, &[(1, New, 5), (2, New, 9), (3, New, 5), (4, New, 0)], &[2, 1, 3, 4]);
    }

    #[test]
    fn what_was_interrupted_goes_before_what_is_new() {
        check(9, &[(1, Rank::New, 9), (2, Rank::Interrupted, 0)], &[2, 1]);
    }

    #[test]
    fn no_more_than_the_slots() {
        check(2, &[(1, Rank::New, 5), (2, Rank::New, 5), (3, Rank::New, 5)], &[1, 2]);
    }

    #[test]
    fn one_that_may_not_start_holds_up_nobody() {
        let mut queue = Queue::new(1);
        queue.push(id(1), Rank::New, 9);
        queue.push(id(2), Rank::New, 1);
        assert_eq!(queue.take(|job| *job != id(1)), Some(id(2)));
        assert_eq!(queue.position(&id(1)), Some(0));
    }

    #[test]
    fn a_slot_given_back_twice_is_one_slot() {
        let mut queue = Queue::new(1);
        for job in 1..=3 {
            queue.push(id(job), Rank::New, 5);
        }
        queue.take(|_| true);
        queue.release(&id(1));
        queue.release(&id(1));
        assert_eq!(queue.take(|_| true), Some(id(2)));
        assert_eq!(queue.take(|_| true), None);
    }

    proptest! {
        #[test]
        fn nobody_is_lost_or_doubled_and_slots_are_never_exceeded(
            steps in prop::collection::vec((0u8..4, 0u8..12, 0u8..10), 0..200),
        ) {
            let mut queue = Queue::new(3);
            let (mut waiting, mut running) = (BTreeSet::new(), BTreeSet::new());
            for (what, job, priority) in steps {
                let job = id(job);
                match what {
                    0 if !running.contains(&job) => {
                        queue.push(job.clone(), Rank::New, priority);
                        waiting.insert(job);
                    }
                    1 => prop_assert_eq!(queue.remove(&job), waiting.remove(&job)),
                    2 => if let Some(job) = queue.take(|_| true) {
                        prop_assert!(waiting.remove(&job));
                        prop_assert!(running.insert(job));
                    },
                    3 => {
                        queue.release(&job);
                        running.remove(&job);
                    }
                    _ => {}
                }
                prop_assert_eq!((queue.waiting(), queue.running()), (waiting.len(), running.len()));
                prop_assert!(queue.running() <= 3);
                let positions: BTreeSet<_> = waiting.iter().filter_map(|job| queue.position(job)).collect();
                prop_assert_eq!(positions, (0..waiting.len()).collect::<BTreeSet<_>>());
            }
        }
    }
}
