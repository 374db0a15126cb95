//! A worker may die at any moment, and so may the supervisor: the run is the one that an undisturbed job would have had.

use std::collections::BTreeMap;

use serde_json::Value;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

/// Model calls in the job that is killed.
const STEPS: u32 = 4;

fn kill(pid: u64) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a pid"));
    // It may have ended by itself in this moment; then there is nothing to kill.
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
}

fn submit(home: &Home) -> String {
    home.file("job.toml", "name = \"walk\"\nprompt = \"look at the notes\"\n");
    let output = home.ukai(&["submit", "job.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn finished(home: &Home, id: &str) -> Value {
    wait::until("the job to end", || {
        let events = home.events(id);
        events.into_iter().find(|record| record["event"] == "Finished")
    })
}

/// What the run said and did, without what may differ between two lives: attempts, times, leases.
fn transcript(home: &Home, id: &str) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut answers: BTreeMap<String, String> = BTreeMap::new();
    for record in home.events(id) {
        let data = &record["data"];
        match record["event"].as_str() {
            Some("Replied") => told.push(format!("{} {} {}", data["step"], data["text"], data["calls"])),
            Some("ToolFinished") => {
                let again = answers.insert(data["call"].to_string(), data["output"].to_string());
                assert!(again.is_none(), "{} was answered twice", data["call"]);
            }
            Some("Finished") => told.push(format!("{} {}", data["outcome"], data["text"])),
            _ => {}
        }
    }
    told.extend(answers.into_iter().map(|(call, output)| format!("{call} {output}")));
    told
}

fn check(home: &Home, id: &str, expected: &[String]) {
    finished(home, id);
    assert_eq!(transcript(home, id), expected, "{id}");
    assert_eq!(home.count(id, "Finished"), 1, "{id}");
    assert_eq!(home.count(id, "Replied"), STEPS as usize, "{id}");
}

fn undisturbed(home: &Home) -> (String, Vec<String>, usize) {
    let id = submit(home);
    finished(home, &id);
    let told = transcript(home, &id);
    let events = home.events(&id).len();
    (id, told, events)
}

#[test]
fn a_worker_killed_at_each_event_boundary_is_carried_to_the_same_end() {
    walk("openai");
    walk("anthropic");
}

fn walk(wire: &str) {
    let home = Home::new();
    let script = Script::serve(home.path(), &scripts::slow_steps(STEPS, "5ms"));
    home.configure(&lab(&script, wire));
    home.file("notes.txt", &scripts::notes());
    let _server = home.serve();
    let (_, expected, events) = undisturbed(&home);
    let mut kills = 0;
    let mut walks: Vec<(String, usize)> = Vec::new();
    // The first two are Submitted and Started; nobody lives before them.
    for boundary in 2..events {
        let id = submit(&home);
        let pid = wait::until("the boundary", || {
            let log = home.events(&id);
            let started = log.iter().find(|record| record["event"] == "Started")?;
            (log.len() >= boundary).then(|| started["data"]["process"]["pid"].as_u64().expect("a pid"))
        });
        kill(pid);
        walks.push((id, boundary));
    }
    for (id, _) in &walks {
        check(&home, id, &expected);
        kills += home.count(id, "Interrupted");
    }
    assert!(kills >= walks.len() / 2, "only {kills} of {} kills met a living worker", walks.len());
    let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
    assert!(refused.is_empty(), "a history was invalid: {refused:?}");
}

#[test]
fn a_supervisor_killed_at_each_event_boundary_is_missed_by_nobody() {
    let (home, script) = Home::with_script(&scripts::slow_steps(STEPS, "20ms"));
    home.file("notes.txt", &scripts::notes());
    let mut server = home.serve();
    let (_, expected, events) = undisturbed(&home);
    for boundary in 1..events {
        let id = submit(&home);
        wait::until("the boundary", || (home.events(&id).len() >= boundary).then_some(()));
        server.kill();
        server = home.serve();
        check(&home, &id, &expected);
    }
    let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
    assert!(refused.is_empty(), "a history was invalid: {refused:?}");
}

#[test]
fn a_killed_supervisor_takes_its_workers_back() {
    let (home, _script) = Home::with_script(&scripts::slow_steps(STEPS, "300ms"));
    home.file("notes.txt", &scripts::notes());
    let mut server = home.serve();
    let (_, expected, _) = undisturbed(&home);
    let id = submit(&home);
    wait::until("the second step", || (home.count(&id, "Replied") >= 2).then_some(()));
    server.kill();
    let _server = home.serve();
    check(&home, &id, &expected);
    let events = home.events(&id);
    let interrupted: Vec<_> = events.iter().filter(|record| record["event"] == "Interrupted").collect();
    assert!(interrupted.is_empty(), "its worker lived on and should have been taken back: {interrupted:?}");
}

#[test]
fn both_killed_at_once_the_next_start_carries_on() {
    let (home, _script) = Home::with_script(&scripts::slow_steps(STEPS, "100ms"));
    home.file("notes.txt", &scripts::notes());
    let mut server = home.serve();
    let (_, expected, _) = undisturbed(&home);
    let id = submit(&home);
    wait::until("the second step", || (home.count(&id, "Replied") >= 2).then_some(()));
    server.kill();
    for pid in home.processes() {
        kill(u64::from(pid));
    }
    let _server = home.serve();
    check(&home, &id, &expected);
    assert_eq!(home.count(&id, "Started"), 2);
}

#[test]
fn a_worker_that_always_dies_at_once_is_a_crash_loop() {
    let (mut home, _script) = Home::with_script(&scripts::steps(2));
    home.worker_is("echo 'no such luck' >&2; kill -ABRT $$");
    let _server = home.serve();
    let id = submit(&home);
    let end = finished(&home, &id);
    let cause = &end["data"]["outcome"]["ended"];
    assert_eq!(cause["kind"], "crash_loop", "{end}");
    assert!(cause["detail"].as_str().is_some_and(|detail| detail.contains("no such luck")), "{end}");
    assert_eq!(home.count(&id, "Started"), 5);
}

#[test]
fn a_worker_that_says_it_is_of_no_use_is_not_started_again() {
    let (mut home, _script) = Home::with_script(&scripts::steps(2));
    home.worker_is("exit 64");
    let _server = home.serve();
    let id = submit(&home);
    assert_eq!(finished(&home, &id)["data"]["outcome"]["ended"]["kind"], "internal");
    assert_eq!(home.count(&id, "Started"), 1);
}
