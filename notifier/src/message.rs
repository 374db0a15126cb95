//! What one sink is to tell at once: several alerts, most of them one.

#![deny(clippy::disallowed_methods)]

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use crate::alert::What;

/// One notification on the desktop, one message in Discord.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The most important first; never empty.
    pub entries: Vec<Entry>,
    /// Of each kind that did not fit, or was not worth a line of its own: how many, and what ("more jobs aborted").
    pub more: Vec<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As it stands now.
    pub what: What,
    /// How often it happened since it was last told; 1 mostly.
    pub times: u64,
    /// When it first did.
    pub at: SystemTime,
    pub late: bool,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Delivered,
    /// It may work later: it goes along with the next message, or out after the next start.
    Failed(String),
    /// This very message is not wanted, and never will be.
    Dropped(String),
    /// The sink takes no more; why.
    Dead(String),
    /// The process ends, and it had not been delivered.
    Unsent,
}

/// What the last try at a message came to, where that was no delivery: for who will not wait for the end of it.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<Mutex<Known>>);

#[derive(Clone, Debug, Default)]
struct Known {
    why: Option<String>,
    /// Nothing happens before this: it was asked to wait.
    not_before: Option<Instant>,
}

impl Trouble {
    pub fn set(&self, why: Option<String>) {
        *self.lock() = Known { why, not_before: None };
    }

    /// It was asked to wait until then.
    pub fn waits(&self, why: String, not_before: Option<Instant>) {
        *self.lock() = Known { why: Some(why), not_before };
    }

    #[must_use]
    pub fn why(&self) -> Option<String> {
        self.lock().why.clone()
    }

    /// Whether it is known by now that nothing arrives by `until`.
    #[must_use]
    pub fn is_beyond(&self, until: Instant) -> bool {
        self.lock().not_before.is_some_and(|at| at > until)
    }

    /// Ready as soon as that is known; polled with the delivery itself, after it, for nothing else wakes it.
    pub fn beyond(&self, until: Option<Instant>) -> impl Future<Output = ()> {
        let is_known = move || until.is_some_and(|until| self.is_beyond(until));
        poll_fn(move |_| if is_known() { Poll::Ready(()) } else { Poll::Pending })
    }

    /// Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a message goes. Dropping the future gives the message up.
pub trait Deliver: Send {
    /// Its name in cursors, logs and counts.
    fn name(&self) -> &'static str;

    fn deliver(&mut self, message: &Message) -> impl Future<Output = Outcome> + Send;

    /// For how long it must not be asked, as it said: kept over restarts.
    fn left_to_wait(&self) -> Option<Duration> {
        None
    }

    /// What a person does where it takes no more.
    fn cure(&self) -> String {
        "configure it anew, then start again".to_owned()
    }

    /// Of its message under way, or the last one.
    fn trouble(&self) -> Trouble {
        Trouble::default()
    }

    /// A hash of what it was configured with (never that itself). A sink that is dead stays so while this is the same;
    /// None: it is tried again with each start.
    fn identity(&self) -> Option<String> {
        None
    }
}
