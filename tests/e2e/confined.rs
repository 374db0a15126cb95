//! The worker itself keeps nothing of what its owner may do but what its job needs, and does all of that (spec §8).

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

const USERS: [fn(&mut Home); 3] = [|_| {}, Home::as_ordinary_user, Home::without_namespaces];
const OFF: &str = "version: 1\nsandbox: off\nrules:\n  allow: [Read]\n";

/// A field of each thread's `status`.
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let status = threads.map(|thread| std::fs::read_to_string(thread.path().join("status")).unwrap_or_default());
    let value = |status: String| status.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()));
    status.filter_map(value).collect()
}

#[test]
fn every_thread_of_a_worker_is_confined_unless_the_policy_says_off() {
    for (policy, confined) in [(None, true), (Some(OFF), false)] {
        for user in USERS {
            let mut home = Home::new();
            let script = Script::serve(home.path(), &scripts::slow_steps(4, "400ms"));
            home.configure(&lab(&script, "openai"));
            home.file("notes.txt", &scripts::notes());
            if let Some(text) = policy {
                std::fs::write(home.path().join("config/ukai/tool_policy.yaml"), text).expect("a policy");
            }
            user(&mut home);
            let mut run = home.command(&["run", "go"]).spawn().expect("ukai runs");
            // At the second request it has looked at files on a thread of its own.
            wait::until("the job to be under way", || (script.requests() > 1).then_some(()));
            let [worker] = home.workers()[..] else { panic!("one worker: {:?}", home.workers()) };
            let seccomp = of_threads(worker, "Seccomp:");
            let expected = if confined { "2" } else { "0" };
            assert!(seccomp.len() > 1 && seccomp.iter().all(|mode| mode == expected), "{policy:?}: {seccomp:?}");
            if confined {
                assert!(of_threads(worker, "NoNewPrivs:").iter().all(|no_new| no_new == "1"));
            }
            assert_eq!(run.wait().expect("ukai ends").code(), Some(0));
        }
    }
}

