//! What is trusted, and what of it no longer is.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct World {
    _temp: tempfile::TempDir,
    state: StateDir,
    /// Real.
    folder: PathBuf,
}

fn world() -> World {
    let temp = tempfile::tempdir().expect("a folder");
    let top = temp.path().canonicalize().expect("a path");
    let state = StateDir::new(top.join("state"));
    state.create().expect("made");
    let folder = top.join("work");
    fs::create_dir_all(folder.join(TOOLS)).expect("made");
    World { _temp: temp, state, folder }
}

impl World {
    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("written");
    }

    fn say_yes(&self) {
        let hash = Look::at(&self.folder).expect("a look").hash();
        let kept = Kept { folder: self.folder.clone(), hash, at: "2026-11-30T12:00:00Z".to_owned() };
        kept::change(&self.state, |all| all.push(kept)).expect("kept");
    }

    fn is_trusted(&self) -> bool {
        matches!(Trust::of(&self.state).standing(&self.folder), Standing::Trusted(_))
    }
}

#[test]
fn a_yes_holds_for_this_folder_as_it_was_and_for_no_other() {
    let world = world();
    world.write(POLICY, "version: 1\n");
    world.write(".ukai/tools/a.toml", "x");
    assert!(!world.is_trusted());
    world.say_yes();
    assert!(world.is_trusted());
    for (quirk, change, back) in [
        ("a file changes", (POLICY, Some("version: 2\n")), (POLICY, Some("version: 1\n"))),
        ("a file comes", (".ukai/tools/b.toml", Some("")), (".ukai/tools/b.toml", None)),
        ("a file that was none comes", (CONFIG, Some("")), (CONFIG, None)),
        ("a script beside a tool changes", (".ukai/run.sh", Some("x")), (".ukai/run.sh", None)),
        ("a file goes", (".ukai/tools/a.toml", None), (".ukai/tools/a.toml", Some("x"))),
    ] {
        for ((name, text), expected) in [(change, false), (back, true)] {
            match text {
                Some(text) => world.write(name, text),
                None => fs::remove_file(world.folder.join(name)).expect("removed"),
            }
            assert_eq!(world.is_trusted(), expected, "{quirk}: {name}");
        }
    }
    world.write("src.rs", "what is not ukai's is not looked at");
    assert!(world.is_trusted());
    let by_link = world.folder.with_file_name("link");
    symlink(&world.folder, &by_link).expect("a link");
    let trust = Trust::of(&world.state);
    assert!(matches!(trust.standing(&by_link), Standing::Trusted(_)), "the real place counts");
    assert!(matches!(trust.standing(&world.folder.join(".ukai/..")), Standing::Trusted(_)));
    let moved = world.folder.with_file_name("moved");
    fs::rename(&world.folder, &moved).expect("moved");
    assert!(matches!(trust.standing(&moved), Standing::Unknown), "another place is another folder");
    assert!(matches!(trust.standing(&world.folder), Standing::Unknown), "nothing is there");
}

#[test]
fn nothing_outside_of_the_folder_is_read() {
    let world = world();
    let outside = world.folder.with_file_name("outside");
    fs::create_dir_all(&outside).expect("made");
    fs::write(outside.join("evil.toml"), "evil").expect("written");
    symlink(outside.join("evil.toml"), world.folder.join(POLICY)).expect("a link");
    symlink("../../../outside/evil.toml", world.folder.join(".ukai/tools/evil.toml")).expect("a link");
    symlink(&outside, world.folder.join(".ukai/more")).expect("a link");
    world.write(".ukai/tools/a.toml", "inside");
    symlink("a.toml", world.folder.join(".ukai/tools/b.toml")).expect("a link");
    let look = Look::at(&world.folder).expect("a look");
    for name in [POLICY, ".ukai/tools/evil.toml", ".ukai/more", ".ukai/more/evil.toml"] {
        assert_eq!(look.text(Path::new(name)), None, "{name}");
    }
    assert_eq!(look.text(Path::new(".ukai/tools/b.toml")), Some("inside"), "a link within is followed");
    assert_eq!(look.tools().len(), 2);
    let before = look.hash();
    fs::write(outside.join("evil.toml"), "other").expect("written");
    assert_eq!(Look::at(&world.folder).expect("a look").hash(), before, "its content is nobody's here");
    fs::remove_file(world.folder.join(".ukai/more")).expect("removed");
    symlink("/etc", world.folder.join(".ukai/more")).expect("a link");
    assert_ne!(Look::at(&world.folder).expect("a look").hash(), before, "where it leads to counts");
}

