//! Real repositories, real git, no jobs: what is made, committed, kept and removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ukai_protocol::job::JobSpec;

use super::record::{End, Record, Stage};
use super::*;
use crate::store::testing::{id, spec};

struct World {
    temp: tempfile::TempDir,
    worktrees: Worktrees,
    state: StateDir,
}

impl World {
    fn new() -> World {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path().join("state"));
        let worktrees = Worktrees::new(state.clone(), Family::found());
        let world = World { temp, worktrees, state };
        fs::create_dir_all(world.repo().join("src")).expect("folders");
        git(&world.repo(), &["init", "-q", "-b", "main"]);
        for (key, value) in [("user.name", "Owner"), ("user.email", "owner@example.org")] {
            git(&world.repo(), &["config", key, value]);
        }
        fs::write(world.repo().join("src/a.txt"), "one\n").expect("a file");
        fs::write(world.repo().join(".gitignore"), "ignored\n").expect("a file");
        git(&world.repo(), &["add", "-A"]);
        git(&world.repo(), &["commit", "-q", "-m", "first"]);
        world
    }

    fn repo(&self) -> PathBuf {
        self.temp.path().canonicalize().expect("a path").join("repo")
    }

    fn spec(&self, below: &str) -> JobSpec {
        JobSpec { workdir: self.repo().join(below), worktree: true, ..spec() }
    }

    fn ready(&self, number: u8) -> Place {
        self.try_ready(number, "src").expect("a worktree")
    }

    fn try_ready(&self, number: u8, below: &str) -> Result<Place, String> {
        self.worktrees.ready(&id(number), &self.spec(below), &AtomicBool::new(false))
    }

    fn close(&self, number: u8) -> End {
        let record = self.worktrees.close(&id(number), "fix-a").expect("closed").expect("it was open");
        self.worktrees.ended(&record).expect("noted");
        match record.stage {
            Stage::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    fn record(&self, number: u8) -> Record {
        record::load(&self.state, &id(number)).expect("read").expect("there")
    }

    /// Whatever of the repository is its owner's.
    fn owners(&self) -> String {
        let refs = git(&self.repo(), &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let refs: Vec<_> = refs.lines().filter(|line| !line.starts_with("refs/heads/ukai/")).collect();
        let read = |name: &str| fs::read(self.repo().join(".git").join(name)).expect("a file of git");
        let status = git(&self.repo(), &["status", "--porcelain=v2", "--branch", "--ignored"]);
        format!("{refs:?} {status} {:?} {:?} {:?}", read("HEAD"), read("index"), read("config"))
    }
}

#[track_caller]
fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // The index is compared byte by byte: nobody refreshes it.
    command.env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.args(args).current_dir(folder).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

fn program(path: &Path, shell: &str) {
    fs::write(path, format!("#!/bin/sh\n{shell}\n")).expect("a script");
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
}

#[test]
fn what_a_job_leaves_is_a_commit_on_its_branch_and_nothing_else() {
    let world = World::new();
    let before = world.owners();
    let place = world.ready(1);
    assert_eq!(place.workdir, place.path.join("src"));
    assert_eq!(fs::read_to_string(place.workdir.join("a.txt")).expect("checked out"), "one\n");
    fs::write(place.workdir.join("a.txt"), "two\n").expect("written");
    fs::write(place.path.join("new"), "new\n").expect("written");
    fs::write(place.path.join("ignored"), "").expect("written");
    let end = world.close(1);
    let commit = end.commit.expect("a commit");
    assert_eq!((end.kept, end.trouble), (true, None));
    assert_eq!(git(&world.repo(), &["rev-parse", "ukai/fix-a"]), commit);
    let changed = git(&world.repo(), &["diff", "--name-status", "main", "ukai/fix-a"]);
    assert_eq!(changed, "A\tnew\nM\tsrc/a.txt");
    let told = git(&world.repo(), &["log", "-1", "--format=%an <%ae>%n%B", "ukai/fix-a"]);
    assert!(told.starts_with("Owner <owner@example.org>\nfix-a\n") && told.contains(id(1).as_str()), "{told}");
    assert_eq!(git(&place.path, &["status", "--porcelain"]), "", "it is clean");
    assert_eq!(world.owners(), before);
    assert!(world.worktrees.close(&id(1), "fix-a").expect("known").is_none(), "once");
}

#[test]
fn what_holds_nothing_is_removed_without_a_trace() {
    let world = World::new();
    let before = world.owners();
    let place = world.ready(1);
    assert_eq!(world.close(1), End::default());
    assert!(!place.path.exists() && !world.repo().join(".git/worktrees").exists());
    assert_eq!((git(&world.repo(), &["branch", "--list", "ukai/*"]), world.owners()), (String::new(), before));
}

#[test]
fn twenty_at_once_all_get_one() {
    let world = World::new();
    let before = world.owners();
    std::thread::scope(|scope| {
        for number in 1..=20 {
            let world = &world;
            scope.spawn(move || {
                let place = world.ready(number);
                fs::write(place.workdir.join("own"), number.to_string()).expect("written");
                assert!(world.close(number).kept);
            });
        }
    });
    assert_eq!(git(&world.repo(), &["branch", "--list", "ukai/*"]).lines().count(), 20);
    for number in 1..=20 {
        let branch = world.record(number).branch;
        assert_eq!(git(&world.repo(), &["show", &format!("{branch}:src/own")]), number.to_string());
    }
    assert_eq!(world.owners(), before);
}

#[test]
fn a_taken_name_is_left_to_its_owner() {
    let world = World::new();
    git(&world.repo(), &["branch", "ukai/fix-a"]);
    world.ready(1);
    assert_eq!(world.record(1).branch, format!("ukai/fix-a-{}", id(1)));
    world.close(1);
    assert_eq!(git(&world.repo(), &["branch", "--list", "--format=%(refname:short)", "ukai/*"]), "ukai/fix-a");
}

#[test]
fn what_was_half_made_is_made_anew_and_what_was_open_never() {
    let world = World::new();
    let place = world.ready(1);
    fs::write(place.path.join("work"), "").expect("written");
    // As after a crash: the same is found.
    assert_eq!(world.ready(1), place);
    assert!(place.path.join("work").exists());
    let mut record = world.record(1);
    record.stage = Stage::Making;
    record::save(&world.state, &record).expect("saved");
    assert_eq!(world.ready(1), place);
    assert!(!place.path.join("work").exists(), "no worker had been in it");
    assert_eq!(git(&world.repo(), &["worktree", "list"]).lines().count(), 2);
    // And where nothing had been made but the note.
    let mut record = Record { job: id(2), path: world.state.worktree(&id(2)), ..world.record(1) };
    record.branch = "ukai/other".to_owned();
    record.stage = Stage::Making;
    record::save(&world.state, &record).expect("saved");
    world.ready(2);
}

#[test]
fn a_resumed_job_goes_on_where_it_was_and_what_was_merged_is_removed() {
    let world = World::new();
    let place = world.ready(1);
    fs::write(place.path.join("one"), "").expect("written");
    let first = world.close(1).commit.expect("a commit");
    assert_eq!(world.ready(1), place);
    fs::write(place.path.join("two"), "").expect("written");
    let second = world.close(1).commit.expect("a commit");
    assert_eq!(git(&world.repo(), &["rev-parse", "ukai/fix-a^"]), first);
    // A person removes the worktree, and not the branch.
    git(&world.repo(), &["worktree", "remove", place.path.to_str().expect("text")]);
    assert_eq!(world.ready(1), place);
    assert!(place.path.join("two").exists());
    assert_eq!(world.close(1).commit, Some(second));
    git(&world.repo(), &["merge", "-q", "ukai/fix-a"]);
    world.ready(1);
    assert_eq!(world.close(1), End::default());
    assert!(!place.path.exists());
}

#[test]
fn nothing_that_a_job_or_a_repository_names_is_run() {
    let world = World::new();
    let (repo, canary) = (world.repo(), world.temp.path().join("canary"));
    let touch = format!("echo \"$0 $*\" >> {}; cat", canary.display());
    fs::create_dir_all(repo.join(".git/hooks")).expect("a folder");
    for hook in
        ["post-checkout", "pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"]
    {
        program(&repo.join(".git/hooks").join(hook), &touch);
    }
    let tool = world.temp.path().join("tool");
    program(&tool, &touch);
    let tool = tool.to_str().expect("text");
    for key in ["filter.evil.clean", "filter.evil.smudge", "filter.own.process", "diff.evil.textconv", "gpg.program"] {
        git(&repo, &["config", key, tool]);
    }
    git(&repo, &["config", "filter.relative.clean", "./run-me"]);
    for (key, value) in [("filter.evil.required", "true"), ("commit.gpgSign", "true"), ("core.fsmonitor", tool)] {
        git(&repo, &["config", key, value]);
    }
    let place = world.ready(1);
    program(&place.path.join("run-me"), &touch);
    fs::write(place.path.join(".gitattributes"), "*.x filter=evil diff=evil\n*.y filter=relative\n*.z filter=own\n")
        .expect("written");
    for name in ["a.x", "a.y", "a.z"] {
        fs::write(place.path.join(name), "raw\n").expect("written");
    }
    let end = world.close(1);
    assert_eq!((end.kept, end.trouble), (true, None));
    assert_eq!(fs::read_to_string(&canary).unwrap_or_default(), "", "nothing was run");
    git(&repo, &["config", "--unset", "core.fsmonitor"]);
    for name in ["a.x", "a.y", "a.z"] {
        assert_eq!(git(&repo, &["cat-file", "blob", &format!("ukai/fix-a:{name}")]), "raw");
    }
}

#[test]
fn a_repository_within_is_not_entered_and_not_lost() {
    let world = World::new();
    let canary = world.temp.path().join("canary");
    let place = world.ready(1);
    let within = place.path.join("within");
    fs::create_dir(&within).expect("a folder");
    git(&within, &["init", "-q"]);
    git(&within, &["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x"]);
    let tool = world.temp.path().join("tool");
    program(&tool, &format!("touch {}", canary.display()));
    git(&within, &["config", "core.fsmonitor", tool.to_str().expect("text")]);
    for round in ["one", "two"] {
        fs::write(place.path.join(round), "").expect("written");
        let end = world.close(1);
        assert!(end.kept && end.trouble.as_ref().is_some_and(|why| why.contains("within")), "{end:?}");
        let tree = git(&world.repo(), &["ls-tree", "--name-only", "ukai/fix-a"]);
        assert!(tree.contains(round) && !tree.contains("within"), "{tree}");
        world.ready(1);
    }
    assert!(within.exists() && !canary.exists());
}

#[test]
fn what_cannot_be_committed_is_kept_and_told() {
    let world = World::new();
    let place = world.ready(1);
    fs::remove_file(place.workdir.join("a.txt")).expect("removed");
    nix::unistd::mkfifo(&place.workdir.join("a.txt"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    fs::write(place.path.join("rest"), "").expect("written");
    let end = world.close(1);
    assert!(end.kept && end.trouble.as_ref().is_some_and(|why| why.contains("not all that changed")), "{end:?}");
    assert!(git(&world.repo(), &["ls-tree", "--name-only", "ukai/fix-a"]).contains("rest"));
    // On another branch than its own.
    let place = world.ready(2);
    git(&place.path, &["checkout", "-q", "-b", "elsewhere"]);
    fs::write(place.path.join("work"), "").expect("written");
    let end = world.close(2);
    assert!(end.kept && end.trouble.is_some_and(|why| why.contains("no longer on the branch")));
    assert!(place.path.join("work").exists());
}

#[test]
fn a_lock_of_another_git_is_waited_for() {
    let world = World::new();
    let place = world.ready(1);
    fs::write(place.path.join("work"), "").expect("written");
    let lock = world.record(1).git_dir.join("index.lock");
    fs::write(&lock, "").expect("a lock");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            fs::remove_file(&lock).expect("unlocked");
        });
        assert_eq!(world.close(1).trouble, None);
    });
}

