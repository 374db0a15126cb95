//! The server with 500 jobs at once, each waiting a second for every reply: its own processor time, not the workers'.

use std::time::{Duration, Instant};

use crate::figures::Bench;
use crate::lab::{self, Job};
use crate::ours::Fleet;
use crate::patience;
use crate::procfs::{self, Cpu};
use crate::table::{Aim, Line};

const JOBS: usize = 500;
const AIM: Aim = Aim::AtMost(0.3);
/// 500 starts on a small machine, with room.
const START_WITHIN: Duration = Duration::from_secs(240);
/// For the burst of starts to be over.
const SETTLE: Duration = Duration::from_secs(5);

pub fn measure(bench: &Bench) -> Vec<Line> {
    let fleet = Fleet::new(JOBS, 0);
    let script = fleet.script.as_ref().expect("a script");
    fleet.submit(vec![lab::spec(&fleet.home.work(), Job::Paced); JOBS]);
    patience::until("the jobs to be under way", START_WITHIN, Duration::from_millis(500), || {
        (procfs::workers(fleet.pid()).len() == JOBS && script.requests() >= 2 * JOBS).then_some(())
    });
    rest(SETTLE);
    let (cpu, playing, requests, begun) = (fleet.cpu(), Cpu::of(script.pid()), script.requests(), Instant::now());
    rest(Duration::from_secs(bench.options.repeats(30, 10) as u64));
    let seconds = begun.elapsed().as_secs_f64();
    let used = fleet.cpu().since(cpu).own;
    let playing = Cpu::of(script.pid()).since(playing).own;
    let steps = (script.requests() - requests) as f64;
    let alive = procfs::workers(fleet.pid()).len();
    fleet.cancel_all();
    assert_eq!(alive, JOBS, "jobs ended while they were looked at");
    vec![
        Line::new("processors that the server takes, 500 jobs at once")
            .ours(used / seconds, "")
            .judged(used / seconds, AIM, "")
            .spread(format!(
                "{:.0} steps a second, {:.2} ms of the server each; the provider takes {:.2}",
                steps / seconds,
                used * 1e3 / steps,
                playing / seconds
            )),
    ]
}

fn rest(time: Duration) {
    let begun = Instant::now();
    patience::until("time to pass", 2 * time, Duration::from_millis(50), || (begun.elapsed() >= time).then_some(()));
}
