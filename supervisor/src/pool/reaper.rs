//! Who our children are, and the end of those who became ours because their parent died.
//!
//! The supervisor is a subreaper, so a process whose worker was killed comes back to it. Nothing else makes a child
//! that we did not start: whoever is here and not in the family belongs to a dead worker and is ended with its tree.
//! For that to be sure, starting a process and entering it in the family happen under one lock.
//!
//! A status is asked for by pid, never by "any child": that would take away what somebody else waits for.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use ukai_protocol::event::ProcessMark;
use ukai_protocol::{process, process_tree};

/// Ending one can bring back its children; a tree that forks against us was gone after a handful of rounds.
const ROUNDS_MAX: usize = 20;

/// Children are the process's, so there is one family in it, whatever number of supervisors.
static OURS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn ours() -> MutexGuard<'static, BTreeSet<u32>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy, Debug)]
pub struct Family(());

impl Family {
    /// Whoever is a child now was started by this program for purposes of its own.
    #[must_use]
    pub fn found() -> Self {
        let mut ours = ours();
        ours.extend(process_tree::children());
        Family(())
    }

    /// Starts a process that is not to be taken for an orphan. Blocks for the fork.
    pub fn start<T>(&self, start: impl FnOnce() -> io::Result<T>, pid: impl FnOnce(&T) -> u32) -> io::Result<T> {
        let mut ours = ours();
        let started = start()?;
        ours.insert(pid(&started));
        Ok(started)
    }

    /// Its status has been collected: the pid may be anybody's from now on.
    pub fn reaped(&self, pid: u32) {
        ours().remove(&pid);
    }

    /// Ends and reaps all orphans that came to us. Blocks: call it from a thread that may.
    pub fn sweep(&self) {
        for _ in 0..ROUNDS_MAX {
            let strangers = self.strangers();
            if strangers.is_empty() {
                return;
            }
            for stranger in strangers {
                if process::is_alive(&stranger) {
                    tracing::warn!(pid = stranger.pid, "a process outlived its worker and is ended");
                    if let Err(error) = process_tree::end(&stranger, Duration::ZERO) {
                        tracing::error!(pid = stranger.pid, %error, "an orphan could not be ended");
                    }
                }
                reap(stranger.pid);
            }
        }
    }

    /// Children that nobody of us started.
    #[must_use]
    pub fn strangers(&self) -> Vec<ProcessMark> {
        let ours = ours();
        process_tree::children().difference(&ours).filter_map(|pid| process::mark(*pid)).collect()
    }
}

fn reap(pid: u32) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    // Nothing to wait for is what we want; that it is not dead yet, the next round sees.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}
