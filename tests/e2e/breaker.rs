//! HALF_OPEN on real processes: one probe at a time, and nothing that becomes of one keeps its place.

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use ukai_supervisor::route::account::Memory;
use ukai_supervisor::route::breaker::{self, Until, Why};
use ukai_supervisor::store::StateDir;
use ukai_supervisor::store::routes::{self, Remembered};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

/// A home whose last supervisor left the breaker OPEN for another moment.
fn opening(script: &str) -> (Home, Script) {
    let home = Home::new();
    let script = Script::serve(home.path(), script);
    home.configure(&format!("max_workers = 8\n{}", lab(&script, "openai")));
    let state = StateDir::new(home.state_dir());
    state.create().expect("created");
    let (now, clock) = (Instant::now(), SystemTime::now());
    let until = Until::At(now + Duration::from_millis(1_500));
    let open = breaker::Memory { until, why: Why::Limited, opened: 1 };
    let memory = Memory {
        not_before: None,
        breaker: Some(open),
        tally: None,
        requests: None,
        tokens: None,
        age: Duration::ZERO,
        last_failure: None,
    };
    routes::save(&state, vec![Remembered::new("lab", &memory, now, clock)], true).expect("saved");
    (home, script)
}

fn submit(home: &Home, jobs: usize) {
    for number in 0..jobs {
        assert!(home.ukai(&["submit", "--prompt", &format!("job {number}")]).status.success());
    }
}

fn is_probe(arrival: &Value) -> bool {
    !arrival["prompt"].as_str().is_some_and(|prompt| prompt.starts_with("job "))
}

fn all_done(home: &Home, jobs: usize) {
    wait::until("all jobs to end", || {
        let ended = home.runs().iter().filter(|id| home.count(id, "Finished") == 1).count();
        (ended == jobs).then_some(())
    });
    for id in home.runs() {
        let end = home.events(&id).pop().expect("an end");
        assert!(end.to_string().contains("Done."), "{end}");
    }
}

#[test]
fn at_the_instant_exactly_the_probe_is_sent_then_concurrency_ramps() {
    let (home, script) = opening("[defaults]\nlatency = \"150ms\"\n[[rule]]\nreply.text = \"Done.\"\n");
    let _server = home.serve();
    submit(&home, 12);
    assert_eq!(script.arrivals().len(), 0, "it is OPEN");
    all_done(&home, 12);
    let arrivals = script.arrivals();
    let probes: Vec<usize> = (0..arrivals.len()).filter(|place| is_probe(&arrivals[*place])).collect();
    assert_eq!(probes, [0, 1], "two probes, before all others: {arrivals:?}");
    let span = |place: usize| {
        let at = |key: &str| arrivals[place][key].as_f64().expect("a time");
        (at("at_ms"), at("answered_ms"))
    };
    assert!(span(1).0 >= span(0).1 - 1.0, "one after the other: {arrivals:?}");
    let in_flight_at = |place: usize| (2..place).filter(|earlier| span(*earlier).1 > span(place).0).count() + 1;
    assert_eq!(in_flight_at(2), 1, "{arrivals:?}");
    assert!(in_flight_at(3) <= 2 && in_flight_at(4) <= 2, "one, then two: {arrivals:?}");
    assert!((2..arrivals.len()).all(|place| in_flight_at(place) <= 8), "{arrivals:?}");
}

#[test]
fn probes_that_say_nothing_free_their_place() {
    // The first is answered with a 400, which is about the request and not about the provider.
    let script = "[[rule]]\nwhen.prompt = { lacks = \"job \" }\ntimes = 1\nper = \"server\"\nfault = { status = 400 }\n\
                  [[rule]]\nreply.text = \"Done.\"\n";
    let (home, script) = opening(script);
    let _server = home.serve();
    submit(&home, 1);
    all_done(&home, 1);
    let statuses: Vec<_> = script.arrivals().iter().filter(|at| is_probe(at)).map(|at| at["status"].clone()).collect();
    assert_eq!(statuses, [400, 200, 200], "{:?}", script.arrivals());
}

#[test]
fn a_probe_that_is_killed_frees_its_place() {
    let script = "[[rule]]\nwhen.prompt = { lacks = \"job \" }\ntimes = 1\nper = \"server\"\nfault = { hang = \"before_headers\" }\n\
                  [[rule]]\nreply.text = \"Done.\"\n";
    let (home, script) = opening(script);
    let server = home.serve();
    submit(&home, 1);
    let pid = wait::until("the probe's process", || {
        (!script.arrivals().is_empty()).then_some(())?;
        children_of(server.child.id()).first().copied()
    });
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).expect("it lives");
    all_done(&home, 1);
    assert_eq!(script.arrivals().iter().filter(|at| is_probe(at)).count(), 3, "{:?}", script.arrivals());
}

/// Whichever thread of it started them: the kernel's own list is by thread.
fn children_of(parent: u32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().nth(1);
        fields.is_some_and(|ppid| ppid == parent.to_string())
    })
    .collect()
}

#[test]
fn a_supervisor_that_only_waits_for_a_person_sends_no_probe() {
    let home = Home::new();
    let script = Script::serve(
        home.path(),
        "[[rule]]\ntimes = 1\nper = \"server\"\nfault = { status = 401 }\n[[rule]]\nreply.text = \"Done.\"\n",
    );
    home.configure(&lab(&script, "openai"));
    let _server = home.serve();
    assert_eq!(home.ukai(&["run", "first"]).status.code(), Some(4));
    submit(&home, 1);
    let stderr = String::from_utf8_lossy(&home.ukai(&["ls"]).stdout).into_owned();
    assert!(stderr.contains("ukai providers reset lab"), "{stderr}");
    assert_eq!(script.arrivals().len(), 1);
    assert!(home.ukai(&["providers", "reset", "lab"]).status.success());
    wait::until("the queued one to go", || {
        home.runs()
            .iter()
            .any(|id| home.events(id).last().is_some_and(|end| end.to_string().contains("Done.")))
            .then_some(())
    });
    assert_eq!(script.arrivals().len(), 2);
}
