//! Files that do not verify: nothing of them is acted upon, nothing of them is lost, and a person can go on.

use serde_json::{Value, json};
use ukai_tests::home::{Home, Server, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

const STEPS: u32 = 4;

fn kill(pid: u32) {
    // It may have ended by itself in this moment; then there is nothing to kill.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::SIGKILL);
}

fn submit(home: &Home) -> String {
    home.file("job.toml", "name = \"walk\"\nprompt = \"look at the notes\"\n");
    let output = home.ukai(&["submit", "job.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Stops as an owner would, and waits.
fn stop(server: Server) {
    drop(server);
}

fn said(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let output = home.ukai(args);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn row(home: &Home, id: &str) -> Value {
    let (_, rows) = home.ukai_json(&["ls", id, "--output", "json"]);
    rows[0].clone()
}

/// Both killed after the second reply, and a byte of the log changed in the first step.
fn damaged(home: &Home) -> (String, Vec<u8>) {
    let mut server = home.serve();
    let id = submit(home);
    wait::until("the second step", || (home.count(&id, "Replied") >= 2).then_some(()));
    server.kill();
    for pid in home.processes() {
        kill(pid);
    }
    let log = home.state_dir().join("runs").join(&id).join("events.jsonl");
    let mut bytes = std::fs::read(&log).expect("its log");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let place = text.find("ToolFinished").expect("a tool has run") + 40;
    bytes[place] ^= 1;
    std::fs::write(&log, &bytes).expect("changed");
    (id, bytes)
}

#[test]
fn a_run_with_a_changed_byte_is_refused_until_it_is_cleared_and_then_goes_on() {
    for wire in ["openai", "anthropic"] {
        let home = Home::new();
        let script = Script::serve(home.path(), &scripts::slow_steps(STEPS, "50ms"));
        home.configure(&lab(&script, wire));
        home.file("notes.txt", &scripts::notes());
        let (id, bad) = damaged(&home);
        let before = script.requests();

        let server = home.serve();
        let refused = row(&home, &id);
        assert_eq!((&refused["status"], &refused["attention"]), (&json!("aborted"), &json!(true)), "{refused}");
        assert_eq!(refused["cause"]["kind"], "quarantined", "{refused}");
        assert_eq!(script.requests(), before, "nothing of it runs");
        let (code, text) = said(&home, &["quarantine", "clear", &id]);
        assert!(code == Some(2) && text.contains("stop it (type: kill "), "{text}");
        stop(server);

        let (code, listed) = home.ukai_json(&["quarantine", "--output", "json"]);
        let file = format!("{id}/events.jsonl");
        assert_eq!(
            (code, &listed[0]["name"], &listed[0]["file"], &listed[0]["refused"], &listed[0]["cleared"]),
            (0, &json!(id), &json!(file), &json!(true), &json!(false)),
            "{listed}"
        );
        assert!(listed[0]["why"].as_str().is_some_and(|why| why.contains("does not verify")), "{listed}");
        let (code, text) = said(&home, &["quarantine"]);
        assert!(code == Some(0) && text.contains("refused") && text.contains("ukai quarantine clear j-"), "{text}");

        let (code, cleared) = home.ukai_json(&["quarantine", "clear", "walk", "--output", "json"]);
        assert_eq!((code, &cleared["name"]), (0, &json!(id)), "{cleared}");
        assert!(cleared["records"].as_u64().is_some_and(|records| records > 2), "{cleared}");
        let kept = home.state_dir().join("quarantine").join(format!("{file}.cleared"));
        assert_eq!(std::fs::read(kept).expect("it is kept"), bad);

        let _server = home.serve();
        let end =
            wait::until("the job to end", || home.events(&id).into_iter().find(|record| record["event"] == "Finished"));
        assert!(end["data"]["outcome"]["completed"].is_object(), "{end}");
        let answered = home.events(&id);
        let unknown = |record: &&Value| record["data"]["output"] == "outcome unknown";
        assert!(answered.iter().filter(unknown).count() >= 1, "the call whose answer was lost");
        assert_eq!(row(&home, &id)["attention"], true, "nobody has looked at it");
        let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] == 400).collect();
        assert!(refused.is_empty(), "{wire}: a history was invalid: {refused:?}");
        let (_, listed) = home.ukai_json(&["quarantine", "ls", "--output", "json"]);
        assert_eq!((&listed[0]["refused"], &listed[0]["cleared"]), (&json!(false), &json!(true)), "{listed}");
    }
}

#[test]
fn what_was_cleared_can_be_acked_before_a_server_starts_and_stays_so() {
    for what in ["ID", "--all"] {
        let home = Home::new();
        let script = Script::serve(home.path(), &scripts::slow_steps(STEPS, "50ms"));
        home.configure(&lab(&script, "openai"));
        home.file("notes.txt", &scripts::notes());
        let (id, _) = damaged(&home);
        stop(home.serve());
        assert_eq!(said(&home, &["quarantine", "clear", &id]).0, Some(0));
        let cleared = row(&home, &id);
        assert_eq!((&cleared["status"], &cleared["attention"]), (&json!("interrupted"), &json!(true)), "{cleared}");
        let (code, text) = said(&home, &["ack", if what == "ID" { &id } else { what }]);
        assert!(code == Some(0) && text.contains(&id), "{text}");
        assert_eq!(row(&home, &id)["attention"], false, "{what}");
        assert!(!said(&home, &["ls"]).1.contains("attention"), "{what}");
        let _server = home.serve();
        wait::until("the job to end", || (home.count(&id, "Finished") > 0).then_some(()));
        assert_eq!(row(&home, &id)["attention"], false, "{what}");
    }
}

#[test]
fn a_run_whose_log_was_emptied_is_listed_with_a_server_and_without_until_it_is_cleared() {
    for (removed, snapshot) in [(false, true), (true, true), (false, false)] {
        let (home, _script) = Home::with_script(&scripts::steps(4));
        home.file("notes.txt", &scripts::notes());
        home.file("job.toml", "name = \"walk {{line}}\"\nprompt = \"look at {{line}}\"\n");
        home.file("list.txt", "a\n");
        let ran = home.ukai(&["run", "--file", "job.toml", "--each", "list.txt"]);
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
        let id = home.runs().pop().expect("a run");
        let run = home.state_dir().join("runs").join(&id);
        if snapshot {
            // A start makes one of what has ended.
            stop(home.serve());
        }
        assert_eq!(run.join("run_state.json").exists(), snapshot);
        // What the snapshot tells, else only what the job says.
        let steps = if snapshot { 4 } else { 0 };
        std::fs::write(run.join("events.jsonl"), "").expect("emptied");
        if removed {
            std::fs::remove_file(run.join("events.jsonl")).expect("removed");
        }
        let check = |when: &str| {
            let row = row(&home, &id);
            assert_eq!((&row["status"], &row["attention"]), (&json!("aborted"), &json!(true)), "{when}: {row}");
            assert_eq!((&row["name"], &row["steps"]), (&json!("walk a"), &json!(steps)), "{when}: {row}");
            assert_eq!(row["cause"]["kind"], "quarantined", "{when}: {row}");
            let (_, text) = said(&home, &["results", "job", "--format", "csv"]);
            assert!(text.contains(&id) && text.contains("aborted"), "{when}: {text}");
        };
        check("before any start");
        let server = home.serve();
        check("at a server");
        stop(server);
        check("after it");
        let (code, text) = said(&home, &["quarantine", "clear", "walk a"]);
        assert!(code == Some(0) && text.contains("begins anew"), "{text}");
        assert_eq!(row(&home, &id)["status"], "queued");
    }
}

#[test]
fn only_what_lies_there_can_be_cleared_and_no_path() {
    let (home, _script) = Home::with_script(&scripts::steps(2));
    let (code, text) = said(&home, &["quarantine", "clear", "routes.json"]);
    assert!(code == Some(2) && text.contains("no state directory"), "{text}");
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!(code, 0, "{result}");
    let id = result["job_id"].as_str().expect("an id");
    for (name, expected, part) in [
        (id, 2, "nothing of"),
        ("j-aaaaaaaa", 2, "nothing of"),
        ("nobody", 2, "there is no job"),
        ("../runs", 2, "is a path"),
        (".", 2, "is a path"),
        ("routes.json", 2, "nothing of routes.json"),
    ] {
        let (code, text) = said(&home, &["quarantine", "clear", name]);
        assert!(code == Some(expected) && text.contains(part), "{name}: {text}");
    }
    let (code, text) = said(&home, &["quarantine"]);
    assert!(code == Some(0) && text.contains("nothing lies in quarantine"), "{text}");
    let aside = home.state_dir().join("quarantine/routes.json");
    std::fs::write(&aside, "{").expect("written");
    let (code, text) = said(&home, &["quarantine", "clear", "routes.json"]);
    assert!(code == Some(0) && text.contains("routes.json.cleared") && !aside.exists(), "{text}");
}

/// The start that listed it has read no more than its snapshot.
#[test]
fn an_ended_run_whose_log_was_damaged_is_neither_acked_nor_resumed_but_quarantined_at_once() {
    for verb in ["ack", "resume"] {
        let (home, script) = Home::with_script(&scripts::steps(6));
        home.file("notes.txt", &scripts::notes());
        let (code, result) = home.ukai_json(&["run", "look", "--limit", "steps=3", "--output", "json"]);
        assert_eq!(code, 4, "{result}");
        let (id, token) =
            (result["job_id"].as_str().expect("an id"), result["resume_token"].as_str().expect("a token"));
        let log = home.state_dir().join("runs").join(id).join("events.jsonl");
        let mut bytes = std::fs::read(&log).expect("its log");
        let reply = String::from_utf8_lossy(&bytes).find("Replied").expect("it was answered") + 40;
        bytes[reply] ^= 1;
        std::fs::write(&log, &bytes).expect("damaged");
        let asked = script.requests();

        let server = home.serve();
        assert_eq!(row(&home, id)["cause"]["kind"], "limit(steps)", "{verb}: its end is what its snapshot says");
        let (code, text) = match verb {
            "ack" => said(&home, &["ack", id]),
            _ => said(&home, &["resume", id, "--limit", "steps=6", "--yes-resume", token]),
        };
        assert!(code != Some(0) && text.contains(id) && text.contains("does not verify"), "{verb}: {text}");
        let refused = row(&home, id);
        assert_eq!(refused["cause"]["kind"], "quarantined", "{verb}: {refused}");
        assert_eq!(refused["attention"], json!(true), "{verb}: {refused}");
        let (_, banner) = said(&home, &["ls"]);
        assert!(banner.contains(id), "{verb}: {banner}");
        stop(server);
        assert_eq!(script.requests(), asked, "{verb}: nothing of it runs");
        let kept = home.state_dir().join("quarantine").join(id).join("events.jsonl");
        assert_eq!(std::fs::read(kept).expect("it is kept"), bytes, "{verb}: nothing was added");
        let server_log = std::fs::read_to_string(home.state_dir().join("supervisor/events.jsonl")).expect("a log");
        assert!(server_log.contains("Quarantined") && server_log.contains(id), "{verb}: {server_log}");
    }
}
