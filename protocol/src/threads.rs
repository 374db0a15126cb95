//! Threads for work that blocks: a disk that syncs, a file system that hangs. They come as they are needed, up to a
//! bound, and go when nothing has come for a while.
//!
//! Not the runtime's own pool, for what happens at every step: that one wakes a thread while it holds the lock which the
//! thread then waits for (about 100 µs of a step's 500, measured on two cores), and its results take a task and a wake
//! of the runtime each. Here the work itself says what came of it, and whoever waits is told by a message.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An idle thread stays this long: steps follow each other faster, and a quiet process holds none.
const LINGER: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

/// A set of threads. A copy is the same set.
#[derive(Clone)]
pub struct Threads {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    threads_max: usize,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

impl Threads {
    /// At most `threads_max` at once; what comes meanwhile waits, so whoever sends bounds how much that is.
    #[must_use]
    pub fn new(name: &'static str, threads_max: usize) -> Self {
        let shared = Shared { name, threads_max, state: Mutex::default(), more: Condvar::new() };
        Threads { shared: Arc::new(shared) }
    }

    /// Does it on another thread, in the order of asking as far as there is room. A panic in it ends with it. Where no
    /// thread is and none can be started it is dropped undone: whoever waits must hear of that too.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        state.waiting.push_back(Box::new(work));
        if state.waiting.len() <= state.idle {
            drop(state);
            // After the lock is free: who wakes can go on at once.
            return self.shared.more.notify_one();
        }
        if state.threads >= self.shared.threads_max {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = self.shared.clone();
        let started = std::thread::Builder::new().name(self.shared.name.to_owned()).spawn(move || shared.serve());
        if started.is_ok() {
            return;
        }
        let mut state = self.shared.lock();
        state.threads -= 1;
        // Others may still do it.
        let undone = if state.threads == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        drop(undone);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                // The panic hook has said it.
                let _ = catch_unwind(AssertUnwindSafe(work));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self.more.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn as_many_at_once_as_the_bound_allows_and_nothing_is_lost() {
        let threads = Threads::new("test", 4);
        // Would never open with fewer than four at once.
        let together = Arc::new(Barrier::new(4));
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, told) = mpsc::channel();
        for number in 0..400 {
            let (together, at_once, most, done) = (together.clone(), at_once.clone(), most.clone(), done.clone());
            let work = move || {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait();
                at_once.fetch_sub(1, Ordering::SeqCst);
                done.send(number).expect("heard");
            };
            threads.run(work);
        }
        drop(done);
        let mut all: Vec<i32> = told.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn one_after_another_they_are_done_in_order_by_one_thread() {
        let threads = Threads::new("test", 1);
        let (done, told) = mpsc::channel();
        for number in 0..100 {
            let done = done.clone();
            threads.run(move || done.send((number, std::thread::current().id())).expect("heard"));
        }
        drop(done);
        let all: Vec<_> = told.iter().collect();
        assert!(all.iter().map(|(number, _)| *number).eq(0..100), "{all:?}");
        assert!(all.iter().all(|(_, id)| *id == all[0].1), "{all:?}");
    }

    #[test]
    fn a_panic_ends_neither_the_thread_nor_what_waits() {
        let threads = Threads::new("test", 1);
        let (done, told) = mpsc::channel();
        threads.run(|| panic!("as the test wants it"));
        threads.run(move || done.send(()).expect("heard"));
        told.recv().expect("it was done");
    }
}
