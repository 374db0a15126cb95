//! Who our children are, and the end of those who became ours because their parent died.
//!
//! The supervisor is a subreaper, so a process whose worker was killed comes back to it. Nothing else makes a child
//! that we did not start: whoever is here and not in the family belongs to a dead worker and is ended with its tree.
//! For that to be sure, starting a process and entering it in the family happen under one lock.
//!
//! A status is asked for by pid, never by "any child": that would take away what somebody else waits for.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use ukai_protocol::event::ProcessMark;
use ukai_protocol::{process, process_tree};

/// Ending one can bring back its children; a tree that forks against us was gone after a handful of rounds.
const ROUNDS_MAX: usize = 20;

#[derive(Clone, Debug, Default)]
pub struct Family {
    ours: Arc<Mutex<BTreeSet<u32>>>,
}

impl Family {
    /// Whoever is a child now was started by this program for purposes of its own.
    #[must_use]
    pub fn new() -> Self {
        let present = process_tree::children_of(std::process::id()).into_iter().map(|mark| mark.pid).collect();
        Family { ours: Arc::new(Mutex::new(present)) }
    }

    /// Starts a process that is not to be taken for an orphan. Blocks for the fork.
    pub fn start<T>(&self, start: impl FnOnce() -> io::Result<T>, pid: impl FnOnce(&T) -> u32) -> io::Result<T> {
        let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start()?;
        ours.insert(pid(&started));
        Ok(started)
    }

    /// Its status has been collected: the pid may be anybody's from now on.
    pub fn reaped(&self, pid: u32) {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
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

    fn strangers(&self) -> Vec<ProcessMark> {
        let ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let children = process_tree::children_of(std::process::id());
        children.into_iter().filter(|child| !ours.contains(&child.pid)).collect()
    }
}

fn reap(pid: u32) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    // Nothing to wait for is what we want; that it is not dead yet, the next round sees.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_orphan_of_a_dead_worker_is_ended_and_our_own_child_is_not() {
        process_tree::adopt_orphans().expect("a subreaper");
        let sleeper = |script: &str| {
            process::start(process::Start {
                program: "/bin/sh".into(),
                args: vec!["-c".into(), script.into()],
                env: process::own_environment(),
                workdir: None,
                stdin: process::Stdin::Null,
                stdout: Stdio::null(),
                stderr: Stdio::null(),
            })
        };
        let family = Family::new();
        let mut own = family.start(|| sleeper("exec sleep 300"), std::process::Child::id).expect("sh starts");
        let mut worker =
            family.start(|| sleeper("setsid sleep 300 & exit 0"), std::process::Child::id).expect("sh starts");
        worker.wait().expect("it ends");
        family.reaped(worker.id());
        let strangers = family.strangers();
        family.sweep();
        assert_eq!(strangers.len(), 1);
        assert!(!process::is_alive(&strangers[0]) && family.strangers().is_empty());
        assert!(own.try_wait().expect("ours to ask").is_none());
        own.kill().expect("it lives");
        own.wait().expect("it ends");
    }
}
