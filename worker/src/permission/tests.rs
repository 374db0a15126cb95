//! Tables of calls, and what becomes of them.

#![allow(clippy::disallowed_methods, reason = "tests on real files")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ukai_protocol::policy::Verdict;

use super::*;

/// The shipped policy's rules (spec §14).
pub(crate) fn shipped(base: &Path) -> Policy {
    let rules = |texts: &[&str]| texts.iter().map(|text| policy::Rule::new(*text, base)).collect();
    Policy {
        allow: rules(&["Read", "Glob", "Grep", "Note"]),
        deny: rules(&[
            "Bash(sudo:*)",
            "Bash(doas:*)",
            "Bash(su:*)",
            "Bash(rm -rf:*)",
            "Bash(git push --force:*)",
            "Bash(git push -f:*)",
            "Edit(.git/**)",
            "Edit(.env*)",
            "Read(.env*)",
            "Read(~/.ssh/**)",
            "Read(~/.aws/**)",
            "Read(~/.gnupg/**)",
            "Read(~/.netrc)",
            "Edit(.ukai/**)",
            "Edit(.claude/**)",
            "Edit(tool_policy.yaml)",
        ]),
        ..Policy::default()
    }
}

struct World {
    _temp: tempfile::TempDir,
    top: PathBuf,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        for folder in ["work/src/.env.d", "home/.ssh", "home/notes/deep", "home/.aws", "out", "other", "rules"] {
            std::fs::create_dir_all(top.join(folder)).expect("a folder");
        }
        for file in [
            "work/a.txt",
            "work/.env",
            "work/.ENV.local",
            "work/src/.env.d/x",
            "work/src/lib.rs",
            "home/.ssh/id",
            "home/.netrc",
            "home/notes/n.md",
            "home/notes/deep/.env",
            "home/plain",
            "out/spill.txt",
            "other/secret",
            "rules/r.txt",
        ] {
            std::fs::write(top.join(file), "x").expect("a file");
        }
        for (target, link) in [
            ("a.txt", "work/to_a"),
            (".env", "work/to_env"),
            ("../other/secret", "work/to_secret"),
            ("../other", "work/to_other"),
            ("/nowhere/at/all", "work/dangling_out"),
            ("none", "work/dangling_in"),
            ("../home/.ssh", "work/to_ssh"),
            ("loop", "work/loop"),
        ] {
            symlink(target, top.join(link)).expect("a link");
        }
        symlink(top.join("work/a.txt"), top.join("work/to_a_absolute")).expect("a link");
        symlink(top.join("work/a.txt"), top.join("work/.envlink")).expect("a link");
        World { _temp: temp, top }
    }

    fn permission(&self, policy: &Policy, workdir: &str) -> Permission {
        Permission::new(policy, &self.top.join(workdir), &self.top.join("home"), &self.top.join("out"))
    }

    fn rules(&self, allow: &[&str], ask: &[&str], deny: &[&str]) -> Policy {
        let rules =
            |texts: &[&str]| texts.iter().map(|text| policy::Rule::new(*text, self.top.join("rules"))).collect();
        Policy { allow: rules(allow), ask: rules(ask), deny: rules(deny), ..Policy::default() }
    }
}

fn input(pairs: &[(&str, &str)]) -> Json {
    Json(pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect())
}

/// What is expected, in a word.
fn word(judgement: &Judgement) -> String {
    match (judgement.verdict, &judgement.source) {
        (Verdict::Allow, Source::Rule { rule, .. }) => format!("allow {rule}"),
        (Verdict::Allow, _) => "allow".to_owned(),
        (Verdict::Deny, Source::Rule { rule, .. }) => format!("deny {rule}"),
        (Verdict::Deny, Source::Default) => "default".to_owned(),
        (Verdict::Deny, Source::NoOneToAsk) => "no_one".to_owned(),
        (Verdict::Deny, Source::PolicyError) => "broken".to_owned(),
        (Verdict::Deny, other) => format!("no judge of rules says {other:?}"),
    }
}

