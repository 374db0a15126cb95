//! Write against real files: what it leaves, what it refuses, what a disk that fails leaves.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use ukai_protocol::disk::fault::{Effect, Fault, Operation, inject};
use ukai_protocol::event::{Change, FileChange};

use super::*;

fn write(path: &str, content: &str) -> Value {
    json!({"file_path": path, "content": content})
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
}

#[test]
fn a_new_file_is_like_any_that_its_owner_creates() {
    let world = World::writable();
    let plain = world.work.join("plain");
    std::fs::File::create(&plain).expect("a file");
    for path in ["new", "deep/er/new", "./a b/ü"] {
        let done = world.run("Write", &write(path, "one\ntwo"));
        assert_eq!((done.status, done.output), (ToolStatus::Ok, format!("Created {path}: 2 lines, 7 bytes.")));
        let real = world.work.join(path).canonicalize().expect("it is there");
        assert_eq!(std::fs::read_to_string(&real).expect("text"), "one\ntwo");
        assert_eq!(mode(&real), mode(&plain), "{path}");
        let change = FileChange { path: real.display().to_string(), change: Change::Created };
        assert_eq!(done.files_changed, [change]);
    }
    world.ok("Write", &write("empty", ""));
    assert_eq!(world.read("empty"), "");
    assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
}

#[test]
fn what_was_not_seen_as_it_is_is_not_overwritten() {
    let world = World::writable();
    let read = |path: &str| world.ok("Read", &json!({"file_path": path}));
    let refused = |path: &str, why: &str| {
        let before = world.read(path);
        world.refused("Write", &write(path, "mine"), ToolStatus::Failed, why);
        world.refused(
            "Edit",
            &json!({"file_path": path, "old_string": "o", "new_string": "x"}),
            ToolStatus::Failed,
            why,
        );
        assert_eq!(world.read(path), before);
    };
    for path in ["unread", "changed", "longer", "gone_and_back", "read", "touched", "link_target"] {
        world.write(path, "old");
    }
    symlink("link_target", world.work.join("link")).expect("a link");
    world.write("empty", "");
    refused("unread", "you have not read it here");
    assert!(world.ok("Grep", &json!({"pattern": "old", "output_mode": "content"})).contains("unread:1:old"));
    refused("unread", "Read it first");
    for path in ["changed", "longer", "gone_and_back", "read", "touched", "link"] {
        read(path);
    }
    world.write("changed", "dlo");
    refused("changed", "other contents than when you last saw it");
    world.write("longer", "older");
    refused("longer", "another size than when you last saw it. Nothing was written. Read it again");
    std::fs::remove_file(world.work.join("gone_and_back")).expect("removed");
    world.write("gone_and_back", "other");
    refused("gone_and_back", "Read it again");
    std::fs::File::create(world.work.join("large")).expect("a file").set_len(65 << 20).expect("a sparse file");
    world.refused("Write", &write("large", ""), ToolStatus::Failed, "Read it first");
    read("changed");
    // Seen as it is; written over by the job itself; the same contents; nothing to lose.
    world.write("touched", "old");
    world.write("rewritten", "mine");
    for path in ["changed", "read", "read", "touched", "link_target", "link", "rewritten", "empty"] {
        let done = world.run("Write", &write(path, "mine"));
        assert_eq!(done.status, ToolStatus::Ok, "{path}: {}", done.output);
        assert_eq!(done.files_changed[0].change, Change::Modified);
        assert_eq!(world.read(path), "mine");
    }
    assert!(world.work.join("link").is_symlink(), "the link stays, and what it leads to is written");
}

#[test]
fn mode_owner_line_ends_and_mark_are_kept() {
    let world = World::writable();
    let rewrite = |path: &str, content: &str| {
        world.ok("Read", &json!({"file_path": path}));
        world.ok("Write", &write(path, content))
    };
    for (before, after) in [(0o755, 0o755), (0o600, 0o600), (0o640, 0o640), (0o4755, 0o755), (0o2711, 0o711)] {
        let name = format!("{before:o}");
        world.write(&name, "old");
        set_mode(&world.work.join(&name), before);
        rewrite(&name, "new");
        assert_eq!(mode(&world.work.join(&name)), after, "{name}");
    }
    for (quirk, before, content, after) in [
        ("CRLF", "a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"),
        ("CRLF, given as such", "a\r\n", "x\r\ny\n", "x\r\ny\r\n"),
        ("LF", "a\nb\n", "x\r\ny\n", "x\r\ny\n"),
        ("mixed", "a\r\nb\n", "x\ny\n", "x\ny\n"),
        ("no line end at the end", "a\n", "x", "x"),
        ("a mark", "\u{feff}a\n", "x\n", "\u{feff}x\n"),
        ("a mark and CRLF", "\u{feff}a\r\n", "\u{feff}x\n", "\u{feff}x\r\n"),
    ] {
        world.write("shaped", before);
        rewrite("shaped", content);
        assert_eq!(world.read("shaped"), after, "{quirk}");
    }
    if rustix::process::geteuid().is_root() {
        world.write("theirs", "old");
        std::os::unix::fs::chown(world.work.join("theirs"), Some(1234), Some(2345)).expect("another owner");
        rewrite("theirs", "new");
        let meta = std::fs::metadata(world.work.join("theirs")).expect("it is there");
        assert_eq!((meta.uid(), meta.gid()), (1234, 2345));
    }
}

