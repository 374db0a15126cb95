//! What the disk under the state directory takes for a record: 300 bytes appended and synced.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use ukai_protocol::disk;
use ukai_tests::home::Home;

use crate::figures::Bench;
use crate::patience;
use crate::stats::Sample;
use crate::table::Line;

const RECORD_BYTES: usize = 300;
const WRITERS: usize = 32;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let appends = bench.options.repeats(1_000, 200);
    [1, WRITERS].into_iter().map(|writers| line(writers, &append(writers, appends))).collect()
}

fn line(writers: usize, sample: &Sample) -> Line {
    let figure = match writers {
        1 => "append and sync of 300 bytes, p50".to_owned(),
        _ => format!("… with {writers} writers, p50"),
    };
    Line::new(figure).floor(sample.median(), "ms").spread(format!(
        "p99 {} ms; middle half {}",
        crate::stats::short(sample.quantile(0.99)),
        sample.spread()
    ))
}

/// Each to a file of its own, as runs are written.
fn append(writers: usize, appends: usize) -> Sample {
    let home = Home::new();
    let folder = home.path().join("state");
    let barrier = Barrier::new(writers);
    let record = [b"x".repeat(RECORD_BYTES - 1), b"\n".to_vec()].concat();
    let times: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let write = |writer: usize| {
            let mut file = disk::open_append(&folder.join(format!("{writer}.jsonl"))).expect("a file");
            barrier.wait();
            let timed = (0..(appends / writers).max(20)).map(|_| {
                patience::go_on();
                let begun = Instant::now();
                disk::append(&mut file, &record).expect("the disk takes it");
                begun.elapsed()
            });
            timed.collect()
        };
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || write(writer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer")).collect()
    });
    times.into_iter().flatten().map(crate::stats::ms).collect()
}
