//! The end of a whole process tree: TERM, a grace, then KILL in rounds until nobody is left.
//!
//! A process group misses who called `setsid`, so descendants are found by parentage in `/proc`. For that to hold, the
//! caller is their subreaper ([`adopt_orphans`]): who forks off twice comes back to us and not to init. A pid alone is
//! never signalled: start time and boot are compared first.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::event::ProcessMark;
use crate::process;

/// Between two looks at `/proc`.
const ROUND: Duration = Duration::from_millis(5);
/// A tree that forks, detaches and ignores TERM was gone after 7 rounds; this many are for a machine under load.
const ROUNDS_MAX: u32 = 400;
/// At its own children, until two looks agree. Where they never do, all of `/proc` is looked at.
const LOOKS_MAX: u32 = 8;

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

/// The children of this process, with those that are dead and not yet reaped.
///
/// The kernel keeps a list of them for each thread, so that nobody has to look at every process of the machine whenever a
/// worker ends. A list that loses one while it is read may leave out another; then the next look differs.
#[must_use]
pub fn children() -> BTreeSet<u32> {
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        match (listed_children(), before) {
            (Some(now), Some(before)) if now == before => return now,
            (Some(now), _) => before = Some(now),
            (None, _) => break,
        }
    }
    let me = std::process::id();
    process::all().into_iter().filter(|seen| seen.parent == me).map(|seen| seen.pid).collect()
}

/// None where the kernel keeps no such lists (`CONFIG_PROC_CHILDREN`), or a thread went meanwhile.
fn listed_children() -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let list = std::fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        for pid in list.split_whitespace() {
            found.insert(pid.parse().ok()?);
        }
    }
    Some(found)
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
    fn children_are_known_whichever_thread_started_them_and_until_they_are_reaped() {
        let sleep = || std::process::Command::new("/bin/sleep").arg("300").spawn().expect("sleep starts");
        let (stop, told) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(sleep()).expect("heard");
            let _ = told.recv();
        });
        let mut started = [sleep(), receiver.recv().expect("the other")];
        let know = |started: &[std::process::Child]| {
            let (listed, children) = (listed_children(), children());
            assert!(listed.is_none_or(|listed| started.iter().all(|child| listed.contains(&child.id()))));
            started.iter().all(|child| children.contains(&child.id()))
        };
        assert!(know(&started), "those that live");
        started.iter_mut().for_each(|child| child.kill().expect("it ends"));
        assert!(know(&started), "the dead");
        drop(stop);
        thread.join().expect("it ends");
        assert!(know(&started), "those of a thread that is gone");
        for child in &mut started {
            child.wait().expect("it is reaped");
            assert!(!children().contains(&child.id()));
        }
    }

    #[test]
    fn a_pid_that_is_another_process_now_is_not_signalled() {
        let mut mine = process::mark(std::process::id()).expect("this process lives");
        mine.start_time += 1;
        assert!(!process::is_alive(&mine));
        end(&mine, Duration::from_millis(1)).expect("nothing to end");
    }
}
