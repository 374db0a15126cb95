//! The end of a whole process tree: TERM, a grace, then KILL in rounds until nobody is left.
//!
//! A process group misses who called `setsid`, so descendants are found by parentage in `/proc`. For that to hold, the
//! caller is their subreaper ([`adopt_orphans`]): who forks off twice comes back to us and not to init. A pid alone is
//! never signalled: start time and boot are compared first.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::event::ProcessMark;
use crate::process;

/// Between two looks at `/proc`.
const ROUND: Duration = Duration::from_millis(5);
/// A tree that forks, detaches and ignores TERM was gone after 7 rounds; this many are for a machine under load.
const ROUNDS_MAX: u32 = 400;

/// Orphans below this process become its children, so that the sweep can find them.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Asks, waits `grace`, then kills; returns when nobody of the tree lives, or an error after [`ROUNDS_MAX`] rounds.
/// Blocks: call it from a thread that may.
pub fn end(root: &ProcessMark, grace: Duration) -> std::io::Result<()> {
    if !grace.is_zero() && process::is_alive(root) {
        signal(root.pid, Signal::SIGTERM);
        let deadline = Instant::now() + grace;
        while process::is_alive(root) && Instant::now() < deadline {
            std::thread::sleep(ROUND);
        }
    }
    kill_tree(root)
}

fn kill_tree(root: &ProcessMark) -> std::io::Result<()> {
    let mut known: Vec<ProcessMark> = vec![root.clone()];
    for _ in 0..ROUNDS_MAX {
        for mark in descendants_of(&known) {
            if !known.contains(&mark) {
                known.push(mark);
            }
        }
        let alive: Vec<_> = known.iter().filter(|mark| process::is_alive(mark)).cloned().collect();
        if alive.is_empty() {
            return Ok(());
        }
        for mark in &alive {
            signal(mark.pid, Signal::SIGKILL);
        }
        std::thread::sleep(ROUND);
    }
    Err(std::io::Error::other(format!("the process tree of {} outlived {ROUNDS_MAX} rounds of KILL", root.pid)))
}

/// Live processes whose ancestors include one of `roots`. Parentage of the dead is gone, so a tree is followed from
/// round to round through everything that was ever seen in it.
fn descendants_of(roots: &[ProcessMark]) -> Vec<ProcessMark> {
    let mut open: Vec<u32> = roots.iter().filter(|mark| process::is_alive(mark)).map(|mark| mark.pid).collect();
    if open.is_empty() {
        // The children of the dead are others' by now.
        return Vec::new();
    }
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(stat) = process::stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            found.extend(process::mark(*child));
            open.push(*child);
        }
    }
    found
}

/// Processes whose parent is `pid`, with those that are dead and not yet reaped.
#[must_use]
pub fn children_of(pid: u32) -> Vec<ProcessMark> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child| process::stat(*child).is_some_and(|stat| stat.parent == pid))
        .filter_map(process::mark)
        .collect()
}

fn signal(pid: u32, signal: Signal) {
    // The only failure is that it is gone, which is what we want.
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_tree_that_ignores_term_is_gone() {
        let script = "trap '' TERM; (trap '' TERM; sleep 300) & sleep 300";
        let mut child = process::start(process::Start {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: process::own_environment(),
            workdir: None,
            stdin: process::Stdin::Null,
            stdout: Stdio::null(),
            stderr: Stdio::null(),
        })
        .expect("sh starts");
        let root = process::mark(child.id()).expect("it lives");
        while descendants_of(std::slice::from_ref(&root)).len() < 2 {
            std::thread::yield_now();
        }
        let below = descendants_of(std::slice::from_ref(&root));
        end(&root, Duration::from_millis(20)).expect("it ends");
        child.wait().expect("it is reaped");
        assert!(below.iter().all(|mark| !process::is_alive(mark)), "{below:?}");
    }

    #[test]
    fn a_pid_that_is_another_process_now_is_not_signalled() {
        let mut mine = process::mark(std::process::id()).expect("this process lives");
        mine.start_time += 1;
        assert!(!process::is_alive(&mine));
        end(&mine, Duration::from_millis(1)).expect("nothing to end");
    }
}
