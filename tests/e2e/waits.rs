//! "Not before" is obeyed to the second, by all workers at once, by a job that is parked, and over the death of the
//! supervisor that was told.

use std::time::Instant;

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

fn at_ms(arrival: &Value) -> f64 {
    arrival["at_ms"].as_f64().expect("a time")
}

/// Requests that came after an answer which named a wait, and before that was over.
fn early(script: &Script, wait_ms: f64) -> Vec<Value> {
    let arrivals = script.arrivals();
    let answered = |arrival: &Value| arrival["answered_ms"].as_f64().filter(|_| arrival["status"] == 429);
    let named: Vec<f64> = arrivals.iter().filter_map(answered).collect();
    // Who was on its way when the answer left is excused: a request takes less than this.
    const ON_ITS_WAY_MS: f64 = 50.0;
    let is_early =
        |at: f64| named.iter().any(|answered| at > answered + ON_ITS_WAY_MS && at < answered + wait_ms - 5.0);
    arrivals.into_iter().filter(|arrival| is_early(at_ms(arrival))).collect()
}

#[test]
fn one_provider_that_asks_for_an_hour_is_asked_once_and_the_job_ends_at_once() {
    let (home, script) =
        Home::with_script("[[rule]]\nfault = { status = 429, headers = { retry-after = \"3600\" } }\n");
    let _server = home.serve();
    let begun = Instant::now();
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    let took = begun.elapsed();
    assert_eq!((code, &result["cause"]["kind"]), (4, &json!("all_open")), "{result}");
    assert_eq!(script.arrivals().len(), 1);
    let events = home.events(result["job_id"].as_str().expect("an id"));
    let when = |name: &str| -> jiff::Timestamp {
        let record = events.iter().find(|record| record["event"] == name).expect(name);
        record["at"].as_str().and_then(|at| at.parse().ok()).expect("a time")
    };
    let ended = when("Finished").duration_since(when("AttemptFailed")).as_millis();
    assert!(ended < 1_000, "{ended} ms from the answer to the end; {took:?} in all");
}

