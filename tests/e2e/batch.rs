//! A list is a batch: one job a line, each once, whatever dies; and one look at all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

/// Answers at once with what was asked.
const ECHO: &str = "[[rule]]\nreply.text = 'done: {{prompt}}'\n";

fn list(home: &Home, lines: std::ops::RangeInclusive<u32>) {
    home.file("items.txt", &lines.map(|line| format!("item {line}\n")).collect::<String>());
    home.file("survey.toml", "name = \"look at {{line}}\"\nprompt = \"Look at {{line}}.\"\n");
}

const RUN: [&str; 5] = ["run", "--file", "survey.toml", "--each", "items.txt"];
const SUBMIT: [&str; 4] = ["submit", "survey.toml", "--each", "items.txt"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn ends_with(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The result rows of the batch `survey`, by the text of each.
#[track_caller]
fn rows(home: &Home) -> Vec<Value> {
    let output = home.ukai(&["results", "survey", "--format", "jsonl"]);
    ends_with(&output, 0);
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

/// Each line of the list has had its answer, once.
#[track_caller]
fn each_once(home: &Home, lines: std::ops::RangeInclusive<u32>) {
    let rows = rows(home);
    let told: Vec<_> = rows.iter().map(|row| row["text"].as_str().expect("a text").to_owned()).collect();
    assert_eq!(told, lines.map(|line| format!("done: Look at item {line}.")).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["status"] == "completed"), "{rows:?}");
}

#[test]
fn two_hundred_lines_are_two_hundred_rows_and_the_same_list_again_adds_none() {
    let (home, script) = Home::with_script(ECHO);
    list(&home, 1..=200);
    let (code, result) = home.ukai_json(&[&RUN[..], &["--output", "json"]].concat());
    assert_eq!(result["type"], "batch_result");
    for (key, value) in [("jobs", 200), ("added", 200), ("completed", 200), ("exit_code", 0)] {
        assert_eq!(result[key], value, "{key} of {result}");
    }
    assert_eq!(code, 0);
    each_once(&home, 1..=200);

    let csv = home.ukai(&["results", "survey", "--format", "csv"]);
    let csv = text(&csv.stdout);
    assert_eq!(csv.lines().count(), 201, "a header and a row each");
    assert!(csv.starts_with("line,job_id,name,status,"), "{csv:.100}");
    assert!(csv.contains(",look at item 7,completed,"), "{csv:.400}");
    let table = text(&home.ukai(&["results", "survey"]).stdout);
    assert_eq!(table.lines().count(), 201, "titles and a row each");

    let again = home.ukai(&RUN);
    ends_with(&again, 0);
    assert!(text(&again.stderr).contains("0 jobs queued, 200 of its lines had theirs already"), "{again:?}");
    assert_eq!((home.runs().len(), script.arrivals().len()), (200, 200));
    assert_eq!(text(&again.stdout).lines().next().map(|line| line.ends_with("(survey): 200 jobs")), Some(true));
}

#[test]
fn no_more_than_max_workers_run_at_a_time() {
    let home = Home::new();
    let script = Script::serve(home.path(), &format!("[defaults]\nlatency = \"100ms\"\n{ECHO}"));
    home.configure(&format!("max_workers = 3\n{}", lab(&script, "openai")));
    list(&home, 1..=24);
    let _server = home.serve();
    ends_with(&home.ukai(&SUBMIT), 0);
    let mut most = 0;
    wait::until("the batch to end", || {
        most = most.max(home.workers().len());
        let rows = rows(&home);
        rows.iter().all(|row| row["status"] == "completed").then_some(())
    });
    assert!((2..=3).contains(&most), "{most} workers at once");
}

#[test]
fn a_list_that_grew_adds_its_new_lines_to_the_batch_and_again_makes_another() {
    let (home, script) = Home::with_script(ECHO);
    list(&home, 1..=3);
    let _server = home.serve();
    let first = home.ukai(&SUBMIT);
    assert_eq!(text(&first.stdout).lines().count(), 3, "an id a line");
    list(&home, 1..=5);
    let grown = home.ukai(&SUBMIT);
    assert_eq!(text(&grown.stdout).lines().count(), 2, "{}", text(&grown.stderr));
    ends_with(&home.ukai(&["attach", "survey"]), 0);
    each_once(&home, 1..=5);
    let again = home.ukai(&[&SUBMIT[..], &["--again"]].concat());
    assert_eq!(text(&again.stdout).lines().count(), 5, "{}", text(&again.stderr));
    let two = home.ukai(&["pause", "survey"]);
    ends_with(&two, 2);
    assert!(text(&two.stderr).contains("`survey` could be any of b-"), "{}", text(&two.stderr));
    let newest = text(&again.stdout).lines().next().expect("an id").to_owned();
    ends_with(&home.ukai(&["attach", &newest]), 0);
    wait::until("all to be asked", || (script.arrivals().len() == 10).then_some(()));
    for name in [&*newest, "survey"] {
        let of_newest = home.ukai(&["results", name, "--format", "jsonl"]);
        assert_eq!(text(&of_newest.stdout).lines().count(), 5, "by one of its jobs, and by name the newest");
    }
}

#[test]
fn one_bad_line_queues_nothing_and_is_named() {
    let (home, _script) = Home::with_script(ECHO);
    home.file("survey.toml", "prompt = \"Look at {{path}} for {{what}}.\"\n");
    let cases = [
        ("items.csv", "path,what\na,b\n\nc\n", "line 4"),
        ("items.jsonl", "{\"path\": \"a\", \"what\": \"b\"}\n\n{\"path\": \"c\"}\n", "line 3"),
        ("items.jsonl", "{\"path\": \"a\", \"what\": \"b\"}\n{\"path\": \n", "line 2"),
        ("items.txt", "a\n", "line 1"),
    ];
    let _server = home.serve();
    for (name, lines, place) in cases {
        home.file(name, lines);
        for verb in [&["run", "--file"][..], &["submit"]] {
            let output = home.ukai(&[verb, &["survey.toml", "--each", name]].concat());
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains(place) && stderr.contains(name), "{stderr} lacks {place} of {name}");
        }
    }
    assert_eq!(home.runs(), Vec::<String>::new());
}

#[test]
fn a_supervisor_killed_in_the_middle_loses_no_line_and_repeats_none() {
    let home = Home::new();
    let script = Script::serve(home.path(), &format!("[defaults]\nlatency = \"20ms\"\n{ECHO}"));
    home.configure(&lab(&script, "openai"));
    list(&home, 1..=200);
    let mut run = home.command(&RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait::until("some to be answered", || (script.arrivals().len() > 60).then_some(()));
    run.kill().expect("killed");
    run.wait().expect("gone");
    assert!(script.arrivals().len() < 190, "it was in the middle");
    ends_with(&home.ukai(&RUN), 0);
    each_once(&home, 1..=200);
    assert_eq!(home.runs().len(), 200);
    let (mut asked, mut restarts) = (BTreeMap::new(), 0);
    for arrival in script.arrivals() {
        *asked.entry(arrival["prompt"].to_string()).or_insert(0) += 1;
    }
    for row in rows(&home) {
        restarts += row["restarts"].as_u64().expect("a number");
    }
    let twice = asked.values().filter(|times| **times > 1).count() as u64;
    assert!(asked.len() == 200 && twice <= restarts, "{twice} asked twice, {restarts} restarts");
}

/// The moments between the first file of a submission and its answer, roughly evenly.
#[test]
fn a_supervisor_killed_while_a_list_is_submitted_has_promised_all_or_nothing() {
    let (home, _script) = Home::with_script(ECHO);
    let mut expected = 0;
    for (round, delay) in [1, 5, 15, 30, 60, 120, 250].into_iter().enumerate() {
        let first = expected + 1;
        list(&home, first..=first + 39);
        let mut server = home.serve();
        let submit = home.command(&SUBMIT).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(delay));
        server.kill();
        let answered = submit.wait_with_output().expect("it ends");
        let ids: BTreeSet<_> = text(&answered.stdout).lines().map(str::to_owned).collect();
        assert!(answered.status.success() == (ids.len() == 40), "round {round}: {answered:?}");
        ends_with(&home.ukai(&RUN), 0);
        let batch = text(&home.ukai(&["ls", "--output", "json"]).stdout);
        let jobs: Value = serde_json::from_str(&batch).expect("JSON");
        let of_line: Vec<_> =
            jobs.as_array().expect("jobs").iter().filter(|job| job["status"] == "completed").collect();
        expected += 40;
        assert_eq!(of_line.len(), expected as usize, "round {round}: each line was carried out once");
        let known: BTreeSet<_> = of_line.iter().map(|job| job["job_id"].as_str().expect("an id").to_owned()).collect();
        assert!(ids.is_subset(&known), "what was promised was done");
    }
}

#[test]
fn a_batch_ends_as_its_worst_job_and_says_how_many_ended_how() {
    let script = "[[rule]]\nwhen = { prompt = \"item 2.\" }\nfault.status = 400\n[[rule]]\nreply.text = 'done'\n";
    let (home, _script) = Home::with_script(script);
    list(&home, 1..=4);
    let output = home.ukai(&RUN);
    ends_with(&output, 1);
    let stdout = text(&output.stdout);
    for part in
        ["(survey): 4 jobs", "3 completed, 1 aborted, 1 needs attention", "1 ended by fatal_error(provider_rejected)"]
    {
        assert!(stdout.contains(part), "{stdout} lacks {part}");
    }
    let (code, last) = home.ukai_json(&["attach", "survey", "--output", "stream-json"]);
    assert_eq!((code, &last["type"], &last["added"]), (1, &"batch_result".into(), &0.into()));
    assert_eq!(last["causes"]["fatal_error(provider_rejected)"], 1);
}

#[test]
fn lines_that_were_cancelled_or_failed_are_tried_again_when_asked_and_the_others_are_not() {
    let script = "[[rule]]\nwhen = { prompt = \"item 2.\" }\ntimes = 1\nfault.status = 400\n[[rule]]\nreply.text = 'done: {{prompt}}'\n";
    let (home, script) = Home::with_script(script);
    list(&home, 1..=3);
    let failed = home.ukai(&RUN);
    ends_with(&failed, 1);
    let said = text(&failed.stdout);
    assert!(said.contains("go on where it stopped; type: ukai resume b-") && !said.contains("--retry"), "{said}");
    ends_with(&home.ukai(&RUN), 1);
    assert_eq!(script.arrivals().len(), 3, "known is known");
    let (code, result) = home.ukai_json(&[&RUN[..], &["--retry", "--output", "json"]].concat());
    assert_eq!((code, &result["added"], &result["completed"]), (0, &1.into(), &3.into()), "{result}");
    each_once(&home, 1..=3);
    // Whoever had it made anew has seen the one before, and nobody goes on with that.
    let settled = |home: &Home| {
        let resumed = home.ukai(&["resume", "--all"]);
        ends_with(&resumed, 0);
        let said = text(&resumed.stderr);
        assert!(said.contains("nothing to resume") && !said.contains("attention"), "{said}");
    };
    settled(&home);
    let _server = home.serve();
    settled(&home);
    each_once(&home, 1..=3);
    assert_eq!(script.arrivals().len(), 4);
}

#[test]
fn after_a_list_that_reached_a_limit_what_is_told_can_be_typed_and_goes_on_with_it() {
    let (home, script) = Home::with_script(&crate::scripts::steps(4));
    home.file("notes.txt", &crate::scripts::notes());
    list(&home, 1..=2);
    let limited = home.ukai(&[&RUN[..], &["--limit", "steps=2"]].concat());
    ends_with(&limited, 4);
    let said = text(&limited.stdout);
    assert!(!said.contains("--retry"), "{said}");
    let typed = said.lines().find_map(|line| line.split_once("type: ukai resume ")).expect("what to type").1.to_owned();
    assert!(typed.ends_with(" --limit steps=4"), "{typed}");
    let tokens: Vec<_> = rows(&home).iter().map(|row| row["job_id"].as_str().expect("an id").to_owned()).collect();
    let token = |id: &String| home.ukai_json(&["show", id, "--output", "json"]).1["resume_token"].to_string();
    let tokens = tokens.iter().map(token).collect::<Vec<_>>().join(",").replace('"', "");
    let words: Vec<_> = ["resume"].into_iter().chain(typed.split(' ')).chain(["--yes-resume", &tokens]).collect();
    let resumed = home.ukai(&words);
    ends_with(&resumed, 0);
    assert_eq!(script.arrivals().len(), 8, "no step was asked twice");
}

#[test]
fn a_list_needs_a_job_file_and_says_so() {
    let (home, _script) = Home::with_script(ECHO);
    list(&home, 1..=3);
    let output = home.ukai(&["run", "Look at {{line}}.", "--each", "items.txt"]);
    ends_with(&output, 2);
    assert!(text(&output.stderr).contains("fills job files"), "{}", text(&output.stderr));
    let plain = home.ukai(&["run", "--file", "survey.toml"]);
    ends_with(&plain, 0);
    assert!(text(&plain.stderr).contains("only --each fills it"), "{}", text(&plain.stderr));
}

#[test]
fn a_batch_is_paused_as_far_as_it_has_come_and_goes_on() {
    let home = Home::new();
    let script = Script::serve(home.path(), &format!("[defaults]\nlatency = \"50ms\"\n{ECHO}"));
    home.configure(&format!("max_workers = 2\n{}", lab(&script, "openai")));
    list(&home, 1..=12);
    let _server = home.serve();
    ends_with(&home.ukai(&SUBMIT), 0);
    wait::until("some to end", || rows(&home).iter().any(|row| row["status"] == "completed").then_some(()));
    let paused = home.ukai(&["pause", "survey"]);
    ends_with(&paused, 0);
    wait::until("the calls under way to end", || {
        rows(&home).iter().all(|row| row["status"] == "completed" || row["status"] == "paused").then_some(())
    });
    let asked = script.arrivals().len();
    assert!(asked < 12, "it was in the middle");
    ends_with(&home.ukai(&["unpause", "survey"]), 0);
    ends_with(&home.ukai(&["attach", "survey"]), 0);
    each_once(&home, 1..=12);
    assert_eq!(script.arrivals().len(), 12, "nothing was asked twice");
}

#[test]
fn one_damaged_log_hides_none_of_the_others() {
    let (home, _script) = Home::with_script(ECHO);
    list(&home, 1..=3);
    ends_with(&home.ukai(&RUN), 0);
    let victim = rows(&home)[1]["job_id"].as_str().expect("an id").to_owned();
    let log = home.state_dir().join("runs").join(&victim).join("events.jsonl");
    let damaged = std::fs::read_to_string(&log).expect("its log").replace("Replied", "Repliee");
    std::fs::write(&log, damaged).expect("damaged");
    let check = || {
        let rows = rows(&home);
        let statuses: Vec<_> = rows.iter().map(|row| row["status"].as_str().expect("a status")).collect();
        assert_eq!(statuses, ["completed", "aborted", "completed"]);
        assert_eq!(rows[1]["cause"]["kind"], "quarantined");
    };
    check();
    let _server = home.serve();
    check();
    let (code, last) = home.ukai_json(&["attach", "survey", "--output", "json"]);
    assert_eq!((code, &last["completed"], &last["aborted"]), (6, &2.into(), &1.into()), "{last}");
}

#[test]
fn a_line_keeps_its_job_whatever_record_of_it_is_damaged() {
    let (home, script) = Home::with_script(ECHO);
    list(&home, 1..=3);
    ends_with(&home.ukai(&RUN), 0);
    let victim = rows(&home)[1]["job_id"].as_str().expect("an id").to_owned();
    let log = home.state_dir().join("runs").join(&victim).join("events.jsonl");
    let damaged = std::fs::read_to_string(&log).expect("its log").replacen("Submitted", "Submittex", 1);
    std::fs::write(&log, damaged).expect("damaged");
    assert_eq!(rows(&home).len(), 3, "without a server");
    ends_with(&home.ukai(&RUN), 6);
    assert_eq!((rows(&home).len(), script.arrivals().len()), (3, 3), "it was not made anew");
}

#[test]
fn what_lies_in_the_folder_of_batches_stops_no_job() {
    let (home, _script) = Home::with_script(ECHO);
    list(&home, 1..=2);
    ends_with(&home.ukai(&RUN), 0);
    let folder = home.state_dir().join("batches");
    std::fs::create_dir(folder.join("b-aaaaaaaa.json")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", folder.join("b-bbbbbbbb.json")).expect("a link");
    std::fs::write(folder.join("notes.txt"), "mine").expect("a file");
    ends_with(&home.ukai(&RUN), 0);
    each_once(&home, 1..=2);
    assert!(folder.join("notes.txt").exists(), "what is not ours is left alone");
}

/// The moments between the first file of a submission and its answer.
#[test]
fn the_emergency_stop_stops_a_list_that_is_being_queued() {
    let home = Home::new();
    let script = Script::serve(home.path(), "[[rule]]\nfault.hang = \"before_headers\"\n");
    home.configure(&lab(&script, "openai"));
    let mut server = home.serve();
    for delay in [20, 60, 120, 200, 300] {
        list(&home, delay * 1_000..=delay * 1_000 + 99);
        let submit = home.command(&SUBMIT).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(delay.into()));
        ends_with(&home.ukai(&["cancel", "--all"]), 0);
        let answered = submit.wait_with_output().expect("it ends");
        // Said before the stop, it is stopped as queued; said after it, the list is not there.
        ends_with(&home.ukai(&["cancel", "--all"]), 0);
        let listed = home.ukai(&["ls", "--output", "json"]);
        let jobs: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        let open = jobs.as_array().expect("jobs").iter().filter(|job| job["status"] != "cancelled").count();
        assert_eq!(open, 0, "after {delay} ms: {answered:?}");
        if !answered.status.success() {
            // What was refused is not known, to this server or to the next.
            server.kill();
            server = home.serve();
            let again = home.ukai(&SUBMIT);
            assert_eq!(text(&again.stdout).lines().count(), 100, "after {delay} ms: {answered:?}, then {again:?}");
            ends_with(&home.ukai(&["cancel", "--all"]), 0);
        }
    }
}

#[test]
fn csv_holds_the_text_itself() {
    let (home, _script) = Home::with_script("[[rule]]\nreply.text = \"a\\r\\nb, \\\"c\\\" \\u001b[31m\"\n");
    list(&home, 1..=1);
    ends_with(&home.ukai(&RUN), 0);
    let csv = text(&home.ukai(&["results", "survey", "--format", "csv"]).stdout);
    assert!(csv.contains(",\"a\r\nb, \"\"c\"\" \u{1b}[31m\"\n"), "{csv:?}");
}

#[test]
fn logs_tell_what_happened_with_and_without_a_server() {
    let (home, _script) = Home::with_script(ECHO);
    list(&home, 1..=2);
    ends_with(&home.ukai(&RUN), 0);
    let check = || {
        let output = home.ukai(&["logs", "survey"]);
        ends_with(&output, 0);
        let lines = text(&output.stdout);
        assert_eq!(lines.lines().filter(|line| line.ends_with("  completed")).count(), 2, "{lines}");
        assert!(lines.contains("  submitted as look at item 1\n"), "{lines}");
        let records = text(&home.ukai(&["logs", "survey", "--output", "json"]).stdout);
        let names: Vec<_> = records.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect();
        assert_eq!(names.iter().filter(|record| record["event"] == "Finished").count(), 2);
    };
    check();
    let _server = home.serve();
    check();
}

#[test]
fn attach_tells_the_backlog_and_then_what_happens() {
    let (home, script) = Home::with_script(&crate::scripts::slow_steps(4, "150ms"));
    home.file("notes.txt", &crate::scripts::notes());
    let _server = home.serve();
    home.file("job.toml", "prompt = \"go\"\n");
    let id = text(&home.ukai(&["submit", "job.toml"]).stdout).trim().to_owned();
    wait::until("it to be under way", || (script.arrivals().len() >= 2).then_some(()));
    let output = home.ukai(&["attach", &id, "--output", "stream-json"]);
    ends_with(&output, 0);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let seqs: Vec<_> =
        lines.iter().filter(|line| line["type"] == "event").map(|line| line["seq"].as_u64().expect("seq")).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "all, once, in order");
    assert_eq!(lines.last().map(|line| &line["type"]), Some(&"result".into()));
    assert_eq!(seqs.len(), home.events(&id).len());
}

#[test]
fn whoever_attaches_and_reads_nothing_slows_nobody() {
    let (home, _script) = Home::with_script(ECHO);
    list(&home, 1..=60);
    let _server = home.serve();
    ends_with(&home.ukai(&SUBMIT), 0);
    let watchers: Vec<_> = (0..4)
        .map(|_| {
            let attach = ["attach", "survey", "--output", "stream-json"];
            // Its pipe is full after 64 KiB, and nobody empties it.
            home.command(&attach).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
        })
        .collect();
    list(&home, 1..=200);
    ends_with(&home.ukai(&RUN), 0);
    each_once(&home, 1..=200);
    for mut watcher in watchers {
        watcher.kill().expect("killed");
        watcher.wait().expect("gone");
    }
}