fn check(permission: &Permission, tool: &str, path: &str, expected: &str) {
    let key = if matches!(tool, "Glob" | "Grep") { "path" } else { "file_path" };
    let judgement = permission.judge(tool, &input(&[(key, path), ("pattern", "x")]));
    assert_eq!(word(&judgement), expected, "{tool} {path}: {judgement:?}");
    assert_eq!(judgement.why.is_empty(), judgement.verdict == Verdict::Allow, "a denial says why");
}

#[test]
fn the_shipped_policy_on_paths() {
    let world = World::new();
    let permission = world.permission(&shipped(&world.top.join("rules")), "work");
    assert_eq!(permission.broken(), None);
    let outside = world.top.join("other/secret");
    let spill = world.top.join("out/spill.txt");
    for (path, expected) in [
        ("a.txt", "allow Read"),
        ("./src/../a.txt", "allow Read"),
        ("to_a", "allow Read"),
        ("to_a_absolute", "allow Read"),
        ("none.txt", "allow Read"),
        ("dangling_in", "allow Read"),
        (spill.to_str().expect("text"), "allow Read"),
        (".env", "deny Read(.env*)"),
        (".ENV.local", "deny Read(.env*)"),
        ("src/.env.d/x", "deny Read(.env*)"),
        ("to_env", "deny Read(.env*)"),
        (".envlink", "deny Read(.env*)"),
        ("x/../.env", "deny Read(.env*)"),
        ("~/.ssh/id", "deny Read(~/.ssh/**)"),
        ("~/.SSH/ID", "deny Read(~/.ssh/**)"),
        ("../home/.ssh/id", "deny Read(~/.ssh/**)"),
        ("to_ssh/id", "deny Read(~/.ssh/**)"),
        ("~/.netrc", "deny Read(~/.netrc)"),
        ("~/notes/deep/.env", "deny Read(.env*)"),
        ("~/plain", "default"),
        ("../other/secret", "default"),
        (outside.to_str().expect("text"), "default"),
        ("to_secret", "default"),
        ("to_other/secret", "default"),
        ("to_other/../a.txt", "default"),
        ("dangling_out", "default"),
        ("loop", "default"),
        ("/etc/passwd", "default"),
        ("/", "default"),
    ] {
        check(&permission, "Read", path, expected);
    }
    for tool in ["Glob", "Grep"] {
        check(&permission, tool, ".", &format!("allow {tool}"));
        check(&permission, tool, "src", &format!("allow {tool}"));
        check(&permission, tool, "src/.env.d", "deny Read(.env*)");
        check(&permission, tool, "..", "default");
        check(&permission, tool, "to_other", "default");
        assert_eq!(word(&permission.judge(tool, &input(&[("pattern", "x")]))), format!("allow {tool}"));
    }
}

#[test]
fn credentials_are_refused_wherever_the_job_works() {
    let world = World::new();
    for workdir in ["home", "home/.ssh", "", "/"] {
        let permission = world.permission(&shipped(&world.top.join("rules")), workdir);
        for (path, expected) in [
            ("~/.ssh/id", "deny Read(~/.ssh/**)"),
            ("~/.Ssh/id", "deny Read(~/.ssh/**)"),
            ("~/.netrc", "deny Read(~/.netrc)"),
            ("~/.aws/x", "deny Read(~/.aws/**)"),
            ("~/notes/deep/.env", "deny Read(.env*)"),
        ] {
            check(&permission, "Read", path, expected);
            let real = world.top.join("home").join(path.strip_prefix("~/").expect("a home path"));
            for tool in ["Read", "Glob", "Grep"] {
                assert!(!permission.read_allowed(tool, &real, &real), "{tool} {path} in {workdir}");
            }
        }
    }
}

#[test]
fn a_home_that_is_a_link_is_protected_by_both_names() {
    let world = World::new();
    symlink("home", world.top.join("home_link")).expect("a link");
    let policy = shipped(&world.top);
    let permission = Permission::new(&policy, &world.top, &world.top.join("home_link"), &world.top.join("out"));
    for path in ["~/.ssh/id", "home/.ssh/id", "home_link/.ssh/id"] {
        check(&permission, "Read", path, "deny Read(~/.ssh/**)");
    }
}

