//! Wrong input: one clear error, exit 2, nothing half done.

use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

use crate::scripts;

/// Runs, and expects exit 2, one error that holds all `words`, and no run left behind.
fn check(home: &Home, args: &[&str], words: &[&str]) {
    let output = home.ukai(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: no {word:?} in {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(output.stdout.is_empty(), "{args:?} printed {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(home.runs(), Vec::<String>::new(), "{args:?} left a run");
}

fn with_lab() -> (Home, Script) {
    Home::with_script(&scripts::steps(2))
}

#[test]
fn configuration() {
    let home = Home::new();
    check(&home, &["run", "x"], &["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
    let (home, script) = with_lab();
    let good = lab(&script, "openai");
    for (config, words) in [
        (format!("max_wrokers = 3\n{good}"), ["ukai.toml", "max_wrokers", "max_workers"]),
        (format!("max_workers = \"many\"\n{good}"), ["ukai.toml", "max_workers", "1"]),
        (format!("{good}wire = \"morse\"\n"), ["ukai.toml", "wire", "lab"]),
        (good.replace("\"openai\"", "\"morse\""), ["ukai.toml", "morse", "openai"]),
        (good.replace("http://", "gopher://"), ["ukai.toml", "base_url", "gopher"]),
        (format!("{good}{good}"), ["ukai.toml", "lab", "twice"]),
        (format!("{good}api_key_file = \"/nowhere/key\"\n"), ["/nowhere/key", "lab", "api_key_file"]),
    ] {
        home.configure(&config);
        check(&home, &["run", "x"], &words);
    }
    check(&home, &["--config", "/nowhere/ukai.toml", "run", "x"], &["/nowhere/ukai.toml"]);
}

#[test]
fn jobs() {
    let (home, _script) = with_lab();
    check(&home, &["run", "--file", "missing.toml"], &["missing.toml"]);
    check(&home, &["run", "x", "--provider", "nobody"], &["nobody", "lab"]);
    check(&home, &["run", "x", "--workdir", "missing"], &["missing"]);
    check(&home, &["run", "x", "--limit", "setps=3"], &["setps", "steps"]);
    check(&home, &["run", "x", "--limit", "steps=many"], &["steps", "many"]);
    check(&home, &["run"], &["PROMPT"]);
    home.file("file.txt", "no folder");
    check(&home, &["run", "x", "--workdir", "file.txt"], &["file.txt"]);
    for (job, words) in [
        ("promt = \"x\"\n", ["job.toml", "promt", "prompt"]),
        ("prompt = 3\n", ["job.toml", "prompt", "1"]),
        ("prompt = \"x\"\ncontext = \"recent\"\n", ["job.toml", "recent", "keep_all"]),
        ("prompt = \"x\"\nmode = \"graph\"\n", ["job.toml", "graph", "mode"]),
        ("prompt = \"x\"\nworkdir = \"/nowhere\"\n", ["job.toml", "/nowhere", "workdir"]),
    ] {
        home.file("job.toml", job);
        check(&home, &["run", "--file", "job.toml"], &words);
    }
    home.file("job.toml", "prompt = \"x\"\n");
    check(&home, &["submit", "job.toml"], &["ukai serve"]);
}

#[test]
fn a_folder_that_cannot_be_read() {
    if nix::unistd::geteuid().is_root() {
        // Root reads everything, so it becomes somebody else for this.
        return as_nobody();
    }
    let (home, _script) = with_lab();
    let locked = home.work().join("locked");
    std::fs::create_dir(&locked).expect("a folder");
    std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("its mode");
    check(&home, &["run", "x", "--workdir", "locked"], &["locked"]);
}

/// A folder in which even root sees nothing: one that is gone when it is looked at.
fn as_nobody() {
    let (home, _script) = with_lab();
    std::os::unix::fs::symlink("loop", home.work().join("loop")).expect("a link");
    check(&home, &["run", "x", "--workdir", "loop"], &["loop"]);
}

#[test]
fn a_state_directory_in_use() {
    let (home, _script) = with_lab();
    let server = home.serve();
    let output = home.ukai(&["serve"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(&server.child.id().to_string()), "{stderr}");
    assert!(stderr.contains("in use"), "{stderr}");
}

#[test]
fn a_policy_that_does_not_load_denies_everything() {
    let script = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Read\", args = { file_path = \"a.txt\" } }]\n\
                  [[rule]]\nreply.text = \"denied, then\"\n";
    let (home, _script) = Home::with_script(script);
    home.file("a.txt", "text");
    for (policy, place) in [("rules: [", "line"), ("version: 1\nrulez: {}\n", "rulez"), ("version: 2\n", "version")] {
        home.file("policy.yaml", policy);
        let output = home.ukai(&["run", "x", "--policy", "policy.yaml", "--output", "json"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(place) && stderr.contains("policy.yaml"), "{policy:?}: {stderr}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!(result["denied"][0]["source"], "policy_error", "{result}");
    }
    let output = home.ukai(&["run", "x", "--policy", "missing.yaml", "--output", "json"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(result["denied"][0]["source"], "policy_error", "a policy that is named and missing: {result}");
}
