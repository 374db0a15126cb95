//! Whether a step costs more the longer the run: around step 1,000 against around step 10.
//!
//! With everything kept, the request itself grows, and with it what the provider and any client must do. So the growth
//! is set against that of the floor, which sends the same conversation: what is left is what ukai itself adds.

use std::time::Instant;

use crate::figures::Bench;
use crate::floor::Floor;
use crate::lab::{Job, LONG_STEPS};
use crate::ours::Fleet;
use crate::patience;
use crate::provider;
use crate::stats::{Sample, ms, short};
use crate::table::{Aim, Line};

const AIM: Aim = Aim::AtMost(1.2);
/// Steps between which the time is taken: the stamps of a log are of a millisecond, so one step alone is too short.
const EARLY: (usize, usize) = (5, 25);
const LATE: (usize, usize) = (LONG_STEPS as usize - 25, LONG_STEPS as usize - 5);

pub fn measure(bench: &Bench) -> Vec<Line> {
    let fleet = Fleet::new(2, 0);
    let floor = Floor::new(&fleet.home, fleet.url());
    let (mut ours, mut bare) = (Ages::default(), Ages::default());
    let mut bodies = Vec::new();
    for _ in 0..bench.options.repeats(5, 1) {
        patience::go_on();
        let had = floor.run(Job::Long, &[10, 1_000]);
        let begun = had.begun;
        bare.add(&had.replied.iter().map(|at: &Instant| ms(*at - begun)).collect::<Vec<_>>());
        bodies = had.bodies;
        let ran = fleet.run(Job::Long);
        ours.add(&super::reply_times(&fleet.events(&ran.id)));
    }
    let repeats = bench.options.repeats(100, 30);
    let provider: Vec<f64> = bodies.iter().map(|body| provider::alone(fleet.url(), body, repeats).median()).collect();
    let growth = |ages: &Ages| ages.late.median() / ages.early.median();
    vec![
        Line::new("a step around step 10")
            .ours(ours.early.median(), "ms")
            .floor(bare.early.median(), "ms")
            .ratio(ours.early.median() / bare.early.median(), None)
            .spread(format!("{}; provider alone {} ms", ours.early.spread(), short(provider[0]))),
        Line::new("a step around step 1,000")
            .ours(ours.late.median(), "ms")
            .floor(bare.late.median(), "ms")
            .ratio(ours.late.median() / bare.late.median(), None)
            .spread(format!("{}; provider alone {} ms", ours.late.spread(), short(provider[1]))),
        Line::new("growth from 10 to 1,000, ours ÷ floor's")
            .ours(growth(&ours), "×")
            .floor(growth(&bare), "×")
            .ratio(growth(&ours) / growth(&bare), Some(AIM))
            .spread(format!(
                "each is its step 1,000 ÷ its step 10; ukai adds {} ms at 10, {} ms at 1,000",
                short(ours.early.median() - bare.early.median()),
                short(ours.late.median() - bare.late.median()),
            )),
    ]
}

/// Milliseconds per step, early and late in each run.
#[derive(Default)]
struct Ages {
    early: Sample,
    late: Sample,
}

impl Ages {
    fn add(&mut self, replied: &[f64]) {
        let per_step = |(from, to): (usize, usize)| (replied[to - 1] - replied[from - 1]) / (to - from) as f64;
        self.early.add(per_step(EARLY));
        self.late.add(per_step(LATE));
    }
}
