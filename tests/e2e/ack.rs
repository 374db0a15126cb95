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
