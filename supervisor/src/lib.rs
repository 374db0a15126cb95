//! Owns jobs, routes and the store; the `ukai` command.

use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

// What people write.
pub mod config;
pub mod each;
pub mod job_file;
pub mod policy_file;
pub mod settings;
pub mod tools_file;
pub mod trust;

// Decided here, without a clock.
mod allow;
pub mod approval;
pub mod batch;
pub mod job;
pub mod naming;
pub mod news;
pub mod queue;
pub mod report;
pub mod restart;
pub mod resume;
pub mod route;

// Done here.
pub mod actor;
pub mod examine;
mod fault;
pub mod pool;
pub mod probe;
pub mod store;
mod table;
pub mod worktree;

// Who is let in, and what they are told.
pub mod control;
pub mod hooks_file;
pub mod host;
pub mod listener;
pub mod publish;

// What is typed.
mod cli;

/// The `ukai` command, whole. Synchronous up to the runtime of a verb.
#[must_use]
pub fn main() -> ExitCode {
    // Keys come into this memory: no core dump, and no other process of this user may read it.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        cli::note(&format!("ukai: this process could not be made undumpable: {error}"));
    }
    cli::main()
}
