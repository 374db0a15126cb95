//! A writer that is killed at any moment leaves the old file or the new one, whole, and at most one hidden file.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

const KILLS: u32 = 50;
/// For a process to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const FOLDER: &str = "UKAI_TEST_WRITES_IN";

/// Two contents that no mixture of them is taken for.
fn content(odd: bool) -> String {
    if odd { "odd\n".repeat(50_000) } else { "even\n".repeat(80_000) }
}

/// Not a test of its own: the process that is killed. Returns at once unless it was started for that.
#[test]
#[ignore = "started by the test below"]
fn writes_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut world = World::writable();
    let mut policy = shipped(Path::new("/"));
    policy.allow.push(Rule::new("Edit(**)", "/"));
    world.context.permission = Arc::new(Permission::new(&policy, &folder, &folder, &world.context.outputs));
    world.ok("Read", &json!({"file_path": "file"}));
    // The first write changes what is there, whoever wrote it.
    let first = std::fs::read_to_string(folder.join("file")).expect("text") != content(true);
    for odd in [first, !first].into_iter().cycle() {
        world.ok("Write", &json!({"file_path": "file", "content": content(odd)}));
        let (old, new) = if odd { ("odd", "even") } else { ("even", "odd") };
        world.ok("Edit", &json!({"file_path": "file", "old_string": old, "new_string": new, "replace_all": true}));
    }
}

#[test]
fn a_kill_leaves_the_old_or_the_new() {
    let world = World::writable();
    world.write("file", content(true));
    let whole =
        [content(true), content(false), content(true).replace("odd", "even"), content(false).replace("even", "odd")];
    let (mut different, mut left) = (0, 0);
    let mut last = content(true);
    for _ in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "tool::tests::kill::writes_until_killed", "--ignored"])
            .env(FOLDER, &world.work)
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        // From its first write on, at any moment.
        let (begun, before) = (Instant::now(), world.temporaries());
        while world.read("file") == last && world.temporaries() == before {
            assert!(
                begun.elapsed() < PATIENCE && child.try_wait().is_ok_and(|ended| ended.is_none()),
                "it wrote nothing"
            );
        }
        std::thread::sleep(Duration::from_micros(rand::random_range(0..60_000)));
        child.kill().expect("it is killed");
        let status = child.wait().expect("it is gone");
        assert_eq!(status.code(), None, "it ended by itself: {status}");
        let text = world.read("file");
        assert!(whole.contains(&text), "a mixture of {} bytes", text.len());
        different += u32::from(text != last);
        last = text;
        let temporaries = world.temporaries();
        assert!(temporaries.len() <= 1, "{temporaries:?}");
        left += temporaries.len();
    }
    println!("{different} changes, {left} temporary files");
    assert!(different > 0 && left > 0, "no kill hit a write: {different} {left}");
    world.ok("Read", &json!({"file_path": "file"}));
    world.ok("Write", &json!({"file_path": "file", "content": "last"}));
    assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
}