#[test]
fn a_kernel_without_landlock_is_said_and_the_job_goes_on() {
    let mut home = Home::new();
    let script = Script::serve(home.path(), "[[rule]]\nreply.text = \"done\"\n");
    // Commands have a rule of their own there.
    home.configure(&format!("[tools]\ndisable = [\"Bash\"]\n{}", lab(&script, "openai")));
    home.on_an_old_kernel(true);
    let log = home.path().join("worker.log");
    let worker = ukai_tests::binary("ukai-under-test-worker");
    home.worker_is(&format!("exec {} \"$@\" 2> {}", worker.display(), log.display()));
    let output = home.ukai(&["run", "go"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = std::fs::read_to_string(log).expect("its log");
    assert_eq!(said.lines().count(), 1, "once: {said}");
    assert!(said.contains("less of a sandbox") && said.contains("Landlock ABI 0"), "{said}");
}

/// All that a job may touch lies elsewhere, is a single file, is not there yet, or is found by git's settings.
#[test]
fn what_a_job_may_do_it_still_does() {
    let calls = |step: u32, calls: &[Value]| {
        let one = |call: &Value| {
            let args = call["args"].as_object().expect("args").iter().map(|(key, value)| format!("{key} = {value}"));
            format!("{{ tool = {}, args = {{ {} }} }}", call["tool"], args.collect::<Vec<_>>().join(", "))
        };
        let calls: Vec<String> = calls.iter().map(one).collect();
        format!("[[rule]]\nwhen.step = {step}\nreply.calls = [{}]\n", calls.join(", "))
    };
    let call = |tool: &str, args: Value| json!({"tool": tool, "args": args});
    let edit = |path: &str, old: &str, new: &str| {
        call("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
    };
    let toml = [
        calls(
            1,
            &[
                call("Glob", json!({"pattern": "**/*"})),
                call("Glob", json!({"pattern": "**/*", "path": "~/docs"})),
                call("Read", json!({"file_path": "~/docs/a.txt"})),
                call("Read", json!({"file_path": "~/single.txt"})),
                call("Grep", json!({"pattern": "line", "output_mode": "content"})),
                call("Read", json!({"file_path": "~/.ssh/id"})),
                call("Read", json!({"file_path": "~/later/a.txt"})),
            ],
        ),
        calls(2, &[call("Write", json!({"file_path": "~/fresh/deep/new.txt", "content": "fresh"}))]),
        calls(3, &[call("Write", json!({"file_path": "~/notes.md", "content": "one"}))]),
        calls(4, &[edit("~/notes.md", "one", "two")]),
        calls(5, &[edit("~/notes.md", "two", "three")]),
        calls(6, &[call("Write", json!({"file_path": "out/new.txt", "content": "x"}))]),
        calls(7, &[call("Bash", json!({"command": "echo x > $TMPDIR/y && cat $TMPDIR/y seen.txt | head -c 8"}))]),
        "[[rule]]\nreply.text = \"done\"\n".to_owned(),
    ]
    .concat();
    let flags = [
        ["--allow", "Read(~/docs/**)"],
        ["--allow", "Read(~/single.txt)"],
        ["--allow", "Read(~/later/**)"],
        ["--allow", "Edit(~/fresh/**)"],
        ["--allow", "Edit(~/notes.md)"],
        ["--allow", "Edit(**)"],
        ["--allow", "Bash"],
        ["--workdir", "../repo/sub"],
        ["--output", "json"],
    ];
    let run: Vec<&str> = ["run", "go"].into_iter().chain(flags.into_iter().flatten()).collect();
    for (at, user) in USERS.into_iter().enumerate() {
        let mut home = Home::new();
        let script = Script::serve(home.path(), &toml);
        home.configure(&lab(&script, "openai"));
        let long: String = (0..9_000).map(|n| format!("line {n}\n")).collect();
        for (name, text) in [
            ("../repo/.git/HEAD", "ref: refs/heads/main\n"),
            ("../repo/.git/objects/keep", ""),
            ("../repo/.git/refs/keep", ""),
            ("../repo/.git/info/exclude", "by-info.txt\n"),
            ("../repo/.gitignore", "by-top.txt\n"),
            ("../.gitconfig", "[core]\nexcludesFile = ~/excludes\n"),
            ("../excludes", "by-user.txt\n"),
            ("../repo/sub/seen.txt", &long),
            ("../repo/sub/by-top.txt", "x"),
            ("../repo/sub/by-info.txt", "x"),
            ("../repo/sub/by-user.txt", "x"),
            ("../docs/.git/HEAD", "ref: refs/heads/main\n"),
            ("../docs/a.txt", "a doc"),
            ("../single.txt", "a single file"),
            ("../.ssh/id", "PRIVATE"),
        ] {
            home.file(name, text);
        }
        user(&mut home);
        let (code, result) = home.ukai_json(&run);
        assert_eq!(code, 0, "{at}: {result}");
        let id = result["job_id"].as_str().expect("an id");
        let events = home.events(id);
        let told: Vec<(&str, &str)> = events
            .iter()
            .filter(|record| record["event"] == "ToolFinished")
            .map(|record| {
                let text = |key: &str| record["data"][key].as_str().unwrap_or_default();
                (text("status"), text("output"))
            })
            .collect();
        let has = |status: &str, part: &str| {
            let found = told.iter().any(|(found, output)| *found == status && output.contains(part));
            assert!(found, "{at}: {status} {part}: {told:.200?}");
        };
        for part in ["seen.txt\n", "a.txt\n", "a doc", "a single file", "The whole output is in "] {
            has("ok", part);
        }
        let listed = told.iter().find(|(_, output)| output.starts_with("seen.txt")).expect("a listing").1;
        assert!(listed.ends_with("total: 1 file\n"), "{at}: git's settings count: {listed}");
        assert!(!told.iter().any(|(_, output)| output.contains("PRIVATE")), "{at}");
        has("ok", "x\nline 0");
        assert_eq!(told.iter().filter(|(status, _)| *status != "ok").count(), 2, "{at}: {told:.200?}");
        let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap_or_default();
        assert_eq!((read("fresh/deep/new.txt").as_str(), read("notes.md").as_str()), ("fresh", "three"), "{at}");
        assert_eq!(read("repo/sub/out/new.txt"), "x", "{at}");
        let run = home.state_dir().join("runs").join(id);
        let outputs = std::fs::read_dir(run.join("outputs")).expect("outputs").count();
        assert_eq!((outputs, run.join("tmp").exists()), (1, false), "{at}");
    }
}

#[test]
fn nothing_is_left_of_a_job_that_could_have_run_commands() {
    let (home, _script) = Home::with_script("[[rule]]\nreply.text = \"done\"\n");
    let (code, result) = home.ukai_json(&["run", "go", "--allow", "Bash", "--output", "json"]);
    assert_eq!(code, 0, "{result}");
    let run = home.state_dir().join("runs").join(result["job_id"].as_str().expect("an id"));
    assert!(!run.join("tmp").exists());
}

#[test]
fn a_worker_that_meets_a_supervisor_with_another_port_begins_anew_and_blames_nobody() {
    let home = Home::new();
    let first = Script::serve(home.path(), &scripts::slow_steps(3, "30s"));
    home.configure(&lab(&first, "openai"));
    home.file("notes.txt", &scripts::notes());
    home.file("job.toml", "name = \"walk\"\nprompt = \"look at the notes\"\n");
    let mut server = home.serve();
    let output = home.ukai(&["submit", "job.toml"]);
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    wait::until("the job to ask", || (first.requests() > 0).then_some(()));
    server.kill();
    let second = Script::serve(home.path(), &scripts::slow_steps(3, "5ms"));
    home.configure(&lab(&second, "openai"));
    let _server = home.serve();
    wait::until("the job to end", || (home.count(&id, "Finished") > 0).then_some(()));
    let events = home.events(&id);
    let finished = events.last().expect("events");
    assert!(finished["data"]["outcome"]["completed"].is_object(), "{finished}");
    assert!(home.count(&id, "AttemptFailed") == 0, "{events:?}");
}

#[test]
fn a_launcher_is_forked_where_one_is_wanted_and_ends_with_its_worker() {
    for killed in [false, true] {
        let mut home = Home::new();
        let script = Script::serve(home.path(), &scripts::slow_steps(3, "300ms"));
        home.configure(&lab(&script, "openai"));
        home.file("notes.txt", &scripts::notes());
        let worker = ukai_tests::binary("ukai-under-test-worker");
        home.worker_is(&format!("exec {} \"$@\" --launcher", worker.display()));
        let mut run = home.command(&["run", "go"]).spawn().expect("ukai runs");
        wait::until("the job to be under way", || (script.requests() > 0).then_some(()));
        let before = home.processes();
        assert_eq!(before.len(), 3, "worker, tool host and launcher: {before:?}");
        if killed {
            let [worker] = home.workers()[..] else { panic!("one worker") };
            let pid = nix::unistd::Pid::from_raw(worker.cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
            let gone = || home.processes().iter().all(|pid| !before.contains(pid)).then_some(());
            wait::until("the host and the launcher to be gone", gone);
        }
        assert_eq!(run.wait().expect("ukai ends").code(), Some(0));
        assert_eq!(home.processes(), [0_u32; 0]);
    }
}
