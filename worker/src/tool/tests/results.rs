//! What the tools return when all is well, and that they stop when told to.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::context::tokens::estimate_text;
use crate::tool::output::OUTPUT_CHARS_MAX;
use crate::tool::read::{READ_CHARS_MAX, READ_LINE_CHARS_MAX};
use crate::tool::result_tokens_max;

#[test]
fn read_numbers_lines_and_pages() {
    let world = World::new();
    world.write("a", "one\r\ntwo\n\nfour");
    world.write("long", (1..=5000).map(|n| format!("line {n}\n")).collect::<String>());
    for (input, output) in [
        (json!({"file_path": "a"}), "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"),
        (json!({"file_path": "a", "offset": 3}), "     3\t\n     4\tfour\n"),
        (json!({"file_path": "a", "offset": 4, "limit": 1}), "     4\tfour\n"),
        (json!({"file_path": "a", "limit": 1}), "     1\tone\n[There is more: go on with offset 2.]\n"),
        (json!({"file_path": "long", "offset": 4999}), "  4999\tline 4999\n  5000\tline 5000\n"),
    ] {
        assert_eq!(world.ok("Read", &input), output, "{input}");
    }
    let page = world.ok("Read", &json!({"file_path": "long", "limit": 9999}));
    assert!(page.ends_with("  2000\tline 2000\n[There is more: go on with offset 2001.]\n"));
}

#[test]
fn read_is_bounded_in_lines_and_characters() {
    let world = World::new();
    world.write("wide", format!("{}\nend\n", "鵜".repeat(3_000_000)));
    world.write("much", format!("{}\n", "x".repeat(1999)).repeat(1000));
    world.write("odd", b"a\x1b[2Jb\xff\n");
    let wide = world.ok("Read", &json!({"file_path": "wide"}));
    assert!(wide.chars().count() < READ_LINE_CHARS_MAX + 100 && wide.contains("[this line has 9000001 bytes]"));
    assert!(wide.ends_with("     2\tend\n"));
    let much = world.ok("Read", &json!({"file_path": "much"}));
    assert!(much.chars().count() < READ_CHARS_MAX + 100 && much.ends_with("[There is more: go on with offset 50.]\n"));
    assert_eq!(world.ok("Read", &json!({"file_path": "odd"})), "     1\ta\u{241b}[2Jb\u{fffd}\n");
}

#[test]
fn glob_lists_sorted_paths() {
    let world = World::new();
    for path in ["b.rs", "a/c.rs", "a/d.txt", "a.rs", ".h.rs", "a/b/e.rs", "z.c"] {
        world.write(path, "");
    }
    std::os::unix::fs::symlink("b.rs", world.work.join("link.rs")).expect("a link");
    std::os::unix::fs::symlink("/etc/passwd", world.work.join("out.rs")).expect("a link");
    let absolute = world.work.join("a/*.rs");
    for (input, output) in [
        (
            json!({"pattern": "*.rs"}),
            ".h.rs\na.rs\nb.rs\nlink.rs\n[left out: 1 file that the policy of this job denies]\ntotal: 4 files\n",
        ),
        (json!({"pattern": "a/**/*.rs"}), "a/b/e.rs\na/c.rs\ntotal: 2 files\n"),
        (json!({"pattern": "**/*.rs", "path": "a"}), "a/b/e.rs\na/c.rs\ntotal: 2 files\n"),
        (json!({"pattern": "*.{c,txt}"}), "z.c\ntotal: 1 file\n"),
        (json!({"pattern": absolute.to_str()}), "a/c.rs\ntotal: 1 file\n"),
        (json!({"pattern": "none"}), "total: 0 files\n"),
    ] {
        assert_eq!(world.ok("Glob", &input), output, "{input}");
    }
    for n in 0..1200 {
        world.write(&format!("many/{n:04}"), "");
    }
    let many = world.ok("Glob", &json!({"pattern": "many/*"}));
    assert!(many.ends_with("many/0999\ntotal: 1200 files, the first 1000 are shown\n"), "{many}");
}

#[test]
fn grep_has_three_modes() {
    let world = World::new();
    world.write("a.rs", "fn one() {\n}\nfn Two() {\n}\n");
    world.write("b/c.txt", "fn one\r\nx\x1b\n");
    for (input, output) in [
        (json!({"pattern": "fn"}), "a.rs\nb/c.txt\ntotal: 2 files\n"),
        (json!({"pattern": "fn", "output_mode": "count"}), "a.rs:2\nb/c.txt:1\ntotal: 3 matching lines in 2 files\n"),
        (
            json!({"pattern": "fn (one|two)", "-i": true, "output_mode": "content"}),
            "a.rs:1:fn one() {\na.rs:3:fn Two() {\nb/c.txt:1:fn one\ntotal: 3 matching lines in 2 files\n",
        ),
        (
            json!({"pattern": "fn Two.*\\}", "multiline": true, "output_mode": "content"}),
            "a.rs:3:fn Two() {\na.rs:4:}\ntotal: 2 matching lines in 1 file\n",
        ),
        (json!({"pattern": "fn", "glob": "*.txt"}), "b/c.txt\ntotal: 1 file\n"),
        (json!({"pattern": "fn", "glob": "b/**"}), "b/c.txt\ntotal: 1 file\n"),
        (json!({"pattern": "fn", "glob": "!*.txt"}), "a.rs\ntotal: 1 file\n"),
        (json!({"pattern": "fn", "path": "b"}), "b/c.txt\ntotal: 1 file\n"),
        (
            json!({"pattern": "x", "path": "b/c.txt", "output_mode": "content"}),
            "b/c.txt:2:x\u{241b}\ntotal: 1 matching line in 1 file\n",
        ),
    ] {
        assert_eq!(world.ok("Grep", &input), output, "{input}");
    }
}

