pub mod provider;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
