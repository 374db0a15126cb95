//! One job at a time: how long a step takes, and what a job costs in processor time.

use crate::figures::Bench;
use crate::floor::Floor;
use crate::lab::{Job, STEPS};
use crate::ours::Fleet;
use crate::procfs;
use crate::provider;
use crate::stats::Sample;
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

    let grep = Pair::measure(&fleet, &floor, Job::Grep, repeats);
    let read = Pair::measure(&fleet, &floor, Job::Read, repeats);
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
        grep.time("time per step, Grep").ratio(grep.time_ratio(), Some(TIME_AIM)),
        grep.middle("… between the first and the last reply"),
        read.time("time per step, Read").ratio(read.time_ratio(), None),
        read.middle("… between the first and the last reply"),
        grep.cpu("processor time per job, Grep").ratio(grep.cpu_ratio(), Some(CPU_AIM)),
        read.cpu("processor time per job, Read").ratio(read.cpu_ratio(), None),
    ]
}

/// Floor and ours in turn, in milliseconds.
#[derive(Default)]
struct Pair {
    floor: Sample,
    ours: Sample,
    floor_middle: Sample,
    ours_middle: Sample,
    floor_cpu: Sample,
    worker_cpu: Sample,
    server_cpu: Sample,
}

impl Pair {
    fn measure(fleet: &Fleet, floor: &Floor, job: Job, repeats: usize) -> Pair {
        let mut pair = Pair::default();
        // Once unmeasured, each: what is read for the first time is read from the disk.
        let _ = (floor.run(job, &[]), fleet.run(job));
        for _ in 0..repeats {
            let cpu = procfs::own_cpu();
            let had = floor.run(job, &[]);
            pair.floor_cpu.add_time(procfs::own_cpu().saturating_sub(cpu));
            pair.floor.add_time((had.ended - had.begun) / STEPS as u32);
            pair.floor_middle.add_time((had.replied[had.replied.len() - 1] - had.replied[0]) / (STEPS - 1) as u32);

            fleet.until_reaped();
            let cpu = fleet.cpu();
            let ran = fleet.run(job);
            fleet.until_reaped();
            let used = fleet.cpu().since(cpu);
            pair.ours.add_time(ran.wall / STEPS as u32);
            pair.ours_middle.add(replies_apart(&fleet.events(&ran.id)));
            pair.worker_cpu.add(used.reaped * 1e3);
            pair.server_cpu.add(used.own * 1e3);
        }
        pair
    }

    fn time(&self, figure: &str) -> Line {
        Line::new(figure).ours(self.ours.median(), "ms").floor(self.floor.median(), "ms").spread(format!(
            "{}; floor {}",
            self.ours.spread(),
            self.floor.spread()
        ))
    }

    fn time_ratio(&self) -> f64 {
        self.ours.median() / self.floor.median()
    }

    fn middle(&self, figure: &str) -> Line {
        let (ours, floor) = (self.ours_middle.median(), self.floor_middle.median());
        Line::new(figure).ours(ours, "ms").floor(floor, "ms").ratio(ours / floor, None).spread("without start and end")
    }

    /// Means: the kernel tells processor time of other processes in steps of 10 ms, and sums are true to that.
    fn cpu(&self, figure: &str) -> Line {
        let (worker, server) = (self.worker_cpu.mean(), self.server_cpu.mean());
        Line::new(figure)
            .ours(worker + server, "ms")
            .floor(self.floor_cpu.mean(), "ms")
            .spread(format!("worker {worker:.1} ms, server {server:.1} ms"))
    }

    fn cpu_ratio(&self) -> f64 {
        (self.worker_cpu.mean() + self.server_cpu.mean()) / self.floor_cpu.mean()
    }
}

/// Milliseconds between two replies on the disk, on average, by the stamps in the log.
fn replies_apart(events: &[serde_json::Value]) -> f64 {
    let at = super::reply_times(events);
    (at[at.len() - 1] - at[0]) / (at.len() - 1) as f64
}