#[test]
fn a_long_result_keeps_its_total_and_can_be_read_whole() {
    let world = World::new();
    world.write("many", "needle in a line of some length\n".repeat(20_000));
    let out = world.ok("Grep", &json!({"pattern": "needle", "output_mode": "content"}));
    assert!(out.chars().count() <= OUTPUT_CHARS_MAX);
    assert!(
        out.ends_with("many:20000:needle in a line of some length\ntotal: 20000 matching lines in 1 file\n"),
        "{out}"
    );
    let named = out.split("The whole output is in ").nth(1).and_then(|rest| rest.split(" (").next()).expect("a file");
    let page = world.ok("Read", &json!({"file_path": named, "offset": 20_001}));
    assert_eq!(page, " 20001\ttotal: 20000 matching lines in 1 file\n");
}

#[test]
fn no_result_fills_a_window_whatever_it_is_written_in() {
    let mut world = World::new();
    world.write("many", format!("{}\n", "鵜飼は夜に鮎を捕る。".repeat(20)).repeat(1_000));
    world.context.result_tokens_max = result_tokens_max(32_000);
    let mut offset = 1;
    for _ in 0..3 {
        let page = world.ok("Read", &json!({"file_path": "many", "offset": offset}));
        let tokens = estimate_text(&page);
        assert!((8_000..=16_050).contains(&tokens), "{tokens}");
        let next = page.split("go on with offset ").nth(1).and_then(|rest| rest.split('.').next()).expect("an offset");
        let next: u64 = next.parse().expect("a number");
        assert!(page.starts_with(&format!("{offset:>6}\t")) && next > offset);
        offset = next;
    }
    let out = world.ok("Grep", &json!({"pattern": "鮎", "output_mode": "content"}));
    assert!((8_000..=16_000).contains(&estimate_text(&out)), "{}", estimate_text(&out));
    assert!(out.contains("The whole output is in ") && out.ends_with("total: 1000 matching lines in 1 file\n"));
    // Where one line is too much already, it is shown all the same: else nothing ever would be.
    world.context.result_tokens_max = 10;
    let page = world.ok("Read", &json!({"file_path": "many", "offset": 1_000}));
    assert!(page.starts_with("  1000\t鵜飼"), "{page}");
}

/// Each call would take seconds; it is cancelled a moment after it began, from another thread.
#[test]
fn cancelling_is_noticed_in_a_huge_tree_and_in_a_huge_file() {
    let world = World::new();
    let huge = std::fs::File::create(world.work.join("huge")).expect("a file");
    std::io::Write::write_all(&mut &huge, "text without end\n".repeat(1000).as_bytes()).expect("written");
    huge.set_len(4_000_000_000).expect("a sparse file");
    for folder in 0..80 {
        for file in 0..100 {
            world.write(&format!("d{folder}/f{file}"), "x\n");
        }
    }
    for (tool, input) in [
        ("Read", json!({"file_path": "huge", "offset": 1_000_000})),
        ("Grep", json!({"pattern": "absent", "path": "huge"})),
        ("Grep", json!({"pattern": "(a|b)*c$", "path": "huge"})),
        ("Grep", json!({"pattern": "absent|none", "glob": "f*"})),
        ("Glob", json!({"pattern": "**/none"})),
    ] {
        let context = Context { cancel: CancellationToken::new(), ..world.context.clone() };
        let cancel = context.cancel.clone();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            cancel.cancel();
            Instant::now()
        });
        let done = run(tool, &Json(input.as_object().expect("an object").clone()), &context);
        let cancelled_at = canceller.join().expect("cancelled");
        assert_eq!(done.status, ToolStatus::Cancelled, "{tool} {input}: {}", done.output);
        // A debug build on a busy machine: ten times what is promised.
        assert!(cancelled_at.elapsed() < Duration::from_millis(200), "{tool} {input}: {:?}", cancelled_at.elapsed());
    }
}

#[test]
fn a_pattern_of_any_size_is_searched_with_or_refused_and_never_breaks_the_tool() {
    let world = World::new();
    world.write("a", "text\n");
    let nested = |depth: usize| "{a,".repeat(depth) + "b" + &"}".repeat(depth);
    for pattern in [nested(900), nested(200_000), "{a,b}".repeat(800), "{a,b}".repeat(200_000), "[a-z]*".repeat(600)] {
        for (tool, input) in [
            ("Glob", json!({"pattern": pattern})),
            ("Grep", json!({"pattern": "x", "glob": pattern})),
            ("Grep", json!({"pattern": pattern.replace('{', "(").replace('}', ")")})),
        ] {
            let ToolOutput { status, output, .. } = world.run(tool, &input);
            assert!(matches!(status, ToolStatus::Ok | ToolStatus::Invalid), "{tool} {status:?} {output:.200}");
        }
    }
}

#[test]
fn a_file_that_grows_is_read_as_it_was_when_it_was_opened() {
    let world = World::new();
    world.write("log", "one\ntwo\nthree\n".repeat(10_000));
    let open = || std::fs::File::open(world.work.join("log")).expect("a file");
    let page = |size, offset| crate::tool::read::page(open(), size, "log", offset, 9, &world.context);
    assert_eq!(page(90_000, 19_284), Ok(" 19284\tthree\n 19285\tone\n 19286\ttwo\n".to_owned()));
    assert!(page(90_000, 19_287).is_err());
}