#[test]
fn a_parked_job_gives_its_worker_back_and_goes_on_by_itself_after_the_named_instant() {
    let rule = "[[rule]]\ntimes = 1\nper = \"server\"\nfault = { status = 429, headers = { retry-after = \"61\" } }\n\
                [[rule]]\nreply.text = \"Done.\"\n";
    let home = Home::new();
    let script = Script::serve(home.path(), rule);
    home.configure(&format!("when_all_open = \"park\"\n{}", lab(&script, "openai")));
    let _server = home.serve();
    let id = String::from_utf8(home.ukai(&["submit", "--prompt", "look"]).stdout).expect("an id").trim().to_owned();
    wait::until("it to be parked", || (home.count(&id, "Interrupted") == 1).then_some(()));
    wait::until("its worker to be gone", || home.processes().is_empty().then_some(()));
    let (_, rows) = home.ukai_json(&["ls", "--output", "json"]);
    assert_eq!((&rows[0]["status"], &rows[0]["restarts"]), (&json!("queued"), &json!(0)), "{rows}");
    let deadline = Instant::now() + std::time::Duration::from_secs(90);
    while home.count(&id, "Finished") == 0 {
        assert!(Instant::now() < deadline, "{:?}", home.events(&id));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(home.events(&id).last().is_some_and(|end| end.to_string().contains("Done.")));
    assert_eq!(early(&script, 61_000.0), Vec::<Value>::new());
    // The refusal, two probes, the reply.
    assert_eq!(script.arrivals().len(), 4, "{:?}", script.arrivals());
}

#[test]
fn what_the_head_of_an_answer_names_binds_all_before_its_body_has_come() {
    let refusal = "fault = { status = 429, headers = { retry-after = \"6\" }, slow_bytes = \"200ms\" }";
    let stream = "reply = { text = \"A long story, letter by letter, which nobody hears to its end.\", chunk_chars = 1, \
                  chunk_latency = \"300ms\", headers = { x-ratelimit-remaining-tokens = \"0\", \
                  x-ratelimit-reset-tokens = \"6s\" } }";
    for (quirk, first, is_cancelled) in [
        ("a refusal that trickles", refusal, false),
        ("a refusal whose job is cancelled meanwhile", refusal, true),
        ("a stream that empties a bucket", stream, false),
        ("a stream whose job is cancelled meanwhile", stream, true),
    ] {
        let rule = format!("[[rule]]\ntimes = 1\nper = \"server\"\n{first}\n[[rule]]\nreply.text = \"Done.\"\n");
        let (home, script) = Home::with_script(&rule);
        let _server = home.serve();
        let submit = |prompt| {
            let output = home.ukai(&["submit", "--prompt", prompt]);
            String::from_utf8(output.stdout).expect("an id").trim().to_owned()
        };
        let id = submit("first");
        wait::until("the wait to be known", || {
            let (_, rows) = home.ukai_json(&["providers", "--output", "json"]);
            rows[0]["not_before_ms"].is_number().then_some(())
        });
        let ended = ["AttemptFailed", "Replied"].map(|event| home.count(&id, event));
        assert_eq!(ended, [0, 0], "{quirk}: the body is on its way");
        if is_cancelled {
            assert!(home.ukai(&["cancel", &id]).status.success(), "{quirk}");
        }
        let second = submit("second");
        wait::until("the second to end", || (home.count(&second, "Finished") == 1).then_some(()));
        let arrivals = script.arrivals();
        let mut at = arrivals.iter().map(at_ms);
        let first = at.next().expect("the first");
        assert!(at.len() > 0 && at.all(|at| at > first + 5_990.0), "{quirk}: {arrivals:?}");
    }
}

#[test]
fn a_supervisor_killed_right_after_a_429_leaves_a_successor_that_waits() {
    for round in 0..6 {
        let rule = "[defaults]\nlatency = \"20ms\"\n[[rule]]\nfirst = \"1s\"\nfault = { status = 429, headers = { retry-after = \"3\" } }\n\
                    [[rule]]\nreply.text = \"Done.\"\n";
        let home = Home::new();
        let script = Script::serve(home.path(), rule);
        home.configure(&format!("max_workers = 2\n{}", lab(&script, "anthropic")));
        let mut server = home.serve();
        for number in 0..4 {
            assert!(home.ukai(&["submit", "--prompt", &format!("job {number}")]).status.success());
        }
        // From the very moment on: before the worker has read it, while it is reported, while it is written down.
        wait::until("a refusal", || {
            script.arrivals().iter().any(|arrival| arrival["answered_ms"].is_number()).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(round * 4));
        server.kill();
        let _second = home.serve();
        wait::until("all jobs to end", || {
            let ended = home.runs().iter().filter(|id| home.count(id, "Finished") == 1).count();
            (ended == 4).then_some(())
        });
        assert_eq!(early(&script, 3_000.0), Vec::<Value>::new(), "round {round}: {:?}", script.arrivals());
        for id in home.runs() {
            let end = home.events(&id).pop().expect("an end");
            assert!(end.to_string().contains("Done."), "round {round}: {end}");
        }
    }
}

#[test]
fn what_only_the_log_of_a_job_knows_binds_the_next_supervisor() {
    let rule = "[[rule]]\ntimes = 1\nper = \"server\"\nfault = { status = 429, headers = { retry-after = \"4\" } }\n\
                [[rule]]\nreply.text = \"Done.\"\n";
    let (home, script) = Home::with_script(rule);
    let mut server = home.serve();
    let id = String::from_utf8(home.ukai(&["submit", "--prompt", "look"]).stdout).expect("an id").trim().to_owned();
    wait::until("the refusal to be recorded", || (home.count(&id, "AttemptFailed") == 1).then_some(()));
    server.kill();
    for pid in home.processes() {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::SIGKILL);
    }
    // As if they had died before anything else was written.
    let _ = std::fs::remove_file(home.state_dir().join("supervisor/routes.json"));
    let _second = home.serve();
    wait::until("the job to end", || (home.count(&id, "Finished") == 1).then_some(()));
    assert_eq!((early(&script, 4_000.0), script.arrivals().len()), (Vec::<Value>::new(), 2), "{:?}", script.arrivals());
}

#[test]
fn a_wait_of_a_provider_that_is_not_configured_for_a_while_is_kept() {
    let rule = "[[rule]]\nfault = { status = 429, headers = { retry-after = \"900\" } }\n";
    let (home, away) = Home::with_script(rule);
    assert_eq!(home.ukai(&["run", "first"]).status.code(), Some(4));
    let well = Script::serve(home.path(), "[[rule]]\nreply.text = \"Done.\"\n");
    let well = lab(&well, "openai").replace("id = \"lab\"", "id = \"well\"");
    home.configure(&well);
    assert_eq!(home.ukai(&["run", "second"]).status.code(), Some(0));
    assert!(home.ukai(&["providers", "reset", "well"]).status.success());
    home.configure(&(lab(&away, "openai") + &well));
    assert_eq!(home.ukai(&["run", "third"]).status.code(), Some(0));
    assert_eq!(away.arrivals().len(), 1, "{:?}", away.arrivals());
}

#[test]
fn what_was_named_holds_over_restarts_and_a_damaged_note_of_it_stops_all_leases() {
    let rule = "[[rule]]\nfault = { status = 429, headers = { retry-after = \"3600\" } }\n";
    let (home, script) = Home::with_script(rule);
    assert_eq!(home.ukai(&["run", "first"]).status.code(), Some(4));
    // Each run hosts its own supervisor.
    let output = home.ukai(&["run", "second"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no provider may be asked for another"), "{stderr}");
    assert_eq!(script.arrivals().len(), 1);

    let routes = home.state_dir().join("supervisor/routes.json");
    let text = std::fs::read_to_string(&routes).expect("it is there");
    std::fs::write(&routes, text.replacen("3600000", "1", 1)).expect("written");
    let output = home.ukai(&["run", "third"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ukai quarantine clear routes.json"), "{stderr}");
    let output = home.ukai(&["providers"]);
    assert!(!output.status.success(), "nobody knows");
    assert_eq!(script.arrivals().len(), 1, "nobody is asked");
    let (code, kept) = home.ukai_json(&["quarantine", "ls", "--output", "json"]);
    assert_eq!((code, &kept[0]["name"], &kept[0]["refused"]), (0, &json!("routes.json"), &json!(true)), "{kept}");

    assert!(home.ukai(&["quarantine", "clear", "routes.json"]).status.success());
    let (_, rows) = home.ukai_json(&["providers", "--output", "json"]);
    assert_eq!(rows[0]["breaker"], "closed", "{rows}");
    assert!(home.ukai(&["cancel", "--all"]).status.success());
    assert_eq!(home.ukai(&["run", "fourth"]).status.code(), Some(4));
    assert_eq!(script.arrivals().len(), 2);
}
