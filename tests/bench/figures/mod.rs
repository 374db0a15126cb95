//! The figures, in the order of the table.

mod bash;
mod crowd;
mod growth;
mod lease;
mod memory;
mod pair;
mod start;
mod step;
mod stream;
mod sync;
mod throughput;

use std::cell::OnceCell;

use crate::lab::{self, Work};
use crate::options::Options;
use crate::table::Line;

/// A few figures that one piece of work gives.
pub struct Group {
    pub name: &'static str,
    pub about: &'static str,
    pub measure: fn(&Bench) -> Vec<Line>,
}

pub const GROUPS: [Group; 10] = [
    Group { name: "step", about: "a job alone: time and processor time", measure: step::measure },
    Group {
        name: "bash",
        about: "a job of commands: alone, 32 at once, and beside a large memory",
        measure: bash::measure,
    },
    Group { name: "stream", about: "a job of one long reply", measure: stream::measure },
    Group { name: "start", about: "from a job's id to its first request", measure: start::measure },
    Group { name: "memory", about: "a worker's memory at 1, 8, 32 and 128", measure: memory::measure },
    Group { name: "throughput", about: "32 jobs at once", measure: throughput::measure },
    Group { name: "sync", about: "the disk under the state directory", measure: sync::measure },
    Group { name: "lease", about: "the round trip of a lease", measure: lease::measure },
    Group { name: "growth", about: "step 1,000 against step 10", measure: growth::measure },
    Group { name: "crowd", about: "the server with 500 jobs at once", measure: crowd::measure },
];

/// What the groups share.
pub struct Bench {
    pub options: Options,
    work: OnceCell<Work>,
}

impl Bench {
    #[must_use]
    pub fn new(options: Options) -> Bench {
        Bench { options, work: OnceCell::new() }
    }

    /// Weighed when it is first needed.
    pub fn work(&self) -> &Work {
        self.work.get_or_init(|| lab::weigh(self.options.repeats(200, 60)))
    }
}

/// When each reply was recorded, in milliseconds, by the stamps in the log.
fn reply_times(events: &[serde_json::Value]) -> Vec<f64> {
    let replies = events.iter().filter(|record| record["event"] == "Replied");
    let at = replies.map(|record| record["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()));
    at.map(|at| at.expect("a record is stamped").as_millisecond() as f64).collect()
}
