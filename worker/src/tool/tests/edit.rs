//! Edit against real files: what becomes of their text, and what the model is told.

use serde_json::json;
use ukai_protocol::event::Change;

use super::*;

fn edit(path: &str, old: &str, new: &str, all: bool) -> Value {
    json!({"file_path": path, "old_string": old, "new_string": new, "replace_all": all})
}

#[test]
fn a_text_becomes_another_and_the_rest_stays() {
    for (quirk, before, (old, new, all), after) in [
        ("one line", "a\nb\nc\n", ("b", "x", false), Ok("a\nx\nc\n")),
        ("lines", "a\nb\nc\n", ("a\nb\n", "", false), Ok("c\n")),
        ("no line end at the end", "a\nb", ("b", "c", false), Ok("a\nc")),
        ("all", "a a\na", ("a", "b", true), Ok("b b\nb")),
        ("several", "a\nb\na\n", ("a", "b", false), Err("2 places (lines 1, 3)")),
        (
            "none",
            "alpha\nbeta\n",
            ("betta", "x", false),
            Err("not in the file. The nearest to its first line is line 2"),
        ),
        ("the same", "a", ("a", "a", false), Err("the same")),
        ("nothing named", "a", ("", "b", false), Err("old_string is empty")),
        ("an empty file", "", ("", "new\n", false), Ok("new\n")),
        ("CRLF", "a\r\nb\r\nc\r\n", ("a\nb", "x\ny\nz", false), Ok("x\r\ny\r\nz\r\nc\r\n")),
        ("CRLF, given as such", "a\r\nb\r\n", ("a\r\nb", "x\ny", false), Ok("x\r\ny\r\n")),
        ("mixed, byte by byte", "a\r\nb\nc\n", ("b\nc", "x\ny", false), Ok("a\r\nx\ny\n")),
        ("mixed, and not so", "a\r\nb\nc\n", ("a\nb", "x", false), Err("From line 1 on it is there with other blanks")),
        ("a mark", "\u{feff}a\nb\n", ("a\n", "", false), Ok("\u{feff}b\n")),
        ("a mark, given too", "\u{feff}a\nb\n", ("\u{feff}a", "x", false), Ok("\u{feff}x\nb\n")),
        ("a mark alone", "\u{feff}a", ("\u{feff}", "x", false), Err("old_string is empty")),
        ("numbers", "a\nb\n", ("     1\ta", "x", false), Err("line numbers")),
        ("control characters", "a\u{1b}[1mb", ("\u{1b}[1m", "", false), Ok("ab")),
    ] {
        let world = World::writable();
        world.write("f", before);
        world.ok("Read", &json!({"file_path": "f"}));
        let done = world.run("Edit", &edit("f", old, new, all));
        match after {
            Ok(after) => {
                assert_eq!(done.status, ToolStatus::Ok, "{quirk}: {}", done.output);
                assert_eq!(world.read("f"), after, "{quirk}");
                assert_eq!(done.files_changed[0].change, Change::Modified, "{quirk}");
            }
            Err(why) => {
                assert_eq!(done.status, ToolStatus::Invalid, "{quirk}: {}", done.output);
                assert!(done.output.contains(why), "{quirk}: {}", done.output);
                assert_eq!((world.read("f").as_str(), done.files_changed.len()), (before, 0), "{quirk}");
            }
        }
    }
}

#[test]
fn the_result_shows_the_lines_as_read_does() {
    let world = World::writable();
    let text: String = (1..=20).map(|number| format!("line {number}\r\n")).collect();
    world.write("f", text);
    world.ok("Read", &json!({"file_path": "f"}));
    let shown = world.ok("Edit", &edit("f", "line 9\nline 10\n", "ten\n", false));
    let lines = "     6\tline 6\n     7\tline 7\n     8\tline 8\n     9\tten\n    10\tline 11\n    11\tline 12\n    12\tline 13\n";
    assert_eq!(shown, format!("Edited one place in f.\n{lines}"));
    // What it wrote it knows: no other look is needed.
    let shown = world.ok("Edit", &edit("f", "line 1", "LINE 1", true));
    assert!(shown.starts_with("Edited 10 places in f.\n     1\tLINE 1\n"), "{shown}");
    assert!(world.read("f").contains("LINE 19\r\n"));
}

#[test]
fn an_empty_text_creates_a_file_and_another_one_does_not() {
    let world = World::writable();
    world.refused("Edit", &edit("new", "a", "b", false), ToolStatus::Failed, "does not exist. Write creates it");
    world.refused("Edit", &edit("deep/new", "a", "b", false), ToolStatus::Failed, "does not exist. Write creates it");
    assert!(!world.work.join("deep").exists(), "who creates nothing needs no folder");
    let done = world.run("Edit", &edit("deep/new", "", "one\ntwo\n", false));
    assert_eq!(done.output, "Created deep/new.\n     1\tone\n     2\ttwo\n");
    assert_eq!((done.files_changed[0].change, world.read("deep/new").as_str()), (Change::Created, "one\ntwo\n"));
}

#[test]
fn what_would_not_be_kept_as_it_is_is_not_touched() {
    let world = World::writable();
    world.write("latin", b"caf\xe9\n");
    std::fs::File::create(world.work.join("large")).expect("a file").set_len(65 << 20).expect("a sparse file");
    world.ok("Read", &json!({"file_path": "latin"}));
    world.refused("Edit", &edit("latin", "caf", "x", false), ToolStatus::Failed, "no UTF-8 text (byte 3 is not)");
    world.refused(
        "Edit",
        &edit("large", "a", "b", false),
        ToolStatus::Failed,
        "more than the 67108864 that Edit takes",
    );
    assert_eq!(std::fs::read(world.work.join("latin")).expect("a file"), b"caf\xe9\n");
}
