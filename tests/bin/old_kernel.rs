//! Becomes another program, for which this kernel has no Landlock; with `--without-namespaces`, none of those either.

#![allow(clippy::expect_used, clippy::panic, reason = "a tool of the tests that cannot go on says so and stops")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

fn main() {
    let mut args = std::env::args_os().skip(1).peekable();
    let mut calls = vec![libc::SYS_landlock_create_ruleset];
    if args.next_if(|arg| arg == "--without-namespaces").is_some() {
        calls.push(libc::SYS_unshare);
    }
    let rules: BTreeMap<i64, Vec<_>> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    nix::sys::prctl::set_no_new_privs().expect("no new privileges");
    apply_filter(&program).expect("the filter is installed");
    let program = args.next().expect("a program");
    panic!("{}", Command::new(program).args(args).exec());
}
