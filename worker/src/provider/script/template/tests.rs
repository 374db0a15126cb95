//! Holes: how they are filled, and how those that cannot be are named.

use super::*;

struct Fixed;

impl Names for Fixed {
    fn get(&self, name: &str) -> Option<String> {
        Some(
            match name {
                "prompt" => "count the TODOs in src",
                "step" => "3",
                "now" => "784111777",
                "result.Grep" => "a.rs:2\nb.rs:40\n\ntotal: 42 in 2 files\n",
                "result.Read" => r#"{"a":{"b":[1,"x"]}}"#,
                _ => return None,
            }
            .to_owned(),
        )
    }
}

fn check(source: &str, expected: Result<&str, &str>) {
    let got = Template::try_from(source.to_owned()).and_then(|t| t.render(&Fixed).map_err(|why| why.to_string()));
    match expected {
        Ok(text) => assert_eq!(got.as_deref(), Ok(text), "{source}"),
        Err(part) => {
            let why = got.expect_err(source);
            assert!(why.contains(part), "{source}: {why}");
        }
    }
}

#[test]
fn holes_are_filled_from_the_request() {
    for (source, text) in [
        ("", ""),
        ("plain } text {", "plain } text {"),
        ("{{prompt}}!", "count the TODOs in src!"),
        ("{{ step }}/{{step}}", "3/3"),
        (r#"{{result.Grep | match: "total: (\d+)"}}"#, "42"),
        (r"{{result.Grep | match: 'to\w+'}}", "total"),
        (r#"{{result.Grep | match: "\|"|default: "no | bar"}}"#, "no | bar"),
        (r#"{{result.Grep | match: "^x(\d+)|total: (\d+)"}}"#, "42"),
        (r#"{{result.Grep | matches: "(?m)^(\w+\.rs):"}}"#, "a.rs\nb.rs"),
        (r#"{{result.Grep | sum: "(?m)^\S+:(\d+)$"}}"#, "42"),
        ("{{result.Grep | count}}", "3"),
        (r#"{{result.Grep | count: "\.rs"}}"#, "2"),
        ("{{result.Grep | line: 2}}", "b.rs:40"),
        ("{{result.Grep | line: -1}}", "total: 42 in 2 files"),
        ("{{result.Grep | lines: 2}}", "a.rs:2\nb.rs:40"),
        ("{{prompt | chars: 5}}", "count"),
        (r#"{{result.Read | pointer: "/a/b/1"}}"#, "x"),
        ("{{prompt | quote}}", "\"count the TODOs in src\""),
        (r#"{{result.Bash | default: "none"}}"#, "none"),
        (r#"{{"{{"}}x{{'}}'}}"#, "{{x}}"),
        ("{{now | http_date}}", "Sun, 06 Nov 1994 08:49:37 GMT"),
        (r#"{{now | plus: "23s" | rfc3339}}"#, "1994-11-06T08:50:00Z"),
    ] {
        check(source, Ok(text));
    }
}

#[test]
fn what_cannot_be_filled_names_its_hole_and_why() {
    for (source, part) in [
        ("{{result.Bash}}", "{{result.Bash}}: the request holds no result.Bash"),
        (r#"{{prompt | match: "\d+"}}"#, r"no match of \d+ in 'count the TODOs in src'"),
        ("{{result.Grep | line: 9}}", "no line 9 among 3"),
        ("{{prompt | number}}", "is no number"),
        (r#"{{result.Read | pointer: "/c"}}"#, "nothing at '/c'"),
    ] {
        check(source, Err(part));
    }
}

#[test]
fn slips_are_found_when_the_script_is_loaded() {
    for (source, part) in [
        ("{{prompt", "never closed"),
        ("{{promt}}", "'promt' is no name"),
        ("{{}}", "'' is no name"),
        ("{{result.}}", "is no name"),
        ("{{prompt | upcase}}", "'upcase' is no filter"),
        (r#"{{prompt | match: "("}}"#, "pattern of 'match'"),
        ("{{prompt | match}}", "needs an argument"),
        ("{{prompt | match: x}}", "must stand in quotes"),
        ("{{prompt | line: 0}}", "count from 1"),
        ("{{prompt | trim: 1}}", "takes no argument"),
        (r#"{{prompt | match: "x}}"#, "never closed"),
    ] {
        let why = Template::try_from(source.to_owned()).expect_err(source);
        assert!(why.contains(part), "{source}: {why}");
    }
}

#[test]
fn an_argument_is_a_number_only_where_the_script_says_so() {
    for (source, value) in [
        ("{{step}}", serde_json::json!("3")),
        ("{{step | number}}", serde_json::json!(3)),
        ("n{{step | number}}", serde_json::json!("n3")),
        ("{{result.Read | json}}", serde_json::json!({"a": {"b": [1, "x"]}})),
    ] {
        let template = Template::try_from(source.to_owned()).expect("test data");
        assert_eq!(template.value(&Fixed), Ok(value), "{source}");
    }
}
