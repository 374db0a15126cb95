//! The command alone: this program as a process that has a tool host, as a worker has one, and runs `echo x` by it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_tests::home::Home;
use ukai_worker::host::{self, Begun, Look};
use ukai_worker::tool::shells::{About, Shells};

use crate::lab::{self, Job};
use crate::stats::Sample;

/// The argument by which this program is that process.
pub const MODE: &str = "command-cost";
const BALLAST_BYTES: usize = 64 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// In milliseconds.
#[derive(Default)]
pub struct Cost {
    pub bare: Sample,
    pub ours: Sample,
    pub ours_beside_memory: Sample,
}

/// Prints a line for each measurement, what it is and its milliseconds.
pub fn main(repeats: usize) -> ExitCode {
    let host = match host::begin().expect("a host") {
        Begun::Worker(host) => host,
        Begun::Host(host) => return host.serve(),
    };
    let home = Home::new();
    let permission = lab::tool_context(&home).permission;
    let shells = Shells::new(
        host,
        About {
            calls_before: 0,
            job: JobId::from_random([7; 5]),
            spec: lab::spec(&home.work(), Job::Bash),
            goes_on: false,
            permission,
            outputs: home.path().join("run/outputs"),
            env: Vec::new(),
            grace: Duration::from_secs(1),
        },
    );
    std::fs::create_dir_all(home.path().join("run/outputs")).expect("a folder");
    let echo = || {
        let running = shells.start("echo x").expect("it starts");
        let mut said = [0; 16];
        match running.look(false, PATIENCE).expect("a look") {
            Look::Exited(_) => {}
            Look::Nothing | Look::Output => panic!("it does not end"),
            Look::Refused(why) => panic!("{why}"),
            Look::Ended | Look::Lost => panic!("the host is lost"),
        }
        let count = read_some(&running.output, &mut said);
        assert_eq!(&said[..count], b"x\n");
    };
    let bare = || assert_eq!(crate::floor::bare("echo x"), "x\n");
    echo();
    bare();
    for _ in 0..repeats {
        tell("bare", bare);
        tell("ours", echo);
    }
    // Written to, so that it is there.
    let ballast = vec![1_u8; BALLAST_BYTES];
    for _ in 0..repeats {
        tell("memory", echo);
    }
    drop(std::hint::black_box(ballast));
    shells.close();
    ExitCode::SUCCESS
}

fn read_some(from: &impl std::os::fd::AsFd, buffer: &mut [u8]) -> usize {
    nix::unistd::read(from, buffer).expect("it said something")
}

fn tell(what: &str, act: impl Fn()) {
    let begun = Instant::now();
    act();
    println!("{what} {}", begun.elapsed().as_secs_f64() * 1e3);
}

pub fn read(text: &str) -> Cost {
    let mut cost = Cost::default();
    for line in text.lines() {
        let (what, ms) = line.split_once(' ').expect("a name and a number");
        let ms: f64 = ms.parse().expect("a number");
        match what {
            "bare" => cost.bare.add(ms),
            "ours" => cost.ours.add(ms),
            _ => cost.ours_beside_memory.add(ms),
        }
    }
    cost
}
