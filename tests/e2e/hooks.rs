//! The owner's scripts have their say in a job, and one that is broken lets nothing pass (spec §9).

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ukai_protocol::process;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

/// Given to a guard that hangs.
const DEADLINE_MS: u64 = 1_000;
/// Settled within this of the deadline (spec §9).
const SETTLED_MS: u64 = 200;
/// What a busy machine adds.
const BUSY_MS: u64 = 600;

/// A home with these hooks: point, matcher, command, and what else stands beside it.
fn home(hooks: &[(&str, &str, &str, &str)], script: &str) -> (Home, Script) {
    let home = Home::new();
    let script = Script::serve(home.path(), script);
    let tables = hooks.iter().map(|(on, matcher, command, more)| {
        let (matcher, command) = (json!(matcher), json!(command));
        format!("[[hooks.{on}]]\nmatcher = {matcher}\nhooks = [{{type = \"command\", command = {command}{more}}}]\n")
    });
    let tables: String = tables.collect();
    home.configure(&format!("{}{tables}", lab(&script, "openai")));
    (home, script)
}

/// Asks for this command, then is done.
fn asks_for(command: &str) -> String {
    let command = json!(command);
    format!(
        "[[rule]]\nwhen.step = 1\nreply.calls = [{{ tool = \"Bash\", args = {{ command = {command} }} }}]\n\
         [[rule]]\nreply.text = \"done\"\n"
    )
}

/// A script outside of what the job may touch.
fn put(home: &Home, name: &str, text: &str) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, text).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    path.display().to_string()
}

fn run(home: &Home, more: &[&str]) -> (i32, Value) {
    home.ukai_json(&[&["run", "go", "--output", "json"], more].concat())
}

fn events(home: &Home, event: &str) -> Vec<Value> {
    let [id] = &home.runs()[..] else { panic!("one run: {:?}", home.runs()) };
    let events = home.events(id).into_iter().filter(|record| record["event"] == event);
    events.map(|record| record["data"].clone()).collect()
}

