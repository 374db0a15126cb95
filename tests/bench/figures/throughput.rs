//! 32 jobs at once: how many come through in a minute, and what each costs.
//!
//! The floor is 32 loops on as many threads as there are processors. The provider works on the same processors as both,
//! and what it takes is told beside them: it is in each side's time, and brings the ratio nearer to 1.

use crate::figures::Bench;
use crate::floor::Floor;
use crate::lab::Job;
use crate::ours::Fleet;
use crate::patience;
use crate::procfs::{self, Cpu};
use crate::stats::Sample;
use crate::table::{Aim, Line};

const JOBS: usize = 32;
const RATE_AIM: Aim = Aim::AtLeast(0.65);
const CPU_AIM: Aim = Aim::AtMost(1.5);

pub fn measure(bench: &Bench) -> Vec<Line> {
    let files = bench.work().files;
    let fleet = Fleet::new(JOBS, files);
    let floor = Floor::new(&fleet.home, fleet.url());
    let provider = fleet.script.as_ref().expect("a script").pid();
    let per_minute = |wall: std::time::Duration| JOBS as f64 * 60.0 / wall.as_secs_f64();
    let per_job = |seconds: f64| seconds * 1e3 / JOBS as f64;
    let (mut floor_rate, mut floor_cpu, mut floor_provider) = Default::default();
    let (mut rate, mut worker, mut server, mut ours_provider) = Default::default();
    let samples: [&mut Sample; 7] =
        [&mut floor_rate, &mut floor_cpu, &mut floor_provider, &mut rate, &mut worker, &mut server, &mut ours_provider];
    let [floor_rate, floor_cpu, floor_provider, rate, worker, server, ours_provider] = samples;
    let _ = (floor.crowd(Job::Grep, JOBS), fleet.crowd(Job::Grep, JOBS));
    for _ in 0..bench.options.repeats(9, 3) {
        patience::go_on();
        let (cpu, playing) = (procfs::own_cpu(), Cpu::of(provider));
        floor_rate.add(per_minute(floor.crowd(Job::Grep, JOBS)));
        floor_cpu.add(per_job((procfs::own_cpu() - cpu).as_secs_f64()));
        floor_provider.add(per_job(Cpu::of(provider).since(playing).own));

        fleet.until_reaped();
        let (cpu, playing) = (fleet.cpu(), Cpu::of(provider));
        rate.add(per_minute(fleet.crowd(Job::Grep, JOBS)));
        fleet.until_reaped();
        let used = fleet.cpu().since(cpu);
        worker.add(per_job(used.reaped));
        server.add(per_job(used.own));
        ours_provider.add(per_job(Cpu::of(provider).since(playing).own));
    }
    let ours = worker.mean() + server.mean();
    vec![
        Line::new(format!("jobs per minute, 32 at once, Grep over {files} files"))
            .ours(rate.median(), "")
            .floor(floor_rate.median(), "")
            .ratio(rate.median() / floor_rate.median(), Some(RATE_AIM))
            .spread(format!("{}; floor {}", rate.spread(), floor_rate.spread())),
        Line::new("processor time per job, 32 at once, Grep")
            .ours(ours, "ms")
            .floor(floor_cpu.mean(), "ms")
            .ratio(ours / floor_cpu.mean(), Some(CPU_AIM))
            .spread(format!("worker {:.1} ms, server {:.1} ms", worker.mean(), server.mean())),
        Line::new("… of the provider, beside it")
            .ours(ours_provider.mean(), "ms")
            .floor(floor_provider.mean(), "ms")
            .spread("in neither of the two above"),
    ]
}