#[test]
fn what_a_write_would_break_or_cannot_be_is_refused_with_the_reason() {
    let world = World::writable();
    let top = world.top();
    world.write("a", "old");
    std::fs::hard_link(world.work.join("a"), world.work.join("b")).expect("a second name");
    for (name, mode) in [("protected", 0o444), ("for_others", 0o066)] {
        world.write(name, "old");
        set_mode(&world.work.join(name), mode);
    }
    world.write("folder/x", "old");
    world.write("binary", b"a\0b");
    nix::unistd::mkfifo(&world.work.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let _socket = std::os::unix::net::UnixListener::bind(world.work.join("socket")).expect("a socket");
    std::fs::File::create(world.work.join("giant")).expect("a file").set_len(10_000_000_000).expect("a sparse file");
    std::fs::write(top.join("secret"), "SECRET").expect("a file");
    std::fs::write(top.join("outputs/spilled"), "SECRET").expect("a file");
    for (target, link) in [("../secret", "out"), ("..", "up"), (".env", "to_env"), ("/nowhere/x", "dangling")] {
        symlink(target, world.work.join(link)).expect("a link");
    }
    let spilled = top.join("outputs/spilled");
    for (path, status, why) in [
        ("a", ToolStatus::Failed, "one of 2 names of the same file"),
        ("protected", ToolStatus::Failed, "write-protected"),
        ("for_others", ToolStatus::Failed, ""),
        ("folder", ToolStatus::Failed, "it is a folder"),
        (".", ToolStatus::Failed, "it is a folder"),
        ("new/", ToolStatus::Invalid, "names a folder"),
        ("a/b", ToolStatus::Failed, "is no folder"),
        ("a/b/c", ToolStatus::Failed, "is no folder"),
        ("binary", ToolStatus::Failed, "a binary file"),
        ("fifo", ToolStatus::Failed, "a FIFO"),
        ("socket", ToolStatus::Failed, "a socket"),
        ("giant", ToolStatus::Failed, "10000000000 bytes"),
        ("nul\0", ToolStatus::Invalid, "NUL"),
        ("", ToolStatus::Invalid, "empty"),
        ("../secret", ToolStatus::Denied, "outside"),
        ("out", ToolStatus::Denied, "outside"),
        ("up/new", ToolStatus::Denied, "outside"),
        ("dangling", ToolStatus::Denied, "outside"),
        ("/etc/ukai", ToolStatus::Denied, "outside"),
        ("/dev/null", ToolStatus::Denied, "outside"),
        ("/proc/self/comm", ToolStatus::Denied, "outside"),
        (spilled.to_str().expect("text"), ToolStatus::Denied, "outside"),
        (".env", ToolStatus::Denied, "forbids"),
        ("to_env", ToolStatus::Denied, "forbids"),
        (".git/hooks/pre-commit", ToolStatus::Denied, "forbids"),
    ] {
        for (tool, input) in [
            ("Write", write(path, "mine")),
            ("Edit", json!({"file_path": path, "old_string": "", "new_string": "mine"})),
        ] {
            // Of what it edits, Edit says what is wrong with it as a text.
            if !(tool == "Edit" && path == "binary") {
                world.refused(tool, &input, status, why);
            }
        }
    }
    world.refused("Write", &write("new", "a\0b"), ToolStatus::Invalid, "NUL");
    assert_eq!((world.read("a").as_str(), world.read("protected").as_str()), ("old", "old"));
    assert_eq!(std::fs::read_to_string(top.join("secret")).expect("text"), "SECRET");
    assert!(!world.work.join(".git").exists() && !world.work.join(".env").exists() && !world.work.join("new").exists());
    assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
}

#[test]
fn a_rule_opens_what_it_names_and_the_folders_on_the_way_within_it() {
    let world = World::allowing(|top| {
        let top = top.display();
        vec![format!("Edit(/{top}/notes/**)"), format!("Write(/{top}/one/file)"), "Edit(~/x/*.md)".to_owned()]
    });
    let top = world.top();
    std::fs::create_dir(top.join("home/x")).expect("a folder");
    for (path, status, why) in [
        ("notes/deep/er/a", ToolStatus::Ok, "Created"),
        ("home/x/a.md", ToolStatus::Ok, "Created"),
        ("home/x/a.txt", ToolStatus::Denied, "outside"),
        ("one/file", ToolStatus::Failed, "one does not exist, and this tool may not create it"),
        ("one/other", ToolStatus::Denied, "outside"),
        ("work/a", ToolStatus::Denied, "forbids it"),
    ] {
        let path = top.join(path);
        world.refused("Write", &write(path.to_str().expect("text"), "mine"), status, why);
        assert_eq!(path.exists(), status == ToolStatus::Ok);
    }
    assert!(!top.join("one").exists());
}

#[test]
fn a_disk_that_fails_leaves_the_old_file() {
    for (quirk, operation, skip, errno, why, after) in [
        ("full", Operation::Write, 0, 28, "so it is as it was: No space left on device", "old"),
        ("a bad sector", Operation::Sync, 0, 5, "so it is as it was: Input/output error", "old"),
        ("a bad folder", Operation::Sync, 1, 5, "whether the disk would keep that", "new"),
    ] {
        let world = World::writable();
        world.write("a", "old");
        world.ok("Read", &json!({"file_path": "a"}));
        let effect = Effect::Fail(errno);
        let fault = inject(Fault { under: world.work.clone(), operation, skip, times: 1, effect });
        let done = world.run("Write", &write("a", "new"));
        drop(fault);
        assert_eq!(done.status, ToolStatus::Failed, "{quirk}: {}", done.output);
        assert!(done.output.contains(why), "{quirk}: {}", done.output);
        assert_eq!(world.read("a"), after, "{quirk}");
        assert_eq!(done.files_changed.len(), usize::from(after == "new"), "{quirk}");
        assert_eq!(world.temporaries(), [] as [PathBuf; 0], "{quirk}");
    }
}

#[test]
fn what_changes_while_it_is_written_is_left_as_it_became() {
    for (quirk, before, meanwhile, after) in [
        ("written", Some("old"), Some("theirs"), Some("theirs")),
        ("removed", Some("old"), None, None),
        ("created", None, Some("theirs"), Some("theirs")),
    ] {
        let world = World::writable();
        let path = world.work.join("a");
        if let Some(text) = before {
            world.write("a", text);
            world.ok("Read", &json!({"file_path": "a"}));
        }
        let change = move || match meanwhile {
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => std::fs::remove_file(&path).expect("removed"),
        };
        let effect = Effect::Call(Arc::new(change));
        let (under, operation) = (world.work.clone(), Operation::Sync);
        let fault = inject(Fault { under, operation, skip: 0, times: 1, effect });
        world.refused("Write", &write("a", "mine"), ToolStatus::Failed, "at this very moment, so nothing was written");
        drop(fault);
        assert_eq!(std::fs::read_to_string(world.work.join("a")).ok().as_deref(), after, "{quirk}");
        assert_eq!(world.temporaries(), [] as [PathBuf; 0], "{quirk}");
    }
}

#[test]
fn what_moves_away_while_it_is_written_is_not_followed() {
    let world = World::writable();
    let (from, to) = (world.work.join("folder"), world.top().join("moved"));
    world.write("folder/old", "old");
    world.ok("Read", &json!({"file_path": "folder/old"}));
    for path in ["folder/old", "folder/new"] {
        let (out, back) = ((from.clone(), to.clone()), (to.clone(), from.clone()));
        let effect = Effect::Call(Arc::new(move || std::fs::rename(&out.0, &out.1).expect("moved")));
        let (under, operation) = (world.work.clone(), Operation::Sync);
        let fault = inject(Fault { under, operation, skip: 0, times: 1, effect });
        world.refused("Write", &write(path, "mine"), ToolStatus::Failed, "it changed while it was opened");
        drop(fault);
        std::fs::rename(&back.0, &back.1).expect("moved back");
        assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
    }
    assert_eq!((world.read("folder/old").as_str(), from.join("new").exists()), ("old", false));
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    let world = World::writable();
    let cancel = world.context.cancel.clone();
    let effect = Effect::Call(Arc::new(move || cancel.cancel()));
    let (under, operation) = (world.work.clone(), Operation::Sync);
    let _fault = inject(Fault { under, operation, skip: 0, times: 1, effect });
    world.refused("Write", &write("a", "mine"), ToolStatus::Cancelled, "cancelled");
    assert!(!world.work.join("a").exists());
    assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
}

#[test]
fn what_dead_writers_left_is_swept_and_nothing_else() {
    let world = World::writable();
    let at = |name: &str| world.work.join(name);
    let swept = ".ukai-0123456789abcdef.tmp";
    let held = ".ukai-fedcba9876543210.tmp";
    let kept = [held, ".ukai-0123.tmp", ".ukai-0123456789ABCDEF.tmp", ".ukai-0123456789abcdef.tmpx", "ukai.tmp"];
    std::fs::write(at(swept), "half").expect("a file");
    kept.iter().for_each(|name| std::fs::write(at(name), "theirs").expect("a file"));
    symlink("ukai.tmp", at(".ukai-1111111111111111.tmp")).expect("a link");
    let writer = std::fs::File::open(at(held)).expect("a file");
    flock(&writer, FlockOperation::LockExclusive).expect("a lock");
    world.ok("Write", &write("a", "mine"));
    assert!(!at(swept).exists());
    assert!(kept.iter().all(|name| at(name).exists()) && at(".ukai-1111111111111111.tmp").is_symlink());
    drop(writer);
    world.ok("Write", &write("a", "mine again"));
    assert!(!at(held).exists());
}
