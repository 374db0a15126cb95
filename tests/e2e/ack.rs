//! What needs a person is shown by every verb until that person says so, with a server and without (spec §10).

use ukai_tests::home::Home;

use crate::scripts;

fn aborted() -> (Home, ukai_tests::script::Script, String) {
    let (home, script) = Home::with_script(&scripts::steps(4));
    home.file("notes.txt", &scripts::notes());
    let (_, result) = home.ukai_json(&["run", "look", "--limit", "steps=2", "--output", "json"]);
    let job = result["job_id"].as_str().expect("an id").to_owned();
    (home, script, job)
}

fn banner(home: &Home) -> Option<String> {
    let said = String::from_utf8_lossy(&home.ukai(&["ls"]).stderr).into_owned();
    said.lines().find(|line| line.contains("attention")).map(str::to_owned)
}

#[test]
fn the_banner_stays_until_it_is_acked_by_verb_or_flag() {
    for (flag, served) in [(false, false), (true, false), (false, true), (true, true)] {
        let (home, _script, job) = aborted();
        let server = served.then(|| home.serve());
        let line = banner(&home).expect("a banner");
        assert!(line.contains(&job) && line.contains("ukai ack"), "{line}");
        assert!(banner(&home).is_some(), "looking is not seeing");
        let args = if flag { vec!["--ack-run-state", &job] } else { vec!["ack", &job] };
        let acked = home.ukai(&args);
        assert_eq!(acked.status.code(), Some(0), "{}", String::from_utf8_lossy(&acked.stderr));
        assert!(String::from_utf8_lossy(&acked.stdout).contains(&job));
        assert_eq!(banner(&home), None);
        drop(server);
        assert_eq!(banner(&home), None, "it is on disk");
        assert_eq!(home.count(&job, "Acked"), 1);
        let again = home.ukai(&["ack", &job]);
        assert_eq!(again.status.code(), Some(0));
        assert_eq!(home.count(&job, "Acked"), 1, "once is enough");
    }
}

#[test]
fn what_does_not_verify_is_news_once_and_seen_when_acked_also_over_restarts() {
    let (home, _script, job) = aborted();
    assert!(home.ukai(&["ack", &job]).status.success());
    let run = home.state_dir().join("runs").join(&job);
    std::fs::remove_file(run.join("run_state.json")).expect("a snapshot");
    let log = std::fs::read_to_string(run.join("events.jsonl")).expect("a log");
    std::fs::write(run.join("events.jsonl"), log.replacen("\"steps\"", "\"stops\"", 1)).expect("spoiled");
    for start in 1..=3 {
        let server = home.serve();
        assert_eq!(banner(&home).is_some(), start == 1, "start {start}");
        assert!(home.ukai(&["ack", &job]).status.success());
        assert_eq!(banner(&home), None);
        drop(server);
        assert_eq!(banner(&home), None, "without a server");
    }
    let log = std::fs::read_to_string(home.state_dir().join("supervisor/events.jsonl")).expect("the server's log");
    assert_eq!((log.matches("\"Quarantined\"").count(), log.matches("\"Acked\"").count()), (1, 1), "{log}");
}

