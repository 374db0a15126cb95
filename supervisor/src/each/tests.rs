//! What a line makes of a job file, and which lines make none.

use std::collections::BTreeMap;

use super::*;
use crate::config::fault::Format;
use crate::job_file::{NAME_CHARS_MAX, Written};

fn template(text: &str) -> JobFile {
    job_file::parse(text, Path::new("/j/fix.toml"), Format::Toml, Written::AsTemplate).expect("a template")
}

fn filled(text: &str, fields: &[(&str, &str)]) -> Result<JobFile, String> {
    let fields: BTreeMap<_, _> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let item = Item { number: 7, fields };
    let filling = Filling { list: Path::new("/l/a.csv"), item: &item, job_file: Path::new("fix.toml") };
    filling.job(&template(text)).map_err(|fault| fault.to_string())
}

#[test]
fn four_keys_are_filled_and_the_others_stand() {
    let text = "prompt = \"fix {{bug}}\"\nname = \"{{bug}}-{{who}}\"\nworkdir = \"../{{who}}/src\"\nenv = [\"{{bug}}=1\", \
                \"WHO={{who}}\", \"CI\"]\nprovider = \"{{who}}\"\nmodel = \"{{bug}}\"\npolicy = \"{{who}}.yaml\"\n";
    let job = filled(text, &[("bug", "B12"), ("who", "{{bug}}"), ("more", "x")]).expect("it is filled");
    let expected = JobFile {
        prompt: Some("fix B12".to_owned()),
        name: Some("B12-{{bug}}".to_owned()),
        workdir: Some("../{{bug}}/src".into()),
        env: ["B12=1", "WHO={{bug}}", "CI"].map(str::to_owned).into(),
        ..template(text)
    };
    assert_eq!(job, expected);
    assert_eq!(expected.provider.as_deref(), Some("{{who}}"));
}

#[test]
fn a_job_tells_which_fields_it_asks_for() {
    let job = template(
        "prompt = \"{{a}} {{ b }}\"\nname = \"{{a}}\"\nworkdir = \"{{c}}\"\nenv = [\"X={{d}}\"]\nmodel = \"{{e}}\"\n",
    );
    assert_eq!(fields_used(&job), BTreeSet::from(["a", "b", "c", "d"]));
    assert_eq!(fields_used(&template("prompt = \"{{}} {a}\"\n")), BTreeSet::new());
}

#[test]
fn each_bad_line_is_named() {
    let many: Vec<_> = (0..30).map(|number| format!("f{number:02}")).collect();
    let many: Vec<_> = many.iter().map(|name| (&**name, "")).collect();
    let long = "x".repeat(PROMPT_BYTES_MAX);
    type Fields<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(&str, Fields<'_>, &[&str])] = &[
        (
            "prompt = \"{{nmae}}\"\n",
            &[("name", "sk-1"), ("b", "")],
            &["no field {{nmae}}, which `prompt` of fix.toml asks for", "did you mean {{name}}?"],
        ),
        ("prompt = \"{{zzz}}\"\n", &[("b", "sk-1"), ("a", "")], &["no field {{zzz}}", "its fields are: a, b"]),
        ("prompt = \"{{zzz}}\"\n", &many, &["its fields are: f00, f01", "f19, …"]),
        ("prompt = \"p\"\nname = \"{{x}}\"\n", &[("b", "")], &["no field {{x}}, which `name` of fix.toml asks for"]),
        ("prompt = \"p\"\nworkdir = \"{{x}}\"\n", &[("b", "")], &["which `workdir` of fix.toml asks for"]),
        ("prompt = \"p\"\nenv = [\"A={{x}}\"]\n", &[("b", "")], &["which `env` of fix.toml asks for"]),
        ("prompt = \"{{a}}\"\n", &[("a", " \n")], &["filled into `prompt` of fix.toml: it is empty"]),
        ("prompt = \"{{a}}.\"\n", &[("a", &long)], &["`prompt`", "it is longer than 1048576 bytes"]),
        ("prompt = \"p\"\nname = \"{{a}}\"\n", &[("a", " -/- ")], &["`name`", "1 to 64 characters"]),
        ("prompt = \"p\"\nname = \"{{a}}\"\n", &[("a", "")], &["`name`", "1 to 64 characters"]),
        ("prompt = \"p\"\nname = \"{{a}}\"\n", &[("a", "/j-abcdefgh")], &["`name`", "looks like the id"]),
        ("prompt = \"p\"\nname = \"{{a}}\"\n", &[("a", "b-abcdefgh")], &["`name`", "looks like the id"]),
        ("prompt = \"p\"\nworkdir = \"{{a}}\"\n", &[("a", " ")], &["`workdir`", "it is empty"]),
        ("prompt = \"p\"\nworkdir = \"{{a}}\"\n", &[("a", &long)], &["`workdir`", "longer than 4096 bytes"]),
        ("prompt = \"p\"\nenv = [\"A={{a}}\", \"{{b}}=1\"]\n", &[("a", "sk-1"), ("b", "x y")], &["`env`", "entry 2"]),
        ("prompt = \"p\"\nenv = [\"A=\", \"{{a}}=1\"]\n", &[("a", "A")], &["`env`", "A stands in it twice"]),
        ("prompt = \"p\"\nenv = [\"A={{a}}\"]\n", &[("a", "sk-1\0")], &["`env`", "NUL"]),
    ];
    for (text, fields, parts) in cases {
        let error = filled(text, fields).expect_err(text);
        assert!(error.starts_with("/l/a.csv, line 7: ") && !error.contains("sk-"), "{error}");
        for part in *parts {
            assert!(error.contains(part), "{error}\nlacks {part}");
        }
    }
}

#[test]
fn a_field_that_is_missing_is_told_in_one_short_line() {
    let error = filled(&format!("prompt = \"{{{{{}}}}}\"\n", "n".repeat(100_000)), &[("n", "")]).expect_err("no field");
    assert!(error.len() < 400, "{error}");
}

#[test]
fn a_value_makes_a_good_name() {
    for (value, name) in [
        ("a b", "a b"),
        (" \t a b\n", "a b"),
        ("src/main.rs", "src-main.rs"),
        ("/etc/passwd", "etc-passwd"),
        ("--help", "help"),
        ("- - x", "x"),
        ("a\nb\u{1b}[31m", "a-b-[31m"),
        ("鵜飼🐦", "鵜飼🐦"),
        ("j-abcdefgh-1", "j-abcdefgh-1"),
    ] {
        assert_eq!(name::made_of(value).as_deref(), Ok(name), "{value:?}");
    }
    let (long, cut) = ("🐦".repeat(NAME_CHARS_MAX + 9), "🐦".repeat(NAME_CHARS_MAX));
    assert_eq!(name::made_of(&long), Ok(cut));
    let blank_at_the_cut = format!("{} b", "a".repeat(NAME_CHARS_MAX - 1));
    assert_eq!(name::made_of(&blank_at_the_cut), Ok("a".repeat(NAME_CHARS_MAX - 1)));
}

#[test]
fn a_job_without_a_name_is_called_after_its_file_and_line() {
    let long = "s".repeat(NAME_CHARS_MAX);
    let cut = format!("{}-10000", &long[6..]);
    for (stem, number, name) in
        [("fix", 7, "fix-7"), ("-x/y", 1, "x-y-1"), ("", 2, "job-2"), ("b-abcdefgh", 3, "job-3"), (&long, 10_000, &cut)]
    {
        assert_eq!(name::numbered(stem, number), name);
        assert_eq!(job_file::check_name(&name::numbered(stem, number)), Ok(()));
    }
}
