//! What a command costs that is recorded, judged and confined, against a bare `sh -c` that is not.

use std::process::Command;

use crate::command_cost::{self, Cost};
use crate::figures::Bench;
use crate::figures::pair::Pair;
use crate::floor::Floor;
use crate::lab::{Job, STEPS};
use crate::ours::Fleet;
use crate::patience;
use crate::stats::{Sample, short};
use crate::table::{Aim, Line};

const STEP_AIM: Aim = Aim::AtMost(1.8);
const RATE_AIM: Aim = Aim::AtLeast(0.6);
const JOBS: usize = 32;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let fleet = Fleet::new(JOBS, 0);
    let floor = Floor::new(&fleet.home, fleet.url());
    let pair = Pair::measure(&fleet, &floor, Job::Bash, STEPS as u32, bench.options.repeats(25, 7));
    let (mut rate, mut floor_rate) = (Sample::default(), Sample::default());
    let per_minute = |wall: std::time::Duration| JOBS as f64 * 60.0 / wall.as_secs_f64();
    let _ = (floor.crowd(Job::Bash, JOBS), fleet.crowd(Job::Bash, JOBS));
    for _ in 0..bench.options.repeats(9, 3) {
        patience::go_on();
        floor_rate.add(per_minute(floor.crowd(Job::Bash, JOBS)));
        fleet.until_reaped();
        rate.add(per_minute(fleet.crowd(Job::Bash, JOBS)));
        fleet.until_reaped();
    }
    let Cost { bare, ours, ours_beside_memory } = alone(bench.options.repeats(400, 100));
    let of_floor = |sample: &Sample| sample.median() / bare.median();
    vec![
        pair.middle("a step, Bash: from one reply to the next", Some(STEP_AIM)),
        pair.time("… with its share of the job's start and end", None),
        pair.cpu("processor time per job, Bash", None),
        Line::new("jobs per minute, 32 at once, Bash")
            .ours(rate.median(), "")
            .floor(floor_rate.median(), "")
            .ratio(rate.median() / floor_rate.median(), Some(RATE_AIM))
            .spread(format!("{}; floor {}", rate.spread(), floor_rate.spread())),
        Line::new("the command by itself, confined, with bash")
            .ours(ours.median(), "ms")
            .floor(bare.median(), "ms")
            .ratio(of_floor(&ours), None)
            .spread(format!("{}; floor {}", ours.spread(), bare.spread())),
        Line::new("… started from a process that holds 64 MB")
            .ours(ours_beside_memory.median(), "ms")
            .floor(bare.median(), "ms")
            .ratio(of_floor(&ours_beside_memory), None)
            .spread(format!("{} ms more than without", short(ours_beside_memory.median() - ours.median()))),
    ]
}

/// In a process of its own: a host is forked before there are threads.
fn alone(repeats: usize) -> Cost {
    let own = std::env::current_exe().expect("this program has a path");
    let output = Command::new(own).args([command_cost::MODE, &repeats.to_string()]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    command_cost::read(&String::from_utf8_lossy(&output.stdout))
}
