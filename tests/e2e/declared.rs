//! Tools that an owner declares are tools like any other (spec §7): offered, judged, confined, cut off, recorded.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::raw::Raw;
use ukai_tests::script::Script;
use ukai_tests::wait;

/// Declares a tool in the config folder.
fn declare(home: &Home, name: &str, rest: &str) {
    let folder = home.path().join("config/ukai/tools");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = format!("name = \"{name}\"\ndescription = \"Does {name}.\"\n{rest}");
    std::fs::write(folder.join(format!("{name}.toml")), text).expect("a tool");
}

/// The same, as a script of bash.
fn declare_script(home: &Home, name: &str, script: &str, rest: &str) {
    declare(home, name, &format!("command = [\"./{name}.sh\"]\n{rest}"));
    let path = home.path().join(format!("config/ukai/tools/{name}.sh"));
    std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).expect("a script");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
}

/// A script that asks for these calls, one a step.
fn script(calls: &[(&str, Value)]) -> String {
    let rule = |(at, (tool, args)): (usize, &(&str, Value))| {
        let args = args.to_string();
        format!("[[rule]]\nwhen.step = {}\nreply.calls = [{{ tool = \"{tool}\", raw_args = '''{args}''' }}]\n", at + 1)
    };
    let rules: String = calls.iter().enumerate().map(rule).collect();
    format!("{rules}[[rule]]\nreply.text = \"done\"\n")
}

fn finished(home: &Home, id: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let records = home.events(id).into_iter().filter(|record| record["event"] == "ToolFinished");
    records
        .map(|record| {
            let data = &record["data"];
            (text(&data["tool"]), text(&data["status"]), text(&data["output"]))
        })
        .collect()
}

fn run(home: &Home, args: &[&str]) -> (String, Vec<(String, String, String)>) {
    let before = home.runs();
    let args: Vec<&str> = ["run", "go", "--output", "json"].iter().chain(args).copied().collect();
    let output = home.ukai(&args);
    let id = home.runs().into_iter().find(|id| !before.contains(id));
    let id = id.unwrap_or_else(|| panic!("no run: {output:?}"));
    let outcome = finished(home, &id);
    (String::from_utf8_lossy(&output.stderr).into_owned(), outcome)
}

#[test]
fn a_program_reads_its_arguments_and_says_its_result_confined_like_any_command() {
    let (home, _script) = Home::with_script(&script(&[
        ("greet", json!({"who": "鵜飼", "times": 2})),
        ("greet", json!({"times": 2})),
        ("fails", json!({})),
        ("dies", json!({})),
        ("hangs", json!({})),
        ("pries", json!({})),
        ("nobody", json!({})),
    ]));
    declare_script(
        &home,
        "greet",
        "cat; echo; echo \"in $PWD\"; cat \"$(dirname \"$0\")/beside\"; echo ignored >&2; touch made",
        "[schema]\nrequired = [\"who\"]\nproperties.who.type = \"string\"\nproperties.times.type = \"integer\"\n",
    );
    std::fs::write(home.path().join("config/ukai/tools/beside"), "from beside\n").expect("a file");
    declare_script(&home, "fails", "echo said; echo broken >&2; exit 3", "");
    declare_script(&home, "dies", "kill -9 $$", "");
    declare_script(&home, "hangs", "echo begun; (setsid sleep 39421 &); sleep 39421", "timeout = \"500ms\"\n");
    declare_script(
        &home,
        "pries",
        "cat ../config/ukai/ukai.toml; echo $?; touch ../made; echo $?; (echo > /dev/tcp/127.0.0.1/1) 2>&1; true",
        "",
    );
    declare(&home, "nobody", "command = [\"no-such-program-anywhere\"]\n");
    let allow: Vec<&str> =
        ["greet", "fails", "dies", "hangs", "pries", "nobody"].iter().flat_map(|tool| ["--allow", tool]).collect();
    let (said, outcome) = run(&home, &allow);
    let expected: [(&str, &str, &[&str]); 7] = [
        ("greet", "ok", &["{\"who\":\"鵜飼\",\"times\":2}\n", "/work\n", "from beside\n"]),
        ("greet", "invalid", &["greet was not run: `who` is missing. Its parameters are times, who."]),
        ("fails", "failed", &["said\n[stderr]\nbroken\n[exit code 3]"]),
        ("dies", "failed", &["[ended by signal 9, SIGKILL]"]),
        ("hangs", "failed", &["begun\n", "its time was over"]),
        ("pries", "ok", &["1\n1\n"]),
        ("nobody", "failed", &["no program `no-such-program-anywhere`"]),
    ];
    assert_eq!(outcome.len(), expected.len(), "{outcome:#?}\n{said}");
    for ((tool, status, output), (name, wanted, parts)) in outcome.iter().zip(expected) {
        assert_eq!((tool.as_str(), status.as_str()), (name, wanted), "{output}");
        for part in parts {
            assert!(output.contains(part), "{tool}: {output:?} lacks {part:?}");
        }
        assert!(!output.contains("ignored") && !output.contains("base_url"), "{tool}: {output:?}");
    }
    assert!(home.work().join("made").exists() && !home.path().join("made").exists());
    let sleeps = ukai_protocol::process::all().into_iter().filter(|seen| !seen.is_dead).any(|seen| {
        std::fs::read(format!("/proc/{}/cmdline", seen.pid)).is_ok_and(|line| line.starts_with(b"sleep\x0039421"))
    });
    assert!(!sleeps, "what a tool started outlives it");
}