/// The one record of an event.
fn only(home: &Home, event: &str) -> Value {
    let found = events(home, event);
    assert_eq!(found.len(), 1, "{event}: {found:?}");
    found[0].clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn lives(name: &str) -> bool {
    process::all().iter().filter(|seen| !seen.is_dead).any(|seen| {
        std::fs::read(format!("/proc/{}/cmdline", seen.pid))
            .is_ok_and(|line| line.windows(name.len()).any(|window| window == name.as_bytes()))
    })
}

fn decision(words: &str) -> String {
    format!("cat >/dev/null; echo '{{\"hookSpecificOutput\": {{\"hookEventName\": \"PreToolUse\", {words}}}}}'")
}

#[test]
fn a_guard_allows_denies_asks_and_changes_what_runs() {
    let allow = decision(r#""permissionDecision": "allow", "permissionDecisionReason": "fine""#);
    let deny = decision(r#""permissionDecision": "deny", "permissionDecisionReason": "not on Mondays""#);
    let ask = decision(r#""permissionDecision": "ask""#);
    let change = decision(r#""permissionDecision": "allow", "updatedInput": {"command": "touch other; echo changed"}"#);
    let to_denied = decision(r#""permissionDecision": "allow", "updatedInput": {"command": "sudo id"}"#);
    let context = decision(r#""permissionDecision": "allow", "additionalContext": "mind the gap""#);
    let bad_input = decision(r#""updatedInput": {"comand": "x"}"#);
    let old = r#"cat >/dev/null; echo '{"decision": "block", "reason": "old way"}'"#.to_owned();
    let exit = "echo no such luck >&2; exit 2".to_owned();
    let looks =
        r#"python3 -c 'import json,sys; sys.exit(2 if "one" in json.load(sys.stdin)["tool_input"]["command"] else 0)'"#;
    let hook = |command: &str| json!({"hook": {"hook": command}});
    let denied = "denied: a hook of the owner forbids it: ";
    for (guard, args, source, output) in [
        (&*allow, &[][..], hook(&allow), "one\n".to_owned()),
        ("true", &["--allow", "Bash"], json!(null), "one\n".to_owned()),
        (&*deny, &["--allow", "Bash"], hook(&deny), format!("{denied}not on Mondays")),
        (&*old, &["--allow", "Bash"], hook(&old), format!("{denied}old way")),
        (&*exit, &["--allow", "Bash"], hook(&exit), format!("{denied}no such luck")),
        (looks, &["--allow", "Bash"], hook(looks), denied.to_owned()),
        (&*ask, &["--allow", "Bash"], json!("no_one_to_ask"), "wants a person asked".to_owned()),
        (&*allow, &["--ask", "Bash"], json!("no_one_to_ask"), "the rule `Bash`".to_owned()),
        (&*allow, &["--deny", "Bash(touch:*)"], json!(null), "the rule `Bash(touch:*)` forbids it".to_owned()),
        (&*change, &[], hook(&change), "changed\n".to_owned()),
        (&*to_denied, &[], json!(null), "the rule `Bash(sudo:*)` forbids it".to_owned()),
        (&*bad_input, &["--allow", "Bash"], hook(&bad_input), "there is no `comand`".to_owned()),
        (&*context, &[], hook(&context), "one\n\n\nmind the gap".to_owned()),
    ] {
        let (home, _script) = home(&[("PreToolUse", "Bash", guard, "")], &asks_for("touch ran; echo one"));
        let (_, result) = run(&home, args);
        let judged = only(&home, "Judged");
        if !source.is_null() {
            assert_eq!(judged["judgement"]["source"], source, "{guard} {args:?}");
        }
        let finished = only(&home, "ToolFinished");
        assert!(text(&finished["output"]).contains(&output), "{guard} {args:?}: {finished}\n{result}");
        // What was judged is what ran.
        let ran = finished["status"] == "ok" && judged["input"]["command"] == "touch ran; echo one";
        assert_eq!(home.work().join("ran").exists(), ran, "{guard} {args:?}");
        // A static deny ends it before any hook is asked.
        assert_eq!(events(&home, "HookRan").len(), usize::from(!args.contains(&"--deny")), "{guard}");
    }
}

#[test]
fn deny_beats_ask_beats_allow_and_one_command_runs_once() {
    let say =
        |word: &str| decision(&format!("\"permissionDecision\": \"{word}\", \"permissionDecisionReason\": \"{word}\""));
    let (allow, ask, deny) = (say("allow"), say("ask"), say("deny"));
    for (guards, runs, output) in [
        (&[&allow, &ask, &deny][..], 3, "forbids it: deny"),
        (&[&allow, &ask], 2, "wants a person asked"),
        (&[&allow, &allow], 1, "one\n"),
    ] {
        let hooks: Vec<_> = guards.iter().map(|guard| ("PreToolUse", "", guard.as_str(), "")).collect();
        let (home, _script) = home(&hooks, &asks_for("echo one"));
        run(&home, &[]);
        let finished = only(&home, "ToolFinished");
        assert!(text(&finished["output"]).contains(output), "{finished}");
        assert_eq!(events(&home, "HookRan").len(), runs, "{guards:?}");
    }
}

#[test]
fn a_guard_that_is_broken_blocks_and_is_gone() {
    for (guard, at_deadline, part) in [
        ("sleep 39771", true, "timeout"),
        ("trap '' TERM; sleep 39772 & wait; sleep 39772", true, "timeout"),
        ("sleep 39773 & exit 0", true, "timeout"),
        ("setsid sleep 39774 & echo '{}'", true, "timeout"),
        ("exit 127", false, "it exited 127"),
        ("/nowhere/guard.py", false, "it exited 127"),
        ("exit 1", false, "it exited 1"),
        ("kill -9 $$", false, "signal 9"),
        ("echo all good", false, "no JSON object"),
        ("echo '{\"permissionDecision\": '", false, "no JSON object"),
        ("head -c 5000000 /dev/zero | tr '\\0' x", false, "more than"),
    ] {
        let hooks = [("PreToolUse", "", guard, ", timeout = 1")];
        let (home, _script) = home(&hooks, &asks_for("touch ran"));
        run(&home, &["--allow", "Bash"]);
        assert!(!home.work().join("ran").exists(), "{guard}");
        let ran = only(&home, "HookRan");
        assert_eq!((&ran["said"], text(&ran["detail"]).contains(part)), (&json!("failed_closed"), true), "{ran}");
        assert_eq!(only(&home, "ToolFinished")["status"], "denied", "{guard}");
        let took = ran["duration_ms"].as_u64().expect("a duration");
        let longest = if at_deadline { DEADLINE_MS + SETTLED_MS + BUSY_MS } else { DEADLINE_MS + BUSY_MS };
        assert!(took <= longest && (!at_deadline || took >= DEADLINE_MS), "{guard}: {took} ms");
        assert!(!lives("sleep\x003977"), "{guard} left something");
    }
    // Its owner may say that its failure is none.
    let hooks = [("PreToolUse", "", "exit 1", ", onFailure = \"continue\"")];
    let (home, _script) = home(&hooks, &asks_for("touch ran"));
    run(&home, &["--allow", "Bash"]);
    assert!(home.work().join("ran").exists());
    assert_eq!(only(&home, "HookRan")["said"], "failed_open");
}

#[test]
fn a_result_is_replaced_and_commented_before_it_is_history() {
    let post = |words: &str| {
        format!("cat >/dev/null; echo '{{\"hookSpecificOutput\": {{\"hookEventName\": \"PostToolUse\", {words}}}}}'")
    };
    let replace = post(r#""updatedToolOutput": {"stdout": "redacted", "stderr": ""}"#);
    let context = post(r#""additionalContext": "see the guide""#);
    let objects = r#"cat >/dev/null; echo '{"decision": "block", "reason": "not formatted"}'"#;
    let sees =
        r#"python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["error"], file=sys.stderr); sys.exit(2)'"#;
    for (on, hook, command, output) in [
        ("PostToolUse", &*replace, "echo secret", "redacted"),
        ("PostToolUse", &*context, "echo one", "one\n\n\nsee the guide"),
        ("PostToolUse", objects, "echo one", "one\n\n\nA hook of the owner objects: not formatted"),
        ("PostToolUse", "exit 1", "echo one", "one\n"),
        ("PostToolUseFailure", sees, "exit 3", "objects: [exit code 3]"),
        ("PostToolUseFailure", "exit 2", "echo one", "one\n"),
    ] {
        let (home, _script) = home(&[(on, "Bash", hook, "")], &asks_for(command));
        run(&home, &["--allow", "Bash"]);
        let finished = only(&home, "ToolFinished");
        assert!(text(&finished["output"]).contains(output), "{hook}: {finished}");
    }
}

#[test]
fn what_hooks_say_reaches_the_model() {
    let pre = decision(r#""permissionDecision": "allow", "additionalContext": "mind the gap""#);
    let post = r#"cat >/dev/null; echo '{"hookSpecificOutput": {"updatedToolOutput": "nothing to see"}}'"#;
    let stop = r#"python3 -c 'import json,sys; d=json.load(sys.stdin); d["stop_hook_active"] or sys.exit("test it first") or 0' || exit 2"#;
    for (on, hook, when) in [
        ("PreToolUse", &*pre, "when.result = { matches = \"(?s)one.*mind the gap\" }"),
        ("PreToolUse", "echo not now >&2; exit 2", "when.result = { contains = \"not now\" }"),
        ("PostToolUse", post, "when.result = { is = \"nothing to see\" }"),
        ("Stop", stop, "when.last_user = { contains = \"test it first\" }"),
    ] {
        let rules = asks_for("touch ran; echo one");
        let rules =
            rules.replacen("[[rule]]\nreply", &format!("[[rule]]\n{when}\nreply.text = \"heard\"\n[[rule]]\nreply"), 1);
        for wire in ["openai", "anthropic", "gemini"] {
            let (home, script) = home(&[(on, "", hook, "")], &rules);
            let text = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("the configuration");
            home.configure(&text.replace(&lab(&script, "openai"), &lab(&script, wire)));
            let (code, result) = run(&home, &["--allow", "Bash"]);
            assert!([0, 7].contains(&code) && result["text"] == "heard", "{on} {wire}: {result}");
        }
    }
}

#[test]
fn a_stop_hook_sends_the_model_back_eight_times_at_most() {
    let home_with = |hook: &str| home(&[("Stop", "", hook, "")], "[[rule]]\nreply.text = \"done\"\n");
    let (home, script) = home_with("cat >>\"$CLAUDE_PROJECT_DIR/stops\"; echo go on >&2; exit 2");
    let (code, result) = run(&home, &[]);
    assert_eq!((code, &result["attention"], script.requests()), (7, &json!(true), 9), "{result}");
    let stops = std::fs::read_to_string(home.work().join("stops")).expect("payloads");
    let active: Vec<Value> = stops
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["stop_hook_active"].clone())
        .collect();
    assert_eq!(active.iter().map(|active| active == true).collect::<Vec<_>>(), [&[false][..], &[true; 8]].concat());
    let injected = events(&home, "Injected");
    assert_eq!(injected.iter().filter(|data| data["why"] == "hook" && data["text"] == "go on").count(), 8);
    // One that minds the flag sends it back once.
    let minds = r#"python3 -c 'import json,sys; d=json.load(sys.stdin); d["stop_hook_active"] or print(json.dumps({"decision": "block", "reason": "test it first"}))'"#;
    let (home, script) = home_with(minds);
    let (code, result) = run(&home, &[]);
    assert_eq!((code, script.requests()), (0, 2), "{result}");
}

#[test]
fn a_hook_ends_the_job() {
    let stop = r#"cat >/dev/null; echo '{"continue": false, "stopReason": "enough for today"}'"#;
    for on in ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"] {
        let (home, script) = home(&[(on, "", stop, "")], &asks_for("echo one"));
        let (code, result) = run(&home, &["--allow", "Bash"]);
        assert_eq!(
            (code, &result["reason"], &result["cause"]["kind"]),
            (1, &json!("fatal_error"), &json!("hook_stop")),
            "{on}: {result}"
        );
        assert!(result["cause"]["detail"].to_string().contains("enough for today"), "{on}: {result}");
        let asked = match on {
            "SessionStart" | "UserPromptSubmit" => 0,
            "Stop" => 2,
            _ => 1,
        };
        assert_eq!(script.requests(), asked, "{on}");
    }
}

#[test]
fn a_prompt_is_looked_at_before_the_first_call() {
    let (home, _script) = home(
        &[
            ("SessionStart", "startup", "echo today is Monday", ""),
            ("UserPromptSubmit", "", "echo the branch is main", ""),
            ("UserPromptSubmit", "never", "exit 2", ""),
            ("SessionEnd", "", "cat >\"$CLAUDE_PROJECT_DIR/end\"; exit 2", ""),
        ],
        "[[rule]]\nwhen.prompt = { matches = \"(?s)^go\\\\n.*today is Monday.*the branch is main\" }\nreply.text = \"heard\"\n\
         [[rule]]\nreply.text = \"not heard\"\n",
    );
    let (code, result) = run(&home, &[]);
    assert_eq!((code, &result["text"]), (0, &json!("heard")), "{result}");
    let end: Value =
        serde_json::from_slice(&std::fs::read(home.work().join("end")).expect("told of the end")).expect("JSON");
    assert_eq!((&end["hook_event_name"], &end["reason"]), (&json!("SessionEnd"), &json!("completed")));
    for (hook, matcher, code, part) in [
        ("echo not this one >&2; exit 2", "", 1, "not this one"),
        ("echo not this one >&2; exit 2", "^g", 1, "not this one"),
        ("echo not this one >&2; exit 1", "", 1, "it exited 1: not this one"),
        ("exit 2", "^never$", 0, ""),
        ("echo '{broken'", "", 1, "no JSON object"),
    ] {
        let (home, script) =
            self::home(&[("UserPromptSubmit", matcher, hook, "")], "[[rule]]\nreply.text = \"done\"\n");
        let (found, result) = run(&home, &[]);
        assert_eq!((found, script.requests()), (code, usize::from(code == 0)), "{hook}: {result}");
        if code != 0 {
            assert_eq!(result["cause"]["kind"], "hook_stop", "{result}");
            assert!(result["cause"]["detail"].to_string().contains(part), "{result}");
        }
    }
}

/// As it stands in many repositories.
const SECRETS_GUARD: &str = r#"#!/usr/bin/env python3
import json
import os
import sys

data = json.load(sys.stdin)
path = data.get("tool_input", {}).get("file_path", "")
for key in ("session_id", "transcript_path", "cwd", "permission_mode", "hook_event_name", "tool_name", "tool_use_id"):
    if not data.get(key):
        print(f"{key} is missing", file=sys.stderr)
        sys.exit(1)
if not os.path.exists(data["transcript_path"]) or os.getcwd() != os.environ["CLAUDE_PROJECT_DIR"]:
    sys.exit(1)
if any(name for name in os.environ if "KEY" in name):
    sys.exit(1)
if path.startswith(os.environ["CLAUDE_PROJECT_DIR"] + "/secrets/"):
    print("secrets stay secret", file=sys.stderr)
    sys.exit(2)
"#;

#[test]
fn a_settings_file_of_claude_code_runs_unchanged() {
    let script = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Read\", args = { file_path = \"x/../secrets/a\" } }, \
                  { tool = \"Read\", args = { file_path = \"b\" } }]\n[[rule]]\nreply.text = \"done\"\n";
    let (home, _script) = Home::with_script(script);
    home.file("secrets/a", "hush");
    home.file("b", "open");
    let guard = put(&home, "guard.py", SECRETS_GUARD);
    let settings = json!({
        "permissions": {"allow": ["Bash"]},
        "hooks": {"PreToolUse": [{"matcher": "Read|Edit|Write", "hooks": [{"type": "command", "command": guard}]}]}
    });
    std::fs::write(home.path().join("settings.json"), settings.to_string()).expect("settings");
    let output =
        home.command(&["run", "go", "--hooks", "../settings.json"]).env("LAB_KEY", "sk-0123456789abcdef").output();
    let output = output.expect("ukai runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("permissions ignored"), "{stderr}");
    let finished = events(&home, "ToolFinished");
    let status: Vec<&str> = finished.iter().map(|data| text(&data["status"])).collect();
    assert_eq!(status, ["denied", "ok"], "{finished:?}");
    assert!(text(&finished[0]["output"]).contains("secrets stay secret"), "{finished:?}");
}

#[test]
fn hooks_that_cannot_be_used_refuse_the_job() {
    let (home, script) = Home::with_script("[[rule]]\nreply.text = \"done\"\n");
    let fine = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#;
    home.file("settings.json", fine);
    let slip = fine.replace("Stop", "Stpo");
    std::fs::write(home.path().join("slip.json"), slip).expect("settings");
    for (file, parts) in [
        ("../missing.json", &["missing.json", "name a settings.json"][..]),
        ("../slip.json", &["slip.json, line 1", "`Stpo`", "did you mean `Stop`"]),
        ("settings.json", &["settings.json", "is not trusted", "trust"]),
    ] {
        let output = home.ukai(&["run", "go", "--hooks", file]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{file}: no {part} in {stderr}");
        }
    }
    assert_eq!((script.requests(), home.runs().len()), (0, 0));
}

/// Who is asked, and whether a hook or nobody answers.
#[test]
fn a_hook_answers_what_a_person_is_asked() {
    let behavior = |words: &str| {
        format!(
            "cat >/dev/null; sleep 0.2; echo '{{\"hookSpecificOutput\": {{\"hookEventName\": \"PermissionRequest\", \"decision\": {{{words}}}}}}}'"
        )
    };
    let allow = behavior(r#""behavior": "allow""#);
    let deny = behavior(r#""behavior": "deny", "message": "ask me tomorrow""#);
    let other = behavior(r#""behavior": "allow", "updatedInput": {"command": "touch ran; echo two"}"#);
    for (hook, verdict, part) in [
        (&*allow, "allow", "one\n"),
        (&*deny, "deny", "ask me tomorrow"),
        (&*other, "deny", "only with this input"),
        ("exit 1", "deny", "it exited 1"),
    ] {
        let tells = "cat >>\"$CLAUDE_PROJECT_DIR/told\"";
        let hooks = [("PermissionRequest", "Bash", hook, ""), ("Notification", "permission_prompt", tells, "")];
        let (home, _script) = home(&hooks, &asks_for("touch ran; echo one"));
        let _server = home.serve();
        let (code, result) = run(&home, &[]);
        assert!([0, 7].contains(&code), "{result}");
        let answered = only(&home, "AskAnswered");
        assert_eq!(answered["judgement"]["verdict"], verdict, "{hook}: {answered}");
        assert!(answered["judgement"]["source"]["hook"]["hook"] == hook, "{answered}");
        let finished = only(&home, "ToolFinished");
        assert!(text(&finished["output"]).contains(part), "{hook}: {finished}");
        wait::until("the notification", || {
            let told = std::fs::read_to_string(home.work().join("told")).ok()?;
            told.contains("permission_prompt").then_some(())
        });
    }
    // Nobody to ask: the hook alone decides, and may change what runs.
    for (hook, part) in [(&*allow, "one\n"), (&*deny, "ask me tomorrow"), (&*other, "two\n"), ("true", "no one to ask")]
    {
        let (home, _script) = home(&[("PermissionRequest", "", hook, "")], &asks_for("touch ran; echo one"));
        run(&home, &[]);
        let finished = only(&home, "ToolFinished");
        assert!(text(&finished["output"]).contains(part), "{hook}: {finished}");
    }
}

#[test]
fn a_cancelled_job_takes_its_hooks_along() {
    let (home, _script) = home(&[("PreToolUse", "", "sleep 39779", "")], &asks_for("echo one"));
    let _server = home.serve();
    let submitted = home.ukai(&["submit", "--prompt", "go"]);
    let id = String::from_utf8_lossy(&submitted.stdout).trim().to_owned();
    wait::until("the hook", || lives("sleep\x0039779").then_some(()));
    assert!(home.ukai(&["cancel", &id]).status.success());
    let gone = Instant::now() + Duration::from_secs(2);
    wait::until("the hook's end", || (!lives("sleep\x0039779")).then_some(()));
    assert!(Instant::now() < gone);
}
