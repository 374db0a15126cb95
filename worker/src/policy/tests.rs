//! Calls and what is answered of them; policies and all that is wrong with them.

use ukai_protocol::json::Json;
use ukai_protocol::one_shot::{Answer, Call, Decision};
use ukai_protocol::policy::{Rule, RuleList};

use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| Rule::new(*text, "/p")).collect()
}

fn a_policy() -> Policy {
    Policy {
        deny: rules(&["Bash(rm -rf:*)", "Read(.env*)", "mcp__evil"]),
        ask: rules(&["Read(*.sql)", "Grep", "Bash(git push:*)", "Read(*.key)"]),
        allow: rules(&["Read", "Glob", "Grep", "Note", "my_tool"]),
        ..Policy::default()
    }
}

fn asked(policy: Policy, calls: &[(&str, &str)]) -> PolicyAnswer {
    let temp = tempfile::tempdir().expect("a folder");
    let call = |(tool, input): &(&str, &str)| Call {
        tool: (*tool).to_owned(),
        input: Json(serde_json::from_str(input).expect("test data")),
    };
    let request = PolicyRequest {
        policy,
        workdir: temp.path().to_owned(),
        outputs: "/state/runs/JOB/outputs".into(),
        tools: Vec::new(),
        calls: calls.iter().map(call).collect(),
    };
    answer(&request, Path::new("/nohome"))
}

#[test]
fn a_call_is_answered_with_who_decided_and_why() {
    for (tool, input, decision, source, rule, why) in [
        ("Read", r#"{"file_path":"a"}"#, Decision::Allow, "rule", Some("allow Read"), "by the rule `allow Read`"),
        ("Read", r#"{"file_path":".env"}"#, Decision::Deny, "rule", Some("deny Read(.env*)"), "forbids"),
        ("Read", r#"{"file_path":"a.sql"}"#, Decision::Ask, "rule", Some("ask Read(*.sql)"), "a person asked"),
        ("Read", r#"{"file_path":"a.key"}"#, Decision::Ask, "rule", Some("ask Read(*.key)"), "a person asked"),
        ("Grep", r#"{"pattern":"x"}"#, Decision::Ask, "rule", Some("ask Grep"), "a person asked"),
        ("Bash", r#"{"command":"git push origin"}"#, Decision::Ask, "rule", Some("ask Bash(git push:*)"), "asked"),
        ("Bash", r#"{"command":"make"}"#, Decision::Ask, "default", None, "no rule allows"),
        ("Bash", r#"{"command":"rm -rf x"}"#, Decision::Deny, "rule", Some("deny Bash(rm -rf:*)"), "forbids"),
        ("Write", r#"{"file_path":"a","content":""}"#, Decision::Ask, "default", None, "no rule allows"),
        ("Read", r#"{"file_path":"/etc/hosts"}"#, Decision::Deny, "default", None, "outside"),
        ("mcp__evil__x", r#"{"a":1}"#, Decision::Deny, "rule", Some("deny mcp__evil"), "forbids"),
        ("mcp__files__x", "{}", Decision::Ask, "default", None, "no rule allows"),
        ("my_tool", "{}", Decision::Allow, "rule", Some("allow my_tool"), "by the rule"),
    ] {
        let found = asked(a_policy(), &[(tool, input)]).verdicts.remove(0);
        let Answer::Judged(verdict) = found else { panic!("{tool} {input}: {found:?}") };
        assert_eq!(
            (verdict.decision, &*verdict.source, verdict.rule.as_deref()),
            (decision, source, rule),
            "{tool} {input}: {}",
            verdict.why
        );
        assert!(verdict.why.contains(why), "{tool} {input}: {}", verdict.why);
        assert!(!verdict.why.contains("no one to ask"), "{tool} {input}: {}", verdict.why);
    }
}

#[test]
fn what_is_no_call_is_not_judged() {
    for (tool, input, part) in [
        ("Raed", "{}", "Read"),
        ("bash", r#"{"command":"ls"}"#, "Bash"),
        ("Read", "{}", "`file_path` is missing"),
        ("Bash", r#"{"command":"ls","cwd":"/"}"#, "there is no `cwd`"),
    ] {
        let found = asked(a_policy(), &[(tool, input)]).verdicts.remove(0);
        let Answer::NoCall { why } = found else { panic!("{tool} {input}: {found:?}") };
        assert!(why.contains(part), "{tool} {input}: {why}");
    }
}

#[test]
fn a_broken_policy_denies_and_names_all_that_is_wrong() {
    let example = |text: &str, is: &[&str], is_not: &[&str]| Rule {
        match_examples: is.iter().map(|text| (*text).to_owned()).collect(),
        not_match_examples: is_not.iter().map(|text| (*text).to_owned()).collect(),
        ..Rule::new(text, "/p")
    };
    let policy = Policy {
        deny: rules(&["Bash(sudo:*)", "Raed(.env*)"]),
        allow: vec![
            example("Read(src/**)", &["src/a.rs", "README.md"], &["src/b.rs", "x"]),
            example("Glob(a)", &["a"], &["b"]),
        ],
        ..Policy::default()
    };
    let found = asked(policy, &[("Read", r#"{"file_path":"a"}"#)]);
    assert!(found.broken.as_deref().is_some_and(|why| why.contains("Raed")), "{:?}", found.broken);
    let faults: Vec<_> = found.faults.iter().map(|fault| (fault.list, fault.at, &*fault.why)).collect();
    for (fault, (list, at, part)) in faults.iter().zip([
        (RuleList::Deny, 1, "there is no tool named `Raed`"),
        (RuleList::Allow, 0, "does not match the example `README.md`"),
        (RuleList::Allow, 0, "matches the example `src/b.rs`, and should not"),
    ]) {
        assert!(fault.0 == list && fault.1 == at && fault.2.contains(part), "{fault:?}: {part}");
        assert!(!fault.2.starts_with("rules."), "{fault:?}");
    }
    assert_eq!(faults.len(), 3, "{faults:?}");
    let Answer::Judged(verdict) = &found.verdicts[0] else { panic!("{found:?}") };
    assert_eq!((verdict.decision, &*verdict.source), (Decision::Deny, "policy_error"));
}

#[test]
fn a_sound_policy_has_no_faults() {
    let found = asked(a_policy(), &[]);
    assert_eq!((found.broken, found.faults.len()), (None, 0));
}
