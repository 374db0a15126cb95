//! What ended can go on where it stopped, by a person's word and by nothing else (spec §10).

use serde_json::Value;
use ukai_tests::discord::Receiver;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::terminal;

use crate::scripts;

const STEPS: u32 = 6;

/// A job that its limit of steps ended after three of six, the provider still there.
fn ended_by_steps() -> (Home, Script, Value) {
    let (home, script) = Home::with_script(&scripts::steps(STEPS));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--limit", "steps=3", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &"limit(steps)".into()), "{result}");
    (home, script, result)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn show(home: &Home, job: &str) -> Value {
    home.ukai_json(&["show", job, "--output", "json"]).1
}

/// The log is one whole: numbered without a gap, each step once, each call answered once, two ends.
fn check_log(home: &Home, job: &str, steps: u64) {
    let events = home.events(job);
    for (event, number) in events.iter().zip(1_u64..) {
        assert_eq!(event["seq"], number);
    }
    let steps_of: Vec<_> =
        events.iter().filter(|event| event["event"] == "Replied").map(|event| event["data"]["step"].as_u64()).collect();
    assert_eq!(steps_of, (1..=steps).map(Some).collect::<Vec<_>>());
    let mut calls: Vec<_> = events
        .iter()
        .filter(|event| event["event"] == "ToolFinished")
        .map(|event| event["data"]["call"].to_string())
        .collect();
    let finished = calls.len();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), finished, "a call was answered twice");
    assert_eq!((home.count(job, "Finished"), home.count(job, "Resumed")), (2, 1));
}