#[test]
fn a_deny_rule_follows_the_links_in_what_it_names() {
    let world = World::new();
    for folder in ["home/dotfiles/ssh", "home/dotfiles/aws/sso"] {
        std::fs::create_dir_all(world.top.join(folder)).expect("a folder");
    }
    for (target, link) in [
        ("dotfiles/ssh", "home/.gnupg"),
        ("dotfiles/aws", "home/.linked"),
        ("dotfiles/netrc", "home/.rc"),
        ("../work/src", "work/private"),
        ("gone", "home/.dangling"),
    ] {
        symlink(target, world.top.join(link)).expect("a link");
    }
    let deny = ["Read(~/.gnupg/**)", "Read(~/.linked/*/token)", "Read(~/.rc)", "Read(private)", "Read(~/.dangling/x)"];
    let permission = world.permission(&world.rules(&["Read"], &[], &deny), "");
    for (path, expected) in [
        ("~/.gnupg/id", "deny Read(~/.gnupg/**)"),
        ("home/dotfiles/ssh/id", "deny Read(~/.gnupg/**)"),
        ("home/dotfiles/ssh/deep/ID", "deny Read(~/.gnupg/**)"),
        ("home/dotfiles/aws/sso/token", "deny Read(~/.linked/*/token)"),
        ("home/dotfiles/aws/sso/other", "allow Read"),
        ("home/dotfiles/netrc", "deny Read(~/.rc)"),
        ("home/dotfiles/netrc2", "allow Read"),
        ("home/gone/x", "deny Read(~/.dangling/x)"),
        ("home/gone/y", "allow Read"),
    ] {
        check(&permission, "Read", path, expected);
    }
    // In the workdir too, by a folder's bare name.
    let permission = world.permission(&world.rules(&["Read"], &[], &["Read(private)"]), "work");
    check(&permission, "Read", "src/lib.rs", "deny Read(private)");
    check(&permission, "Read", "a.txt", "allow Read");
}

#[test]
fn what_has_no_rule_has_no_one_to_ask() {
    let world = World::new();
    let permission = world.permission(&shipped(&world.top), "work");
    for (tool, pairs, expected) in [
        ("Write", &[("file_path", "a.txt"), ("content", "x")][..], "no_one"),
        ("Edit", &[("file_path", "a.txt")], "no_one"),
        ("Edit", &[("file_path", ".git/config")], "deny Edit(.git/**)"),
        ("Write", &[("file_path", "src/.env")], "deny Edit(.env*)"),
        ("Write", &[("file_path", "to_env")], "deny Edit(.env*)"),
        ("Write", &[("file_path", "/etc/passwd")], "default"),
        ("Bash", &[("command", "make")], "no_one"),
        ("Bash", &[("command", "sudo ls")], "deny Bash(sudo:*)"),
        ("Bash", &[], "no_one"),
        ("Agent", &[("prompt", "x")], "no_one"),
        ("mcp__s__t", &[], "no_one"),
        ("Read", &[], "allow Read"),
    ] {
        let judgement = permission.judge(tool, &input(pairs));
        assert_eq!(word(&judgement), expected, "{tool} {pairs:?}: {judgement:?}");
    }
}

