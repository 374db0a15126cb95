//! What a list makes of job files, read from real folders.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;
use crate::cli::job::tests::{World, world};
use crate::cli::job::{Flags, from_list};

/// Ten thousand lines take well under a second; reading a policy for each would take minutes.
const FULL_LIST_MAX: Duration = Duration::from_secs(20);

impl World {
    fn list(&mut self, files: &[&str], each: &str, flags: &Flags) -> Result<Vec<(JobSpec, Line)>, Failure> {
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        from_list(&self.context, &files, Path::new(each), flags, &mut self.notes)
    }

    fn folders(&self, names: &[&str]) {
        for name in names {
            std::fs::create_dir_all(self.folder.path().join(name)).expect("made");
        }
    }
}

fn keys(specs: &[(JobSpec, Line)]) -> BTreeSet<&str> {
    specs.iter().map(|(_, line)| &*line.key).collect()
}

#[test]
fn each_line_is_a_job_of_each_file() {
    let mut world = world("");
    world.folders(&["jobs/x", "jobs/y"]);
    world.write(
        "jobs/fix.toml",
        "prompt = \"fix {{bug}}\"\nname = \"{{bug}}\"\nworkdir = \"{{where}}\"\nenv = [\"BUG={{bug}}\", \"CI\"]\n",
    );
    world.write("jobs/test.yaml", "prompt: 'test {{bug}}'\nmode: once\n");
    world.write("l.csv", "bug,where\n\nB/1,x\n\"B{{where}}\",y\n");
    let specs = world.list(&["jobs/fix.toml", "jobs/test.yaml"], "l.csv", &Flags::default()).expect("a batch");
    let root = world.context.current_folder.clone();
    let shown: Vec<_> =
        specs.iter().map(|(spec, line)| (&*spec.name, &*spec.prompt, &*spec.workdir, line.number)).collect();
    assert_eq!(
        shown,
        [
            ("B-1", "fix B/1", &*root.join("jobs/x"), 3),
            ("B{{where}}", "fix B{{where}}", &*root.join("jobs/y"), 4),
            ("test-3", "test B/1", &*root, 3),
            ("test-4", "test B{{where}}", &*root, 4),
        ]
    );
    assert_eq!(specs[0].0.env, ["BUG=B/1", "CI"]);
    assert_eq!(keys(&specs).len(), 4);
    assert_eq!(world.notes, [""; 0]);
}

#[test]
fn flags_are_filled_and_count() {
    let mut world = world("");
    world.folders(&["x"]);
    world.write(
        "jobs/fix.toml",
        "prompt = \"{{line}}\"\nname = \"a\"\nworkdir = \"nowhere\"\n[limits]\nsteps = 3\ntokens = 4\n",
    );
    world.write("l.txt", "x\n");
    let flags = |name: &str, steps: &str| Flags {
        name: Some(name.to_owned()),
        workdir: Some("{{line}}".into()),
        limit: vec![format!("steps={steps}")],
        ..Flags::default()
    };
    let one = world.list(&["jobs/fix.toml"], "l.txt", &flags("n {{line}}", "5")).expect("a batch");
    let (spec, _) = &one[0];
    assert_eq!((&*spec.name, spec.limits.steps, spec.limits.tokens), ("n x", 5, 4));
    assert_eq!(spec.workdir, world.context.current_folder.join("x"));
    let again = world.list(&["jobs/fix.toml"], "l.txt", &flags("n {{line}}", "5")).expect("a batch");
    assert_eq!(keys(&one), keys(&again));
    for other in [flags("n {{line}}", "6"), flags("m {{line}}", "5")] {
        let other = world.list(&["jobs/fix.toml"], "l.txt", &other).expect("a batch");
        assert!(keys(&one).is_disjoint(&keys(&other)));
    }
}

