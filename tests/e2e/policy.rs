//! What a job would meet is told before there is one: by `ukai policy`, its `check` and `test`, and `ukai doctor`.

use std::process::Output;

use serde_json::Value;
use ukai_tests::home::Home;

const POLICY: &str = "version: 1
rules:
  allow: [Read, Glob, Grep]
  ask: [\"Read(*.sql)\"]
  deny: [\"Bash(rm -rf:*)\", \"Read(.env*)\"]
";

fn code_and_stderr(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_call_is_checked_by_one_line_and_an_exit_code() {
    let home = Home::new();
    home.file("policy.yaml", POLICY);
    for (tool, input, code, decision, source, rule) in [
        ("Read", r#"{"file_path":"a"}"#, 0, "allow", "rule", Some("allow Read")),
        ("Read", r#"{"file_path":"a.sql"}"#, 4, "ask", "rule", Some("ask Read(*.sql)")),
        ("Write", r#"{"file_path":"a","content":""}"#, 4, "ask", "default", None),
        ("Bash", r#"{"command":"rm -rf /"}"#, 3, "deny", "rule", Some("deny Bash(rm -rf:*)")),
        ("Read", r#"{"file_path":"../.env"}"#, 3, "deny", "rule", Some("deny Read(.env*)")),
        ("Read", r#"{"file_path":"/etc/hosts"}"#, 3, "deny", "default", None),
    ] {
        let output = home.ukai(&["policy", "check", "--policy", "policy.yaml", "--workdir", ".", tool, input]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(stdout.lines().count(), 1, "{stdout}");
        let line: Value = serde_json::from_str(&stdout).expect("a JSON line");
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert_eq!((&line["decision"], &line["source"]), (&decision.into(), &source.into()), "{line}");
        assert_eq!(line["rule"].as_str(), rule, "{line}");
        assert!(stdout.starts_with("{\"decision\":") && line["why"].is_string(), "{line}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(home.runs(), Vec::<String>::new());
}

#[test]
fn a_check_without_a_policy_is_of_what_a_job_would_get() {
    let home = Home::new();
    let check = |args: &[&str]| home.ukai_json(&[&["policy", "check"], args].concat());
    let read = r#"{"file_path":"a"}"#;
    assert_eq!(check(&["Read", read]).1["rule"], "allow Read", "the shipped one");
    assert_eq!(check(&["--deny", "Read(a)", "Read", read]).1["rule"], "deny Read(a)");
    assert_eq!(check(&["--ask", "Read", "Read", read]).0, 4);
    assert_eq!(check(&["--allow", "Write", "Write", r#"{"file_path":"a","content":""}"#]).0, 0);
    home.file("tool_policy.yaml", "version: 1\nrules: {allow: [Write], deny: [Read]}\n");
    let (code, line) = check(&["Read", read]);
    assert_eq!((code, &line["rule"]), (3, &"deny Read".into()), "a file that was found narrows");
    assert_eq!(check(&["Write", r#"{"file_path":"b","content":""}"#]).0, 4, "and widens nothing");
    let users = "version: 1\nrules: {allow: [Glob]}\n";
    std::fs::write(home.path().join("config/ukai/tool_policy.yaml"), users).expect("the user's policy");
    assert_eq!(check(&["Grep", r#"{"pattern":"x"}"#]).0, 4, "the user's in place of the shipped one");
}

#[test]
fn a_broken_policy_denies_and_says_where() {
    let home = Home::new();
    for (policy, parts) in [
        ("version: 1\nrulez: {}\n", &["policy.yaml", "line 2", "`rulez`"][..]),
        ("version: 1\nrules:\n  deny:\n    - \"Raed(.env)\"\n", &["policy.yaml, line 4", "Raed", "Read"]),
        (
            "version: 1\nrules:\n  allow:\n    - {rule: \"Read(src/**)\", match: [README.md]}\n",
            &["policy.yaml, line 4", "README.md"],
        ),
    ] {
        home.file("policy.yaml", policy);
        let output = home.ukai(&["policy", "check", "--policy", "policy.yaml", "Read", r#"{"file_path":"a"}"#]);
        let (code, stderr) = code_and_stderr(&output);
        let line: Value = serde_json::from_slice(&output.stdout).expect("a JSON line");
        assert_eq!((code, &line["decision"], &line["source"]), (3, &"deny".into(), &"policy_error".into()), "{line}");
        for part in parts {
            assert!(stderr.contains(part), "{policy}: no {part} in {stderr}");
        }
    }
    let output = home.ukai(&["policy", "check", "--policy", "missing.yaml", "Read", r#"{"file_path":"a"}"#]);
    let (code, stderr) = code_and_stderr(&output);
    assert!(code == 3 && stderr.contains("missing.yaml"), "{stderr}");
}

#[test]
fn what_is_no_call_is_wrong_usage() {
    let home = Home::new();
    for (args, parts) in [
        (&["Raed", "{}"][..], &["Raed", "Read"][..]),
        (&["Read", "{}"], &["file_path"]),
        (&["Read", "[]"], &["object"]),
        (&["Bash", "ls -l"], &["JSON"]),
        (&["Bash", r#"{"command":"ls","cwd":"/"}"#], &["cwd", "command"]),
        (&["--workdir", "nowhere", "Bash", r#"{"command":"ls"}"#], &["nowhere"]),
        (&["--deny", "Read((", "Bash", r#"{"command":"ls"}"#], &["--deny"]),
        (&["--allow", "Edit(../x)", "Bash", r#"{"command":"ls"}"#], &["--allow 'Edit(../x)'", "`..`"]),
    ] {
        let output = home.ukai(&[&["policy", "check"], args].concat());
        let (code, stderr) = code_and_stderr(&output);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for part in parts {
            assert!(stderr.contains(part), "{args:?}: no {part} in {stderr}");
        }
    }
    // What stands before the word would say nothing about the call.
    let output = home.ukai(&["policy", "--policy", "p.yaml", "check", "Read", r#"{"file_path":"a"}"#]);
    assert_eq!(code_and_stderr(&output).0, 2);
}

#[test]
fn what_holds_is_listed_with_who_wrote_it() {
    let home = Home::new();
    home.file("policy.yaml", POLICY);
    home.file("tool_policy.yaml", "version: 1\nrules:\n  allow: [Write]\n  deny:\n    - \"Read(secret/**)\"\n");
    home.file("ukai.toml", "max_workers = 1\n[tools]\ndisable = [\"Grep\"]\n");
    let args = ["policy", "--policy", "policy.yaml", "--deny", "Glob"];
    let output = home.ukai(&args);
    let (code, stderr) = code_and_stderr(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code, 0, "{stderr}");
    for (list, rule, from) in [
        ("allow", "Read", "/policy.yaml, line 3"),
        ("ask", "Read(*.sql)", "/policy.yaml, line 4"),
        ("deny", "Read(.env*)", "/policy.yaml, line 5"),
        ("deny", "Read(secret/**)", "/tool_policy.yaml, line 5"),
        ("deny", "Glob", "--deny"),
    ] {
        let row = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&list) && words.get(1) == Some(&rule) && line.ends_with(from)
        };
        assert!(text.lines().any(|line| row(&line)), "no {list} {rule} {from} in {text}");
    }
    assert!(!text.contains("Write"), "{text}");
    for part in ["sandbox", "on, network off", "ask_timeout", "10m", "provider_priority", "Grep"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(stderr.contains("allow rules") && stderr.contains("max_workers ignored"), "{stderr}");

    let (code, json) = home.ukai_json(&[&args[..], &["--output", "json"]].concat());
    assert_eq!((code, &json["type"], &json["broken"]), (0, &"policy".into(), &serde_json::json!([])), "{json}");
    assert_eq!(json["notes"].as_array().map(Vec::len), Some(2), "{json}");
    let last = json["rules"].as_array().expect("rules").iter().rfind(|rule| rule["list"] == "deny").expect("a rule");
    assert_eq!(last, &serde_json::json!({"list": "deny", "rule": "Glob", "from": "--deny", "line": null}));

    home.file("policy.yaml", "version: 1\nrules: {deny: [Raed]}\n");
    let text = String::from_utf8(home.ukai(&args).stdout).expect("text");
    assert!(text.contains("Every tool call is denied") && text.contains("policy.yaml, line 2"), "{text}");
}

#[test]
fn a_policy_is_tested_rule_by_rule_and_case_by_case() {
    let home = Home::new();
    home.file("good.yaml", POLICY);
    home.file(
        "bad.yaml",
        "version: 1\nrules:\n  allow:\n    - {rule: \"Read(src/**)\", match: [src/a, b], not_match: [src/c]}\n  deny: [Raed, Grep]\n",
    );
    let cases = "{\"tool\":\"Read\",\"input\":{\"file_path\":\"a\"},\"decision\":\"allow\"}\n\
                 {\"tool\":\"Bash\",\"input\":{\"command\":\"rm -rf x\"},\"decision\":\"deny\"}\n";
    home.file("cases.jsonl", cases);

    let test = |args: &[&str]| {
        let output = home.ukai(&[&["policy", "test"], args].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, text) = test(&[]);
    assert!(code == Some(0) && text.contains("the shipped policy") && text.contains("Bash(sudo:*)"), "{text}");
    let (code, text) = test(&["good.yaml", "--cases", "cases.jsonl"]);
    assert!(code == Some(0) && text.contains("2 of 2 cases"), "{text}");
    assert!(!text.contains("FAILED"), "{text}");

    let (code, text) = test(&["good.yaml", "bad.yaml"]);
    assert_eq!(code, Some(3), "{text}");
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAILED")).collect();
    assert_eq!(failed.len(), 2, "{text}");
    assert!(failed[0].contains("Raed") && failed[0].contains("bad.yaml, line 5"), "{text}");
    assert!(failed[1].contains("example `b`") && failed[1].contains("example `src/c`"), "{text}");
    assert!(failed[1].contains("bad.yaml, line 4"), "{text}");
    let is_sound = |line: &str| line.split_whitespace().take(3).eq(["ok", "deny", "Grep"]);
    assert!(text.lines().any(is_sound), "{text}");

    home.file("cases.jsonl", &format!("{cases}\n{}", cases.replace("\"deny\"", "\"allow\"")));
    let (code, text) = test(&["good.yaml", "--cases", "cases.jsonl"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("line 5") && text.contains("deny and not allow") && text.contains("3 of 4"), "{text}");
    let (code, json) = home.ukai_json(&["policy", "test", "good.yaml", "--cases", "cases.jsonl", "--output", "json"]);
    assert_eq!((code, &json["ok"]), (3, &false.into()), "{json}");
    assert_eq!(json["policies"][0]["failed_cases"][0]["line"], 5, "{json}");

    home.file("cases.jsonl", "{\"tool\":\"Read\"}\n");
    let (code, text) = test(&["--cases", "cases.jsonl"]);
    assert!(code == Some(2) && text.contains("cases.jsonl, line 1"), "{text}");
    home.file("none.yaml", "version: [");
    let (code, text) = test(&["none.yaml", "missing.yaml"]);
    assert!(code == Some(3) && text.matches("FAILED").count() == 2 && text.contains("missing.yaml"), "{text}");
}

/// Of what `ukai doctor` says of the sandbox: whether it is as it should be, and the words.
fn of_sandbox(home: &Home, key: &str) -> Option<(bool, String)> {
    let (code, found) = of_doctor(home, "sandbox", key);
    assert_eq!(code, 0, "{found:?}");
    found
}

fn of_doctor(home: &Home, topic: &str, key: &str) -> (i32, Option<(bool, String)>) {
    let (code, report) = home.ukai_json(&["doctor", "--output", "json"]);
    let facts = report["facts"].as_array().expect("facts");
    let found = facts.iter().find(|fact| fact["topic"] == topic && fact["key"] == key);
    (code, found.and_then(|fact| Some((fact["ok"].as_bool()?, fact["value"].as_str()?.to_owned()))))
}

#[test]
fn doctor_sees_a_policy_that_does_not_load() {
    let home = Home::new();
    let users = |text: &str| {
        std::fs::write(home.path().join("config/ukai/tool_policy.yaml"), text).expect("the user's policy");
        of_doctor(&home, "policy", "rules")
    };
    let (code, found) = users("version: 1\nrules: {allow: [Read]}\n");
    assert_eq!((code, found), (0, Some((true, "1 allow, 0 ask, 0 deny".to_owned()))));
    for (text, parts) in [
        ("version: 1\nrules:\n  allow: [Read, Bahs]\n", &["tool_policy.yaml, line 3", "`Bahs`", "`Bash`"][..]),
        ("version: 1\nrules:\n  allow:\n    - {rule: \"Read(a)\", match: [b]}\n", &["line 4", "example `b`"]),
        ("version: 1\nsandbox: {write: [/etc]}\n", &["line 2", "`/etc`"]),
        ("", &["nothing in it"]),
    ] {
        let (code, found) = users(text);
        let (ok, value) = found.expect("a fact");
        assert!(code == 2 && !ok && value.contains("every tool call is denied"), "{code} {value}");
        assert!(parts.iter().all(|part| value.contains(part)), "{parts:?}: {value}");
    }
}

#[test]
fn what_a_sandbox_opens_is_told_and_what_is_not_there() {
    let home = Home::new();
    let users = "version: 1\nsandbox: {network: loopback, read: [~/nope, data]}\n";
    std::fs::write(home.path().join("config/ukai/tool_policy.yaml"), users).expect("the user's policy");
    let (code, opened) = of_doctor(&home, "sandbox", "policy");
    let (ok, opened) = opened.expect("a fact");
    assert!(code == 0 && ok && opened.starts_with("on, network loopback, read /"), "{opened}");
    assert!(opened.ends_with("/config/ukai/data"), "from the folder of the policy: {opened}");
    let (_, missing) = of_doctor(&home, "sandbox", "missing");
    assert!(missing.is_some_and(|(ok, value)| !ok && value.contains("/nope: No such file")));
    let said = String::from_utf8_lossy(&home.ukai(&["policy"]).stderr).into_owned();
    assert!(said.contains("/nope: No such file") && said.contains("/data: No such file"), "{said}");
}

#[test]
fn a_flag_that_is_no_rule_is_told_before_anything_is_queued() {
    let (home, script) = Home::with_script("[[rule]]\nreply.text = \"hm\"\n");
    for (args, parts) in [
        (&["--allow", "Edit(../x)"][..], &["--allow 'Edit(../x)'", "`..`"][..]),
        (&["--deny", "Read(x/../y)"], &["--deny 'Read(x/../y)'", "`..`"]),
        (&["--ask", "Bash()"], &["--ask 'Bash()'", "empty brackets"]),
        (&["--allow", "Bsh"], &["--allow 'Bsh'", "did you mean `Bash`?"]),
        (&["--allow", "Read", "--deny", "Bash(cd x && make)"], &["--deny 'Bash(cd x && make)'", "a rule for each"]),
    ] {
        let output = home.ukai(&[&["run", "x"], args].concat());
        let (code, stderr) = code_and_stderr(&output);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{parts:?}: {stderr}");
    }
    assert!(home.runs().is_empty() && script.arrivals().is_empty());
}

#[test]
fn what_a_job_will_lack_is_told_as_it_is_submitted() {
    let call = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Glob\", args = { pattern = \"*\" } }]\n";
    let (home, _script) = Home::with_script(&format!("{call}[[rule]]\nreply.text = \"hm\"\n"));
    home.file("job.toml", "prompt = \"go\"\nenv = [\"TOK_THAT_IS_NOT_SET\", \"A=1\"]\n");
    home.file("policy.yaml", "version: 1\nrules: {allow: [Glob, Bahs]}\n");
    let (code, stderr) = code_and_stderr(&home.ukai(&["run", "--file", "job.toml", "--policy", "policy.yaml"]));
    assert_eq!(code, 7, "it needs a person: {stderr}");
    assert_eq!(stderr.matches("TOK_THAT_IS_NOT_SET is not passed on").count(), 1, "{stderr}");
    assert!(stderr.contains("every tool call is denied") && stderr.contains("did you mean `Bash`?"), "{stderr}");
}

#[test]
fn doctor_says_what_confines_commands() {
    let mut home = Home::new();
    for key in ["landlock", "namespaces", "seccomp", "commands", "workers", "bash"] {
        assert!(of_sandbox(&home, key).is_some(), "{key}");
    }
    // Whatever this machine has: what follows is one of the two.
    let (_, commands) = of_sandbox(&home, "commands").expect("a fact");
    assert!(commands.starts_with("run confined by") || commands.contains("`sandbox: off`"), "{commands}");
    assert_eq!(of_sandbox(&home, "policy"), None);

    for has_namespaces in [false, true] {
        home.on_an_old_kernel(has_namespaces);
        let (ok, landlock) = of_sandbox(&home, "landlock").expect("a fact");
        assert!(!ok && landlock.starts_with("no: "), "{landlock}");
        let (ok, commands) = of_sandbox(&home, "commands").expect("a fact");
        assert!(!ok && commands.contains("no job with commands starts") && commands.contains("Landlock"), "{commands}");
        let (ok, workers) = of_sandbox(&home, "workers").expect("a fact");
        assert!(!ok && workers.starts_with("confine themselves, without: which files"), "{workers}");
        if !has_namespaces {
            let (ok, namespaces) = of_sandbox(&home, "namespaces").expect("a fact");
            assert!(!ok && namespaces.contains("unshare"), "{namespaces}");
        }
    }

    let users = "version: 1\nsandbox: off\nrules: {}\n";
    std::fs::write(home.path().join("config/ukai/tool_policy.yaml"), users).expect("the user's policy");
    let (ok, policy) = of_sandbox(&home, "policy").expect("a fact");
    assert!(!ok && policy.starts_with("off"), "{policy}");
    let (_, commands) = of_sandbox(&home, "commands").expect("a fact");
    assert!(commands.starts_with("run unconfined"), "{commands}");
}

#[test]
fn a_worker_program_of_another_build_is_said() {
    let mut home = Home::new();
    home.worker_is("echo 'usage: something else' >&2; exit 64");
    let output = home.ukai(&["policy", "check", "Read", r#"{"file_path":"a"}"#]);
    let (code, stderr) = code_and_stderr(&output);
    assert!(code == 1 && stderr.contains("policy check") && stderr.contains("something else"), "{stderr}");
    let (ok, kernel) = of_sandbox(&home, "kernel").expect("a fact");
    assert!(!ok && kernel.contains("something else"), "{kernel}");
}
