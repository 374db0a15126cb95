pub mod settings;

pub mod job;
pub mod queue;
pub mod restart;
pub mod route;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
