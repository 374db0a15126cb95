//! A test binary of its own: a sweep ends every child of the process that is nobody's.

use std::process::Stdio;

use ukai_protocol::{process, process_tree};
use ukai_supervisor::pool::reaper::Family;

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
    let mut before = sleeper("exec sleep 300").expect("sh starts");
    let family = Family::found();
    let mut own = family.start(|| sleeper("exec sleep 300"), std::process::Child::id).expect("sh starts");
    let mut worker = family.start(|| sleeper("setsid sleep 300 & exit 0"), std::process::Child::id).expect("sh starts");
    worker.wait().expect("it ends");
    family.reaped(worker.id());
    let strangers = family.strangers();
    family.sweep();
    assert_eq!(strangers.len(), 1);
    assert!(!process::is_alive(&strangers[0]) && family.strangers().is_empty());
    for child in [&mut before, &mut own] {
        assert!(child.try_wait().expect("ours to ask").is_none());
        child.kill().expect("it lives");
        child.wait().expect("it ends");
    }
}
