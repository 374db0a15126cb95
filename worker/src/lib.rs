//! One process, one job: the query loop, the provider client and the tools.
//!
//! `ukai-worker job …` is started by the supervisor; the other forms are one-shots that the `ukai` command runs because
//! their code lives here.

pub mod context;
pub mod deps;
pub mod hook;
pub mod host;
pub mod http;
pub mod launcher;
pub mod permission;
pub mod provider;
pub mod query;
pub mod sandbox;
pub mod session;
pub mod threads;
pub mod tool;

mod job;
mod log;
mod one_shot;
mod policy;
mod probe;
mod sandbox_check;

use std::io::Write as _;
use std::process::ExitCode;

/// `sysexits.h`: the command was used wrongly. Exits 64–78 are never retried by the supervisor.
const EX_USAGE: u8 = 64;

const USAGE: &str =
    "usage: ukai-worker job --socket PATH --id ID --attempt N [--launcher]   (token on stdin; started by ukai)
       ukai-worker probe                                (request on stdin; started by ukai)
       ukai-worker policy check                         (request as JSON on stdin; started by ukai)
       ukai-worker sandbox                              (the same)
       ukai-worker script serve FILE [--wire openai|anthropic|gemini] [--listen ADDR] [--record FILE]
       ukai-worker --version";

/// Synchronous up to here and in each branch until its runtime: helpers can be forked before there are threads.
pub fn main() -> ExitCode {
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        return fail(EX_USAGE, &format!("this process cannot be made undumpable, and it will hold a key: {error}"));
    }
    log::to_stderr();
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("job") => job::main(args.collect()),
        Some("probe") => probe::main(args.collect()),
        Some("policy") => policy::main(args.collect()),
        Some("sandbox") => sandbox_check::main(args.collect()),
        Some("script") => provider::script::serve_main(args.collect()),
        Some("--version") => {
            say(&format!("ukai-worker {}", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => fail(EX_USAGE, USAGE),
    }
}

#[allow(clippy::print_stdout, reason = "the one line that was asked for")]
fn say(text: &str) {
    println!("{text}");
}

/// A process that cannot go on says why on its way out, if anybody still listens.
fn fail(code: u8, text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "ukai-worker: {text}");
    ExitCode::from(code)
}
