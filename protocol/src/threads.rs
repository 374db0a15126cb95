//! Threads for work that blocks: a disk that syncs, a file system that hangs. They come as they are needed, up to a
//! bound, and go when nothing has come for a while.
//!
//! Not the runtime's own pool, for what happens at every step: that one wakes a thread which then waits for the pool's
//! lock, still held by whoever woke it (about 100 µs of a step's 500, on two cores), and hands the result to a task that
//! has to be woken in its turn. Here the lock is let go before the wake, and the thread that did the work says what came
//! of it. Work that hangs keeps one thread and nobody else; the end of the process waits for none.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A thread without work stays this long: steps follow each other faster, and who waits for minutes should not hold the
/// memory of its busiest moment.
const LINGER: Duration = Duration::from_secs(10);

/// A set of threads, for as long as the process lives.
pub struct Threads {
    name: &'static str,
    threads_max: usize,
    waiting_max: usize,
    state: Mutex<State>,
    work_came: Condvar,
}

struct State {
    waiting: VecDeque<Work>,
    /// Threads that wait for work. One that has been woken counts until it runs.
    idle: usize,
    started: usize,
}

type Work = Box<dyn FnOnce() + Send>;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Broke {
    #[error(transparent)]
    Panicked(#[from] Panicked),
    #[error("{waiting} others are waiting for a thread already")]
    Crowded { waiting: usize },
    #[error("no thread could be started for it: {0}")]
    NoThread(std::io::Error),
}

/// What a panic said.
#[derive(Debug, thiserror::Error)]
#[error("it panicked: {0}")]
pub struct Panicked(String);

impl From<Box<dyn Any + Send>> for Panicked {
    fn from(payload: Box<dyn Any + Send>) -> Self {
        let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Panicked(said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned()))
    }
}

impl Threads {
    /// At most `threads_max` at once; beyond `waiting_max` that wait for one, work is turned away.
    #[must_use]
    pub const fn new(name: &'static str, threads_max: usize, waiting_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), idle: 0, started: 0 };
        Threads { name, threads_max, waiting_max, state: Mutex::new(state), work_came: Condvar::new() }
    }

    /// Does `work` on one of the threads; `then` is told there what came of it, exactly once, and should only pass it on.
    pub fn run<T>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Result<T, Broke>) + Send + 'static,
    ) {
        let mut state = self.lock();
        let waiting = state.waiting.len();
        if waiting >= self.waiting_max {
            drop(state);
            return then(Err(Broke::Crowded { waiting }));
        }
        if waiting >= state.idle && state.started < self.threads_max {
            match thread::Builder::new().name(self.name.to_owned()).spawn(move || self.serve()) {
                Ok(_) => state.started += 1,
                Err(error) if state.started == 0 => {
                    drop(state);
                    return then(Err(Broke::NoThread(error)));
                }
                // One thread fewer than there is work for: those that are there do it.
                Err(_) => {}
            }
        }
        state.waiting.push_back(Box::new(move || {
            // What `work` touches is its own, or is guarded by locks that a panic poisons.
            then(catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::from(panic).into()));
        }));
        drop(state);
        self.work_came.notify_one();
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while let Some(work) = state.waiting.pop_front() {
                drop(state);
                work();
                state = self.lock();
            }
            state.idle += 1;
            let nothing = |state: &mut State| state.waiting.is_empty();
            let woken = self.work_came.wait_timeout_while(state, LINGER, nothing);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            if state.waiting.is_empty() {
                state.started -= 1;
                return;
            }
        }
    }

    /// Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    const TOGETHER: usize = 8;
    const THREADS_MAX: usize = 2 * TOGETHER;
    const WAITING_MAX: usize = 100;
    /// A hang would be the failure.
    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_result_comes_back_and_so_does_a_panic() {
        static THREADS: Threads = Threads::new("test", THREADS_MAX, WAITING_MAX);
        type Case = (fn() -> u32, Result<u32, &'static str>);
        let cases: [Case; 4] = [
            (|| 1, Ok(1)),
            (|| panic!("plain"), Err("it panicked: plain")),
            (|| panic!("formatted {}", 2), Err("it panicked: formatted 2")),
            (|| std::panic::panic_any(3), Err("it panicked: no words")),
        ];
        for (work, expected) in cases {
            let (sender, receiver) = mpsc::channel();
            THREADS.run(work, move |result| sender.send(result).expect("heard"));
            let result = receiver.recv_timeout(SOON).expect("an answer");
            assert_eq!(result.map_err(|broke| broke.to_string()), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_batch_runs_at_once_beside_one_that_hangs() {
        static THREADS: Threads = Threads::new("test", THREADS_MAX, WAITING_MAX);
        let (sender, receiver) = mpsc::channel();
        for _ in 0..2 {
            let barrier = Arc::new(Barrier::new(TOGETHER));
            for _ in 0..TOGETHER - 1 {
                let (barrier, sender) = (barrier.clone(), sender.clone());
                THREADS.run(move || barrier.wait(), move |_| sender.send(()).expect("heard"));
            }
            // All but the last hang until it comes.
            assert!(receiver.try_recv().is_err());
            THREADS.run(move || barrier.wait(), |_| ());
            for _ in 0..TOGETHER - 1 {
                receiver.recv_timeout(SOON).expect("it ran");
            }
        }
    }

    #[test]
    fn what_finds_no_thread_waits_and_what_finds_no_room_is_told_so() {
        static THREADS: Threads = Threads::new("test", THREADS_MAX, WAITING_MAX);
        let gate = Arc::new(Barrier::new(THREADS_MAX + 1));
        let (sender, receiver) = mpsc::channel();
        for _ in 0..THREADS_MAX {
            let (gate, running) = (gate.clone(), sender.clone());
            let work = move || {
                running.send(Ok(())).expect("heard");
                gate.wait();
            };
            THREADS.run(work, |_| ());
            receiver.recv_timeout(SOON).expect("it runs").expect("well");
        }
        for _ in 0..WAITING_MAX {
            let sender = sender.clone();
            THREADS.run(|| (), move |result| sender.send(result).expect("heard"));
        }
        assert!(receiver.try_recv().is_err(), "all threads hang");
        let crowded = sender.clone();
        THREADS.run(|| (), move |result| crowded.send(result).expect("heard"));
        assert!(matches!(receiver.try_recv(), Ok(Err(Broke::Crowded { waiting: WAITING_MAX }))));
        assert_eq!(THREADS.lock().started, THREADS_MAX);
        gate.wait();
        for _ in 0..WAITING_MAX {
            assert!(receiver.recv_timeout(SOON).expect("its turn came").is_ok());
        }
    }
}
