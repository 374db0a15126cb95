//! `ukai pause` lets the call under way end and nothing new begin, whatever dies meanwhile; `ukai unpause` goes on.

use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use ukai_tests::home::{Home, Server};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

/// Model calls in the job that is paused.
const STEPS: usize = 3;
/// Its first call takes long enough for two words of a person to come in its middle, on a machine under load too.
fn slow_first_call() -> String {
    let steps = scripts::steps(u32::try_from(STEPS).expect("few"));
    format!(
        r#"
[[rule]]
when.step = 1
[rule.reply]
latency = "4s"
text = "Step 1."
calls = [{{ tool = "Read", args = {{ file_path = "notes.txt" }} }}]
usage = {{ input = 100, output = 10 }}
{steps}"#
    )
}

fn submit(home: &Home, name: &str) -> String {
    home.file("job.toml", &format!("name = \"{name}\"\nprompt = \"look at the notes\"\n"));
    let output = home.ukai(&["submit", "job.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stdout(&output)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Its stdout, and what it says on stderr.
fn ukai(home: &Home, args: &[&str]) -> (String, String) {
    let output = home.ukai(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {stderr}");
    (stdout(&output), stderr)
}

fn shown(home: &Home, id: &str) -> Value {
    home.ukai_json(&["show", id, "--output", "json"]).1
}

/// Until its status is this. The row at that moment.
fn until(home: &Home, id: &str, status: &str) -> Value {
    wait::until(status, || Some(shown(home, id)).filter(|shown| shown["status"] == status))
}

fn assert_completed(home: &Home, script: &Script, id: &str) {
    let end = until(home, id, "completed");
    assert_eq!((&end["steps"], &end["restarts"]), (&STEPS.into(), &0.into()), "{end}");
    assert_eq!(script.arrivals().len(), STEPS, "each step is asked for once");
    assert!(script.arrivals().iter().all(|arrival| arrival["status"] == 200), "a history was invalid");
}

fn slow() -> (Home, Script, Server) {
    let (home, script) = Home::with_script(&slow_first_call());
    home.file("notes.txt", &scripts::notes());
    let server = home.serve();
    (home, script, server)
}

/// With a first model call under way.
fn in_a_call() -> (Home, Script, Server, String) {
    let (home, script, server) = slow();
    let id = submit(&home, "paused");
    wait::until("the request", || (script.arrivals().len() == 1).then_some(()));
    (home, script, server, id)
}

#[test]
fn a_model_call_under_way_is_finished_and_nothing_else_is_done() {
    let (home, script, mut server, id) = in_a_call();
    let (out, err) = ukai(&home, &["pause", &id]);
    assert_eq!(out, id);
    assert!(err.contains(&format!("{id} pauses when its current call has ended")), "{err}");
    assert_eq!(home.count(&id, "Replied"), 0, "it is answered before the call has ended");
    assert!(ukai(&home, &["ls"]).0.contains("pauses when its current call has ended"));
    until(&home, &id, "paused");
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert_eq!((home.count(&id, "Replied"), home.count(&id, "ToolStarted"), script.arrivals().len()), (1, 0, 1));
    let last = home.events(&id).pop().expect("a log");
    assert_eq!((&last["event"], &last["data"]["how"]), (&"Interrupted".into(), &"paused by a person".into()));
    wait::until("a snapshot", || home.state_dir().join("runs").join(&id).join("run_state.json").exists().then_some(()));

    server.kill();
    let _server = home.serve();
    assert_eq!(shown(&home, &id)["status"], "paused");
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert_eq!(ukai(&home, &["unpause", "paused"]).0, id);
    assert_completed(&home, &script, &id);
    assert_eq!(home.count(&id, "Started"), 2);
}

#[test]
fn whoever_is_let_go_on_before_the_call_has_ended_goes_on_in_the_same_process() {
    let (home, script, _server, id) = in_a_call();
    ukai(&home, &["pause", &id]);
    let json = ukai(&home, &["unpause", &id, "--output", "json"]).0;
    assert_eq!(
        serde_json::from_str::<Value>(&json).expect("JSON"),
        serde_json::json!({"job_id": id, "status": "running"})
    );
    assert_completed(&home, &script, &id);
    assert_eq!((home.count(&id, "Started"), home.count(&id, "Interrupted")), (1, 0));
}

#[test]
fn a_server_killed_while_a_job_pauses_changes_nothing() {
    let (home, script, mut server, id) = in_a_call();
    ukai(&home, &["pause", &id]);
    server.kill();
    let _server = home.serve();
    until(&home, &id, "paused");
    assert_eq!((home.count(&id, "Replied"), home.count(&id, "Interrupted"), script.arrivals().len()), (1, 1, 1));
    ukai(&home, &["unpause", &id]);
    assert_completed(&home, &script, &id);
}

#[test]
fn a_stopped_server_leaves_its_paused_jobs_paused() {
    let (home, script, server, id) = in_a_call();
    ukai(&home, &["pause", &id]);
    until(&home, &id, "paused");
    drop(server);
    assert_eq!(shown(&home, &id)["status"], "paused", "without a server too");
    let output = home.ukai(&["unpause", &id]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("ukai serve"), "{stderr}");
    let _server = home.serve();
    until(&home, &id, "paused");
    ukai(&home, &["unpause", "--all"]);
    assert_completed(&home, &script, &id);
}

/// Searches in one reply, and in its first batch, each through so many lines: a batch takes far longer than a look at
/// the log.
const SEARCHES: usize = 12;
const BATCH: usize = 8;
const LINES: usize = 3_000_000;

fn searches() -> String {
    let call = r#"{ tool = "Grep", args = { pattern = "line 1$", output_mode = "count" } }"#;
    let calls = [call; SEARCHES].join(", ");
    format!("[[rule]]\nwhen.step = 1\nreply.calls = [{calls}]\n\n[[rule]]\nreply.text = \"done\"\n")
}

#[test]
fn a_batch_of_tools_that_was_started_is_finished_and_recorded() {
    let (home, script) = Home::with_script(&searches());
    home.file("large.txt", &"nothing to be found here\n".repeat(LINES));
    let _server = home.serve();
    let id = submit(&home, "paused");
    let worker = wait::until("the batch", || {
        let log = home.events(&id);
        let started = log.iter().find(|record| record["event"] == "Started")?;
        let pid = i32::try_from(started["data"]["process"]["pid"].as_i64()?).ok()?;
        log.iter().any(|record| record["event"] == "ToolStarted").then_some(Pid::from_raw(pid))
    });
    // In the middle of its searches until the word is there, however long `ukai pause` takes to start.
    kill(worker, Signal::SIGSTOP).expect("it lives");
    assert!(home.count(&id, "ToolFinished") < BATCH, "the searches were too short");
    ukai(&home, &["pause", &id]);
    kill(worker, Signal::SIGCONT).expect("it lives");
    until(&home, &id, "paused");
    let log = home.events(&id);
    let named = |name: &str| log.iter().filter(|record| record["event"] == name).collect::<Vec<_>>();
    assert_eq!((named("Replied").len(), named("ToolStarted").len(), script.arrivals().len()), (1, BATCH, 1));
    assert_eq!(named("ToolFinished").len(), BATCH, "{log:?}");
    assert!(named("ToolFinished").iter().all(|record| record["data"]["status"] == "ok"), "{log:?}");
    ukai(&home, &["unpause", &id]);
    let end = until(&home, &id, "completed");
    assert_eq!((&end["steps"], &end["restarts"], home.count(&id, "ToolStarted")), (&2.into(), &0.into(), SEARCHES));
}

#[test]
fn a_job_that_waits_stops_waiting() {
    let (home, script) =
        Home::with_script("[[rule]]\n[rule.fault]\nstatus = 429\nheaders = { retry-after = \"30\" }\n");
    let _server = home.serve();
    let id = submit(&home, "waits");
    until(&home, &id, "waiting");
    ukai(&home, &["pause", &id]);
    until(&home, &id, "paused");
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert_eq!(script.arrivals().len(), 1);
}

#[test]
fn all_are_paused_and_named_ones_are_all_or_none() {
    let (home, script) = Home::with_script("[[rule]]\nfault.hang = \"before_headers\"\n");
    let config = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("the configuration");
    home.configure(&format!("max_workers = 1\n{config}"));
    let _server = home.serve();
    let running = submit(&home, "running");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let queued = submit(&home, "queued");
    let ended = submit(&home, "ended");
    ukai(&home, &["cancel", "ended"]);

    for verb in ["pause", "unpause"] {
        let output = home.ukai(&[verb, "queued", "ended"]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(&ended) && !stderr.contains(&queued), "{stderr}");
    }
    assert_eq!(shown(&home, &queued)["status"], "queued");

    let (out, err) = ukai(&home, &["pause", "--all"]);
    assert_eq!(out.lines().collect::<Vec<_>>(), [&running, &queued]);
    assert!(err.contains(&running) && !err.contains(&queued), "{err}");
    // A job that pauses is cancelled as any other; its slot is taken by nobody who is paused.
    ukai(&home, &["cancel", &running]);
    assert_eq!(shown(&home, &queued)["status"], "paused");
    assert_eq!(home.processes(), Vec::<u32>::new());
    assert_eq!(ukai(&home, &["unpause", "--all"]).0, queued);
    wait::until("its request", || (script.arrivals().len() == 2).then_some(()));
    ukai(&home, &["pause", "--all"]);
    ukai(&home, &["cancel", "--all"]);
    assert!(ukai(&home, &["unpause", "--all"]).1.contains("nothing was paused"));
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn a_host_does_not_wait_for_a_paused_job() {
    let (home, script) = Home::with_script(&slow_first_call());
    home.file("notes.txt", &scripts::notes());
    let run = home.command(&["run", "look"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let id = home.runs().pop().expect("its run");
    ukai(&home, &["pause", &id]);
    let output = run.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains(&format!("{id} stays paused; type: ukai unpause {id}")), "{stderr}");
    assert_eq!((home.count(&id, "Replied"), home.count(&id, "Finished")), (1, 0));
}

#[test]
fn a_run_at_a_server_follows_a_paused_job_to_its_end() {
    let (home, script, _server) = slow();
    let run = home.command(&["run", "look"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let id = home.runs().pop().expect("its run");
    ukai(&home, &["pause", &id]);
    until(&home, &id, "paused");
    ukai(&home, &["unpause", &id]);
    let output = run.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for told in ["is paused by a person", "its worker has gone: paused by a person", "may go on", "completed"] {
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    assert_completed(&home, &script, &id);
}

#[test]
fn a_pause_at_each_event_boundary_costs_nothing() {
    let (home, script) = Home::with_script(&scripts::slow_steps(u32::try_from(STEPS).expect("few"), "20ms"));
    home.file("notes.txt", &scripts::notes());
    let _server = home.serve();
    let undisturbed = submit(&home, "undisturbed");
    let text = until(&home, &undisturbed, "completed")["text"].clone();
    let mut paused = 0;
    let boundaries = 1..home.events(&undisturbed).len();
    let runs = boundaries.len() + 1;
    for boundary in boundaries {
        let id = submit(&home, "walk");
        wait::until("the boundary", || (home.events(&id).len() >= boundary).then_some(()));
        // One that has ended meanwhile is refused.
        if home.ukai(&["pause", &id]).status.success() {
            let end = wait::until("its rest", || {
                Some(shown(&home, &id)).filter(|shown| shown["status"] == "paused" || shown["status"] == "completed")
            });
            if end["status"] == "paused" {
                paused += 1;
                ukai(&home, &["unpause", &id]);
            }
        }
        let end = until(&home, &id, "completed");
        assert_eq!(
            (&end["steps"], &end["restarts"], &end["text"]),
            (&STEPS.into(), &0.into(), &text),
            "{boundary}: {end}"
        );
        assert_eq!(home.count(&id, "ToolStarted"), home.count(&undisturbed, "ToolStarted"), "{boundary}");
    }
    assert!(paused > 0, "no pause met a living worker");
    assert_eq!(script.arrivals().len(), runs * STEPS);
}

#[test]
fn whoever_looks_at_a_paused_job_is_told_what_lets_it_go_on() {
    let (home, _script) = Home::with_script(&slow_first_call());
    home.file("notes.txt", &scripts::notes());
    let _server = home.serve();
    let id = submit(&home, "waits");
    ukai(&home, &["pause", &id]);
    until(&home, &id, "paused");
    let command = format!("type: ukai unpause {id}");
    let (shown, _) = ukai(&home, &["show", &id]);
    assert!(shown.contains(&command), "{shown}");
    let refused = home.ukai(&["resume", &id]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains(&command), "{said}");
    let log = home.path().join("attach.log");
    let stderr = std::fs::File::create(&log).expect("a log");
    let mut attached = home.command(&["attach", &id]).stdout(Stdio::null()).stderr(stderr).spawn().expect("attached");
    wait::until("attach to say it", || std::fs::read_to_string(&log).ok()?.contains(&command).then_some(()));
    attached.kill().expect("killed");
    attached.wait().expect("gone");
}
