//! The memory of workers in the middle of their jobs: some steps done, the next reply awaited.

use std::time::Duration;

use ukai_tests::home::Home;
use ukai_tests::script::Script;

use crate::figures::Bench;
use crate::lab::{self, HELD_AFTER, Job};
use crate::ours::Fleet;
use crate::patience;
use crate::procfs;
use crate::stats::Sample;
use crate::table::{Aim, Line};

const COUNTS: [usize; 4] = [1, 8, 32, 128];
const PRIVATE_AIM: Aim = Aim::AtMost(0.5);
/// 128 starts on a small machine, with room.
const HELD_WITHIN: Duration = Duration::from_secs(120);

pub fn measure(_: &Bench) -> Vec<Line> {
    let mut home = Home::new();
    // The scripted provider runs the worker's program too: workers of a copy share nothing with it.
    let copy = home.path().join("worker");
    std::fs::copy(ukai_tests::binary("ukai-under-test-worker"), &copy).expect("a copy of the worker");
    home.worker_is(&format!("exec {} \"$@\"", copy.display()));
    lab::furnish(&home, 0);
    let script = Script::serve(home.path(), &lab::script());
    let url = script.url.clone();
    let fleet = Fleet::in_home(home, Some(script), &url, 128);
    let mut held = 0;
    COUNTS.iter().flat_map(|count| look(&fleet, *count, &mut held)).collect()
}

fn look(fleet: &Fleet, count: usize, held: &mut usize) -> Vec<Line> {
    fleet.submit(vec![lab::spec(&fleet.home.work(), Job::Held); count]);
    *held += count;
    let script = fleet.script.as_ref().expect("a script");
    patience::until(&format!("{count} jobs in the middle"), HELD_WITHIN, Duration::from_millis(200), || {
        let late = |arrival: &&serde_json::Value| arrival["step"] == HELD_AFTER + 1;
        (script.arrivals().iter().filter(late).count() == *held).then_some(())
    });
    let memories: Vec<_> = fleet.until_workers(count, HELD_WITHIN).into_iter().filter_map(procfs::memory).collect();
    let server = procfs::memory(fleet.pid());
    fleet.cancel_all();
    let pss: Sample = memories.iter().map(|memory| memory.pss).collect();
    let private: Sample = memories.iter().map(|memory| memory.private).collect();
    let each = |what: &str| match count {
        1 => format!("{what} of a worker alone"),
        _ => format!("{what} of each of {count} workers"),
    };
    let (Some(server), true) = (server, memories.len() == count) else {
        return vec![Line::new(each("memory")).spread("only root may look: ukai's processes are not dumpable")];
    };
    let line = Line::new(each("PSS")).ours(pss.median(), "MB").spread(format!("server {:.1} MB", server.pss));
    let aim = match count {
        1 => Some(4.0),
        32 => Some(1.0),
        _ => None,
    };
    let line = match aim {
        Some(bound) => line.judged(pss.median(), Aim::AtMost(bound), "MB"),
        None => line,
    };
    let own = Line::new(each("private memory")).ours(private.median(), "MB");
    let own = match count {
        1 => own.spread("with all of its program that it uses: nobody else maps it"),
        _ => own.judged(private.median(), PRIVATE_AIM, "MB").spread(private.spread()),
    };
    vec![line, own]
}
