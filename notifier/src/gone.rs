//! A sink that takes no more: what it would have told is counted, and the owner hears the number.
//!
//! Why not once, when it dies: whoever has acked that believes that nothing more was lost since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::Lost;
use crate::alert::Alert;
use crate::filter::counts;

/// A number is a record of the server's log: in a storm one of these a minute says as much as a thousand.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Shared by whoever hands alerts to the sink, its task, and who reports what it misses.
#[derive(Debug, Default)]
pub struct Gone {
    why: Mutex<Option<String>>,
    missed: AtomicU64,
    /// Why its last message did not arrive.
    untold: Mutex<Option<String>>,
    changed: Notify,
}

impl Gone {
    /// From now on it takes nothing more.
    pub fn say(&self, why: String) {
        self.set(Some(why));
    }

    /// It takes messages again.
    pub fn revive(&self) {
        self.set(None);
    }

    fn set(&self, why: Option<String>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why it takes nothing more; None: it does.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its last message arrived, or did not: why.
    pub fn ended(&self, untold: Option<String>) {
        *self.untold.lock().unwrap_or_else(PoisonError::into_inner) = untold;
    }

    /// Why its last message did not arrive.
    #[must_use]
    pub fn untold(&self) -> Option<String> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It should have told this.
    pub fn miss(&self, alert: &Alert) {
        if counts(&alert.what) {
            self.missed.fetch_add(1, Ordering::Relaxed);
            self.changed.notify_one();
        }
    }

    /// What was missed and has not been said.
    pub fn say_missed(&self, sink: &str, lost: &Lost) {
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => {}
            missed => lost(sink, missed, &self.why().unwrap_or_default()),
        }
    }

    /// Until the process ends: the first at once, the others by the minute.
    pub async fn report(&self, sink: &str, lost: &Lost, mut finish: watch::Receiver<Option<Instant>>) {
        let say = || self.say_missed(sink, lost);
        loop {
            tokio::select! {
                () = self.changed.notified() => say(),
                _ = finish.wait_for(Option::is_some) => return say(),
            }
            tokio::select! {
                () = tokio::time::sleep(SAY_EVERY) => {}
                _ = finish.wait_for(Option::is_some) => return say(),
            }
        }
    }
}