#[test]
fn what_may_be_written_and_where() {
    let world = World::new();
    let policy = world.rules(
        &["Read", "Edit(src/**)", "Edit(to_*)", "Edit(~/notes/*.md)", "Write(~/plain)", "Read(~/.profile)"],
        &["Edit(src/asked)"],
        &["Edit(.env*)", "Edit(.git/**)"],
    );
    let permission = world.permission(&policy, "work");
    let spill = world.top.join("out/spill.txt");
    let spill = spill.to_str().expect("text");
    for (tool, path, expected) in [
        ("Edit", "src/lib.rs", "allow Edit(src/**)"),
        ("Write", "src/new/file", "allow Edit(src/**)"),
        ("Write", "src/.env.d/x", "deny Edit(.env*)"),
        ("Edit", "to_env", "deny Edit(.env*)"),
        ("Write", "src/../.git/config", "deny Edit(.git/**)"),
        ("Write", "src/asked", "no_one"),
        ("Write", "a.txt", "no_one"),
        // The link matches, what it leads to does not.
        ("Write", "to_a", "no_one"),
        ("Write", "to_secret", "default"),
        ("Write", "to_other/new", "default"),
        ("Edit", "../other/secret", "default"),
        ("Write", "/etc/passwd", "default"),
        // Put aside for reading.
        ("Read", spill, "allow Read"),
        ("Write", spill, "default"),
        ("Edit", spill, "default"),
        // A rule for one opens nothing for the other, and one for reading nothing for either.
        ("Edit", "~/notes/n.md", "allow Edit(~/notes/*.md)"),
        ("Write", "~/notes/new.md", "allow Edit(~/notes/*.md)"),
        ("Write", "~/notes/deep/x.md", "default"),
        ("Write", "~/plain", "allow Write(~/plain)"),
        ("Edit", "~/plain", "default"),
        ("Write", "~/.profile", "default"),
        // What may be written may be read, or it could not be changed with open eyes.
        ("Read", "~/notes/n.md", "allow Read"),
        ("Read", "~/plain", "allow Read"),
        ("Read", "~/notes/deep/.env", "default"),
    ] {
        check(&permission, tool, path, expected);
    }
    // A workdir around the outputs does not open them.
    let around = world.permission(&world.rules(&["Edit(**)"], &[], &[]), "");
    check(&around, "Write", "out/spill.txt", "default");
    check(&around, "Write", "other/secret", "allow Edit(**)");
}

#[test]
fn folders_are_created_where_a_rule_leads_and_none_that_leads_there() {
    let world = World::new();
    let rules = ["Edit(src/**)", "Edit(~/new/notes/**)", "Write(~/one/file)", "Read(~/library/**)"];
    let permission = world.permission(&world.rules(&rules, &[], &[]), "work");
    for (tool, folder, may) in [
        ("Write", "work/src/a/b", true),
        ("Write", "work/elsewhere", true),
        ("Write", "home/new", false),
        ("Write", "home/new/notes", true),
        ("Edit", "home/new/notes/deep", true),
        ("Write", "home/one", false),
        ("Write", "home/library/x", false),
        ("Write", "out/x", false),
        ("Write", "other", false),
    ] {
        assert_eq!(permission.places().may_create(tool, &world.top.join(folder)), may, "{tool} {folder}");
    }
}

#[test]
fn the_first_list_that_matches_decides() {
    let world = World::new();
    let policy = world.rules(
        &["Read(src/**)", "Read(~/notes/*.md)", "Grep(/r.txt)", "Agent", "Bash(ls:*)", "mcp__s__*"],
        &["Read(src/lib.rs)", "mcp__s__write"],
        &["Read(src/.env.d/**)", "mcp__evil"],
    );
    let permission = world.permission(&policy, "work");
    assert_eq!(permission.broken(), None);
    let notes = world.top.join("home/notes/n.md");
    let plain = world.top.join("home/plain");
    for (tool, path, expected) in [
        ("Read", "src/other.rs", "allow Read(src/**)"),
        ("Read", "src/lib.rs", "no_one"),
        ("Read", "src/.env.d/x", "deny Read(src/.env.d/**)"),
        ("Read", "a.txt", "no_one"),
        ("Grep", "src", "allow Read(src/**)"),
        ("Grep", ".", "no_one"),
        ("Read", "~/notes/n.md", "allow Read(~/notes/*.md)"),
        ("Read", notes.to_str().expect("text"), "allow Read(~/notes/*.md)"),
        ("Glob", "~/notes", "allow Read(~/notes/*.md)"),
        ("Read", "~/notes/deep/.env", "default"),
        ("Read", plain.to_str().expect("text"), "default"),
        ("Grep", "../rules/r.txt", "default"),
    ] {
        check(&permission, tool, path, expected);
    }
    for (tool, expected) in [
        ("Agent", "default"),
        ("mcp__s__read", "allow mcp__s__*"),
        ("mcp__s__write", "no_one"),
        ("mcp__s2__read", "no_one"),
        ("mcp__evil__x", "deny mcp__evil"),
    ] {
        assert_eq!(word(&permission.judge(tool, &input(&[("command", "ls")]))), expected, "{tool}");
    }
    // A rule opens what it names, and neither its folder nor what lies beside it.
    let deep = world.top.join("home/notes/deep/.env");
    assert!(permission.read_allowed("Glob", &notes, &notes));
    assert!(!permission.read_allowed("Glob", &deep, &deep));
}