#[test]
fn what_is_told_of_a_limit_abort_can_be_typed_and_no_name_is_a_hint() {
    let receiver = Receiver::start();
    let (home, _script) = Home::with_script(&scripts::steps(STEPS));
    home.file("notes.txt", &scripts::notes());
    let mut ran = home.command(&["run", "look", "--limit", "steps=3", "--output", "json"]);
    let ran = ran.env("UKAI_DISCORD_WEBHOOK", receiver.url()).output().expect("ukai runs");
    let result: Value = serde_json::from_slice(&ran.stdout).expect("a result");
    let (job, token) = (text(&result, "job_id").to_owned(), text(&result, "resume_token").to_owned());
    let told = format!("ukai resume {job} --limit steps=6");
    let alert = receiver.delivered()[0]["embeds"][0]["description"].to_string();
    assert!(alert.contains(&format!("`{told}`")), "{alert}");
    let shown = String::from_utf8_lossy(&home.ukai(&["show", &job]).stdout).into_owned();
    assert!(shown.contains(&told), "{shown}");

    let refused = home.ukai(&["resume"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    for part in ["ids or names", "batches", "`ukai resume --all`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let typed: Vec<_> = told.split(' ').skip(1).chain(["--yes-resume", &token]).collect();
    assert_eq!(home.ukai(&typed).status.code(), Some(0), "{typed:?}");
}

#[test]
fn a_limit_abort_goes_on_with_a_raise_and_its_token_and_repeats_no_step() {
    let (home, script, result) = ended_by_steps();
    let (job, token) = (text(&result, "job_id").to_owned(), text(&result, "resume_token").to_owned());
    assert_eq!(show(&home, &job)["resume_token"], token);
    let asked = script.requests();

    let refused = home.ukai(&["resume", &job, "--yes-resume", &token]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("3 of 3") && said.contains("--limit steps="), "{said}");
    for (quirk, args) in [
        ("no token", vec!["resume", &job, "--limit", "steps=9"]),
        ("another token", vec!["resume", &job, "--limit", "steps=9", "--yes-resume", "0123456789abcdef"]),
        ("one too many", vec!["resume", &job, "--limit", "steps=9", "--yes-resume", &format!("{token},0123")]),
    ] {
        let refused = home.ukai(&args);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{quirk}: {said}");
        assert!(said.contains("nothing was resumed"), "{quirk}: {said}");
        assert!(!said.contains(&token), "{quirk}: a token is not handed out where it is asked for: {said}");
    }
    assert_eq!((script.requests(), home.count(&job, "Resumed")), (asked, 0), "nothing ran");

    let (code, result) =
        home.ukai_json(&["resume", &job, "--limit", "steps=9", "--yes-resume", &token, "--output", "json"]);
    assert_eq!((code, &result["status"]), (0, &"completed".into()), "{result}");
    assert_eq!((&result["steps"], &result["restarts"]), (&STEPS.into(), &0.into()), "{result}");
    assert_eq!(result["resume_token"], Value::Null);
    assert_eq!(result["steps"], STEPS);
    assert_eq!(script.requests(), asked + 3, "steps that were finished are not asked again");
    check_log(&home, &job, STEPS.into());
    let last = script.arrivals().pop().expect("an arrival");
    assert_eq!(last["status"], 200, "the whole conversation was valid for a strict provider: {last}");

    // It does not ack: that a person has seen it is another word.
    assert_eq!(show(&home, &job)["attention"], true);
    let again = home.ukai(&["resume", &job, "--yes-resume", &token]);
    assert_eq!(again.status.code(), Some(2), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn what_is_followed_begins_with_the_resumption_and_not_with_the_story_before_it() {
    for served in [false, true] {
        let (home, _script, result) = ended_by_steps();
        let _server = served.then(|| home.serve());
        let (job, token) = (text(&result, "job_id").to_owned(), text(&result, "resume_token").to_owned());
        let typed = ["resume", &job, "--limit", "steps=9", "--yes-resume", &token, "--output", "stream-json"];
        let stdout = String::from_utf8_lossy(&home.ukai(&typed).stdout).into_owned();
        let told: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let events: Vec<_> = told.iter().filter_map(|line| line["event"].as_str()).collect();
        assert_eq!(events[0], "Resumed", "{events:?}");
        assert_eq!(events.iter().filter(|event| **event == "Replied").count(), 3, "{events:?}");
        let result = told.last().expect("a result");
        assert_eq!((&result["type"], &result["steps"]), (&"result".into(), &STEPS.into()), "all of it counts");
    }
}

#[test]
fn without_a_provider_it_says_so_before_it_asks() {
    let (home, _script, result) = ended_by_steps();
    home.configure("");
    let job = text(&result, "job_id").to_owned();
    let refused = home.ukai(&["resume", &job, "--limit", "steps=9"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("provider") && !said.contains("--yes-resume TOKEN"), "{said}");
}

#[test]
fn at_a_terminal_it_shows_why_and_asks_and_only_a_yes_goes_on() {
    let (home, script, result) = ended_by_steps();
    let job = text(&result, "job_id").to_owned();
    let asked = script.requests();
    let command = home.command(&["resume", &job, "--limit", "steps=9"]);
    for no in ["\n", "n\n", "\u{4}"] {
        let played = terminal::play(&command, "[y/N]", no);
        assert_eq!(played.code, 0, "{}", played.shown);
        assert!(played.shown.contains("nothing was resumed"), "{}", played.shown);
    }
    assert_eq!((script.requests(), home.count(&job, "Resumed")), (asked, 0));
    let played = terminal::play(&command, "[y/N]", "y\n");
    assert_eq!(played.code, 0, "{}", played.shown);
    for part in ["breaker_open(limit(steps))", "steps 3 of 3", "tool_calls 6 of 40", "completed"] {
        assert!(played.shown.contains(part), "{part}: {}", played.shown);
    }
    check_log(&home, &job, STEPS.into());
}

#[test]
fn at_a_server_a_batch_goes_on_whole_and_its_end_is_told_again() {
    let (home, script) = Home::with_script(&scripts::steps(STEPS));
    home.file("notes.txt", &scripts::notes());
    home.file("look.toml", "name = \"look {{line}}\"\nprompt = \"look {{line}}\"\n[limits]\nsteps = 3\n");
    home.file("items.txt", "a\nb\nc\n");
    let server = home.serve();
    let ended = home.ukai(&["run", "--file", "look.toml", "--each", "items.txt"]);
    assert_eq!(ended.status.code(), Some(4), "{}", String::from_utf8_lossy(&ended.stderr));
    let asked = script.requests();
    let rows = home.ukai(&["results", "look", "--format", "jsonl"]);
    let tokens: Vec<String> = String::from_utf8_lossy(&rows.stdout)
        .lines()
        .map(|line| text(&serde_json::from_str(line).expect("a row"), "resume_token").to_owned())
        .collect();
    let mut args = vec!["resume", "look", "--limit", "steps=9"];
    tokens.iter().for_each(|token| args.extend(["--yes-resume", token]));
    let resumed = home.ukai(&args);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(script.requests(), asked + 9);
    home.runs().iter().for_each(|job| check_log(&home, job, STEPS.into()));
    drop(server);
    let log = std::fs::read_to_string(home.state_dir().join("supervisor/events.jsonl")).expect("the server's log");
    assert_eq!(log.matches("\"BatchDone\"").count(), 2, "{log}");
    let (_, listed) = home.ukai_json(&["ls", "--output", "json"]);
    assert!(listed.as_array().expect("rows").iter().all(|row| row["status"] == "completed"), "{listed}");
}

#[test]
fn what_no_provider_could_serve_completes_when_one_is_well_again_also_over_a_restart() {
    let home = Home::new();
    home.file("notes.txt", &scripts::notes());
    let spent = format!("[[rule]]\nwhen.step = 4\nfault.status = 403\n{}", scripts::steps(STEPS));
    let script = Script::serve(home.path(), &spent);
    home.configure(&lab(&script, "openai"));
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &"all_open".into()), "{result}");
    let (job, token) = (text(&result, "job_id").to_owned(), text(&result, "resume_token").to_owned());
    drop(script);
    let well = Script::serve(home.path(), &scripts::steps(STEPS));
    home.configure(&lab(&well, "openai"));
    assert_eq!(home.ukai(&["providers", "reset", "lab"]).status.code(), Some(0));
    let (code, result) = home.ukai_json(&["resume", "--all", "--yes-resume", &token, "--output", "json"]);
    assert_eq!((code, &result["status"]), (0, &"completed".into()), "{result}");
    assert_eq!(well.requests(), 3, "three steps were finished");
    check_log(&home, &job, STEPS.into());
    let nothing = home.ukai(&["resume", "--all"]);
    assert_eq!(nothing.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing to resume"));
}

#[test]
fn what_completed_or_goes_on_is_not_resumed() {
    let (home, _script) = Home::with_script(&scripts::steps(2));
    home.file("notes.txt", &scripts::notes());
    let (_, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    let job = text(&result, "job_id");
    let refused = home.ukai(&["resume", job, "--yes-resume", "0123456789abcdef"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("it completed"), "{said}");
    let unknown = home.ukai(&["resume", "j-zzzzzzzz"]);
    assert_eq!(unknown.status.code(), Some(2));
    let wrong = home.ukai(&["resume", job, "--limit", "stps=3"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("steps"), "the nearest key is named");
}
