use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::permission::tests::shipped;
use ukai_protocol::policy::Rule;

struct World {
    work: PathBuf,
    run: PathBuf,
    permission: Permission,
    _temp: tempfile::TempDir,
}

impl World {
    fn new(files: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        let (work, run) = (top.join("work"), top.join("run"));
        for folder in [&work, &run] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let mut policy = shipped(&work);
        policy.deny.push(Rule::new("Edit(secrets/**)".to_owned(), "/"));
        let permission = Permission::new(&policy, &work, Path::new("/nohome"), &run.join("outputs"));
        let world = World { work, run, permission, _temp: temp };
        files.iter().for_each(|file| world.file(file));
        world
    }

    fn file(&self, name: &str) {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, name).expect("a file");
    }

    fn begin(&self, resumes: u32) -> (Guard, Closed) {
        Guard::begin(&self.permission, &self.run, resumes, Vec::new()).expect("a guard")
    }

    fn has(&self, name: &str) -> bool {
        self.work.join(name).symlink_metadata().is_ok()
    }

    fn refused(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.run.join("refused")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != RECORD).collect();
        names.sort();
        names
    }
}

#[test]
fn what_a_command_makes_where_a_rule_denies_it_is_put_aside_whole_and_told() {
    let world = World::new(&["src/main.rs"]);
    let (mut guard, closed) = world.begin(0);
    assert!(closed.protect.is_empty() && closed.hide.is_empty() && closed.refused.is_none());
    assert_eq!(guard.check(&world.permission), None);
    for made in
        [".claude/settings.json", ".env.local", "src/deep/.env", "secrets/key", ".ukai/tools/x.toml", "a/.git/config"]
    {
        world.file(made);
        let said = guard.check(&world.permission).unwrap_or_else(|| panic!("{made} is told"));
        assert!(said.contains("taken away to") && !world.has(made), "{made}: {said}");
    }
    symlink("src", world.work.join("tool_policy.yaml")).expect("a link");
    world.file("fine");
    let said = guard.check(&world.permission).expect("told");
    assert!(said.ends_with(": tool_policy.yaml"), "{said}");
    let all = ["1-claude", "1-env", "1-env.local", "1-git", "1-secrets", "1-tool_policy.yaml", "1-ukai"];
    assert_eq!(world.refused(), all);
    assert_eq!(std::fs::read_to_string(world.run.join("refused/1-secrets/key")).expect("kept"), "secrets/key");
    assert!(world.has("fine") && world.has("src/main.rs") && world.has("a") && world.has("src/deep"));
    // The same again has a name of its own, and many are told by some.
    (0..8).for_each(|n| world.file(&format!("b{n}/.env")));
    let said = guard.check(&world.permission).expect("told");
    assert!(said.ends_with("and 3 more"), "{said}");
    assert!(world.refused().contains(&"9-env".to_owned()), "{:?}", world.refused());
    assert_eq!(guard.check(&world.permission), None);
}

#[test]
fn what_was_there_is_closed_and_stays_wherever_its_folder_is_moved() {
    let world = World::new(&[".git/config", "src/.git/config", ".env", "a/.env.x"]);
    symlink("src", world.work.join(".env.link")).expect("a link");
    let (mut guard, closed) = world.begin(0);
    let at = |names: &[&str]| names.iter().map(|name| world.work.join(name)).collect::<Vec<_>>();
    let sorted = |mut paths: Vec<PathBuf>| {
        paths.sort();
        paths
    };
    assert_eq!(sorted(closed.hide), at(&[".env", "a/.env.x", "src"]));
    assert_eq!(sorted(closed.protect), at(&[".git", "src/.git"]));
    std::fs::rename(world.work.join("src"), world.work.join("moved")).expect("moved");
    std::fs::write(world.work.join(".env"), "changed by its owner").expect("written");
    assert_eq!(guard.check(&world.permission), None);
    // In its old place it is new.
    world.file("src/.git/config");
    assert!(guard.check(&world.permission).is_some_and(|said| said.ends_with(": src/.git")));
    assert!(world.has("moved/.git/config") && world.has(".env") && world.has(".env.link"));
}

#[test]
fn what_a_killed_workers_command_made_is_found_by_the_next_one() {
    let world = World::new(&[".env", "src/x"]);
    drop(world.begin(0));
    world.file(".claude/settings.json");
    let (guard, closed) = world.begin(0);
    assert!(closed.refused.is_some_and(|said| said.ends_with(": .claude")) && !world.has(".claude"));
    assert!(world.has(".env") && closed.hide == [world.work.join(".env")] && closed.protect.is_empty());
    // After an end that was seen to, and after a person's word, whatever is there is the owner's.
    guard.end().expect("ended");
    assert_eq!(world.refused(), ["1-claude"]);
    world.file(".claude/settings.json");
    assert_eq!(world.begin(0).1.refused, None);
    world.file(".env.new");
    assert_eq!(world.begin(1).1.refused, None);
    assert!(world.has(".claude") && world.has(".env.new"));
}

#[test]
fn a_record_that_cannot_be_read_lets_nothing_start() {
    let world = World::new(&[]);
    std::fs::create_dir(world.run.join("refused")).expect("a folder");
    std::fs::write(world.run.join("refused/known.json"), "{").expect("written");
    let error = Guard::begin(&world.permission, &world.run, 0, Vec::new()).map(drop).expect_err("refused");
    assert!(error.contains("known.json") && error.contains("remove it"), "{error}");
}

#[test]
fn where_it_cannot_be_moved_away_it_gets_a_harmless_name_beside() {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let world = World::new(&[]);
    let refused = other.path().join("refused");
    std::fs::create_dir(&refused).expect("a folder");
    world.file("a/.env");
    put_aside(&world.work.join("a/.env"), &refused).expect("put aside");
    assert!(!world.has("a/.env") && world.has("a/refused-by-ukai-1-env"));
}

#[test]
fn no_swap_leads_it_to_what_is_not_the_jobs() {
    let world = World::new(&["a/.env"]);
    let outside = world.run.join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join(".env"), "the owner's").expect("a file");
    std::fs::rename(world.work.join("a"), world.work.join("b")).expect("moved");
    symlink(&outside, world.work.join("a")).expect("a link");
    put_aside(&world.work.join("a/.env"), &world.run).expect_err("a link is in the way");
    assert!(outside.join(".env").exists());
}
