//! Jobs in worktrees of their own (spec §2): each gets one, none is lost, and the repository is as it was but for branches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use ukai_protocol::checksum;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

/// Writes what it was asked, and says so.
const WRITES: &str = r#"
[[rule]]
when.step = 1
reply.calls = [{ tool = "Write", args = { file_path = "made.txt", content = "{{prompt}}\n" } }]
[[rule]]
reply.text = "done"
"#;
const ALLOW: [&str; 3] = ["--worktree", "--allow", "Edit(**)"];

#[track_caller]
fn git(home: &Home, folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(folder).env_clear().env("HOME", home.path());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The working folder is a repository, with something that its owner has not committed and something put away.
fn repository(home: &Home) -> PathBuf {
    let work = home.work();
    git(home, &work, &["init", "-q", "-b", "main"]);
    for (key, value) in [("user.name", "Owner"), ("user.email", "owner@example.org")] {
        git(home, &work, &["config", key, value]);
    }
    home.file("src/a.txt", "one\n");
    git(home, &work, &["add", "-A"]);
    git(home, &work, &["commit", "-q", "-m", "first"]);
    home.file("src/a.txt", "put away\n");
    git(home, &work, &["stash", "-q"]);
    home.file("src/a.txt", "the owner's\n");
    home.file("staged.txt", "staged\n");
    git(home, &work, &["add", "staged.txt"]);
    work
}

fn with(max_workers: u32, toml: &str) -> (Home, Script) {
    let home = Home::new();
    let script = Script::serve(home.path(), toml);
    home.configure(&format!("max_workers = {max_workers}\n{}", lab(&script, "openai")));
    (home, script)
}

/// Whatever of it is not a branch of ukai's.
fn owners(home: &Home) -> String {
    let work = home.work();
    let refs = git(home, &work, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let refs: Vec<_> = refs.lines().filter(|line| !line.starts_with("refs/heads/ukai/")).collect();
    let bytes = |name: &str| std::fs::read(work.join(".git").join(name)).expect("a file of git");
    // No refresh of the index: its bytes are compared.
    let status = git(home, &work, &["--no-optional-locks", "status", "--porcelain=v2", "--branch"]);
    let stash = git(home, &work, &["stash", "list", "--format=%H %gs"]);
    format!("{refs:?}\n{status}\n{stash}\n{:?}\n{:?}\n{:?}", bytes("HEAD"), bytes("index"), bytes("config"))
}

fn branches(home: &Home) -> BTreeSet<String> {
    let listed = git(home, &home.work(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/ukai"]);
    listed.lines().map(str::to_owned).collect()
}

fn list(home: &Home, lines: u32) {
    let lines: String = (1..=lines).map(|line| format!("item {line}\n")).collect();
    std::fs::write(home.path().join("items.txt"), lines).expect("a list");
    let job = "name = \"{{line}}\"\nprompt = \"Look at {{line}}.\"\nworktree = true\nworkdir = \"work\"\n";
    std::fs::write(home.path().join("survey.toml"), job).expect("a job");
}

/// Each line has a branch of its own with its file, and a row that names it.
#[track_caller]
fn each_has_its_branch(home: &Home, lines: u32) {
    let rows = String::from_utf8(home.ukai(&["results", "survey", "--format", "jsonl"]).stdout).expect("text");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
    assert_eq!(rows.len(), lines as usize);
    for (line, row) in (1..=lines).zip(&rows) {
        let branch = format!("ukai/item-{line}");
        assert_eq!((&row["status"], &row["worktree"]["branch"]), (&json!("completed"), &json!(branch)), "{row}");
        let tip = git(home, &home.work(), &["rev-parse", &branch]);
        assert_eq!((&row["worktree"]["commit"], &row["worktree"]["trouble"]), (&json!(tip), &Value::Null), "{row}");
        let made = git(home, &home.work(), &["show", &format!("{branch}:made.txt")]);
        assert_eq!(made, format!("Look at item {line}."));
        assert_eq!(
            git(home, &home.work(), &["rev-parse", &format!("{branch}^")]),
            git(home, &home.work(), &["rev-parse", "main"])
        );
    }
    assert_eq!(branches(home).len(), lines as usize);
}

#[test]
fn twenty_at_once_all_get_one_and_the_repository_is_untouched() {
    let (home, _script) = with(20, WRITES);
    repository(&home);
    list(&home, 20);
    let before = owners(&home);
    let args = ["run", "--file", "../survey.toml", "--each", "../items.txt", "--allow", "Edit(**)", "--output", "json"];
    let (code, result) = home.ukai_json(&args);
    assert_eq!((code, &result["completed"]), (0, &json!(20)), "{result}");
    each_has_its_branch(&home, 20);
    assert_eq!(owners(&home), before);
}

#[test]
fn a_supervisor_killed_in_the_middle_loses_none() {
    let (home, _script) = with(8, &format!("[defaults]\nlatency = \"150ms\"\n{WRITES}"));
    repository(&home);
    list(&home, 20);
    let before = owners(&home);
    let mut server = home.serve();
    let output = home.ukai(&["submit", "../survey.toml", "--each", "../items.txt", "--allow", "Edit(**)"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for count in [2, 9] {
        wait::until("worktrees to be made", || (branches(&home).len() >= count).then_some(()));
        server.kill();
        server = home.serve();
    }
    let attached = home.ukai(&["attach", "survey"]);
    assert_eq!(attached.status.code(), Some(0), "{}", String::from_utf8_lossy(&attached.stderr));
    each_has_its_branch(&home, 20);
    assert_eq!(owners(&home), before);
}

#[test]
fn what_it_left_is_named_with_what_to_type_and_that_works() {
    let (home, _script) = with(2, WRITES);
    let work = repository(&home);
    git(&home, &work, &["branch", "ukai/fix-a"]);
    let output = home.ukai(&[&["run", "Look.", "--name", "fix a", "--workdir", "src"], &ALLOW[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let [id] = &home.runs()[..] else { panic!("one run") };
    let branch = format!("ukai/fix-a-{id}");
    let path = home.state_dir().canonicalize().expect("a path").join("worktrees").join(id);
    assert_eq!(std::fs::read_to_string(path.join("src/made.txt")).expect("written"), "Look.\n");
    assert_eq!(std::fs::read_to_string(work.join("src/a.txt")).expect("there"), "the owner's\n");
    for part in [&*branch, &path.display().to_string(), "merge", "worktree remove"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    let shown = String::from_utf8(home.ukai(&["show", id]).stdout).expect("text");
    let command = |key: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}: {shown}"));
        line.trim().to_owned()
    };
    for key in ["merge it", "remove it"] {
        git(&home, &work, &["stash", "-q"]);
        let typed = Command::new("sh").args(["-c", &command(key)]).env("HOME", home.path()).output().expect("sh runs");
        assert!(typed.status.success(), "{}: {}", command(key), String::from_utf8_lossy(&typed.stderr));
    }
    assert_eq!(std::fs::read_to_string(work.join("src/made.txt")).expect("merged"), "Look.\n");
    assert_eq!(branches(&home), BTreeSet::from(["ukai/fix-a".to_owned()]));
    assert!(!path.exists());
}

#[test]
fn one_that_left_nothing_leaves_no_trace() {
    let (home, _script) = with(2, "[[rule]]\nreply.text = \"nothing to do\"\n");
    let work = repository(&home);
    let before = owners(&home);
    let (code, result) = home.ukai_json(&["run", "Look.", "--worktree", "--output", "json"]);
    assert_eq!((code, &result["worktree"]["kept"], &result["worktree"]["commit"]), (0, &json!(false), &Value::Null));
    let path = PathBuf::from(result["worktree"]["path"].as_str().expect("a path"));
    assert!(!path.exists() && !work.join(".git/worktrees").exists());
    assert_eq!((branches(&home).len(), owners(&home)), (0, before));
}

#[test]
fn a_cancelled_job_s_work_is_committed_too_and_it_goes_on_there() {
    let toml = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Write\", args = { file_path = \"made.txt\", content = \"x\" } }]\n\
                [[rule]]\ntimes = 1\nfault.hang = \"before_headers\"\n[[rule]]\nreply.text = \"done\"\n";
    let (home, script) = with(2, toml);
    repository(&home);
    let _server = home.serve();
    let submitted = home.ukai(&[&["submit", "--prompt", "Look.", "--name", "long"], &ALLOW[..]].concat());
    let id = String::from_utf8(submitted.stdout).expect("text").trim().to_owned();
    wait::until("the second step", || (script.arrivals().len() == 2).then_some(()));
    assert!(home.ukai(&["cancel", &id]).status.success());
    let committed = || {
        let (_, shown) = home.ukai_json(&["show", &id, "--output", "json"]);
        shown["worktree"]["commit"].as_str().map(|_| shown.clone())
    };
    let shown = wait::until("its work to be committed", committed);
    assert_eq!((&shown["status"], &shown["worktree"]["kept"]), (&json!("cancelled"), &json!(true)), "{shown}");
    assert_eq!(git(&home, &home.work(), &["show", "ukai/long:made.txt"]), "x");
    let token = shown["resume_token"].as_str().expect("a token");
    let resumed = home.ukai(&["resume", &id, "--yes-resume", token]);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    let (_, again) = home.ukai_json(&["show", &id, "--output", "json"]);
    assert_eq!(again["worktree"], shown["worktree"], "nothing new: the same commit, still kept");
    assert_eq!(home.count(&id, "Finished"), 2);
}

#[test]
fn nothing_that_stands_in_configurations_is_run_outside_of_the_sandbox() {
    let toml = r##"
[[rule]]
when.step = 1
reply.calls = [
    { tool = "Write", args = { file_path = ".gitattributes", content = "*.txt filter=owners\n" } },
    { tool = "Write", args = { file_path = "made.txt", content = "x\n" } },
    { tool = "Write", args = { file_path = "filter.sh", content = "#!/bin/sh\ntouch $HOME/canary\ncat\n" } },
]
[[rule]]
reply.text = "done"
"##;
    let (home, _script) = with(2, toml);
    let work = repository(&home);
    let canary = home.path().join("canary");
    let tool = home.path().join("tool.sh");
    std::fs::write(&tool, format!("#!/bin/sh\ntouch {}\ncat\n", canary.display())).expect("a script");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    for hook in ["post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"] {
        std::fs::create_dir_all(work.join(".git/hooks")).expect("a folder");
        std::fs::copy(&tool, work.join(".git/hooks").join(hook)).expect("a hook");
    }
    let config = format!(
        "[core]\nfsmonitor = {0}\n[filter \"owners\"]\nclean = sh ./filter.sh\nprocess = {0}\nrequired = true\n[commit]\ngpgSign = true\n[gpg]\nprogram = {0}\n",
        tool.display()
    );
    std::fs::write(home.path().join(".gitconfig"), config).expect("the owner's configuration");
    let (code, result) =
        home.ukai_json(&[&["run", "Look.", "--name", "a"], &ALLOW[..], &["--output", "json"]].concat());
    assert_eq!((code, &result["worktree"]["trouble"]), (0, &Value::Null), "{result}");
    assert!(result["worktree"]["commit"].is_string() && !canary.exists(), "{result}");
}

#[test]
fn a_command_reads_git_and_does_not_write_it() {
    let commands = [
        "git status --short && git log --oneline && git diff",
        "git commit -q --allow-empty -m mine",
        "echo x > .git",
        "touch \"$(git rev-parse --git-common-dir)/x\"",
    ];
    let rules: String = commands
        .iter()
        .enumerate()
        .map(|(at, command)| {
            format!(
                "[[rule]]\nwhen.step = {}\nreply.calls = [{{ tool = \"Bash\", args = {{ command = {} }} }}]\n",
                at + 1,
                json!(command)
            )
        })
        .collect();
    let (home, _script) = with(2, &format!("{rules}[[rule]]\nreply.text = \"done\"\n"));
    let work = repository(&home);
    let before = owners(&home);
    let args = ["run", "Look.", "--worktree", "--workdir", "src", "--allow", "Bash", "--output", "json"];
    let (code, result) = home.ukai_json(&args);
    assert_eq!(code, 0, "{result}");
    let [id] = &home.runs()[..] else { panic!("one run") };
    let finished: Vec<_> = home.events(id).into_iter().filter(|record| record["event"] == "ToolFinished").collect();
    let output = finished[0]["data"]["output"].as_str().expect("text");
    assert!(output.contains("first") && !output.contains("fatal"), "{output}");
    for record in &finished[1..] {
        assert_ne!(record["data"]["status"], "ok", "{record}");
    }
    assert_eq!(owners(&home), before);
    assert!(!work.join(".git/x").exists() && branches(&home).is_empty(), "it had nothing to commit");
}

#[test]
fn where_there_can_be_none_nothing_is_submitted() {
    let (home, script) = with(2, WRITES);
    let refused = |part: &str| {
        let output = home.ukai(&["run", "Look.", "--worktree"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said} lacks {part}");
    };
    refused("no work tree of git");
    git(&home, &home.work(), &["init", "-q"]);
    refused("no commit yet");
    assert_eq!((home.runs().len(), script.arrivals().len()), (0, 0));
}

#[test]
fn a_crash_between_the_end_and_its_commit_is_made_up_for() {
    let (home, _script) = with(2, WRITES);
    repository(&home);
    let (code, result) =
        home.ukai_json(&[&["run", "Look.", "--name", "a"], &ALLOW[..], &["--output", "json"]].concat());
    assert_eq!(code, 0, "{result}");
    let [id] = &home.runs()[..] else { panic!("one run") };
    // As it stood in between: its end not noted, and something not committed.
    let record = home.state_dir().join(format!("worktrees/{id}.json"));
    let text = std::fs::read_to_string(&record).expect("a record");
    let stage = text.find("\"stage\":").expect("its stage");
    std::fs::write(&record, checksum::seal(format!("{}\"stage\":\"open\"", &text[..stage]))).expect("written");
    let path = PathBuf::from(result["worktree"]["path"].as_str().expect("a path"));
    std::fs::write(path.join("late.txt"), "late\n").expect("written");
    let _server = home.serve();
    let shown = wait::until("the commit", || {
        let (_, shown) = home.ukai_json(&["show", id, "--output", "json"]);
        shown["worktree"]["commit"].is_string().then_some(shown)
    });
    assert_ne!(shown["worktree"]["commit"], result["worktree"]["commit"], "{shown}");
    assert_eq!(git(&home, &home.work(), &["show", "ukai/a:late.txt"]), "late");
    assert_eq!((home.count(id, "Finished"), home.count(id, "Attention")), (1, 0));
}

#[test]
fn what_could_not_be_committed_wants_attention_and_stays() {
    let toml = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Bash\", args = { command = \"rm a.txt && mkfifo a.txt && echo x > b.txt\" } }]\n\
                [[rule]]\nreply.text = \"done\"\n";
    let (home, _script) = with(2, toml);
    repository(&home);
    let args = ["run", "Look.", "--name", "a", "--worktree", "--workdir", "src", "--allow", "Bash", "--output", "json"];
    let (code, result) = home.ukai_json(&args);
    assert_eq!((code, &result["worktree"]["kept"], &result["attention"]), (0, &json!(true), &json!(true)), "{result}");
    let trouble = result["worktree"]["trouble"].as_str().expect("a trouble");
    assert!(trouble.contains("not all that changed"), "{trouble}");
    assert_eq!(git(&home, &home.work(), &["show", "ukai/a:src/b.txt"]), "x", "the rest is");
    let listed = home.ukai(&["ls"]);
    assert!(String::from_utf8_lossy(&listed.stderr).contains("ack"), "{listed:?}");
}

#[test]
fn nothing_that_git_keeps_silent_about_is_removed() {
    let ignored = "mkdir out && echo '*' > out/.gitignore && echo x > out/result";
    let hostile = "echo two > far/b.txt && echo '* working-tree-encoding=UTF-16' > .gitattributes";
    let rules = [ignored, hostile].map(|command| {
        let command = json!(command);
        format!("[[rule]]\ntimes = 1\nwhen.step = 1\nreply.calls = [{{ tool = \"Bash\", args = {{ command = {command} }} }}]\n")
    });
    let (home, _script) = with(2, &format!("{}[[rule]]\nreply.text = \"done\"\n", rules.concat()));
    let work = repository(&home);
    home.file("far/b.txt", "one\n");
    git(&home, &work, &["stash", "-q"]);
    git(&home, &work, &["add", "-A"]);
    git(&home, &work, &["commit", "-q", "-m", "second"]);
    git(&home, &work, &["sparse-checkout", "set", "src"]);
    let run = |name: &str| home.ukai(&["run", "Look.", "--name", name, "--worktree", "--allow", "Bash"]);
    let output = run("a");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("nothing new but files that git ignores") && !said.contains("merge"), "{said}");
    let [id] = &home.runs()[..] else { panic!("one run") };
    assert!(home.state_dir().join("worktrees").join(id).join("out/result").exists(), "{said}");
    let output = run("b");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("left its work on branch ukai/b") && !said.contains("look at it"), "{said}");
    assert_eq!(git(&home, &work, &["show", "ukai/b:far/b.txt"]), "two");
}
