//! `cargo bench -p ukai-tests`: what a job costs, as ratios to a floor that is measured in the same run.
//!
//! A number of milliseconds is of one machine and one day; a ratio to a bare loop that does the same work on the same
//! machine in the same minute can be compared. Floor and ours take turns, medians are told with their spread, and where
//! the machine was not ours alone it is said. It only prints: a figure that misses its aim fails nothing.

#![allow(clippy::expect_used, clippy::panic, reason = "a bench that cannot do its part says so and stops")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table is what it is for")]

mod command_cost;
mod figures;
mod floor;
mod lab;
mod lease_worker;
mod options;
mod ours;
mod patience;
mod procfs;
mod provider;
mod quiet;
mod stats;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use figures::{Bench, Group};
use quiet::Watch;
use table::Line;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|mode| mode == lease_worker::MODE) {
        return lease_worker::main(&args);
    }
    if let [mode, repeats] = &args[..]
        && mode == command_cost::MODE
    {
        return command_cost::main(repeats.parse().expect("how often"));
    }
    let options = match options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(text) => {
            eprint!("{text}");
            return ExitCode::from(2);
        }
    };
    patience::watch_for_signals();
    std::panic::set_hook(Box::new(|panic| eprintln!("could not be measured: {panic}")));
    let markdown = options.markdown;
    let bench = Bench::new(options);
    println!("{}", machine());
    let (mut lines, mut noises, mut failed) = (Vec::new(), Vec::new(), false);
    for group in &bench.options.groups {
        match measured(group, &bench) {
            Some((more, noise)) => {
                lines.extend(more);
                noises.push(noise);
            }
            None => failed = true,
        }
        if patience::interrupted() {
            eprintln!("interrupted; nothing of it is left");
            return ExitCode::from(130);
        }
    }
    println!("{}", if markdown { table::markdown(&lines) } else { table::plain(&lines) });
    noises.iter().for_each(|noise| println!("{noise}"));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Its lines, and how quiet it was meanwhile. `None`: it could not be measured, and has said why.
fn measured(group: &Group, bench: &Bench) -> Option<(Vec<Line>, String)> {
    eprintln!("measuring {}: {} …", group.name, group.about);
    let watch = Watch::begin();
    // All that it started is dropped on its way out, whichever that is.
    let mut lines = catch_unwind(AssertUnwindSafe(|| (group.measure)(bench))).ok()?;
    let noise = watch.end();
    if !noise.is_quiet() {
        for line in &mut lines {
            line.spread = format!("NOT QUIET; {}", line.spread);
        }
    }
    let quiet = if noise.is_quiet() { "quiet" } else { "NOT QUIET" };
    Some((lines, format!("{:<11} {quiet}: {}", group.name, noise.say())))
}

/// Where and when.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let memory = read("/proc/meminfo");
    let kilobytes: f64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0);
    format!(
        "{}: {} processors ({}), {:.0} GB, Linux {}, state on {}; load before: {}",
        jiff::Timestamp::now().strftime("%F %H:%M UTC"),
        procfs::cores(),
        model.trim_start_matches(['\t', ' ', ':']),
        kilobytes * 1024.0 / 1e9,
        read("/proc/sys/kernel/osrelease").trim(),
        file_system(),
        read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
    )
}

/// Of the folder in which homes are made: syncs cost what they cost there.
fn file_system() -> String {
    let folder = std::env::temp_dir();
    let folder = folder.canonicalize().unwrap_or(folder);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let holds = mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len());
    format!("{} ({})", holds.map_or("an unknown file system", |(_, kind)| kind), folder.display())
}
