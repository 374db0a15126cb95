//! Runs one command by a launcher, as a worker would, and prints what came of it as JSON:
//! `launch DEADLINE_MS STDIN_BYTES PROGRAM ARGS…`; several programs, parted by `--`, run at once.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a tool of the tests that cannot go on says so and stops"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use ukai_worker::host::{self, Begun};
use ukai_worker::launcher::{Caught, Launch, Launcher, Ran};

fn main() -> ExitCode {
    let host = match host::begin().expect("a launcher") {
        Begun::Worker(host) => host,
        Begun::Host(launcher) => return launcher.serve(),
    };
    let launcher = Launcher::new(host, "j-abcdefgh".parse().expect("an id"));
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|arg| arg.parse::<u64>().ok()).expect("a number");
    let (deadline, stdin) = (Duration::from_millis(number()), number());
    let args: Vec<String> = args.collect();
    let launches = args.split(|arg| arg == "--").map(|words| Launch {
        program: words[0].clone().into(),
        args: words[1..].to_vec(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("TOLD".to_owned(), "yes".to_owned())],
        workdir: std::env::current_dir().expect("a folder"),
        stdin: vec![b'x'; usize::try_from(stdin).expect("it fits")],
        deadline,
        hear_out: false,
    });
    let launches: Vec<Launch> = launches.collect();
    let ran: Vec<Value> = std::thread::scope(|scope| {
        let run = |launch| {
            let launcher = &launcher;
            scope.spawn(move || {
                let begun = Instant::now();
                let ran = launcher.run(launch, &CancellationToken::new()).expect("it is run");
                shown(&ran, begun.elapsed())
            })
        };
        let threads: Vec<_> = launches.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    println!("{}", Value::Array(ran));
    launcher.close();
    ExitCode::SUCCESS
}

fn shown(ran: &Ran, took: Duration) -> Value {
    let caught = |Caught { bytes, cut }: &Caught| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1_000)]).into_owned();
        json!({"bytes": bytes.len(), "cut": cut, "text": text})
    };
    json!({
        "ended": format!("{:?}", ran.ended),
        "ms": u64::try_from(took.as_millis()).expect("it fits"),
        "stdout": caught(&ran.stdout),
        "stderr": caught(&ran.stderr),
    })
}
