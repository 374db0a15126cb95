//! `ukai cancel` ends a job within half a second in each of its states, processes and all.

use std::time::{Duration, Instant};

use ukai_tests::home::Home;
use ukai_tests::wait;

use crate::scripts;

/// The promise is 500 ms; the rest is for the two commands that a loaded test machine must start meanwhile.
const BOUND: Duration = Duration::from_millis(1500);

const HANGS: &str = "[[rule]]\nfault.hang = \"before_headers\"\n";

const TOLD_TO_WAIT: &str = r#"
[[rule]]
[rule.fault]
status = 429
headers = { retry-after = "30" }
"#;

fn submit(home: &Home, prompt: &str) -> String {
    home.file("job.toml", &format!("prompt = \"{prompt}\"\n"));
    let output = home.ukai(&["submit", "job.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn assert_cancelled(home: &Home, id: &str) {
    let events = home.events(id);
    let ends: Vec<_> = events.iter().filter(|record| record["event"] == "Finished").collect();
    assert_eq!(ends.len(), 1, "{id}: {events:?}");
    assert_eq!(ends[0]["data"]["outcome"]["ended"]["kind"], "cancel", "{id}");
    assert_eq!(events.last().map(|record| &record["event"]), Some(&"Finished".into()), "{id}");
    let (_, shown) = home.ukai_json(&["show", id, "--output", "json"]);
    assert_eq!((&shown["status"], &shown["reason"]), (&"cancelled".into(), &"user_interrupt".into()), "{shown}");
}

fn check(home: &Home, state: &str, id: &str, args: &[&str]) {
    let began = Instant::now();
    let output = home.ukai(args);
    let took = began.elapsed();
    assert!(output.status.success(), "{state}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(took < BOUND, "{state}: {took:?}");
    assert_cancelled(home, id);
}

#[test]
fn in_a_hung_call() {
    let (home, script) = Home::with_script(HANGS);
    let _server = home.serve();
    let id = submit(&home, "hang");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    check(&home, "running", &id, &["cancel", &id]);
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn while_it_waits_for_a_provider() {
    let (home, script) = Home::with_script(TOLD_TO_WAIT);
    let _server = home.serve();
    let id = submit(&home, "wait");
    wait::until("the 429 to be recorded", || (home.count(&id, "Waiting") > 0).then_some(()));
    check(&home, "waiting", &id, &["cancel", &id]);
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert_eq!(script.arrivals().len(), 1, "it was told to wait");
}

#[test]
fn while_it_is_queued_and_while_its_worker_is_stopped_by_a_signal() {
    let (home, script) = Home::with_script(HANGS);
    let config = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("the configuration");
    home.configure(&format!("max_workers = 1\n{config}"));
    let _server = home.serve();
    let first = submit(&home, "hang");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let queued = submit(&home, "queued");
    check(&home, "queued", &queued, &["cancel", &queued]);
    for pid in home.processes() {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it lives");
    }
    check(&home, "stopped", &first, &["cancel", &first]);
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn all_at_once_with_and_without_a_server() {
    let (home, script) = Home::with_script(HANGS);
    let mut server = home.serve();
    let ids = ["a", "b", "c"].map(|prompt| submit(&home, prompt));
    wait::until("all requests", || (script.arrivals().len() == 3).then_some(()));
    check(&home, "all", &ids[0], &["cancel", "--all"]);
    ids.iter().for_each(|id| assert_cancelled(&home, id));

    let ids = ["d", "e"].map(|prompt| submit(&home, prompt));
    wait::until("all requests", || (script.arrivals().len() == 5).then_some(()));
    server.kill();
    check(&home, "no server", &ids[0], &["cancel", "--all"]);
    ids.iter().for_each(|id| assert_cancelled(&home, id));
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn control_c_ends_the_job_that_run_waits_for() {
    let (home, script) = Home::with_script(HANGS);
    let child = home
        .command(&["run", "hang", "--output", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let began = Instant::now();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(130));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let result: serde_json::Value =
        serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{stdout:?}: {error}"));
    assert_eq!(result["status"], "cancelled");
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn who_is_not_there_is_named() {
    let (home, _script) = Home::with_script(&scripts::steps(2));
    let _server = home.serve();
    let output = home.ukai(&["cancel", "j-nobodyyy"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("j-nobodyyy"));
}

#[test]
fn the_emergency_stop_waits_for_no_server_that_is_stuck() {
    let (home, script) = Home::with_script(HANGS);
    let mut server = home.serve();
    let id = submit(&home, "hang");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let pid = nix::unistd::Pid::from_raw(server.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it lives");
    let output = home.ukai(&["cancel", "--all"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_cancelled(&home, &id);
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert!(server.child.wait().is_ok_and(|status| !status.success()));
}
