//! `ukai run`: one job from prompt to result, over both wires.

use std::process::Stdio;

use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

#[test]
fn a_job_of_twenty_steps_completes_over_each_wire() {
    for wire in ["openai", "anthropic"] {
        let home = Home::new();
        let script = Script::serve(home.path(), &scripts::steps(20));
        home.configure(&lab(&script, wire));
        home.file("notes.txt", &scripts::notes());
        let (code, result) = home.ukai_json(&["run", "look at the notes", "--provider", "lab", "--output", "json"]);
        assert_eq!(code, 0, "{wire}: {result}");
        assert_eq!(result["status"], "completed");
        assert_eq!(result["steps"], 20);
        assert_eq!(result["tool_calls"], 38);
        assert_eq!(result["tokens"]["input"], 2000);
        assert!(result["text"].as_str().is_some_and(|text| text.starts_with("Seen 20 steps.")), "{result}");
        let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
        assert!(refused.is_empty(), "{wire}: the provider refused {refused:?}");
        assert_eq!(script.arrivals().len(), 20, "{wire}");
    }
}

#[test]
fn the_log_alone_tells_the_whole_run() {
    let (home, _script) = Home::with_script(&scripts::steps(3));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!(code, 0, "{result}");
    let id = result["job_id"].as_str().expect("an id");
    let events = home.events(id);
    let names: Vec<_> = events.iter().map(|record| record["event"].as_str().expect("a name")).collect();
    assert_eq!(names.first(), Some(&"Submitted"));
    assert_eq!(names.last(), Some(&"Finished"));
    for (place, record) in events.iter().enumerate() {
        assert_eq!(record["seq"], place as u64 + 1);
        assert_eq!(record["v"], 1);
    }
    // Intent before act: each call is judged, then started, then finished.
    let calls: Vec<_> = events.iter().filter(|record| record["event"] == "ToolFinished").collect();
    assert_eq!(calls.len(), 4);
    for call in calls.iter().map(|record| record["data"]["call"].as_str().expect("an id")) {
        let place = |event: &str| {
            let found = events.iter().position(|record| record["event"] == event && record["data"]["call"] == call);
            found.unwrap_or_else(|| panic!("{call} has no {event}"))
        };
        assert!(place("Judged") < place("ToolStarted") && place("ToolStarted") < place("ToolFinished"));
    }
}

#[test]
fn stream_json_is_the_log_as_it_grows_and_then_the_result() {
    let (home, _script) = Home::with_script(&scripts::steps(2));
    home.file("notes.txt", &scripts::notes());
    let output = home.ukai(&["run", "look", "--output", "stream-json"]);
    let stdout = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let result = lines.last().expect("a result");
    assert_eq!(result["type"], "result");
    let id = result["job_id"].as_str().expect("an id");
    let told: Vec<_> = lines.iter().filter(|line| line["type"] == "event").collect();
    let logged = home.events(id);
    assert_eq!(told.len(), logged.len());
    for (told, logged) in told.iter().zip(&logged) {
        assert_eq!(told["job_id"], id);
        assert_eq!((&told["seq"], &told["event"], &told["data"]), (&logged["seq"], &logged["event"], &logged["data"]));
    }
    let text: String = lines
        .iter()
        .filter(|line| line["type"] == "delta" && line["step"] == 2)
        .filter_map(|line| line["text"].as_str())
        .collect();
    assert!(result["text"].as_str().is_some_and(|whole| whole.starts_with(&text)), "{text}");
}

#[test]
fn what_it_wanted_to_change_and_could_not_is_said() {
    let script = r#"
[[rule]]
when.step = 1
[rule.reply]
calls = [{ tool = "Bash", args = { command = "rm -rf build" } }, { tool = "Write", args = { file_path = "a", content = "b" } }]

[[rule]]
[rule.reply]
text = "I could not."
"#;
    let (home, _script) = Home::with_script(script);
    let (code, result) = home.ukai_json(&["run", "clean up", "--output", "json"]);
    assert_eq!((code, &result["status"], &result["attention"]), (7, &"completed".into(), &true.into()), "{result}");
    assert_eq!(result["denied"].as_array().map(Vec::len), Some(2), "{result}");
    assert_eq!(result["tool_calls"], 0);
}

const REFUSES_THE_KEY: &str = "[[rule]]\nfault = { status = 401 }\n";

