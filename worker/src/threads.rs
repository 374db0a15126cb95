//! Threads for what may block: judging a call, running a tool.
//!
//! The runtime's own pool wakes a thread that then waits for the pool's lock, which whoever woke it still holds, and hands
//! the result to a task that has to be woken in its turn. Both stand in the way of every call. Here the lock is let go
//! before the wake, and the thread that did the work says what came of it. A file system that hangs keeps one thread
//! and nobody else; the end of the process waits for none.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::provider::wire::draft::REPLY_CALLS_MAX;
use crate::tool::partition::BATCH_CALLS_MAX;

/// A batch of calls, and as many that hang while the next one runs.
const THREADS_MAX: usize = 2 * BATCH_CALLS_MAX;
/// Work that waits for a thread: all calls of a reply are judged at once.
const WAITING_MAX: usize = REPLY_CALLS_MAX;
/// A thread without work stays this long: most replies come in less, and a job that waits for a provider for minutes
/// should not hold the memory of its largest batch.
const LINGER: Duration = Duration::from_secs(10);

/// Those of this process.
pub static THREADS: Threads = Threads::new();

pub struct Threads {
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
    #[error("{WAITING_MAX} calls are waiting for a thread already")]
    Crowded,
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
    const fn new() -> Self {
        let state = State { waiting: VecDeque::new(), idle: 0, started: 0 };
        Threads { state: Mutex::new(state), work_came: Condvar::new() }
    }

    /// Does `work` on one of the threads; `then` is told there what came of it, exactly once, and should only pass it on.
    pub fn run<T>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Result<T, Broke>) + Send + 'static,
    ) {
        let mut state = self.lock();
        if state.waiting.len() >= WAITING_MAX {
            drop(state);
            return then(Err(Broke::Crowded));
        }
        if state.waiting.len() >= state.idle && state.started < THREADS_MAX {
            match thread::Builder::new().name("calls".to_owned()).spawn(move || self.serve()) {
                Ok(_) => state.started += 1,
                Err(error) if state.started == 0 => {
                    drop(state);
                    return then(Err(Broke::NoThread(error)));
                }
                Err(error) => tracing::debug!(%error, "one thread fewer than there is work for"),
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
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    /// A hang would be the failure.
    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_result_comes_back_and_so_does_a_panic() {
        static THREADS: Threads = Threads::new();
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
        static THREADS: Threads = Threads::new();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..2 {
            let barrier = Arc::new(Barrier::new(BATCH_CALLS_MAX));
            for _ in 0..BATCH_CALLS_MAX - 1 {
                let (barrier, sender) = (barrier.clone(), sender.clone());
                THREADS.run(move || barrier.wait(), move |_| sender.send(()).expect("heard"));
            }
            // All but the last hang until it comes.
            assert!(receiver.try_recv().is_err());
            THREADS.run(move || barrier.wait(), |_| ());
            for _ in 0..BATCH_CALLS_MAX - 1 {
                receiver.recv_timeout(SOON).expect("it ran");
            }
        }
    }

    #[test]
    fn what_finds_no_thread_waits_and_what_finds_no_room_is_told_so() {
        static THREADS: Threads = Threads::new();
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
        assert!(matches!(receiver.try_recv(), Ok(Err(Broke::Crowded))));
        assert_eq!(THREADS.lock().started, THREADS_MAX);
        gate.wait();
        for _ in 0..WAITING_MAX {
            assert!(receiver.recv_timeout(SOON).expect("its turn came").is_ok());
        }
    }
}