/// An editor that takes commands over HTTP, and what it was asked.
fn editor() -> (Raw, Arc<Mutex<Vec<Value>>>) {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let heard = asked.clone();
    let editor = Raw::serve(move |body, _| {
        let body: Value = serde_json::from_str(body).expect("JSON");
        heard.lock().expect("nobody broke").push(body.clone());
        match body["command"].as_str() {
            Some("open_file") => Some(format!("opened {}", body["params"]["path"].as_str().unwrap_or_default())),
            Some("selection") => Some("let x = 1;".to_owned()),
            // It takes the call and goes without a word.
            _ => None,
        }
    });
    (editor, asked)
}

#[test]
fn an_editor_serves_two_tools_and_what_is_off_is_not_offered() {
    let (editor, asked) = editor();
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let heard = bodies.clone();
    let provider = Raw::serve(move |body, _| {
        let body: Value = serde_json::from_str(body).expect("JSON");
        let step = {
            let mut bodies = heard.lock().expect("nobody broke");
            bodies.push(body);
            bodies.len()
        };
        let call = |tool: &str, args: Value| {
            let function = json!({"name": tool, "arguments": args.to_string()});
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{step}"), "type": "function", "function": function}]})
        };
        let message = match step {
            1 => call("open_file", json!({"path": "src/lib.rs"})),
            2 => call("selection", json!({})),
            3 => call("goes", json!({})),
            4 => call("off", json!({})),
            5 => call("denied", json!({})),
            // Three replies in a row that come to nothing would end the job.
            6 => call("selection", json!({})),
            7 => call("unlisted", json!({})),
            _ => json!({"role": "assistant", "content": "done"}),
        };
        Some(
            json!({"id": "r", "object": "chat.completion", "model": "m", "created": 1,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}})
            .to_string(),
        )
    });
    let home = Home::new();
    home.configure(&format!(
        "[[provider]]\nid = \"lab\"\nwire = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\ncontext_window = 200000\nmax_output = 4096\n\
         [tools]\ndisable = [\"off\", \"Grep\"]\n",
        provider.url
    ));
    let http = format!("http = \"{}/command\"\n", editor.url);
    for name in ["selection", "open_file", "goes", "off", "denied", "unlisted"] {
        declare(&home, name, &http);
    }
    declare(&home, "open_file", &format!("{http}[schema]\nproperties.path.type = \"string\"\n"));
    let allow =
        ["--allow", "open_file", "--allow", "selection", "--allow", "goes", "--allow", "off", "--deny", "denied"];
    let (said, outcome) = run(&home, &allow);
    let expected: [(&str, &str, &str); 7] = [
        ("open_file", "ok", "opened src/lib.rs"),
        ("selection", "ok", "let x = 1;"),
        ("goes", "unknown", "outcome unknown"),
        ("off", "denied", "switched off"),
        ("denied", "denied", "the rule `denied` forbids it"),
        ("selection", "ok", "let x = 1;"),
        ("unlisted", "denied", "no rule allows `unlisted`"),
    ];
    assert_eq!(outcome.len(), expected.len(), "{outcome:#?}\n{said}");
    for ((tool, status, output), (name, wanted, part)) in outcome.iter().zip(expected) {
        assert_eq!((tool.as_str(), status.as_str()), (name, wanted), "{output}");
        assert!(output.contains(part), "{tool}: {output}");
    }
    let asked = asked.lock().expect("nobody broke").clone();
    assert_eq!(
        asked,
        [
            json!({"command": "open_file", "params": {"path": "src/lib.rs"}}),
            json!({"command": "selection", "params": {}}),
            json!({"command": "goes", "params": {}}),
            json!({"command": "selection", "params": {}}),
        ]
    );
    let bodies = bodies.lock().expect("nobody broke").clone();
    let names = |body: &Value| {
        let tools = body["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["function"]["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let offered = [
        "Bash",
        "BashOutput",
        "Edit",
        "Glob",
        "KillShell",
        "Read",
        "Write",
        "goes",
        "open_file",
        "selection",
        "unlisted",
    ];
    assert_eq!(names(&bodies[0]), offered);
    for body in &bodies {
        assert_eq!(body["tools"].to_string(), bodies[0]["tools"].to_string(), "the list is the same at each call");
    }
}

#[test]
fn a_failure_ends_what_runs_beside_it_and_nothing_after_it() {
    let safe = "[flags]\nconcurrency_safe = true\n";
    let (home, _script) = Home::with_script(
        "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"waits\", args = {} }, { tool = \"fails\", args = {} }, \
         { tool = \"alone\", args = {} }]\n[[rule]]\nreply.text = \"done\"\n",
    );
    declare_script(&home, "waits", "sleep 30", safe);
    declare_script(&home, "fails", "sleep 0.3; exit 1", safe);
    declare_script(&home, "alone", "echo here", "");
    let begun = Instant::now();
    let (said, outcome) = run(&home, &["--allow", "waits", "--allow", "fails", "--allow", "alone"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let outcome: Vec<_> = outcome.iter().map(|(tool, status, output)| (&**tool, &**status, output.trim())).collect();
    assert!(outcome.contains(&("waits", "cancelled", "cancelled: fails failed")), "{outcome:?}\n{said}");
    assert!(outcome.contains(&("fails", "failed", "[exit code 1]")), "{outcome:?}");
    assert!(outcome.contains(&("alone", "ok", "here")), "{outcome:?}");
}

#[test]
fn a_declaration_that_cannot_be_used_queues_nothing_and_names_its_place() {
    let (home, _script) = Home::with_script(&script(&[]));
    for (text, parts) in [
        ("command = [\"x\"]\ntimout = \"5s\"\n", ["bad.toml, line 4", "`timout`", "did you mean `timeout`"]),
        ("http = \"http://example.com/x\"\n", ["bad.toml, line 3", "`http`", "on this machine"]),
    ] {
        declare(&home, "bad", text);
        let output = home.ukai(&["run", "go"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in parts {
            assert!(said.contains(part), "{said}\nlacks {part}");
        }
    }
    std::fs::remove_file(home.path().join("config/ukai/tools/bad.toml")).expect("removed");
    home.configure("[tools]\ndisable = [\"Grpe\"]\n");
    let said = String::from_utf8_lossy(&home.ukai(&["policy"]).stderr).into_owned();
    assert!(said.contains("there is no tool `Grpe`; did you mean `Grep`?"), "{said}");
}

/// How many workers are killed. 100 is the promise, and takes some minutes.
const KILLS: usize = 16;
const STEPS: usize = 6;

fn kills() -> usize {
    std::env::var("UKAI_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

#[test]
fn a_tool_of_a_killed_worker_is_repeated_only_where_it_may_be() {
    let calls: Vec<(&str, Value)> = (1..=STEPS)
        .map(|step| (if step % 2 == 0 { "again" } else { "once" }, json!({"line": format!("step {step}")})))
        .collect();
    let home = Home::new();
    let provider = Script::serve(home.path(), &script(&calls));
    home.configure(&lab(&provider, "openai"));
    let append = "sleep 0.05; read -r line; echo \"$line\" >> lines; sleep 0.05; echo written";
    let schema = "[schema]\nproperties.line.type = \"string\"\n";
    declare_script(&home, "once", append, schema);
    declare_script(&home, "again", append, &format!("{schema}[flags]\nidempotent = true\n"));
    let _server = home.serve();
    let mut jobs = Vec::new();
    for number in 0..kills() {
        let name = format!("job{number}");
        home.file(&format!("{name}/x"), "");
        home.file(&format!("{name}.toml"), &format!("prompt = \"go {number}\"\nworkdir = \"{name}\"\n"));
        let output = home.ukai(&["submit", &format!("{name}.toml"), "--allow", "once", "--allow", "again"]);
        assert!(output.status.success(), "{output:?}");
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let pid = wait::until("the worker", || {
            let events = home.events(&id);
            let started = events.iter().find(|record| record["event"] == "Started")?;
            started["data"]["process"]["pid"].as_u64()
        });
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..800)));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a pid"));
        // It may be done already; then there is nothing to kill.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        jobs.push((name, id));
    }
    let (mut unknown, mut interrupted) = (0, 0);
    for (name, id) in &jobs {
        wait::until("the job to end", || (home.count(id, "Finished") == 1).then_some(()));
        interrupted += home.count(id, "Interrupted");
        let lines = std::fs::read_to_string(home.work().join(name).join("lines")).unwrap_or_default();
        let outcome = finished(&home, id);
        assert_eq!(outcome.len(), STEPS, "{name}: each call is answered once: {outcome:?}");
        for (at, (tool, status, output)) in outcome.iter().enumerate() {
            let line = json!({"line": format!("step {}", at + 1)}).to_string();
            let written = lines.lines().filter(|found| *found == line).count();
            match (tool.as_str(), status.as_str()) {
                ("once", "ok") => assert_eq!(written, 1, "{name}: {line}"),
                ("once", "unknown") => {
                    assert!(output.contains("outcome unknown") && written <= 1, "{name}: {line}: {written}");
                    unknown += 1;
                }
                ("again", "ok") => assert!(written >= 1, "{name}: {line}"),
                other => panic!("{name}: {line}: {other:?}: {output}"),
            }
        }
    }
    assert!(interrupted > 0, "no kill met a living worker");
    println!("{} killed, {interrupted} of them at work, {unknown} calls with an unknown outcome", jobs.len());
    let refused: Vec<_> = provider.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
    assert!(refused.is_empty(), "a history was invalid: {refused:?}");
}
