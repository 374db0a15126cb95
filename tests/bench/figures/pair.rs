//! One job by the floor and by us, in turn, so that a slow minute of the machine meets both.

use crate::floor::Floor;
use crate::lab::Job;
use crate::ours::Fleet;
use crate::procfs;
use crate::stats::{Sample, ms};
use crate::table::{Aim, Line};

/// All in milliseconds.
#[derive(Default)]
pub struct Pair {
    floor: Sample,
    ours: Sample,
    floor_middle: Sample,
    ours_middle: Sample,
    floor_cpu: Sample,
    worker_cpu: Sample,
    server_cpu: Sample,
}

impl Pair {
    /// A job of so many steps, so often.
    pub fn measure(fleet: &Fleet, floor: &Floor, job: Job, steps: u32, repeats: usize) -> Pair {
        let mut pair = Pair::default();
        // Once unmeasured, each: what is read for the first time is read from the disk.
        let _ = (floor.run(job, &[]), fleet.run(job));
        for _ in 0..repeats {
            let cpu = procfs::own_cpu();
            let had = floor.run(job, &[]);
            pair.floor_cpu.add_time(procfs::own_cpu().saturating_sub(cpu));
            pair.floor.add_time((had.ended - had.begun) / steps);
            assert_eq!(had.replied.len(), steps as usize, "the script plays another job than was meant");
            let begun = had.begun;
            let replied: Vec<f64> = had.replied.iter().map(|at| ms(*at - begun)).collect();
            pair.floor_middle.add(apart(&replied));

            fleet.until_reaped();
            let cpu = fleet.cpu();
            let ran = fleet.run(job);
            fleet.until_reaped();
            let used = fleet.cpu().since(cpu);
            pair.ours.add_time(ran.wall / steps);
            pair.ours_middle.add(apart(&super::reply_times(&fleet.events(&ran.id))));
            pair.worker_cpu.add(used.reaped * 1e3);
            pair.server_cpu.add(used.own * 1e3);
        }
        pair
    }

    #[must_use]
    pub fn time(&self, figure: &str, aim: Option<Aim>) -> Line {
        let (ours, floor) = (self.ours.median(), self.floor.median());
        Line::new(figure).ours(ours, "ms").floor(floor, "ms").ratio(ours / floor, aim).spread(format!(
            "{}; floor {}",
            self.ours.spread(),
            self.floor.spread()
        ))
    }

    #[must_use]
    pub fn middle(&self, figure: &str, aim: Option<Aim>) -> Line {
        let (ours, floor) = (self.ours_middle.median(), self.floor_middle.median());
        Line::new(figure).ours(ours, "ms").floor(floor, "ms").ratio(ours / floor, aim).spread(format!(
            "{}; floor {}",
            self.ours_middle.spread(),
            self.floor_middle.spread()
        ))
    }

    /// Per job. Means: the kernel tells processor time of other processes in steps of 10 ms, and sums are true to that.
    #[must_use]
    pub fn cpu(&self, figure: &str, aim: Option<Aim>) -> Line {
        let (worker, server) = (self.worker_cpu.mean(), self.server_cpu.mean());
        Line::new(figure)
            .ours(worker + server, "ms")
            .floor(self.floor_cpu.mean(), "ms")
            .ratio((worker + server) / self.floor_cpu.mean(), aim)
            .spread(format!("worker {worker:.1} ms, server {server:.1} ms"))
    }
}

/// Between two replies on average; 0 where there is but one.
fn apart(at: &[f64]) -> f64 {
    (at[at.len() - 1] - at[0]) / at.len().saturating_sub(1).max(1) as f64
}
