//! Policies that load, that do not, and that were only found.

use std::fs;

use super::*;

fn parsed(text: &str) -> Result<Policy, String> {
    let traced = parse(text, Path::new("/p/tool_policy.yaml"), Path::new("/p"));
    traced.map(|traced| traced.policy).map_err(|fault| fault.to_string())
}

#[test]
fn the_shipped_policy_loads_and_denies_what_the_contract_says() {
    let policy = shipped();
    assert_eq!(policy.broken, None);
    let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&policy.allow), ["Read", "Glob", "Grep", "Note"]);
    assert_eq!(policy.deny.len(), 16);
    for rule in ["Read(.env*)", "Read(~/.ssh/**)", "Edit(.git/**)", "Bash(rm -rf:*)", "Edit(tool_policy.yaml)"] {
        assert!(texts(&policy.deny).contains(&rule.to_owned()), "{rule}");
    }
    assert!(policy.ask.is_empty() && policy.provider_priority.is_empty());
    assert_eq!(policy.ask_timeout_ms, 600_000);
}

#[test]
fn rules_are_strings_or_carry_examples() {
    let text = "version: 1\nsandbox: {network: off, read: [/data]}\nrules:\n  allow:\n    - Read\n    - {rule: \"Bash(git log:*)\", match: [\"git log -3\"], not_match: [\"git logx\"]}\n";
    let policy = parsed(text).expect("it loads");
    assert_eq!(policy.allow[0], Rule::new("Read", "/p"));
    assert_eq!(policy.allow[1].text, "Bash(git log:*)");
    assert_eq!(policy.allow[1].match_examples, ["git log -3"]);
    assert_eq!(policy.allow[1].not_match_examples, ["git logx"]);
}

#[test]
fn what_does_not_load_says_where() {
    let cases: &[(&str, &[&str])] = &[
        ("version: 2\n", &["line 1", "`version`", "2 is not known"]),
        ("rules: {}\n", &["`version`", "it is missing", "write `version: 1`"]),
        ("", &["tool_policy.yaml", "nothing in it", "write `version: 1`"]),
        ("# only this\n\n", &["nothing in it"]),
        ("version: 1\nsandbox: {write: [/etc]}\n", &["line 2", "`sandbox`", "`/etc`"]),
        ("version: 1\nrule:\n  deny: []\n", &["line 2", "`rule`", "did you mean `rules`"]),
        ("version: 1\nrules:\n  alow: [Read]\n", &["line 3", "`alow`", "did you mean `allow`"]),
        ("version: 1\nrules:\n  deny:\n    - {rulle: x}\n", &["line 4", "`rulle`", "did you mean `rule`"]),
        ("version: 1\nrules:\n  deny: Read\n", &["line 3", "`deny`"]),
        ("version: 1\nask_timeout: soon\n", &["line 2", "`ask_timeout`", "no duration"]),
        (
            "version: 1\nsandbox: maybe\n",
            &["line 2", "`sandbox`", "neither on nor off", "sandbox: {network: loopback}"],
        ),
        ("version: 1\nversion: 1\n", &["line 2", "duplicate"]),
        ("version: 1\nrules: [\n", &["tool_policy.yaml", "line"]),
        ("version: 1\nrules:\n  deny: [\"\"]\n", &["line 3", "`` is no rule"]),
    ];
    for (text, parts) in cases {
        let error = parsed(text).expect_err(text);
        for part in *parts {
            assert!(error.contains(part), "{text:?}\n{error}\nlacks {part}");
        }
    }
}

#[test]
fn a_named_file_that_is_missing_denies_everything() {
    let mut notes = Vec::new();
    let Traced { policy, .. } = load(Some(Path::new("/nowhere/policy.yaml")), &mut notes);
    assert!(policy.broken.as_deref().is_some_and(|why| why.contains("/nowhere/policy.yaml")), "{policy:?}");
    assert!(policy.allow.is_empty());
    assert!(notes[0].contains("every tool call is denied"), "{notes:?}");
}

#[test]
fn a_found_file_only_narrows() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "version: 1\nrules: {allow: [Bash], deny: [\"Read(/secret/**)\"], ask: [Grep]}\n";
    fs::write(folder.path().join("tool_policy.yaml"), text).expect("written");
    let mut traced = traced_shipped();
    let mut notes = Vec::new();
    narrow(&mut traced, &[folder.path(), folder.path()], &mut notes);
    let Traced { policy, origins, .. } = traced;
    let found = folder.path().join("tool_policy.yaml").display().to_string();
    assert_eq!(origins.deny.last(), Some(&Origin { said_by: found, line: Some(2) }));
    assert_eq!((origins.ask.len(), origins.deny.len()), (policy.ask.len(), policy.deny.len()));
    assert_eq!(policy.allow, shipped().allow);
    assert_eq!(policy.ask.len(), 1);
    assert_eq!(policy.deny.len(), shipped().deny.len() + 1);
    let real = folder.path().canonicalize().expect("it exists");
    assert_eq!(policy.deny.last().expect("a rule").base, real);
    assert!(notes.len() == 1 && notes[0].contains("allow rules"), "{notes:?}");
}

#[test]
fn a_found_file_that_is_broken_denies_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tool_policy.yaml"), "version: [").expect("written");
    let mut traced = traced_shipped();
    let mut notes = Vec::new();
    narrow(&mut traced, &[folder.path()], &mut notes);
    assert!(traced.policy.broken.is_some());
    assert_eq!(notes.len(), 1);
}

#[test]
fn the_policy_in_force_is_not_also_a_found_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tool_policy.yaml");
    fs::write(&path, "version: 1\nrules: {allow: [Read], deny: [Grep]}\n").expect("written");
    let mut notes = Vec::new();
    let mut traced = load(Some(&path), &mut notes);
    narrow(&mut traced, &[folder.path()], &mut notes);
    assert_eq!(traced.policy.deny.len(), 1);
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn each_rule_knows_its_line() {
    let text = "version: 1\nrules:\n  allow: [Read,\n    Glob]\n  deny:\n    - \"Read(.env)\"\n    - {rule: Grep}\n    - rule: Glob\n      match: [x]\n";
    let origins = parse(text, Path::new("/p/a.yaml"), Path::new("/p")).expect("it loads").origins;
    let lines = |of: &[Origin]| of.iter().filter_map(|origin| origin.line).collect::<Vec<_>>();
    assert_eq!((lines(&origins.allow), lines(&origins.deny)), (vec![3, 4], vec![6, 7, 8]));
    let shown = origins.of(ukai_protocol::policy::RuleList::Deny, 1).map(Origin::to_string);
    assert_eq!(shown.as_deref(), Some("/p/a.yaml, line 7"));
}
