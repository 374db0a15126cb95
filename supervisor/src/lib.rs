//! Owns jobs, routes and the store; the `ukai` command.

pub mod settings;

// Decided here, without a clock.
pub mod job;
pub mod queue;
pub mod restart;
pub mod route;

// Done here.
pub mod actor;
mod fault;
pub mod pool;
pub mod store;
mod table;

// Who is let in, and what they are told.
pub mod control;
pub mod host;
pub mod listener;
pub mod publish;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
