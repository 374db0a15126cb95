//! One job at a time: how long a step takes, and what a job costs in processor time.

use crate::figures::Bench;
use crate::figures::pair::Pair;
use crate::floor::Floor;
use crate::lab::{Job, STEPS};
use crate::ours::Fleet;
use crate::provider;
use crate::table::{Aim, Line};

const TIME_AIM: Aim = Aim::AtMost(1.6);
const CPU_AIM: Aim = Aim::AtMost(1.7);
/// Where the provider's own time is looked at: the middle of a job.
const MIDDLE: u64 = STEPS / 2;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let work = bench.work();
    let fleet = Fleet::new(4, work.files);
    let floor = Floor::new(&fleet.home, fleet.url());
    let repeats = bench.options.repeats(25, 7);

    let grep = Pair::measure(&fleet, &floor, Job::Grep, STEPS as u32, repeats);
    let read = Pair::measure(&fleet, &floor, Job::Read, STEPS as u32, repeats);
    let body = floor.run(Job::Grep, &[MIDDLE]).bodies.remove(0);
    let provider = provider::alone(fleet.url(), &body, bench.options.repeats(200, 60));

    vec![
        Line::new("`sh -c 'echo x'`, to compare tools with")
            .floor(work.shell.median(), "ms")
            .spread(work.shell.spread()),
        Line::new(format!("a Grep over {} files, by itself", work.files))
            .floor(work.grep.median(), "ms")
            .spread(work.grep.spread()),
        Line::new("a Read of a small file, by itself").floor(work.read.median(), "ms").spread(work.read.spread()),
        Line::new("the provider, by itself, for one request").floor(provider.median(), "ms").spread(provider.spread()),
        grep.middle("a step, Grep: from one reply to the next", Some(TIME_AIM)),
        grep.time("… with its share of the job's start and end", None),
        read.middle("a step, Read: from one reply to the next", None),
        read.time("… with its share of the job's start and end", None),
        grep.cpu("processor time per job, Grep", Some(CPU_AIM)),
        read.cpu("processor time per job, Read", None),
    ]
}
