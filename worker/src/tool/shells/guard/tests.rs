//! What came to be where a rule denies it is told, once, and what was there before is not.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::permission::tests::shipped;
use ukai_protocol::policy::Rule;

struct World {
    work: PathBuf,
    permission: Permission,
    _temp: tempfile::TempDir,
}

impl World {
    fn new(files: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let work = temp.path().canonicalize().expect("a path").join("work");
        std::fs::create_dir(&work).expect("a folder");
        let mut policy = shipped(&work);
        policy.deny.push(Rule::new("Edit(secrets/**)".to_owned(), "/"));
        let permission = Permission::new(&policy, &work, Path::new("/nohome"), Path::new("/nowhere/outputs"))
            .keeping(&[work.join(".config/ukai"), work.join("keys/lab")]);
        let world = World { work, permission, _temp: temp };
        files.iter().for_each(|file| world.file(file));
        world
    }

    fn file(&self, name: &str) {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, name).expect("a file");
    }

    fn begin(&self, since: Option<SystemTime>) -> (Guard, Closed, Vec<Notice>) {
        Guard::begin(&self.permission, None, since)
    }

    fn at(&self, names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(|name| self.work.join(name)).collect()
    }
}

/// What came, as one alarm tells it.
fn came(said: &[Notice]) -> &str {
    let [Notice { text, is_alarm: true }] = said else { panic!("one alarm: {said:?}") };
    let named = text.split_once("commands ran: ").and_then(|(_, rest)| rest.split_once(". Who made it"));
    named.unwrap_or_else(|| panic!("{text}")).0
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

#[test]
fn what_comes_to_be_where_a_rule_denies_it_is_told_once_and_left_as_it_is() {
    let world = World::new(&["src/main.rs"]);
    let (mut guard, closed, said) = world.begin(None);
    assert!(closed.protect.is_empty() && closed.hide.is_empty() && said.is_empty());
    assert_eq!(guard.check(&world.permission), []);
    for (made, named) in [
        (".claude/settings.json", ".claude"),
        (".env.local", ".env.local"),
        ("src/deep/.env", "src/deep/.env"),
        ("secrets/key", "secrets"),
        (".ukai/tools/x.toml", ".ukai"),
        ("a/.git/config", "a/.git"),
        (".config/ukai/tool_policy.yaml", ".config/ukai"),
        ("keys/lab", "keys/lab"),
    ] {
        world.file(made);
        assert_eq!(came(&guard.check(&world.permission)), named);
        assert_eq!(std::fs::read_to_string(world.work.join(made)).expect("it is there"), made);
        assert_eq!(guard.check(&world.permission), [], "{made}");
    }
    symlink("src", world.work.join("tool_policy.yaml")).expect("a link");
    world.file("fine");
    assert_eq!(came(&guard.check(&world.permission)), "tool_policy.yaml");
    (0..8).for_each(|n| world.file(&format!("b{n}/.env")));
    assert!(came(&guard.check(&world.permission)).ends_with("and 3 more"));
    world.file(".env.a\nb");
    assert_eq!(came(&guard.check(&world.permission)), ".env.a\u{fffd}b");
}

#[test]
fn what_was_there_is_closed_and_known_wherever_its_folder_is_moved() {
    let world = World::new(&[".git/config", "src/.git/config", ".env", "a/.env.x", ".config/ukai/x", "keys/lab"]);
    symlink("src", world.work.join(".env.link")).expect("a link");
    let (mut guard, closed, said) = world.begin(None);
    assert_eq!(said, []);
    assert_eq!(sorted(closed.hide), sorted(world.at(&[".config/ukai", ".env", "a/.env.x", "keys/lab", "src"])));
    assert_eq!(sorted(closed.protect), world.at(&[".git", "src/.git"]));
    std::fs::rename(world.work.join("src"), world.work.join("moved")).expect("moved");
    std::fs::write(world.work.join(".env"), "changed by its owner").expect("written");
    assert_eq!(guard.check(&world.permission), []);
    // In its old place it is new.
    world.file("src/.git/config");
    assert_eq!(came(&guard.check(&world.permission)), "src/.git");
}

#[test]
fn what_an_earlier_process_of_the_job_may_have_left_is_told_by_the_next_one_and_closed() {
    let world = World::new(&[".env", "src/x"]);
    std::thread::sleep(Duration::from_millis(50));
    let since = SystemTime::now();
    std::thread::sleep(Duration::from_millis(50));
    world.file(".claude/settings.json");
    let born = std::fs::metadata(world.work.join(".claude")).expect("a folder").created().is_ok();
    let (mut guard, closed, said) = world.begin(Some(since));
    if born {
        assert_eq!(came(&said), ".claude");
    }
    assert_eq!((closed.hide, closed.protect), (world.at(&[".env"]), world.at(&[".claude"])));
    assert_eq!(guard.check(&world.permission), []);
}
