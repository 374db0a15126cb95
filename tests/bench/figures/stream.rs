//! A long reply: one call whose text comes in a thousand pieces. What each piece costs on its way.

use crate::figures::Bench;
use crate::figures::pair::Pair;
use crate::floor::Floor;
use crate::lab::{Job, PIECES};
use crate::ours::Fleet;
use crate::table::Line;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let fleet = Fleet::new(4, 0);
    let floor = Floor::new(&fleet.home, fleet.url());
    let pair = Pair::measure(&fleet, &floor, Job::Stream, 1, bench.options.repeats(25, 7));
    vec![pair.time(&format!("a job of one reply in {PIECES} pieces"), None), pair.cpu("… processor time", None)]
}
