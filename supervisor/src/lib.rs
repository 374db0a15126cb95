//! Owns jobs, routes and the store; the `ukai` command.

pub mod store;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
