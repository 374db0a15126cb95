pub mod context;
pub mod http;
pub mod provider;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
