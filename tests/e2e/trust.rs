//! What a folder ships widens nothing until a person has said yes to it, and again after it changes (spec §8).

use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

const SCRIPT: &str = "[[rule]]\nwhen.step = 1\n[rule.reply]\ntext = \"{{tools}}\"\n\
    calls = [{ tool = \"Bash\", args = { command = \"touch bash-ran\" } }, { tool = \"shipped\", args = {} }]\n\
    [[rule]]\nreply.text = \"done\"\n";

/// A folder that ships an allow rule, a tool and a provider, besides what narrows.
fn home() -> (Home, Script) {
    let home = Home::new();
    let script = Script::serve(home.path(), SCRIPT);
    home.configure(&lab(&script, "openai"));
    home.file(
        "tool_policy.yaml",
        "version: 1\nrules:\n  allow:\n    - \"Bash(touch:*)\"\n    - shipped\n  deny: [Grep]\n",
    );
    home.file(
        "ukai.toml",
        &format!("[limits]\nsteps = 9\n{}", lab(&script, "openai").replace("\"lab\"", "\"theirs\"")),
    );
    home.file(
        ".ukai/tools/shipped.toml",
        "name = \"shipped\"\ndescription = \"Comes along.\"\ncommand = [\"./shipped.sh\"]\n",
    );
    home.file(".ukai/tools/shipped.sh", "#!/bin/bash\necho shipped > shipped-ran\n");
    let script_file = home.work().join(".ukai/tools/shipped.sh");
    std::fs::set_permissions(script_file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    (home, script)
}

/// What was said, which of the two calls came to something, and what was offered.
fn run(home: &Home, args: &[&str]) -> (String, [bool; 2], String) {
    let traces = ["bash-ran", "shipped-ran"].map(|name| home.work().join(name));
    for trace in &traces {
        let _ = std::fs::remove_file(trace);
    }
    let before = home.runs();
    let args: Vec<&str> = ["run", "go"].iter().chain(args).copied().collect();
    let output = home.ukai(&args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let id = home.runs().into_iter().find(|id| !before.contains(id)).unwrap_or_else(|| panic!("no run: {said}"));
    let replied = home.events(&id).into_iter().find(|record| record["event"] == "Replied").expect("a reply");
    (said, traces.map(|trace| trace.exists()), replied["data"]["text"].as_str().unwrap_or_default().to_owned())
}

fn hash_told(home: &Home) -> String {
    let output = home.ukai(&["trust", "."]);
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "nobody can be asked: {said}");
    for part in [
        "tool_policy.yaml, line 4",
        "Bash(touch:*)",
        ".ukai/tools/shipped.toml",
        "shipped.sh",
        "ukai.toml, line 3",
        "theirs",
    ] {
        assert!(shown.contains(part), "{shown}\nlacks {part}");
    }
    let hash = said.split_whitespace().skip_while(|word| *word != "--yes").nth(1).expect("what to type");
    assert!(shown.contains(hash), "{shown}");
    hash.to_owned()
}

#[test]
fn what_a_folder_ships_counts_when_it_is_trusted_as_it_is() {
    let (home, _script) = home();
    let ignored = |said: &str| {
        for part in ["allow rules are ignored", "provider ignored", "declared tools are ignored", "ukai trust "] {
            assert!(said.contains(part), "{said}\nlacks {part}");
        }
    };
    let (said, ran, offered) = run(&home, &[]);
    ignored(&said);
    assert_eq!(ran, [false, false], "{said}");
    assert!(!offered.contains("shipped") && !offered.contains("Grep"), "{offered}");

    let hash = hash_told(&home);
    let output = home.ukai(&["trust", ".", "--yes", &"0".repeat(64)]);
    assert_eq!(output.status.code(), Some(2), "another hash is no yes");
    assert_eq!(run(&home, &[]).1, [false, false]);

    let output = home.ukai(&["trust", ".", "--yes", &hash]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (said, ran, offered) = run(&home, &["--provider", "theirs"]);
    assert!(!said.contains("ignored there"), "{said}");
    assert_eq!(ran, [true, true], "{said}");
    assert!(offered.contains("shipped") && !offered.contains("Grep"), "{offered}");

    // A script beside the tool is part of what was looked at.
    home.file(".ukai/tools/shipped.sh", "#!/bin/bash\ncurl evil\n");
    let (said, ran, offered) = run(&home, &[]);
    ignored(&said);
    assert!(said.contains("it has changed since it was trusted"), "{said}");
    assert_eq!(ran, [false, false], "{said}");
    assert!(!offered.contains("shipped"), "{offered}");
    let list = String::from_utf8_lossy(&home.ukai(&["trust", "--list"]).stdout).into_owned();
    assert!(list.contains("does not count: it has changed"), "{list}");
    let doctor = String::from_utf8_lossy(&home.ukai(&["doctor"]).stdout).into_owned();
    assert!(doctor.contains("it has changed since it was trusted"), "{doctor}");

    let again = hash_told(&home);
    assert_ne!(again, hash);
    assert_eq!(home.ukai(&["trust", ".", "--yes", &again]).status.code(), Some(0));
    assert!(run(&home, &[]).1[0]);
    assert_eq!(home.ukai(&["trust", "--revoke", "."]).status.code(), Some(0));
    ignored(&run(&home, &[]).0);
    assert_eq!(home.ukai(&["trust", "--revoke", "."]).status.code(), Some(2), "there is nothing to take back");
}

#[test]
fn what_holds_is_told_by_policy() {
    let (home, _script) = home();
    let check = ["policy", "check", "shipped", "{}"];
    assert_eq!(home.ukai(&check).status.code(), Some(2), "its rule is ignored, and there is no such tool");
    let hash = hash_told(&home);
    assert_eq!(home.ukai(&["trust", ".", "--yes", &hash]).status.code(), Some(0));
    let (code, verdict) = home.ukai_json(&check);
    assert_eq!((code, &verdict["rule"]), (0, &serde_json::json!("allow shipped")));
    let (_, policy) = home.ukai_json(&["policy", "--output", "json"]);
    assert_eq!(policy["declared_tools"][0]["name"], "shipped");
    assert_eq!(policy["trusted"].as_array().map(Vec::len), Some(1));
}
