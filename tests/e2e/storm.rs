//! `ukai demo --storm` shows what it says: each provider's own record is read here once more, and so is the state
//! directory afterwards.

use std::collections::HashSet;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;
use ukai_tests::home::Home;

/// Reads a JSON line each.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

fn at(arrival: &Value) -> i64 {
    let at: Timestamp = arrival["at"].as_str().expect("a text").parse().expect("a time");
    at.as_millisecond()
}

fn record(state: &Path, provider: &str) -> Vec<Value> {
    lines(&std::fs::read_to_string(state.join(format!("{provider}.arrivals.jsonl"))).expect("a record"))
}

/// How many have this status.
fn count(values: &[Value], status: &Value) -> usize {
    values.iter().filter(|value| value["status"] == *status).count()
}

/// What each provider wrote down: nobody came back to one that had asked to be left alone.
fn check_arrivals(state: &Path) {
    // 30 s outlast the demo, so whoever was refused may not come a second time, and nobody after the first answer: that
    // left after 500 ms, and a second more is for a machine under load.
    let first = record(state, "first");
    assert!((3..=8).contains(&first.len()), "{first:?}");
    assert_eq!(count(&first, &429.into()), first.len());
    assert!(first.iter().all(|arrival| arrival["step"] == 1 && at(arrival) - at(&first[0]) < 1_500), "{first:?}");
    let mut prompts: Vec<_> = first.iter().map(|arrival| arrival["prompt"].to_string()).collect();
    prompts.sort_unstable();
    prompts.dedup();
    assert_eq!(prompts.len(), first.len(), "each came once: {first:?}");

    let second = record(state, "second");
    assert_eq!(count(&second, &200.into()), 44);
    let refused: Vec<_> = second.iter().filter(|arrival| arrival["status"] == 429).collect();
    assert_eq!(second.len(), 44 + refused.len(), "{second:?}");
    assert!((1..=8).contains(&refused.len()), "{refused:?}");
    let mut left_alone = HashSet::new();
    for arrival in &second {
        let prompt = arrival["prompt"].to_string();
        assert!(!left_alone.contains(&prompt), "it was refused, and came again: {arrival}");
        if arrival["status"] == 429 {
            left_alone.insert(prompt);
        }
    }
}

/// Each log ends as its status says, and holds as many steps as there were replies to its job.
fn check_logs(state: &Path, rows: &[Value]) {
    let second = record(state, "second");
    for row in rows {
        let id = row["job_id"].as_str().expect("an id");
        let log = std::fs::read_to_string(state.join("runs").join(id).join("events.jsonl")).expect("a log");
        let events = lines(&log);
        let (begins, ends) = (&events[0]["data"]["prompt"], events.last().expect("an end"));
        let replies = second.iter().filter(|arrival| arrival["prompt"] == *begins && arrival["status"] == 200).count();
        let replied = events.iter().filter(|event| event["event"] == "Replied").count();
        assert_eq!((replied, &row["steps"]), (replies, &replies.into()), "{id}");
        match row["status"].as_str() {
            Some("queued") => assert_eq!(events.len(), 1, "it was never started: {events:?}"),
            Some("aborted") => {
                assert_eq!(ends["event"], "Finished");
                assert_eq!((&row["reason"], &row["cause"]["kind"]), (&"breaker_open".into(), &"all_open".into()));
            }
            status => {
                assert_eq!((status, &ends["event"], replied), (Some("completed"), &"Finished".into(), 4), "{id}");
            }
        }
    }
}

