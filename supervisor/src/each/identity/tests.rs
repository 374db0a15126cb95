//! The keys as they are for ever, and what they tell apart.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::config::duration::Millis;
use crate::config::limits::Usd;

fn key_of(file: &str, job: &JobFile, workdir: &str) -> String {
    Keys::default().key(OsStr::new(file), job, Path::new(workdir))
}

fn plain() -> JobFile {
    JobFile { prompt: Some("fix a".to_owned()), ..JobFile::default() }
}

fn full() -> JobFile {
    JobFile {
        name: Some("n".to_owned()),
        prompt: Some("p 鵜".to_owned()),
        workdir: Some("w".into()),
        env: vec!["CI".to_owned(), "A=1".to_owned()],
        mode: Some(Mode::Once),
        provider: Some("lab".to_owned()),
        model: Some("m".to_owned()),
        needs_tools: Some(false),
        policy: Some("p.yaml".into()),
        context: Some(ContextStrategy::KeepAll),
        window: Some(9_000),
        priority: Some(7),
        worktree: None,
        hooks: None,
        limits: LimitSet {
            steps: Some(1),
            tool_calls: Some(2),
            tokens: Some(3),
            run_time: Some(Millis(4)),
            max_wall: Some(Millis(5)),
            max_cost_usd: Some(Usd(0.5)),
        },
    }
}

/// Lists that were sent once are known by these. Computed apart from this code, from what its opening says.
#[test]
fn the_keys_are_these_for_ever() {
    for (job, first, second) in [
        (plain(), "e51e511de48afcca3176481f0c585367", "25d06ad1401794a09d5bb5187cb143ff"),
        (full(), "8ecb363d4e0f5bbef3f7548492c8cf68", "71b3b75aa6c3407211a541329bfdb180"),
    ] {
        let mut keys = Keys::default();
        let mut key = || keys.key(OsStr::new("fix.toml"), &job, Path::new("/w"));
        assert_eq!((key(), key()), (first.to_owned(), second.to_owned()));
        assert_eq!(keys.repeats, 1);
    }
}

#[test]
fn every_key_of_the_job_counts() {
    type Change = fn(&mut JobFile);
    let changes: &[Change] = &[
        |job| job.name = None,
        |job| job.name = Some(String::new()),
        |job| job.prompt = Some("p".to_owned()),
        |job| job.prompt = None,
        |job| job.env = vec!["A=1".to_owned(), "CI".to_owned()],
        |job| job.env = vec!["CIA=1".to_owned()],
        |job| job.env.clear(),
        |job| job.mode = Some(Mode::Loop),
        |job| job.mode = None,
        |job| job.provider = None,
        |job| job.model = None,
        |job| job.needs_tools = Some(true),
        |job| job.needs_tools = None,
        |job| job.policy = None,
        |job| job.context = None,
        |job| job.window = Some(9_001),
        |job| job.window = None,
        |job| job.priority = Some(0),
        |job| job.priority = None,
        |job| job.worktree = Some(true),
        |job| job.hooks = Some("h.json".into()),
        |job| job.limits.steps = Some(2),
        |job| job.limits.steps = None,
        |job| job.limits.tool_calls = None,
        |job| job.limits.tokens = None,
        |job| job.limits.run_time = None,
        |job| job.limits.max_wall = None,
        |job| job.limits.max_cost_usd = Some(Usd(0.25)),
        |job| job.limits.max_cost_usd = None,
        // Values change places.
        |job| (job.provider, job.model) = (job.model.take(), job.provider.take()),
        |job| (job.limits.steps, job.limits.tool_calls) = (job.limits.tool_calls, job.limits.steps),
        |job| (job.name, job.prompt) = (job.prompt.take(), job.name.take()),
    ];
    let mut keys =
        vec![key_of("fix.toml", &full(), "/w"), key_of("fix.yaml", &full(), "/w"), key_of("fix.toml", &full(), "/w/x")];
    for change in changes {
        let mut job = full();
        change(&mut job);
        keys.push(key_of("fix.toml", &job, "/w"));
    }
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "two of these jobs have one key");
    assert!(keys.iter().all(|key| key.len() == KEY_DIGITS && key.bytes().all(|b| b.is_ascii_hexdigit())));
}

#[test]
fn what_says_the_same_has_the_same_key() {
    let changes: &[fn(&mut JobFile)] = &[
        // The caller's absolute one counts.
        |job| job.workdir = Some(PathBuf::from("elsewhere")),
        |job| job.limits.max_cost_usd = Some(Usd(0.5)),
        // It could be written long before it meant anything.
        |job| job.worktree = Some(false),
    ];
    for change in changes {
        let mut job = full();
        change(&mut job);
        assert_eq!(key_of("a", &job, "/w"), key_of("a", &full(), "/w"));
    }
    let zero = |usd| JobFile { limits: LimitSet { max_cost_usd: Some(Usd(usd)), ..LimitSet::default() }, ..plain() };
    assert_eq!(key_of("a", &zero(0.0), "/w"), key_of("a", &zero(-0.0), "/w"));
}

fn job(parts: &(String, String, Vec<String>)) -> JobFile {
    let (prompt, name, env) = parts.clone();
    JobFile { prompt: Some(prompt), name: Some(name), env, ..JobFile::default() }
}

fn parts() -> impl Strategy<Value = (String, String, Vec<String>)> {
    // Few letters, so that lines are equal often and bytes have somewhere to move.
    ("[ab]{0,2}", "[ab]{0,2}", proptest::collection::vec("[ab]{0,2}", 0..3))
}

proptest! {
    #[test]
    fn the_order_of_the_lines_changes_no_key(lines in proptest::collection::vec(parts(), 0..12), turn in 0usize..12) {
        let keys = |lines: &[_]| {
            let mut keys = Keys::default();
            let mut all: Vec<_> = lines.iter().map(|line| keys.key(OsStr::new("f"), &job(line), Path::new("/"))).collect();
            all.sort();
            (all, keys.repeats)
        };
        let mut turned = lines.clone();
        turned.rotate_left(turn.min(lines.len()));
        let mut back = lines.clone();
        back.reverse();
        let first = keys(&lines);
        let mut distinct = first.0.clone();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), lines.len(), "each line is a job of its own");
        prop_assert_eq!(&first, &keys(&turned));
        prop_assert_eq!(&first, &keys(&back));
    }

    #[test]
    fn two_jobs_have_one_key_only_if_they_are_one(a in parts(), b in parts()) {
        prop_assert_eq!(key_of("f", &job(&a), "/w") == key_of("f", &job(&b), "/w"), a == b);
    }

    #[test]
    fn no_byte_moves_from_a_name_of_a_folder_to_a_file(text in "[ab]{2,6}", cuts in (0usize..7, 0usize..7)) {
        let key = |at: usize| {
            let (file, folder) = text.split_at(at.min(text.len()));
            key_of(file, &plain(), folder)
        };
        prop_assert_eq!(key(cuts.0) == key(cuts.1), cuts.0.min(text.len()) == cuts.1.min(text.len()));
    }
}
