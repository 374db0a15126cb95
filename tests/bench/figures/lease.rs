//! The round trip of a lease, from the ask on a worker's socket to the grant, with more and more workers beside it.

use std::fs;
use std::time::Duration;

use ukai_protocol::job::JobSpec;
use ukai_tests::home::Home;
use ukai_tests::script::Script;

use crate::figures::Bench;
use crate::lab::{self, Job};
use crate::lease_worker::{ASKS_FAST, ASKS_SLOWLY, MODE, TIMES, WELCOMED};
use crate::ours::Fleet;
use crate::patience::{self, PATIENCE};
use crate::stats::{Sample, short};
use crate::table::Line;

const WORKERS: [usize; 3] = [1, 32, 200];
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn measure(_: &Bench) -> Vec<Line> {
    WORKERS.into_iter().map(line).collect()
}

fn line(workers: usize) -> Line {
    let mut home = Home::new();
    let own = std::env::current_exe().expect("this program has a path");
    home.worker_is(&format!("exec {} {MODE} \"$@\"", own.display()));
    let script = Script::serve(home.path(), &lab::script());
    let url = script.url.clone();
    let fleet = Fleet::in_home(home, Some(script), &url, workers);
    let work = fleet.home.work();
    let spec = |prompt: &str| JobSpec { prompt: prompt.to_owned(), ..lab::spec(&work, Job::Read) };

    if workers > 1 {
        fleet.submit(vec![spec(ASKS_SLOWLY); workers - 1]);
    }
    patience::until(&format!("{workers} workers to be welcomed"), 2 * PATIENCE, LOOK_EVERY, || {
        let welcomed = fs::read_dir(work.join(WELCOMED)).map_or(0, Iterator::count);
        (welcomed + 1 == workers).then_some(())
    });
    fleet.submit(vec![spec(ASKS_FAST)]);
    let times =
        patience::until("the round trips", 2 * PATIENCE, LOOK_EVERY, || fs::read_to_string(work.join(TIMES)).ok());
    fleet.cancel_all();
    let micros: Sample = times.lines().map(|ns| ns.parse::<f64>().expect("nanoseconds") / 1e3).collect();
    let beside = match workers {
        1 => "alone".to_owned(),
        _ => format!("with {workers} workers"),
    };
    Line::new(format!("round trip of a lease, {beside}, p50"))
        .ours(micros.median(), "µs")
        .spread(format!("p99 {} µs; the others ask once a second", short(micros.quantile(0.99))))
}
