fn main() -> std::process::ExitCode {
    ukai_worker::main()
}
