//! What a job may write it writes, seen and recorded; what it may not is denied, and the file is as it was.

use ukai_tests::home::Home;

/// Reads, edits, writes, and tries what it may not, one call a step.
const SCRIPT: &str = r#"
[[rule]]
when.step = 1
reply.calls = [{ tool = "Edit", args = { file_path = "notes.txt", old_string = "two", new_string = "TWO" } }]
[[rule]]
when.step = 2
reply.calls = [{ tool = "Read", args = { file_path = "notes.txt" } }]
[[rule]]
when.step = 3
reply.calls = [
    { tool = "Edit", args = { file_path = "notes.txt", old_string = "two", new_string = "TWO" } },
    { tool = "Write", args = { file_path = "new/list.txt", content = "a\nb\n" } },
    { tool = "Write", args = { file_path = "../outside.txt", content = "mine" } },
    { tool = "Write", args = { file_path = ".env", content = "mine" } },
    { tool = "Edit", args = { file_path = "new/list.txt", old_string = "a", new_string = "A" } },
]
[[rule]]
reply.text = "done"
"#;

#[test]
fn a_job_changes_what_it_may() {
    let (home, script) = Home::with_script(SCRIPT);
    home.file("notes.txt", "one\ntwo\n");
    std::fs::write(home.path().join("outside.txt"), "theirs").expect("a file");
    let (code, result) = home.ukai_json(&["run", "edit", "--allow", "Edit(**)", "--output", "json"]);
    assert_eq!(code, 0, "{result}");
    let read = |path: &str| std::fs::read_to_string(home.work().join(path)).expect("a file");
    assert_eq!((read("notes.txt").as_str(), read("new/list.txt").as_str()), ("one\nTWO\n", "A\nb\n"));
    assert_eq!(read("../outside.txt"), "theirs");
    assert!(!home.work().join(".env").exists());

    let work = home.work().canonicalize().expect("a path");
    let changed = |path: &str, change: &str| serde_json::json!({"path": work.join(path), "change": change});
    let files = serde_json::json!([changed("notes.txt", "modified"), changed("new/list.txt", "created")]);
    assert_eq!(result["files_changed"], files);
    let shown = String::from_utf8(home.ukai(&["show", "edit"]).stdout).expect("text");
    let said = |change: &str, path: &str| shown.lines().any(|line| line.split_whitespace().eq([change, path]));
    assert!(said("modified", "notes.txt") && said("created", "new/list.txt"), "{shown}");
    assert_eq!(result["denied"].as_array().map(Vec::len), Some(2), "{result}");

    let id = result["job_id"].as_str().expect("an id");
    let events = home.events(id);
    let of = |event: &str| -> Vec<_> { events.iter().filter(|record| record["event"] == event).collect() };
    // The calls of one reply are judged at once, so their verdicts come in any order.
    for record in of("Judged") {
        let path = record["data"]["input"]["file_path"].as_str().expect("a path");
        let verdict = if ["../outside.txt", ".env"].contains(&path) { "deny" } else { "allow" };
        assert_eq!(record["data"]["judgement"]["verdict"], verdict, "{record}");
    }
    assert_eq!(of("Judged").len(), 7);
    let status: Vec<_> = of("ToolFinished").iter().map(|record| record["data"]["status"].clone()).collect();
    // Those that are denied are answered before the next of their reply begins.
    assert_eq!(status, ["failed", "ok", "denied", "denied", "ok", "ok", "ok"]);
    let output = of("ToolFinished")[0]["data"]["output"].as_str().expect("text").to_owned();
    assert!(output.contains("Read it first"), "{output}");
    let started = of("ToolStarted").iter().filter(|record| record["data"]["read_only"] == false).count();
    assert_eq!(started, 4, "{events:?}");
    let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn without_a_rule_nothing_is_written() {
    let (home, _script) = Home::with_script(SCRIPT);
    home.file("notes.txt", "one\ntwo\n");
    let (code, result) = home.ukai_json(&["run", "edit", "--output", "json"]);
    assert_eq!((code, &result["attention"]), (7, &true.into()), "{result}");
    assert_eq!(std::fs::read_to_string(home.work().join("notes.txt")).expect("a file"), "one\ntwo\n");
    assert_eq!(result["files_changed"], serde_json::json!([]));
    assert!(!home.work().join("new").exists());
    // What would allow it is named where it is told, as one types it.
    let told = home.ukai(&["run", "edit"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(said.contains("run it with --allow 'Edit(notes.txt)' --allow 'Edit(new/**)'"), "{said}");
    let shown = home.ukai(&["show", result["job_id"].as_str().expect("an id")]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("nobody to ask; run it with --allow 'Edit(new/**)'"), "{shown}");
    let typo = home.ukai(&["run", "edit", "--allow", "Edt(src/**)"]);
    let said = String::from_utf8_lossy(&typo.stderr).into_owned();
    assert!(
        typo.status.code() == Some(2) && said.contains("--allow 'Edt(src/**)'") && said.contains("`Edit`"),
        "{said}"
    );
}