/// Plays it and holds its word against what it left behind. Hands back what it printed.
fn check(output: &str) -> (Home, String) {
    let home = Home::new();
    home.file("a.txt", "TODO error\nname\n");
    let state = home.path().join("storm");
    let place = state.to_str().expect("UTF-8");
    let played = home.ukai(&["demo", "--storm", "--state-dir", place, "--output", output]);
    let stderr = String::from_utf8_lossy(&played.stderr).into_owned();
    let stdout = String::from_utf8(played.stdout).expect("UTF-8");
    assert_eq!(played.status.code(), Some(0), "{stdout}\n{stderr}");
    for line in ["first ", "second "] {
        assert_eq!(
            stderr.lines().filter(|said| said.contains(line) && said.contains("OPEN for")).count(),
            1,
            "{stderr}"
        );
    }
    check_arrivals(&state);
    let (_, listed) = home.ukai_json(&["ls", "--state-dir", place, "--output", "json"]);
    let rows = listed.as_array().expect("rows");
    let [completed, aborted, queued] = ["completed", "aborted", "queued"].map(|status| count(rows, &status.into()));
    // Eight workers share 44 replies, and four make a job.
    assert_eq!(completed + aborted + queued, 20, "{listed}");
    assert!((5..=11).contains(&completed) && (1..=8).contains(&aborted) && queued >= 1, "{listed}");
    check_logs(&state, rows);
    let told = format!("{completed} completed, {aborted} aborted with their state saved, {queued} still queued, of 20");
    match output {
        "text" => assert!(stdout.contains(&told), "{told}: {stdout}"),
        _ => {
            let result = lines(&stdout).pop().expect("a result");
            let counts = ["completed", "aborted", "queued"].map(|status| result[status].clone());
            assert_eq!(counts, [completed, aborted, queued].map(Value::from), "{result}");
            assert_eq!((&result["as_told"], &result["wrong"]), (&true.into(), &Value::Array(Vec::new())));
        }
    }
    assert_eq!(home.processes(), Vec::<u32>::new(), "nobody is left behind");
    (home, stdout)
}

#[test]
fn what_it_tells_people_is_so_and_can_be_looked_at_as_it_says() {
    let (home, stdout) = check("text");
    assert_eq!(stdout.matches("and nobody asked in between").count(), 2, "{stdout}");
    let commands: Vec<_> = stdout.lines().filter_map(|line| line.strip_prefix("  ukai ")).collect();
    assert_eq!(commands.len(), 3, "{stdout}");
    for command in commands {
        let arguments: Vec<_> = command.split_whitespace().collect();
        let output = home.ukai(&arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !said.is_empty(), "{command}: {said}");
        let expected = match arguments[0] {
            "providers" => "OPEN for",
            "ls" => "queued",
            _ => "all_open",
        };
        assert!(said.contains(expected), "{command}: {said}");
    }
    let place = home.path().join("storm").display().to_string();
    let again = home.ukai(&["demo", "--storm", "--state-dir", &place]);
    assert_eq!(again.status.code(), Some(2), "two storms in one place would be counted together");
}

#[test]
fn what_it_tells_programs_is_so() {
    let (home, stdout) = check("json");
    let results = lines(&stdout);
    assert_eq!(results.len(), 1, "{stdout}");
    let result = &results[0];
    assert_eq!(result["type"], "storm_result");
    let moves: Vec<_> = result["moves"].as_array().expect("moves").iter().collect();
    assert_eq!(moves.len(), 2, "{result}");
    for (place, provider) in ["first", "second"].into_iter().enumerate() {
        let told = &result["providers"][place];
        assert_eq!((&moves[place]["provider"], &moves[place]["state"]), (&provider.into(), &"open".into()));
        assert_eq!((&told["id"], &told["early"]), (&provider.into(), &0.into()));
        assert_eq!(told["standing"]["breaker"], "open");
        let record = record(&home.path().join("storm"), provider);
        let begun = at(&record[0]);
        let mut times: Vec<_> = record.iter().map(|arrival| at(arrival) - begun).collect();
        times.sort_unstable();
        let shown = told["arrivals"].as_array().expect("arrivals").iter();
        assert_eq!(shown.map(|arrival| arrival["ms"].as_i64().expect("ms")).collect::<Vec<_>>(), times);
    }
}
