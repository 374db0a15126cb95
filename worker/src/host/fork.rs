//! The one fork: for a process of one thread, of which a second one is wanted.

#![allow(unsafe_code, reason = "fork has no safe wrapper; what it relies on stands beside it")]

use std::io;

use nix::unistd::ForkResult;

pub enum Fork {
    Parent(u32),
    Child,
}

/// How many threads this process has.
pub fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Both go on from here. Refused where there is a second thread: it would be missing in the child, with the locks it held.
pub fn fork() -> io::Result<Fork> {
    let threads = threads()?;
    if threads != 1 {
        return Err(io::Error::other(format!("a process of {threads} threads cannot be forked")));
    }
    // SAFETY: this is the only thread, so no lock is held by one that the child lacks.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child.as_raw().cast_unsigned())),
        ForkResult::Child => Ok(Fork::Child),
    }
}
