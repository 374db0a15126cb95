//! Links and folders are swapped as fast as they can be while files below them are written: nothing outside changes.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::*;

const LASTS: Duration = Duration::from_secs(2);

/// Every name below a folder, with what is in it.
fn inventory(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match std::fs::read_to_string(entry.path()) {
            Ok(text) => found.push((entry.path(), text)),
            Err(_) => found.extend([(entry.path(), String::new())].into_iter().chain(inventory(&entry.path()))),
        }
    }
    found.sort();
    found
}

#[test]
fn a_swap_between_check_and_use_never_changes_what_is_outside() {
    let world = World::writable();
    let outside = world.top().join("outside");
    std::fs::create_dir_all(outside.join("sub")).expect("a folder");
    for file in ["file", "new", "sub/file"] {
        std::fs::write(outside.join(file), "SECRET\n").expect("a file");
    }
    world.write("real/file", "start\n");
    world.write("exchanged/sub/file", "start\n");
    symlink("../outside", world.work.join("trap")).expect("a link");
    world.write("other/file", "start\n");
    let before = inventory(&outside);
    let stop = AtomicBool::new(false);
    let (swapped, written, leaked) = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let at = |name: &str| world.work.join(name);
            let mut swapped = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                // `folder` and `file` are by turns links out, links in, and what they seem to be.
                for target in ["../outside", "other", "../outside"] {
                    let _ = std::fs::remove_file(at("folder"));
                    let _ = symlink(target, at("folder"));
                }
                let _ = std::fs::remove_file(at("folder"));
                let _ = std::fs::rename(at("real"), at("folder"));
                for target in ["../outside/file", "other/file"] {
                    let _ = symlink(target, at(".swap"));
                    let _ = std::fs::rename(at(".swap"), at("file"));
                }
                std::thread::sleep(Duration::from_micros(300));
                let _ = std::fs::rename(at("folder"), at("real"));
                let _ = std::fs::remove_file(at("file"));
                // `made` is missing, a link out, a folder; and that for long enough to be made.
                let _ = symlink("../outside/sub", at("made"));
                let _ = std::fs::remove_file(at("made"));
                std::thread::sleep(Duration::from_micros(300));
                if swapped.is_multiple_of(16) {
                    let _ = std::fs::remove_dir_all(at("made"));
                }
                swapped += 1;
            }
            let _ = std::fs::rename(at("folder"), at("real"));
            swapped
        });
        // A folder that is a link out at the next moment, with no moment in between.
        scope.spawn(|| {
            let at = |name: &str| world.work.join(name);
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, at("exchanged"), CWD, at("trap"), RenameFlags::EXCHANGE).expect("exchanged");
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        let (mut written, mut leaked) = ([0_u32; 5], Vec::new());
        let until = Instant::now() + LASTS;
        while Instant::now() < until {
            let content = format!("{written:?}\n");
            let write = |path: &str| ("Write", json!({"file_path": path, "content": content}));
            let edit = json!({"file_path": "folder/file", "old_string": "\n", "new_string": "!\n"});
            // A name of its own each time: nothing that is there already holds it back.
            let new = format!("exchanged/sub/{}", written[4]);
            let calls = [write("folder/file"), ("Edit", edit), write("file"), write("made/deep/file"), write(&new)];
            for (place, (tool, input)) in calls.into_iter().enumerate() {
                world.run("Read", &json!({"file_path": input["file_path"]}));
                let done = world.run(tool, &input);
                if done.output.contains("SECRET") {
                    leaked.push(done.output.clone());
                }
                written[place] += u32::from(done.status == ToolStatus::Ok);
            }
        }
        stop.store(true, Ordering::Relaxed);
        (swapper.join().expect("the swapper ends"), written, leaked)
    });
    println!("{swapped} swaps, {written:?} writes");
    assert_eq!((inventory(&outside), leaked), (before, Vec::new()));
    assert_eq!(world.temporaries(), [] as [PathBuf; 0]);
    // The last is won too seldom to be counted upon.
    assert!(
        swapped > 10 && written[..4].iter().all(|times| *times > 0),
        "a race that nobody won: {swapped} {written:?}"
    );
}