#[test]
fn one_failure_is_not_told_by_the_log_as_well() {
    let (home, _script) = Home::with_script(REFUSES_THE_KEY);
    let output = home.ukai(&["run", "x"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("step 1: lab: HTTP 401"), "{stderr}");
    for noise in ["ukai::alert", "Actor{", "did not answer", "lab: lab"] {
        assert!(!stderr.contains(noise), "{noise}: {stderr}");
    }
    assert!(home.ukai(&["providers", "reset", "lab"]).status.success());
    let told = home.command(&["run", "x"]).env("UKAI_LOG", "warn").output().expect("ukai runs");
    let stderr = String::from_utf8_lossy(&told.stderr);
    assert!(stderr.contains("ukai::alert"), "UKAI_LOG holds: {stderr}");
}

#[test]
fn who_follows_a_job_that_cannot_start_is_told_why() {
    let (home, _script) = Home::with_script(REFUSES_THE_KEY);
    let _server = home.serve();
    assert_eq!(home.ukai(&["run", "first"]).status.code(), Some(4));
    let stderr = home.path().join("second.err");
    let file = std::fs::File::create(&stderr).expect("a file");
    let second = home.command(&["run", "second"]).stderr(file).stdout(Stdio::null()).spawn();
    let mut second = second.expect("ukai runs");
    wait::until("the reason", || {
        std::fs::read_to_string(&stderr).ok()?.contains("queued: nobody may be asked: lab is OPEN").then_some(())
    });
    assert!(home.ukai(&["cancel", "--all"]).status.success());
    assert_eq!(second.wait().expect("it ends").code(), Some(130));
    let told = std::fs::read_to_string(&stderr).expect("what it said");
    assert_eq!(told.matches("queued: nobody may be asked: lab is OPEN").count(), 1, "{told}");
}

#[test]
fn output_that_does_not_arrive_is_a_failure_unless_nobody_wants_it() {
    let (home, _script) = Home::with_script(&scripts::steps(1));
    assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(0));
    for args in [&["ls"][..], &["show", "look"], &["doctor"], &["run", "again"], &["completions", "bash"], &["--help"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it takes nothing");
        let output = home.command(args).stdout(full).output().expect("ukai runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("writing to stdout"), "{args:?}: {stderr}");

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = home.command(args).stdout(writer).output().expect("ukai runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("stdout"), "{args:?}: {stderr}");
    }
}

#[test]
fn jobs_are_listed_as_they_were_submitted_with_and_without_a_server() {
    let (home, _script) = Home::with_script(REFUSES_THE_KEY);
    let long = "a-name-that-is-longer-than-a-column-of-a-terminal";
    let server = home.serve();
    let mut submitted = String::new();
    for name in [long, "b", "c", "d", "e"] {
        let output = home.ukai(&["submit", "--prompt", "x", "--name", name]);
        submitted.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let listed = || {
        let table = String::from_utf8(home.ukai(&["ls"]).stdout).expect("text");
        assert!(
            table.lines().next().is_some_and(|titles| titles.contains("TIME") && titles.ends_with("NOTE")),
            "{table}"
        );
        assert!(table.contains(long), "{table}");
        let ids = table.lines().skip(1).filter_map(|line| line.split(' ').next());
        ids.map(|id| format!("{id}\n")).collect::<String>()
    };
    assert_eq!(listed(), submitted);
    drop(server);
    assert_eq!(listed(), submitted);
}

#[test]
fn show_says_what_the_job_was_and_what_became_of_it() {
    let script = r#"
[[rule]]
when.step = 1
reply.calls = [{ tool = "Bash", args = { command = "rm -rf build" } }]
[[rule]]
fault = { status = 401 }
"#;
    let (home, _script) = Home::with_script(script);
    assert_eq!(home.ukai(&["run", "clean up", "--name", "tidy", "--model", "lab-2"]).status.code(), Some(4));
    let shown = String::from_utf8(home.ukai(&["show", "tidy"]).stdout).expect("text");
    let workdir = home.work().canonicalize().expect("a folder").display().to_string();
    for (key, value) in [
        ("workdir", &*workdir),
        ("prompt", "clean up"),
        ("model", "lab-2"),
        ("reason", "no provider could be asked (breaker_open, all_open)"),
        ("detail", "lab: OPEN until a person says `ukai providers reset lab`"),
        ("denied", "Bash rm -rf build: "),
    ] {
        let told = shown.lines().any(|line| line.starts_with(key) && line.contains(value));
        assert!(told, "no {key} with {value:?} in\n{shown}");
    }
}

#[test]
fn help_tells_its_own_options_first_and_what_the_exit_code_means() {
    let home = Home::new();
    let help = |args: &[&str]| String::from_utf8(home.ukai(args).stdout).expect("text");
    let run = help(&["run", "--help"]);
    let place = |word: &str| run.find(word).unwrap_or_else(|| panic!("no {word} in {run}"));
    assert!(place("--workdir") < place("Global options:") && place("Global options:") < place("--state-dir"), "{run}");
    assert!(place("--state-dir") < place("Exit codes"), "{run}");
    let script = help(&["script", "serve", "--help"]);
    assert!(script.contains("--record") && script.contains("--wire"), "{script}");
}

#[test]
fn doctor_offers_every_key_and_is_not_as_wide_as_its_longest_value() {
    let home = Home::new();
    let report = String::from_utf8(home.ukai(&["doctor"]).stdout).expect("text");
    assert!(report.contains("OPENAI_API_KEY") && report.contains("GEMINI_API_KEY"), "{report}");
    let line = report.lines().find(|line| line.contains("limits.steps")).expect("a limit");
    assert!(line.chars().count() < 80, "{report}");
}
