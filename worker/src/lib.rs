pub mod permission;
pub mod tool;

pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
