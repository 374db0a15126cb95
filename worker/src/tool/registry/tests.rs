//! What is offered, what it takes, and how it may be run.

use super::*;

fn object(text: &str) -> Json {
    Json(serde_json::from_str(text).expect("test data"))
}

#[test]
fn definitions_are_sorted_and_the_same_each_time() {
    let text = || format!("{:?}", definitions(|_| false));
    assert_eq!(text(), text());
    let names: Vec<String> = definitions(|_| false).into_iter().map(|definition| definition.name).collect();
    assert_eq!(names, ["Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "Read", "Write"]);
    assert_eq!(definitions(|name| name == "Grep").len(), 7);
}

#[test]
fn the_schema_names_the_keys_that_hooks_expect() {
    for (tool, keys) in [
        ("Bash", &["command", "description", "run_in_background", "timeout"][..]),
        ("BashOutput", &["bash_id", "filter"]),
        ("Edit", &["file_path", "new_string", "old_string", "replace_all"]),
        ("Glob", &["path", "pattern"]),
        ("Grep", &["-i", "glob", "multiline", "output_mode", "path", "pattern"]),
        ("KillShell", &["shell_id"]),
        ("Read", &["file_path", "limit", "offset"]),
        ("Write", &["content", "file_path"]),
    ] {
        let schema = define(tool).schema;
        let mut found: Vec<String> = schema["properties"].as_object().expect("an object").keys().cloned().collect();
        found.sort();
        assert_eq!(found, keys, "{tool}");
    }
}

#[test]
fn a_faulty_input_is_named_and_never_guessed() {
    for (tool, input, fault) in [
        ("Read", r#"{}"#, Some("`file_path` is missing")),
        ("Read", r#"{"file_path":3}"#, Some("must be a string, not a number")),
        ("Read", r#"{"file_path":"a\u0000"}"#, Some("NUL")),
        ("Read", r#"{"file_path":""}"#, Some("empty")),
        ("Read", r#"{"file_path":"a","offset":0}"#, Some("from 1, not 0")),
        ("Read", r#"{"file_path":"a","offset":"1"}"#, Some("from 1, not \"1\"")),
        ("Read", r#"{"file_path":"a","limit":1.5}"#, Some("from 1, not 1.5")),
        ("Read", r#"{"file_path":"a","path":"b"}"#, Some("there is no `path`")),
        ("Read", r#"{"file_path":"a","offset":1,"limit":5}"#, None),
        ("Bash", r#"{"command":"ls","timeout":99999999}"#, Some("from 1 to 600000, not 99999999")),
        ("Bash", r#"{"command":"ls","timeout":0,"run_in_background":true}"#, Some("from 1 to 600000, not 0")),
        ("Bash", r#"{"command":"ls","timeout":600000}"#, None),
        ("Grep", r#"{"pattern":"x","output_mode":"lines"}"#, Some("one of content")),
        ("Grep", r#"{"pattern":"x","-i":"yes"}"#, Some("true or false")),
        ("Grep", r#"{"pattern":"x","-i":true,"multiline":false,"glob":"*","path":".","output_mode":"count"}"#, None),
        ("Glob", r#"{"path":"x"}"#, Some("`pattern` is missing")),
        ("Write", r#"{"file_path":"a"}"#, Some("`content` is missing")),
        ("Write", r#"{"file_path":"a","content":"a\u0000b"}"#, Some("NUL")),
        ("Write", r#"{"file_path":"","content":""}"#, Some("`file_path` is empty")),
        ("Write", r#"{"file_path":"a","content":""}"#, None),
        ("Edit", r#"{"file_path":"a","old_string":"x"}"#, Some("`new_string` is missing")),
        ("Edit", r#"{"file_path":"a","old_string":"","new_string":"x","replace_all":1}"#, Some("true or false")),
        ("Edit", r#"{"file_path":"a","old_string":"","new_string":"","replace_all":true}"#, None),
    ] {
        let found = validate(tool, &object(input));
        match fault {
            None => assert_eq!(found, Ok(()), "{input}"),
            Some(fault) => assert!(found.as_ref().is_err_and(|why| why.contains(fault)), "{input}: {found:?}"),
        }
    }
}

#[test]
fn an_unknown_name_finds_its_neighbours() {
    assert_eq!(nearest("read_file").first(), Some(&"Read"));
    assert_eq!(nearest("grep").first(), Some(&"Grep"));
    assert_eq!(nearest("globb").first(), Some(&"Glob"));
}

#[test]
fn only_what_is_built_has_flags() {
    let input = Json::default();
    assert!(flags("Read", &input).is_some_and(|flags| flags.read_only && flags.concurrency_safe));
    assert!(flags("Bash", &input).is_some_and(|flags| !flags.read_only && flags.cancels_siblings));
    assert_eq!(flags("Agent", &input), None);
    let write = Flags { idempotent: true, destructive: true, ..Flags::default() };
    assert_eq!((flags("Write", &input), flags("Edit", &input)), (Some(write), Some(Flags::default())));
    assert!(is_known("Bash") && !is_known("Foo"));
}

fn declared(name: &str) -> Declared {
    Declared {
        name: name.to_owned(),
        description: format!("Does {name}."),
        run: Run::Command(vec!["true".to_owned()]),
        timeout_ms: 1_000,
        schema: object(r#"{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}"#),
        flags: DeclaredFlags { idempotent: true, ..DeclaredFlags::default() },
        file: "/c/x.toml".into(),
    }
}

#[test]
fn what_is_declared_comes_after_what_is_built_in_and_never_stands_for_it() {
    let registry = Registry::new(&[declared("undo"), declared("deploy"), declared("Read"), declared("deploy")]);
    let names = |hidden: &str| {
        let shown = registry.definitions(|name| name == hidden).into_iter();
        shown.map(|definition| definition.name).collect::<Vec<_>>()
    };
    let built = ["Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "Read", "Write"];
    assert_eq!(names("undo"), [&built[..], &["deploy"]].concat());
    assert_eq!(names("Bash").last().map(String::as_str), Some("undo"));
    assert_eq!(format!("{:?}", registry.definitions(|_| false)), format!("{:?}", registry.definitions(|_| false)));
    let flags = registry.flags("deploy", &Json::default()).expect("it is there");
    assert!(flags.idempotent && flags.cancels_siblings && !flags.read_only);
    assert!(registry.flags("Read", &Json::default()).is_some_and(|flags| flags.read_only), "ours");
    assert_eq!(registry.validate("deploy", &object(r#"{"to":"x"}"#)), Ok(()));
    assert!(registry.validate("deploy", &object("{}")).is_err_and(|why| why.contains("`to` is missing")));
    assert_eq!(registry.nearest("deplyo").first(), Some(&"deploy"));
    assert!(registry.is_known("undo") && registry.is_known("Agent") && !registry.is_known("redo"));
    assert!(registry.starts_commands(|name| name == "Bash"));
    assert!(!registry.starts_commands(|name| matches!(name, "Bash" | "deploy" | "undo")));
}

#[test]
fn nobody_declares_a_tool_of_ours() {
    let mut ours = [&BUILT[..], &NAMED].concat();
    ours.sort_unstable();
    assert_eq!(ours, ukai_protocol::declared::OWN);
}
