//! `ukai demo --hands` shows what it says: the repository, the logs and the evidence are read here once more.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

const KEYS: [(&str, &str); 4] = [
    ("ANTHROPIC_API_KEY", "sk-ant-hands-0123456789"),
    ("OPENAI_API_KEY", "sk-openai-hands-0123456789"),
    ("GEMINI_API_KEY", "AIza-hands-0123456789"),
    ("LAB_KEY", "sk-lab-hands-0123456789"),
];

/// Plays it, and reads its last line.
#[track_caller]
fn play(home: &Home, more: &[&str]) -> Value {
    let args = [&["demo", "--hands", "--output", "json"], more].concat();
    let output = home.command(&args).envs(KEYS).output().expect("ukai runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let demo: Value = serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&demo["as_told"], &demo["wrong"]), (&json!(true), &json!([])));
    demo
}

fn path(value: &Value) -> PathBuf {
    PathBuf::from(value.as_str().expect("a path"))
}

#[track_caller]
fn said(program: &str, args: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(args).current_dir(folder).output().expect("it runs");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Merged, the four corrections make the whole project green.
fn check_fixes(demo: &Value) {
    let project = path(&demo["state_dir"]).join("project");
    assert_eq!(said("git", &["status", "--porcelain"], &project), "");
    let fixes = demo["fixes"].as_array().expect("fixes");
    assert_eq!(fixes.len(), 4);
    for fix in fixes {
        let (module, branch) = (fix["module"].as_str().expect("a name"), fix["worktree"]["branch"].as_str());
        let file = format!("lib/{module}.sh");
        let branch = branch.expect("a branch");
        assert_eq!(said("git", &["diff", "--numstat", "main", branch], &project), format!("1\t1\t{file}\n"), "{fix}");
        let events = events(demo, fix["job_id"].as_str().expect("an id"));
        let asked = events.iter().filter(|event| event["event"] == "AskOpened").count();
        let answers: Vec<_> = events.iter().filter(|event| event["event"] == "AskAnswered").collect();
        assert_eq!((asked, answers.len()), (1, 1), "{module}");
        assert_eq!(answers[0]["data"]["judgement"]["source"], json!({"user": "once"}), "{}", answers[0]);
    }
    let branches: Vec<&str> = fixes.iter().filter_map(|fix| fix["worktree"]["branch"].as_str()).collect();
    for branch in branches {
        let merge = ["-c", "user.name=a", "-c", "user.email=a@b", "merge", "--quiet", "--no-edit", branch];
        said("git", &merge, &project);
    }
    for module in ["roman", "slug", "duration", "csv"] {
        let tests = said("sh", &["test.sh", module], &project);
        assert!(tests.starts_with(&format!("green: {module}, ")), "{tests}");
    }
}

fn events(demo: &Value, job: &str) -> Vec<Value> {
    let log = path(&demo["state_dir"]).join("runs").join(job).join("events.jsonl");
    let text = std::fs::read_to_string(log).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// Each refusal stands in the log where it is said to.
fn check_refusals(demo: &Value) {
    let events = events(demo, demo["luck"].as_str().expect("an id"));
    let refusals = demo["refusals"].as_array().expect("refusals");
    assert_eq!(refusals.len(), 17);
    for refusal in refusals {
        assert_eq!(refusal["stopped"], true, "{refusal}");
        let record = events.iter().find(|event| event["seq"] == refusal["seq"]).expect("its record");
        let data = &record["data"];
        match refusal["event"].as_str() {
            Some("Judged") => assert_eq!(data["judgement"]["verdict"], "deny", "{record}"),
            Some("ToolFinished") => assert_eq!(data["status"], "failed", "{record}"),
            other => panic!("{other:?}: {refusal}"),
        }
    }
    let by: Vec<&str> = refusals.iter().filter_map(|refusal| refusal["by"].as_str()).collect();
    let count = |whose: &str| by.iter().filter(|by| by.starts_with(whose)).count();
    assert_eq!((count("the rule "), count("the kernel: "), count("ukai: it leads ")), (5, 8, 4), "{by:?}");
    let state = path(&demo["state_dir"]);
    assert_eq!(std::fs::read_to_string(state.join("home/victim")).expect("it is there"), "Untouched.\n");
    assert!(state.join("home/.ssh/id_demo").is_file() && !state.join("luck/.git/hooks/pre-commit").exists());
}

/// The checklist is complete, and no file holds a key.
fn check_evidence(demo: &Value) {
    let evidence = path(&demo["evidence"]);
    let checklist = std::fs::read_to_string(evidence.join("checklist.md")).expect("a checklist");
    assert!(checklist.ends_with("\ncomplete\n") && !checklist.contains("- [ ]"), "{checklist}");
    for module in ["roman", "slug", "duration", "csv"] {
        let folder = evidence.join(format!("fix-{module}"));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
        assert!(read("prompt.txt").contains(module) && read("diff.patch").starts_with("diff --git a/lib/"));
        assert!(read("tests.txt").starts_with("green: ") && read("events.jsonl").contains("\"AskAnswered\""));
        let result: Value = serde_json::from_str(&read("result.json")).expect("JSON");
        assert_eq!(result["status"], "completed");
    }
    holds_no_key(&path(&demo["state_dir"]));
}

fn holds_no_key(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            holds_no_key(&path);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).expect("a file");
            for (name, key) in KEYS {
                assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()), "{name}: {}", path.display());
            }
        }
    }
}