#[test]
fn a_list_that_grew_adds_only_what_is_new() {
    let mut world = world("");
    world.write("fix.toml", "prompt = \"{{line}}\"\n");
    world.write("l.txt", "a\nb\nb\n");
    let before = world.list(&["fix.toml"], "l.txt", &Flags::default()).expect("a batch");
    world.write("l.txt", "c\n\nb\na\nb\nb\n");
    let after = world.list(&["fix.toml"], "l.txt", &Flags::default()).expect("a batch");
    assert_eq!((keys(&before).len(), keys(&after).len()), (3, 5));
    assert!(keys(&before).is_subset(&keys(&after)));
    assert_eq!(after[0].0.name, "fix-1");
    // By another road to the same folder, and under another name.
    world.write("sub/x", "");
    let road = world.list(&["sub/../fix.toml"], "l.txt", &Flags::default()).expect("a batch");
    assert_eq!(keys(&road), keys(&after));
    world.write("other.toml", "prompt = \"{{line}}\"\n");
    let other = world.list(&["other.toml"], "l.txt", &Flags::default()).expect("a batch");
    assert!(keys(&other).is_disjoint(&keys(&after)));
}

#[test]
fn what_may_be_a_mistake_is_noted_once() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("prompt = \"{{line}}\"\n", "a\nb\n", &[]),
        ("prompt = \"{{line}}\"\n", "a\nb\na\n", &["l.txt: 1 line repeats an earlier one; each is a job of its own"]),
        ("prompt = \"{{line}}\"\n", "a\na\na\n", &["l.txt: 2 lines repeat an earlier one; each is a job of its own"]),
        (
            "prompt = \"p {line} {{}}\"\n",
            "a\na\n",
            &["the job fix.toml uses none of the list's fields: it makes 2 equal jobs"],
        ),
        ("prompt = \"p\"\n", "a\n", &["the job fix.toml uses none of the list's fields"]),
    ];
    for (job, list, notes) in cases {
        let mut world = world("");
        world.write("fix.toml", job);
        world.write("l.txt", list);
        let specs = world.list(&["fix.toml"], "l.txt", &Flags::default()).expect(job);
        assert_eq!(keys(&specs).len(), specs.len());
        assert_eq!(world.notes, *notes, "{job}{list}");
    }
}

#[test]
fn one_bad_line_or_file_and_there_is_no_job() {
    let cases: &[(&[&str], &str, &[&str])] = &[
        (
            &["fix.toml"],
            "bad.csv",
            &["the list could not be used", "bad.csv, line 3: the header has 2 fields, and it has 1"],
        ),
        (&["fix.toml"], "l.csv", &["l.csv, line 2: it has no field {{line}}, which `prompt` of fix.toml asks for"]),
        (&["ok.toml", "fix.toml"], "l.csv", &["`prompt` of fix.toml asks for", "did you mean {{lines}}?"]),
        (&["ok.toml"], "l.json", &["l.json: its name ends in none of .txt"]),
        (&["ok.toml"], "nowhere.txt", &["reading the list nowhere.txt", "name a file that can be read"]),
        (&["ok.toml"], "folder.txt", &["reading the list folder.txt", "no regular file"]),
        (
            &["in.toml"],
            "w.txt",
            &["the workdir", "`workdir` of", "in.toml, filled by line 2 of", "w.txt) cannot be used"],
        ),
        (&["none.toml"], "w.txt", &["none.toml has no `prompt`"]),
        (&["name.toml"], "w.txt", &["name.toml, line 1, key `name`: a name neither begins"]),
        (&["ok.toml", "ok.toml"], "many.txt", &["6000 lines for 2 job files are more than 10000 jobs", "in parts"]),
    ];
    let mut world = world("");
    world.folders(&["folder.txt", "here"]);
    world.write("fix.toml", "prompt = \"{{line}}\"\n");
    world.write("ok.toml", "prompt = \"p\"\n");
    world.write("in.toml", "prompt = \"p\"\nworkdir = \"{{line}}\"\n");
    world.write("none.toml", "name = \"n\"\n");
    world.write("name.toml", "name = \"a/b\"\nprompt = \"{{line}}\"\n");
    world.write("bad.csv", "line,b\n1,2\n3\n");
    world.write("l.csv", "lines\n1\n");
    world.write("w.txt", "here\ngone\n");
    world.write("many.txt", &"x\n".repeat(6_000));
    for (files, each, parts) in cases {
        let failure = world.list(files, each, &Flags::default()).expect_err(each);
        assert_eq!(failure.code, 2);
        for part in *parts {
            assert!(failure.text.contains(part), "{}\nlacks {part}", failure.text);
        }
    }
    let flags = Flags { name: Some("{{line}}".to_owned()), ..Flags::default() };
    let failure = world.list(&["ok.toml", "fix.toml"], "w.txt", &flags).expect_err("two files, one name");
    assert!(failure.text.contains("one --name for several jobs"), "{}", failure.text);
}

