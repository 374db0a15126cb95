//! What is found in a folder, and what was left out, at whatever depth it lies.

use std::os::unix::fs::symlink;
use std::time::Instant;

use super::*;
use crate::permission::tests::shipped;

struct World {
    top: PathBuf,
    permission: Permission,
    look: Look,
    _temp: tempfile::TempDir,
}

impl World {
    fn new(files: &[&str]) -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        let permission = Permission::new(&shipped(&top), &top, Path::new("/nohome"), Path::new("/noout"));
        let look = Look::new(&top, vec![top.join("state")]);
        let world = World { top, permission, look, _temp: temp };
        files.iter().for_each(|file| world.file(file));
        world
    }

    fn file(&self, name: &str) {
        let path = self.top.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, "").expect("a file");
    }

    /// What a look finds, and whether it saw all.
    fn look(&mut self) -> Vec<(String, Closing)> {
        let seen = self.look.again(&self.permission);
        assert_eq!(seen.left_out, None);
        let mut found: Vec<(String, Closing)> = seen
            .found
            .iter()
            .map(|found| (found.path.strip_prefix(&self.top).expect("inside").display().to_string(), found.closing))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// Past the moment in which a change may go unseen.
    fn settle(&mut self) {
        std::thread::sleep(2 * TICK);
        self.look();
        assert!(self.look.folders.values().all(Option::is_some));
    }
}

fn names(found: &[(String, Closing)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn what_rules_deny_is_found_where_it_lies_however_deep() {
    let deep = format!("{}.env", "d/".repeat(60));
    let files = [".git/config", "src/.git/x", "a/b/.env.local", ".claude/s", "src/main.rs", "tool_policy.yaml", ".env"];
    let mut world = World::new(&files);
    world.file(&deep);
    world.file("state/.env");
    symlink("src", world.top.join(".env.link")).expect("a link");
    let found = world.look();
    let (hidden, kept): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, closing)| *closing == Closing::Hidden);
    assert_eq!(names(&hidden), [".env", ".env.link", "a/b/.env.local", &deep]);
    // Every `.git`, wherever; of the others, a rule with a slash in it is for the top.
    assert_eq!(names(&kept), [".claude", ".git", "src/.git", "tool_policy.yaml"]);
}

#[test]
fn a_later_look_finds_what_came_and_lists_nothing_that_stands() {
    let mut world = World::new(&["src/main.rs", "a/b/c", ".env"]);
    world.settle();
    assert_eq!(world.look(), []);
    for new in ["src/.env", "a/b/new/deep/.env.x", ".claude/settings.json"] {
        world.file(new);
        assert!(!world.look().is_empty(), "{new}");
    }
    world.settle();
    // Times that a command can set, and a folder that takes another's place.
    world.file("a/b/.env");
    let old = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH).set_accessed(std::time::UNIX_EPOCH);
    std::fs::File::open(world.top.join("a/b")).and_then(|folder| folder.set_times(old)).expect("its times");
    assert_eq!(names(&world.look()), ["a/b/.env"]);
    world.file("other/.env");
    std::fs::remove_dir_all(world.top.join("src")).expect("removed");
    std::fs::rename(world.top.join("other"), world.top.join("src")).expect("moved");
    assert!(names(&world.look()).contains(&"src/.env"));
}

#[test]
fn no_link_leads_a_look_out_of_the_workdir() {
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join(".env"), "").expect("a file");
    let mut world = World::new(&["a/x"]);
    world.settle();
    std::fs::remove_dir_all(world.top.join("a")).expect("removed");
    symlink(outside.path(), world.top.join("a")).expect("a link");
    assert_eq!(world.look(), []);
}

/// For `docs/performance.md`: `cargo nextest run --release … --run-ignored=only --no-capture`.
#[test]
#[ignore = "a measurement"]
fn what_a_look_costs() {
    let mut world = World::new(&[]);
    for folder in 0..20_000 {
        let path = world.top.join(format!("node_modules/package-{}/lib/part-{}", folder / 10, folder % 10));
        std::fs::create_dir_all(&path).expect("folders");
        for file in 0..10 {
            std::fs::write(path.join(format!("module-{file}.js")), "").expect("a file");
        }
    }
    std::thread::sleep(2 * TICK);
    for what in ["first", "second", "third"] {
        let began = Instant::now();
        let found = world.look().len();
        println!("{what}: {:?}, {found} found, {} folders", began.elapsed(), world.look.folders.len());
    }
}
