//! What the tools do not show, and how they say so.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;

#[test]
fn reads_outside_the_roots_and_of_credentials_are_refused_by_the_tool_itself() {
    let world = World::new();
    let top = world.top();
    std::fs::write(top.join("secret"), "SECRET").expect("a file");
    std::fs::create_dir(top.join("home/.ssh")).expect("a folder");
    std::fs::write(top.join("home/.ssh/id"), "SECRET").expect("a file");
    world.write(".env", "SECRET");
    world.write("a", "fine");
    for (target, link) in [("../secret", "out"), ("..", "up"), (".env", "to_env"), ("/nowhere/x", "dangling")] {
        symlink(target, world.work.join(link)).expect("a link");
    }
    symlink(world.work.join("a"), world.work.join("absolute")).expect("a link");
    assert_eq!(world.ok("Read", &json!({"file_path": "absolute"})), "     1\tfine\n");
    for path in [
        "../secret",
        "out",
        "up/secret",
        ".env",
        "to_env",
        "dangling",
        "~/.ssh/id",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
    ] {
        for (tool, input) in [
            ("Read", json!({"file_path": path})),
            ("Grep", json!({"path": path, "pattern": "SECRET", "output_mode": "content"})),
        ] {
            let done = world.run(tool, &input);
            assert!(
                !done.output.contains("     1\t") && !done.output.contains(":1:"),
                "{tool} {path}: {}",
                done.output
            );
            let found = done.status == ToolStatus::Ok && !done.output.ends_with("total: 0 matching lines in 0 files\n");
            assert!(!found, "{tool} {path}: {}", done.output);
        }
    }
    world.refused("Glob", &json!({"pattern": "*", "path": "up"}), ToolStatus::Denied, "outside");
    world.refused("Glob", &json!({"pattern": "../*"}), ToolStatus::Invalid, "must stay below");
}

#[test]
fn denied_files_are_left_out_of_searches_and_counted() {
    let world = World::new();
    for path in [".env", "sub/.ENV.local", ".env.d/x", "a"] {
        world.write(path, "needle\n");
    }
    let denied = "[left out: 3 files that the policy of this job denies]\n";
    assert_eq!(world.ok("Glob", &json!({"pattern": "**/*"})), format!("a\n{denied}total: 1 file\n"));
    assert_eq!(world.ok("Grep", &json!({"pattern": "needle"})), format!("a\n{denied}total: 1 file\n"));
}

#[test]
fn what_is_no_regular_file_is_a_clear_error() {
    let world = World::new();
    nix::unistd::mkfifo(&world.work.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let _socket = std::os::unix::net::UnixListener::bind(world.work.join("socket")).expect("a socket");
    let giant = std::fs::File::create(world.work.join("giant")).expect("a file");
    giant.set_len(10_000_000_000).expect("a sparse file");
    world.write("binary", b"a\0b");
    world.write("empty", "");
    world.write("a", "one\n");
    for (path, why) in [
        ("fifo", "it is a FIFO"),
        ("socket", "it is a socket"),
        (".", "Glob lists"),
        ("giant", "10000000000 bytes"),
        ("binary", "binary file of 3 bytes"),
        ("none", "does not exist"),
        ("a/x", "does not exist"),
    ] {
        world.refused("Read", &json!({"file_path": path}), ToolStatus::Failed, why);
    }
    world.refused("Read", &json!({"file_path": "a", "offset": 3}), ToolStatus::Invalid, "no line 3");
    world.refused("Read", &json!({"file_path": 1}), ToolStatus::Invalid, "must be a string");
    world.refused("Glob", &json!({"pattern": "[a"}), ToolStatus::Invalid, "cannot be read");
    world.refused("Glob", &json!({"pattern": "*", "path": "a"}), ToolStatus::Failed, "not a folder");
    world.refused("Grep", &json!({"pattern": "("}), ToolStatus::Invalid, "cannot be read");
    world.refused("Grep", &json!({"pattern": "a\\nb"}), ToolStatus::Invalid, "multiline");
    world.refused("Grep", &json!({"pattern": "a", "path": "none"}), ToolStatus::Failed, "does not exist");
    world.refused("Grep", &json!({"pattern": "a", "path": "fifo"}), ToolStatus::Failed, "FIFO");
    world.refused("Agent", &json!({"prompt": "x"}), ToolStatus::Invalid, "no tool named `Agent`");
    world.refused("read\u{1b}[31m", &json!({}), ToolStatus::Invalid, "nearest are Read");
    assert_eq!(world.ok("Read", &json!({"file_path": "empty"})), "empty is an empty file.");
    let found = world.ok("Grep", &json!({"pattern": "one"}));
    assert!(found.starts_with("a\n") && found.contains("too large, the first is giant"), "{found}");
}

/// A link is swapped as fast as it can be between a harmless file and a secret outside, while everything reads it.
#[test]
fn a_swap_between_check_and_use_never_shows_what_is_outside() {
    let world = World::new();
    let top = world.top();
    std::fs::create_dir(top.join("outside")).expect("a folder");
    std::fs::write(top.join("outside/file"), "SECRET\n").expect("a file");
    world.write("inside/file", "harmless\n");
    world.write("real/file", "harmless\n");
    let stop = AtomicBool::new(false);
    let swapped = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swapped = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                // `file` is by turns a link in and a link out, `folder` a link in, a link out, and a real folder.
                for (target, link) in [("inside/file", "file"), ("../outside/file", "file")] {
                    swap(&world.work, target, link);
                }
                for target in ["inside", "../outside"] {
                    swap(&world.work, target, "folder");
                }
                std::fs::remove_file(world.work.join("folder")).expect("removed");
                std::fs::rename(world.work.join("real"), world.work.join("folder")).expect("renamed");
                std::fs::rename(world.work.join("folder"), world.work.join("real")).expect("renamed");
                swapped += 1;
            }
            swapped
        });
        let mut harmless = 0;
        for _ in 0..400 {
            for (tool, input) in [
                ("Read", json!({"file_path": "file"})),
                ("Read", json!({"file_path": "folder/file"})),
                ("Grep", json!({"pattern": ".", "output_mode": "content"})),
                ("Grep", json!({"pattern": ".", "output_mode": "content", "path": "folder"})),
            ] {
                let done = world.run(tool, &input);
                assert!(!done.output.contains("SECRET"), "{tool} {input}: {}", done.output);
                harmless += u32::from(done.output.contains("harmless"));
            }
        }
        assert!(harmless > 0, "the race must be one that reads something at all");
        stop.store(true, Ordering::Relaxed);
        swapper.join().expect("the swapper ends")
    });
    assert!(swapped > 10, "{swapped}");
}

fn swap(work: &Path, target: &str, link: &str) {
    let temporary = work.join(".swap");
    symlink(target, &temporary).expect("a link");
    std::fs::rename(&temporary, work.join(link)).expect("renamed");
}
