//! `ukai run`: one job from prompt to result, over both wires.

use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

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