#[test]
fn each_folder_narrows_its_own_lines() {
    let mut world = world("[limits]\nsteps = 9\n");
    world.write("x/ukai.toml", "[limits]\nsteps = 2\n[tools]\ndisable = [\"Grep\"]\n[[provider]]\n");
    world.write("y/tool_policy.yaml", "version: 1\nrules: {deny: [Glob]}\n");
    world.write("fix.toml", "prompt = \"{{line}}\"\nworkdir = \"{{line}}\"\npolicy = \"p.yaml\"\n");
    world.write("p.yaml", "version: 1\nrules: {allow: [Read]}\n");
    world.write("l.txt", "x\ny\nx\n./x\n");
    let specs = world.list(&["fix.toml"], "l.txt", &Flags::default()).expect("a batch");
    let shown: Vec<_> = specs
        .iter()
        .map(|(spec, _)| {
            (spec.limits.steps, spec.policy.disabled_tools.len(), spec.policy.deny.len(), spec.policy.allow.len())
        })
        .collect();
    assert_eq!(shown, [(2, 1, 0, 1), (9, 0, 1, 1), (2, 1, 0, 1), (2, 1, 0, 1)]);
    assert_eq!(world.notes.len(), 2, "{:?}", world.notes);
}

#[test]
fn a_full_list_takes_no_long_time_and_no_more_memory_than_may_be() {
    let mut world = world("");
    world.write("fix.toml", "prompt = \"fix {{n}}\"\nname = \"{{n}}\"\npolicy = \"p.yaml\"\n");
    let rules = |count: usize| {
        let rules: Vec<_> = (0..count).map(|number| format!("\"Read(/some/where/{number}/**)\"")).collect();
        format!("version: 1\nrules: {{deny: [{}]}}\n", rules.join(","))
    };
    world.write("p.yaml", &rules(20));
    let lines: String = (1..=ITEMS_MAX).map(|number| format!("{{\"n\": {number}}}\n")).collect();
    world.write("l.jsonl", &lines);
    let start = Instant::now();
    let specs = world.list(&["fix.toml"], "l.jsonl", &Flags::default()).expect("a batch");
    assert!(start.elapsed() < FULL_LIST_MAX, "it took {:?}", start.elapsed());
    assert_eq!((specs.len(), keys(&specs).len()), (ITEMS_MAX, ITEMS_MAX));
    assert_eq!((&*specs[ITEMS_MAX - 1].0.prompt, specs[ITEMS_MAX - 1].1.number), ("fix 10000", 10_000));
    drop(specs);
    world.write("fix.toml", &format!("prompt = \"{{{{n}}}}{}\"\n", "x".repeat(500_000)));
    let failure = world.list(&["fix.toml"], "l.jsonl", &Flags::default()).expect_err("five gigabytes");
    assert!(failure.text.contains("larger than 268435456 bytes together; split it"), "{}", failure.text);
}
