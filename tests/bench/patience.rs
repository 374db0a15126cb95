//! How long anything is waited for, and what ends a wait early.
//!
//! No wait is without an end: a bench that hangs overnight tells nothing. Ctrl-C ends the wait under way by a panic, so
//! that everything on the stack is dropped and nothing of the bench is left: not a process, not a folder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

/// For anything that is not known to take longer: hundreds of times what it takes on a quiet machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM end the next wait.
pub fn watch_for_signals() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).expect("a handler of SIGINT");
            let mut terminate = signal(SignalKind::terminate()).expect("a handler of SIGTERM");
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            INTERRUPTED.store(true, Ordering::SeqCst);
        });
    });
}

#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// For loops that wait for nothing but take long.
pub fn go_on() {
    assert!(!interrupted(), "interrupted");
}

/// Looks every `every` until there is something; says what for when there was nothing for `at_most`.
pub fn until<T>(what: &str, at_most: Duration, every: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        go_on();
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < at_most, "waited {} s for {what}", at_most.as_secs());
        std::thread::sleep(every);
    }
}

/// The same for a future.
pub async fn within<T>(what: &str, at_most: Duration, future: impl Future<Output = T>) -> T {
    go_on();
    let done = tokio::time::timeout(at_most, future).await;
    go_on();
    done.unwrap_or_else(|_| panic!("waited {} s for {what}", at_most.as_secs()))
}
