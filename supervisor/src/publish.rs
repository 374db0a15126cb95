//! What happened, told to whoever listens, without ever waiting for one of them.
//!
//! Each listener has a bounded queue of its own and is told how many records it missed when that was full, in the
//! place where they would have stood. Not an actor and not ractor's `OutputPort`: a record is pushed where its store
//! acknowledged it, so the order of each job's log is the order of its telling, and a burst loses nothing below the
//! bound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use ukai_protocol::control::Happened;
use ukai_protocol::id::JobId;

/// Records and deltas that wait for one listener. A terminal that is drawn 10 times a second takes hundreds at once;
/// who is further behind reads the log instead.
pub const LISTENER_EVENTS_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Happened(Arc<Happened>),
    Delta { job: JobId, step: u64, text: Arc<str> },
    Missed { count: u64 },
}

/// Which jobs; None = all, those to come included.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub jobs: Option<BTreeSet<JobId>>,
    pub deltas: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Publisher {
    listeners: Arc<Mutex<BTreeMap<u64, Arc<Mailbox>>>>,
}

#[derive(Debug)]
struct Mailbox {
    wanted: Wanted,
    queue: Mutex<VecDeque<Told>>,
    filled: Notify,
}

/// Ends its subscription when dropped.
#[derive(Debug)]
pub struct Listener {
    id: u64,
    mailbox: Arc<Mailbox>,
    publisher: Publisher,
}

impl Publisher {
    #[must_use]
    pub fn listen(&self, wanted: Wanted) -> Listener {
        let mailbox = Arc::new(Mailbox { wanted, queue: Mutex::default(), filled: Notify::new() });
        let mut listeners = lock(&self.listeners);
        let id = listeners.last_key_value().map_or(0, |(last, _)| last + 1);
        listeners.insert(id, mailbox.clone());
        Listener { id, mailbox, publisher: self.clone() }
    }

    /// Only what is durable comes here.
    pub fn happened(&self, records: &[Happened]) {
        let listeners = lock(&self.listeners);
        if listeners.is_empty() {
            return;
        }
        for record in records {
            let shared = Arc::new(record.clone());
            for mailbox in listeners.values().filter(|mailbox| mailbox.wants(&record.job)) {
                mailbox.push(Told::Happened(shared.clone()));
            }
        }
    }

    /// Provisional text.
    pub fn delta(&self, job: &JobId, step: u64, text: &str) {
        let listeners = lock(&self.listeners);
        let mut of_interest =
            listeners.values().filter(|mailbox| mailbox.wanted.deltas && mailbox.wants(job)).peekable();
        if of_interest.peek().is_none() {
            return;
        }
        let text: Arc<str> = text.into();
        for mailbox in of_interest {
            mailbox.push(Told::Delta { job: job.clone(), step, text: text.clone() });
        }
    }
}

impl Mailbox {
    fn wants(&self, job: &JobId) -> bool {
        self.wanted.jobs.as_ref().is_none_or(|jobs| jobs.contains(job))
    }

    fn push(&self, told: Told) {
        let mut queue = lock(&self.queue);
        if queue.len() >= LISTENER_EVENTS_MAX {
            let delta = |told: &Told| matches!(told, Told::Delta { .. });
            if delta(&told) {
                return;
            }
            let Some(oldest) = queue.iter().position(delta) else {
                match queue.back_mut() {
                    Some(Told::Missed { count }) => *count += 1,
                    // One above the bound, once: the gap itself has to be told.
                    _ => queue.push_back(Told::Missed { count: 1 }),
                }
                return;
            };
            queue.remove(oldest);
        }
        queue.push_back(told);
        self.filled.notify_one();
    }
}

impl Listener {
    /// Safe to drop while it waits.
    pub async fn next(&self) -> Told {
        loop {
            let told = lock(&self.mailbox.queue).pop_front();
            match told {
                Some(told) => return told,
                None => self.mailbox.filled.notified().await,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.publisher.listeners).remove(&self.id);
    }
}

/// Nothing panics between lock and unlock here; if something ever does, the queue is still a queue.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use ukai_protocol::event::Event;

    use super::*;

    fn id(number: u8) -> JobId {
        JobId::from_random([0, 0, 0, 0, number])
    }

    fn record(seq: u64) -> Happened {
        Happened { job: id(1), seq, at: String::new(), event: Event::Attention { why: String::new() } }
    }

    fn told(listener: &Listener) -> Vec<Told> {
        lock(&listener.mailbox.queue).drain(..).collect()
    }

    #[test]
    fn a_burst_within_the_bound_arrives_whole_and_in_order() {
        let publisher = Publisher::default();
        let listener = publisher.listen(Wanted::default());
        publisher.happened(&(1..=LISTENER_EVENTS_MAX as u64).map(record).collect::<Vec<_>>());
        let seqs: Vec<_> = told(&listener)
            .into_iter()
            .map(|told| match told {
                Told::Happened(record) => record.seq,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seqs, (1..=LISTENER_EVENTS_MAX as u64).collect::<Vec<_>>());
    }

    #[test]
    fn deltas_go_first_then_records_are_counted_as_missed_where_they_would_have_stood() {
        let publisher = Publisher::default();
        let listener = publisher.listen(Wanted { deltas: true, ..Wanted::default() });
        publisher.delta(&id(1), 1, "a");
        publisher.happened(&(1..=LISTENER_EVENTS_MAX as u64 + 3).map(record).collect::<Vec<_>>());
        publisher.delta(&id(1), 1, "b");
        let seen = told(&listener);
        assert_eq!(seen.len(), LISTENER_EVENTS_MAX + 1);
        assert!(seen.iter().all(|told| !matches!(told, Told::Delta { .. })));
        assert_eq!(seen.last(), Some(&Told::Missed { count: 3 }));
        publisher.happened(&[record(2_000)]);
        assert!(matches!(&told(&listener)[..], [Told::Happened(record)] if record.seq == 2_000));
    }

    #[test]
    fn only_what_is_wanted_and_nothing_after_the_end() {
        let publisher = Publisher::default();
        let other = publisher.listen(Wanted { jobs: Some([id(2)].into()), deltas: true });
        let silent = publisher.listen(Wanted { jobs: Some([id(1)].into()), deltas: false });
        publisher.delta(&id(1), 1, "a");
        publisher.happened(&[record(1)]);
        assert_eq!((told(&other).len(), told(&silent).len()), (0, 1));
        drop((other, silent));
        assert!(lock(&publisher.listeners).is_empty());
    }
}