#[test]
fn one_run_that_cannot_be_read_keeps_no_other_from_being_acked() {
    let (home, _script, job) = aborted();
    let (code, other) = home.ukai_json(&["run", "look again", "--limit", "steps=2", "--output", "json"]);
    let other = other["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(code, 4);
    // Either of them, whichever stands first.
    for bad in [&job, &other] {
        let log = home.state_dir().join("runs").join(bad).join("events.jsonl");
        let sound = std::fs::read_to_string(&log).expect("a log");
        let good = if *bad == job { &other } else { &job };
        std::fs::remove_file(&log).expect("removed");
        std::fs::create_dir(&log).expect("what is no log");
        let acked = home.ukai(&["ack", "--all"]);
        let stderr = String::from_utf8_lossy(&acked.stderr).into_owned();
        assert_eq!(acked.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(bad.as_str()) && stderr.contains("could not be marked"), "{stderr}");
        assert!(!String::from_utf8_lossy(&acked.stdout).contains(bad.as_str()));
        assert_eq!(home.count(good, "Acked"), 1, "{stderr}");
        std::fs::remove_dir(&log).expect("removed");
        std::fs::write(&log, sound).expect("it is back");
    }
    assert_eq!(home.ukai(&["ack", "--all"]).status.code(), Some(0));
    assert_eq!(banner(&home), None);
}

#[test]
fn the_flag_takes_one_id_can_be_repeated_and_leaves_the_verb_to_be_done() {
    let (home, _script, job) = aborted();
    let (_, other) = home.ukai_json(&["run", "look again", "--limit", "steps=2", "--output", "json"]);
    let other = other["job_id"].as_str().expect("an id");
    let (code, listed) = home.ukai_json(&["--ack-run-state", &job, "--ack-run-state", other, "ls", "--output", "json"]);
    assert_eq!((code, listed.as_array().map(Vec::len)), (0, Some(2)), "stdout is the verb's: {listed}");
    assert!(listed.as_array().expect("rows").iter().all(|row| row["attention"] == false), "{listed}");
    let refused = home.ukai(&["--ack-run-state", "j-zzzzzzzz", "ls"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "nobody is meant: nothing is done");
}

#[test]
fn the_state_directory_that_was_named_is_named_in_what_is_to_be_typed() {
    let (home, _script) = Home::with_script(&scripts::steps(4));
    home.file("notes.txt", &scripts::notes());
    let place = home.path().join("my jobs").display().to_string();
    let at = |args: &[&str]| home.ukai(&[args, &["--state-dir", &place]].concat());
    assert_eq!(at(&["run", "look", "--limit", "steps=2"]).status.code(), Some(4));
    let shown = at(&["ls", "--output", "stream-json"]);
    let row: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("a row");
    let job = row["job_id"].as_str().expect("an id");
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    let tail = format!("{job} --state-dir '{place}'");
    assert!(said.contains(&format!("ukai show {tail}")) && said.contains(&format!("ukai ack {tail}")), "{said}");
    let told = String::from_utf8_lossy(&at(&["show", job]).stdout).into_owned();
    assert!(told.contains(&format!("ukai resume {job} --limit steps=4 --state-dir '{place}'")), "{told}");
    let ack = said.split("when seen: ").nth(1).expect("a command").trim();
    // As it stands, in a shell.
    let program = home.command(&[]).get_program().to_owned();
    let mut typed = std::process::Command::new("sh");
    typed.args(["-c", &format!("ukai() {{ \"$UKAI\" \"$@\"; }}; {ack}")]).env("UKAI", program);
    typed.current_dir("/");
    typed.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path().join("config"));
    assert!(typed.output().expect("a shell").status.success(), "{ack}");
    assert!(at(&["ls"]).stderr.is_empty(), "it is seen");
    // The one that is found by itself need not be named.
    let usual = home.state_dir().display().to_string();
    let refused = home.ukai(&["show", "nobody", "--state-dir", &usual]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("`ukai ls` lists"), "{said}");
}

#[test]
fn all_of_it_can_be_acked_and_each_is_printed() {
    let (home, _script, job) = aborted();
    assert_eq!(home.ukai(&["run", "look again", "--limit", "steps=2"]).status.code(), Some(4));
    let acked = home.ukai(&["ack", "--all", "--output", "stream-json"]);
    let stdout = String::from_utf8_lossy(&acked.stdout).into_owned();
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    assert!(stdout.contains(&job) && stdout.contains("limit(steps)"), "{stdout}");
    assert_eq!(banner(&home), None);
    assert_eq!(home.ukai(&["ack", "j-zzzzzzzz"]).status.code(), Some(2));
}
