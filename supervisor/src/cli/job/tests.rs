//! Which source wins, and what cannot become a job.

use std::fs;

use ukai_protocol::policy::Rule;

use super::*;
use crate::cli::Output;
use crate::config::Config;
use crate::config::load::{Loaded, Origin};
use crate::store::paths::StateDir;

pub(super) struct World {
    pub(super) folder: tempfile::TempDir,
    pub(super) context: Context,
    pub(super) notes: Vec<String>,
}

pub(super) fn world(config: &str) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it exists");
    let config = Config::parse(config, &root.join("conf/ukai.toml"), None).expect("the configuration loads");
    let context = Context {
        loaded: Loaded { config, origin: Origin::Flag },
        state: StateDir::new(root.join("state")),
        output: Output::Text,
        current_folder: root,
    };
    World { folder, context, notes: Vec::new() }
}

impl World {
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    }

    fn prompt(&mut self, flags: &Flags) -> Result<JobSpec, Failure> {
        from_prompt(&self.context, "do it", flags, &mut self.notes)
    }
}

#[test]
fn later_sources_replace_earlier_ones_and_found_files_only_lower() {
    let mut world = world("[limits]\nsteps = 20\ntool_calls = 20\ntokens = 20\n[tools]\ndisable = [\"Glob\"]\n");
    world.write("jobs/a.toml", "prompt = \"p\"\nworkdir = \"w\"\n[limits]\ntool_calls = 15\ntokens = 15\n");
    world.write(
        "jobs/w/ukai.toml",
        "max_workers = 99\n[limits]\nsteps = 5\ntokens = 99\n[tools]\ndisable = [\"Grep\"]\n",
    );
    let flags = Flags { limit: vec!["tokens=12".into()], ..Flags::default() };
    let specs = from_files(&world.context, &["jobs/a.toml".into()], &flags, &mut world.notes).expect("it resolves");
    let spec = &specs[0];
    assert_eq!((spec.limits.steps, spec.limits.tool_calls, spec.limits.tokens), (5, 15, 12));
    assert_eq!(spec.policy.disabled_tools, ["Glob", "Grep"]);
    assert_eq!(spec.workdir, world.context.current_folder.join("jobs/w"));
    assert_eq!((&*spec.name, spec.mode, spec.needs_tools, spec.priority), ("a", Mode::Loop, true, 5));
    assert!(world.notes.len() == 1 && world.notes[0].contains("max_workers ignored"), "{:?}", world.notes);
}

#[test]
fn rules_of_flags_start_at_the_current_folder() {
    let mut world = world("");
    let policy = world.write("p.yaml", "version: 1\nrules: {allow: [Read]}\n");
    let flags =
        Flags { policy: Some(policy), allow: vec!["Glob".into()], deny: vec!["Read(/x)".into()], ..Flags::default() };
    let spec = world.prompt(&flags).expect("it resolves");
    let root = &world.context.current_folder;
    assert_eq!(spec.policy.allow, [Rule::new("Read", root), Rule::new("Glob", root)]);
    assert_eq!(spec.policy.deny, [Rule::new("Read(/x)", root)]);
    assert_eq!(spec.name, "do-it");
}

#[test]
fn a_policy_that_is_missing_denies_everything_and_queues_all_the_same() {
    let mut world = world("");
    let flags = Flags { policy: Some("nowhere.yaml".into()), ..Flags::default() };
    let spec = world.prompt(&flags).expect("it resolves");
    assert!(spec.policy.broken.is_some_and(|why| why.contains("nowhere.yaml")));
    assert_eq!(world.notes.len(), 1);
}

#[test]
fn each_mistake_is_one_sentence_and_exit_2() {
    let lab = "[[provider]]\nid = \"lab\"\nwire = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"m\"\ncontext_window = 9000\n";
    let flags = |change: fn(&mut Flags)| {
        let mut flags = Flags::default();
        change(&mut flags);
        flags
    };
    let cases: &[(Flags, &[&str])] = &[
        (flags(|f| f.workdir = Some("nowhere".into())), &["workdir", "nowhere", "name a folder"]),
        (flags(|f| f.workdir = Some("a-file".into())), &["workdir", "a-file"]),
        (flags(|f| f.limit = vec!["stpes=1".into()]), &["--limit", "did you mean `steps`"]),
        (flags(|f| f.mode = Some("graph".into())), &["--mode", "not in this version"]),
        (flags(|f| f.name = Some("a/b".into())), &["--name", "choose another"]),
        (flags(|f| f.priority = Some(10)), &["--priority", "9 goes first"]),
        (flags(|f| f.provider = Some("lba".into())), &["provider `lba`", "did you mean `lab`"]),
        (flags(|f| f.policy = Some("priority.yaml".into())), &["provider_priority", "`anthropic`", "known: lab"]),
    ];
    let mut world = world(lab);
    world.write("a-file", "");
    world.write("priority.yaml", "version: 1\nprovider_priority: [anthropic]\n");
    for (flags, parts) in cases {
        let failure = world.prompt(flags).expect_err(parts[0]);
        assert_eq!(failure.code, 2);
        for part in *parts {
            assert!(failure.text.contains(part), "{}\nlacks {part}", failure.text);
        }
    }
}

#[test]
fn each_bad_job_file_is_named() {
    let mut world = world("");
    world.write("a.txt", "x");
    world.write("b.toml", "name = \"b\"\n");
    world.write("c.toml", "promt = \"x\"\n");
    for (file, part) in [
        ("a.txt", "ends in none of"),
        ("b.toml", "has no `prompt`"),
        ("c.toml", "did you mean `prompt`"),
        ("d.toml", "reading the job d.toml"),
        (".", "ends in none of"),
    ] {
        let failure = from_files(&world.context, &[file.into()], &Flags::default(), &mut world.notes).expect_err(file);
        assert!(failure.code == 2 && failure.text.contains(part), "{file}: {}", failure.text);
    }
    let failure = from_prompt(&world.context, " ", &Flags::default(), &mut world.notes).expect_err("empty");
    assert!(failure.text.contains("the prompt cannot be used"), "{}", failure.text);
}

#[test]
fn notes_are_said_once_and_not_without_end() {
    let mut notes: Vec<_> = (0..NOTES_MAX + 7).flat_map(|note| [note.to_string(), "0".to_owned()]).collect();
    tidy(&mut notes);
    assert_eq!(notes.len(), NOTES_MAX + 1);
    assert_eq!((&*notes[1], &*notes[NOTES_MAX]), ("1", "and 7 more notes like these"));
}