#[test]
fn four_edits_are_asked_and_green_and_nothing_else_passes() {
    let home = Home::new();
    let demo = play(&home, &[]);
    check_fixes(&demo);
    check_refusals(&demo);
    check_evidence(&demo);
    assert_eq!(home.processes(), [0_u32; 0]);
}

#[test]
fn an_ordinary_user_sees_the_same() {
    let mut home = Home::new();
    home.as_ordinary_user();
    check_refusals(&play(&home, &[]));
}

#[test]
fn where_the_kernel_grants_no_namespaces_it_is_refused_all_the_same() {
    let mut home = Home::new();
    home.without_namespaces();
    check_refusals(&play(&home, &[]));
}

/// A provider of the owner's that corrects in its own way, and wants more than it may.
const REAL: &str = r#"
[[rule]]
when.step = 1
reply.calls = [
    { tool = "Read", args = { file_path = '{{prompt | match: "(lib/[a-z]+\.sh)"}}' } },
    { tool = "Edit", args = { file_path = "test.sh", old_string = "exit 1", new_string = "exit 0" } },
]
[[rule]]
when = { step = 2, prompt = "lib/roman.sh" }
reply.calls = [{ tool = "Edit", args = { file_path = "lib/roman.sh", old_string = "-gt", new_string = "-ge" } }]
[[rule]]
when = { step = 2, prompt = "lib/slug.sh" }
reply.calls = [{ tool = "Edit", args = { file_path = "lib/slug.sh", old_string = "tr -c ", new_string = "tr -cs " } }]
[[rule]]
when = { step = 2, prompt = "lib/duration.sh" }
reply.calls = [{ tool = "Edit", args = { file_path = "lib/duration.sh", old_string = "($1 / 60)", new_string = "($1 / 60 % 60)" } }]
[[rule]]
when = { step = 2, prompt = "lib/csv.sh" }
reply.calls = [{ tool = "Edit", args = { file_path = "lib/csv.sh", old_string = "*,)", new_string = "no,)" } }]
[[rule]]
reply.text = "It is corrected."
"#;

#[test]
fn a_provider_of_the_owners_corrects_and_is_asked_as_it_is_configured() {
    let home = Home::new();
    let script = Script::serve(home.path(), REAL);
    home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script, "openai")));
    let demo = play(&home, &["--provider", "lab"]);
    assert_eq!((&demo["provider"], script.requests()), (&json!("lab"), 12));
    check_refusals(&demo);
    check_evidence(&demo);
    for fix in demo["fixes"].as_array().expect("fixes") {
        let events = events(&demo, fix["job_id"].as_str().expect("an id"));
        let answers = events.iter().filter(|event| event["event"] == "AskAnswered");
        let verdicts: Vec<_> = answers.map(|event| event["data"]["judgement"]["verdict"].clone()).collect();
        assert_eq!(verdicts, ["deny", "allow"], "{fix}");
    }
    let none = home.ukai(&["demo", "--hands", "--provider", "nobody"]);
    assert_eq!(none.status.code(), Some(2));
}
