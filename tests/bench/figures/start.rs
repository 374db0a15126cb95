//! From a job's id to its first request: a process, its runtime, its handshake, a lease, a connection.
//!
//! Both ends are seen by one clock, ours: the server's answer to the submission, after which only the queue and the fork
//! are left to do, and the request, whole, at a provider that is a thread of this bench.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use ukai_tests::home::Home;
use ukai_tests::raw::Raw;

use crate::figures::Bench;
use crate::lab::{self, Job};
use crate::ours::Fleet;
use crate::patience::{self, PATIENCE};
use crate::stats::Sample;
use crate::table::{Aim, Line};

const AIM: Aim = Aim::AtMost(5.0);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const REPLY: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}"#;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let (arrived, arrivals) = mpsc::channel();
    let provider = Raw::serve(move |_, _| {
        // Nobody waits for it when the bench has ended.
        let _ = arrived.send(Instant::now());
        Some(REPLY.to_owned())
    });
    let home = Home::new();
    lab::furnish(&home, 0);
    let fleet = Fleet::in_home(home, None, &provider.url, 4);
    let (mut from_id, mut from_request) = (Sample::default(), Sample::default());
    for repeat in 0..bench.options.repeats(60, 15) {
        fleet.until_reaped();
        let spec = lab::spec(&fleet.home.work(), Job::Read);
        let mut door = fleet.door();
        let asked = Instant::now();
        fleet.submit_by(&mut door, vec![spec]);
        let answered = Instant::now();
        let arrived = patience::until("a request at the provider", PATIENCE, LOOK_EVERY, || arrivals.try_recv().ok());
        // The first finds nothing in memory.
        if repeat > 0 {
            from_id.add_time(arrived.saturating_duration_since(answered));
            from_request.add_time(arrived - asked);
        }
    }
    fleet.until_reaped();
    vec![
        Line::new("start of a worker to its first request")
            .ours(from_id.median(), "ms")
            .judged(from_id.median(), AIM, "ms")
            .spread(from_id.spread()),
        Line::new("… with the submission before it")
            .ours(from_request.median(), "ms")
            .spread(format!("{}; makes the job durable first", from_request.spread())),
    ]
}