#[test]
fn an_allowed_link_to_a_place_that_is_not_allowed_is_not_allowed() {
    let world = World::new();
    symlink("../a.txt", world.top.join("work/src/link")).expect("a link");
    let permission = world.permission(&world.rules(&["Read(src/**)"], &[], &[]), "work");
    check(&permission, "Read", "src/link", "no_one");
}

#[test]
fn what_a_person_allowed_by_its_name_is_still_allowed_there_and_nowhere_else() {
    let world = World::new();
    let permission = world.permission(&world.rules(&["Edit(src/**)"], &[], &["Edit(.env*)"]), "work");
    let at = |below: &str| world.top.join("work").join(below);
    for (named, real, expected) in [
        ("src/a.txt", "src/a.txt", true),
        ("a.txt", "a.txt", true),
        ("a.txt", "b.txt", false),
        ("src/a.txt", "b.txt", false),
        ("a.txt", "src/a.txt", false),
        ("a.txt", ".env", false),
        (".env", ".env", false),
        ("a.txt", "../a.txt", false),
    ] {
        let still = |consented| permission.still_allowed("Edit", &at(named), &at(real), consented);
        assert_eq!(still(true), expected, "{named} {real}");
        assert_eq!(still(false), expected && named.starts_with("src/"), "{named} {real}");
    }
}

#[test]
fn a_long_output_may_be_read_again_under_any_policy_that_does_not_deny_it() {
    let world = World::new();
    let spill = world.top.join("out/spill.txt");
    let named = spill.to_str().expect("text");
    check(&world.permission(&world.rules(&["Read(src/**)"], &[], &[]), "work"), "Read", named, "allow");
    check(&world.permission(&world.rules(&[], &[], &["Read"]), "work"), "Read", named, "deny Read");
}

#[test]
fn a_policy_that_does_not_load_denies_everything_and_says_where() {
    let world = World::new();
    let mut named = world.rules(&["Read"], &[], &[]);
    named.broken = Some("policy.yaml:3:1: unknown key".to_owned());
    let mut example = world.rules(&["Read(src/**)"], &[], &[]);
    example.allow[0].match_examples = vec!["lib/x".to_owned()];
    let mut counter = world.rules(&["Read"], &[], &["Read(.env*)"]);
    counter.deny[0].not_match_examples = vec!["src/.ENV".to_owned()];
    let mut shell = world.rules(&["Read"], &[], &["Bash(rm:*)"]);
    shell.deny[0].match_examples = vec!["ls; echo rm x".to_owned()];
    let mut covered = world.rules(&["Read", "Bash(ls:*)"], &[], &[]);
    covered.allow[1].not_match_examples = vec!["cd x && ls".to_owned(), "(ls; ls -l) | ls".to_owned()];
    for (policy, place) in [
        (named, "policy.yaml:3:1"),
        (world.rules(&["Read", "Raed"], &[], &[]), "among the allow rules of "),
        (world.rules(&["Read"], &["Read("], &[]), "among the ask rules of "),
        (example, "does not match the example `lib/x`"),
        (counter, "matches the example `src/.ENV`"),
        (shell, "does not match the example `ls; echo rm x`"),
        (covered, "matches the example `(ls; ls -l) | ls`"),
    ] {
        let permission = world.permission(&policy, "work");
        assert!(permission.broken().is_some_and(|why| why.contains(place)), "{place}: {:?}", permission.broken());
        check(&permission, "Read", "a.txt", "broken");
        assert!(permission.judge("Read", &Json::default()).why.contains(place));
        let path = world.top.join("work/a.txt");
        assert!(!permission.read_allowed("Read", &path, &path));
    }
}

