fn main() -> std::process::ExitCode {
    ukai_supervisor::main()
}