#[test]
fn where_there_can_be_none_is_said() {
    let world = World::new();
    let outside = world.temp.path().join("outside");
    fs::create_dir(&outside).expect("a folder");
    let said = check(&outside).expect_err("no repository");
    assert!(said.contains("no work tree of git"), "{said}");
    git(&outside, &["init", "-q"]);
    let said = check(&outside.canonicalize().expect("a path")).expect_err("no commit");
    assert!(said.contains("no commit yet"), "{said}");
    check(&world.repo()).expect("here there can");

    // In the commit the folder is a link to elsewhere.
    fs::create_dir(world.repo().join("link")).expect("a folder");
    let real = world.repo().join("link");
    fs::remove_dir(&real).expect("removed");
    std::os::unix::fs::symlink("/", &real).expect("a link");
    git(&world.repo(), &["add", "-A"]);
    git(&world.repo(), &["commit", "-q", "-m", "link"]);
    fs::remove_file(&real).expect("removed");
    fs::create_dir(&real).expect("a folder");
    let said = world.try_ready(1, "link").expect_err("it leads out");
    assert!(said.contains("no folder in that commit"), "{said}");
    // It ends without a worktree: nothing of it is left.
    assert_eq!(world.close(1), End::default());
    assert!(!world.state.worktree(&id(1)).exists());
}

#[test]
fn who_is_stopped_stops_waiting() {
    let world = World::new();
    let stopped = world.worktrees.ready(&id(1), &world.spec(""), &AtomicBool::new(true));
    assert!(stopped.expect_err("stopped").contains("it was stopped"));
    assert_eq!(record::load(&world.state, &id(1)).expect("read"), None);
}

mod lost;