#[test]
fn examples_that_hold_let_a_policy_load() {
    let world = World::new();
    let mut policy = world.rules(&["Read", "Read(src/**)"], &[], &["Bash(git log:*)", "Read(.env*)"]);
    policy.allow[1].match_examples = vec!["src/a/b".to_owned(), "./src/x".to_owned()];
    policy.allow[1].not_match_examples = vec!["a/src/b".to_owned(), "src".to_owned()];
    policy.deny[0].match_examples = vec!["git log -3".to_owned()];
    policy.deny[0].match_examples.push("cd x && timeout 5 git -C y log".to_owned());
    policy.deny[0].match_examples.push("eval \"git log $x\"".to_owned());
    policy.deny[0].not_match_examples = vec!["git logx".to_owned(), "echo 'git log'".to_owned()];
    policy.deny[1].match_examples = vec!["a/.Env.x".to_owned(), "~/.env".to_owned()];
    assert_eq!(world.permission(&policy, "work").broken(), None);
}

#[test]
fn only_a_rule_without_brackets_hides_a_tool() {
    let world = World::new();
    let mut policy = world.rules(&["Read"], &[], &["Grep", "Read(.env*)", "mcp__s__*"]);
    policy.disabled_tools = vec!["Glob".to_owned()];
    let permission = world.permission(&policy, "work");
    for (tool, hidden) in [("Grep", true), ("Glob", true), ("Read", false), ("mcp__s__t", true), ("mcp__t__t", false)] {
        assert_eq!(permission.hides(tool), hidden, "{tool}");
    }
    assert_eq!(word(&permission.judge("Glob", &input(&[("pattern", "*")]))), "default");
    check(&permission, "Grep", ".", "deny Grep");
}

#[test]
fn what_reaches_only_what_the_job_started_needs_no_rule() {
    let world = World::new();
    for (allow, ask, deny, tool, expected) in [
        (&["Bash"][..], &[][..], &[][..], "BashOutput", "allow"),
        (&["Bash(make:*)"], &[], &[], "KillShell", "allow"),
        // What only reads runs without a rule, in the background too.
        (&[], &[], &[], "BashOutput", "allow"),
        (&["BashOutput"], &[], &[], "BashOutput", "allow BashOutput"),
        (&["Bash"], &["KillShell"], &[], "KillShell", "no_one"),
        (&["Bash"], &[], &["BashOutput"], "BashOutput", "deny BashOutput"),
    ] {
        let permission = world.permission(&world.rules(allow, ask, deny), "work");
        assert_eq!(word(&permission.judge(tool, &Json::default())), expected, "{tool}: {allow:?} {ask:?} {deny:?}");
    }
    let mut disabled = world.rules(&["Bash"], &[], &[]);
    disabled.disabled_tools = vec!["KillShell".to_owned()];
    assert_eq!(word(&world.permission(&disabled, "work").judge("KillShell", &Json::default())), "default");
}

mod corpus;
mod fuzz;

#[test]
fn what_is_ukais_own_is_in_no_root_whatever_a_rule_says() {
    let world = World::new();
    let own = ["home/.config/ukai", "home/key", "state", "out"].map(|name| world.top.join(name));
    let rules = world.rules(&["Read(~/**)", "Edit(~/**)", "Read", "Edit", "Bash"], &[], &[]);
    let permission = world.permission(&rules, "").keeping(&own);
    for (tool, path, allowed) in [
        ("Read", "~/.config/ukai/ukai.toml", false),
        ("Read", "~/key", false),
        ("Write", "~/.config/ukai/tool_policy.yaml", false),
        ("Edit", "state/runs/x", false),
        ("Read", "~/keys", true),
        ("Read", "~/.config/other", true),
        // The job's own in it.
        ("Read", "out/spill.txt", true),
    ] {
        let path =
            path.strip_prefix("~/").map_or_else(|| world.top.join(path), |below| world.top.join("home").join(below));
        assert_eq!(permission.read_allowed(tool, &path, &path), allowed, "{tool} {}", path.display());
    }
    // Who works in it was sent there.
    let inside = world.permission(&rules, "work").keeping(std::slice::from_ref(&world.top));
    let path = world.top.join("work/a");
    assert!(inside.read_allowed("Read", &path, &path));
}