#[test]
fn what_is_no_file_holds_nobody_up_and_too_much_is_not_trusted() {
    let world = world();
    nix::unistd::mkfifo(&world.folder.join(".ukai/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let look = Look::at(&world.folder).expect("a look");
    assert_eq!(look.entries().count(), 1);
    for file in 0..look::FILES_MAX + 1 {
        world.write(&format!(".ukai/f{file}"), "");
    }
    assert!(matches!(Look::at(&world.folder), Err(LookError::TooMuch(_))));
}

#[test]
fn a_file_of_trust_that_does_not_verify_trusts_nobody() {
    let world = world();
    world.write(POLICY, "version: 1\n");
    world.say_yes();
    let text = fs::read_to_string(world.state.trust()).expect("it is there");
    fs::write(world.state.trust(), text.replace("12:00:00", "12:00:01")).expect("written");
    let trust = Trust::of(&world.state);
    assert!(trust.broken().is_some_and(|why| why.contains("checksum")));
    assert!(matches!(trust.standing(&world.folder), Standing::Unknown));
    assert!(kept::change(&world.state, |all| all.clear()).is_err());
}

#[test]
fn the_file_of_trust_is_these_bytes_for_ever() {
    let world = world();
    let kept = Kept { folder: "/w".into(), hash: "ab".to_owned(), at: "2026-11-30T12:00:00Z".to_owned() };
    assert!(kept::change(&world.state, |all| all.push(kept.clone())).expect("kept"));
    assert!(!kept::change(&world.state, |_| {}).expect("the same"));
    let text = fs::read_to_string(world.state.trust()).expect("it is there");
    let body = r#"{"schema":1,"folders":[{"folder":"/w","hash":"ab","at":"2026-11-30T12:00:00Z"}]"#;
    assert_eq!(text, ukai_protocol::checksum::seal(body.to_owned()));
    assert_eq!(kept::read(&world.state).expect("it loads"), [kept]);
}

#[test]
fn a_guard_in_a_folder_that_nobody_trusts_is_refused() {
    let world = world();
    fs::create_dir_all(world.folder.join(".claude")).expect("made");
    world.write(SETTINGS, "{}");
    world.write("hooks.json", "{}");
    let outside = world.folder.with_file_name("mine.json");
    fs::write(&outside, "{}").expect("written");
    let fault = |file: &Path| guard_fault(file, &world.folder, &Trust::of(&world.state).standing(&world.folder));
    let settings = world.folder.join(SETTINGS);
    assert!(fault(&settings).is_some_and(|why| why.contains("ukai trust ")));
    assert_eq!(fault(&outside), None);
    world.say_yes();
    assert_eq!(fault(&settings), None);
    assert!(fault(&world.folder.join("hooks.json")).is_some_and(|why| why.contains("none of the files")));
    assert!(fault(&world.folder.join("gone.json")).is_some());
}

#[test]
fn what_a_folder_ships_is_shown_with_its_place() {
    let world = world();
    world.write(POLICY, "version: 1\nrules:\n  allow:\n    - Read\n    - \"Bash(make:*)\"\n");
    world.write(CONFIG, "[limits]\nsteps = 3\n\n[[provider]]\nid = \"evil\"\n[hooks]\nx = 1\n");
    world.write(".ukai/tools/a.toml", "name = \"a\"\ndescription = \"A.\"\ncommand = [\"./a.sh\"]\n");
    world.write(".ukai/tools/b.toml", "nme = \"b\"\n");
    let look = Look::at(&world.folder).expect("a look");
    let items = shipped::items(&look, None);
    let shown = |kind: &str| items.iter().filter(|item| item.kind == kind).map(|item| &*item.place).collect::<Vec<_>>();
    assert_eq!(shown("allow rule"), ["tool_policy.yaml, line 4", "tool_policy.yaml, line 5"]);
    assert_eq!(shown("provider"), ["ukai.toml, line 4"]);
    assert_eq!(shown("hooks"), ["ukai.toml, line 6"]);
    assert_eq!(shown("tool"), [".ukai/tools/a.toml"]);
    assert_eq!(shown("broken tool"), [".ukai/tools/b.toml, line 1"]);
}
