//! The demo needs no key and no configuration, and its counts are those of `git grep` and `grep`, in odd trees too.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use ukai_tests::home::Home;

const LINES: &str = "TODO error\ntest TODO http\nreturn\r\nimport license\nversion";

/// What any tree may hold.
fn odd_files(home: &Home) {
    for name in [
        "plain.txt",
        "a/deep/er.rs",
        " blanks ",
        "-dash",
        "co:lon:3",
        "line\nend",
        "quo\"te\\",
        "鵜飼.txt",
        "\u{1b}[31m",
        "total: 0 matching lines",
        "total: 7 matching lines in 7 files",
        ".hidden/x",
        ".env",
        ".ENV.local",
        "a/.env",
        "a/.env.d/x",
    ] {
        home.file(name, LINES);
    }
    let work = home.work();
    std::fs::write(work.join(std::ffi::OsStr::from_bytes(b"byte\xff")), b"TODO \xff\n").expect("a file");
    std::fs::write(work.join("binary"), b"TODO\0\n").expect("a file");
    nix::unistd::mkfifo(&work.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for (target, link) in [("plain.txt", "link"), ("..", "up"), ("nowhere", "dangling"), ("/dev/zero", "zero")] {
        symlink(target, work.join(link)).expect("a link");
    }
}

/// Lines and files that a command counts, `path:count` a line.
fn counted(mut command: Command) -> (u64, usize) {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = text.lines().filter_map(|line| line.rsplit_once(':')?.1.parse::<u64>().ok());
    let counts: Vec<u64> = counts.filter(|count| *count > 0).collect();
    (counts.iter().sum(), counts.len())
}

fn said((lines, files): (u64, usize)) -> String {
    let s = |one: bool| if one { "" } else { "s" };
    format!("{lines} matching line{} in {files} file{}", s(lines == 1), s(files == 1))
}

/// Plays the demo in a folder and holds what it found against `count`, and against the check that it prints.
fn check(home: &Home, folder: &Path, count: impl Fn(&str) -> Command) {
    let output = home.command(&["demo", "--output", "json"]).current_dir(folder).output().expect("ukai runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    let (demo, results) = lines.split_last().expect("lines");
    assert_eq!((&demo["completed"], &demo["restarted"]), (&8.into(), &1.into()), "{stderr}");
    for (job, result) in demo["jobs"].as_array().expect("jobs").iter().zip(results) {
        assert_eq!(job["job_id"], result["job_id"]);
        let word = job["word"].as_str().expect("a word");
        let text = result["text"].as_str().expect("a text");
        let expected = said(counted(count(word)));
        assert!(text == expected || text.starts_with(&format!("{expected}; first in ")), "{word}: {text} / {expected}");
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", demo["check"].as_str().expect("a command")]).current_dir("/").env("HOME", home.path());
    assert_eq!(said(counted(shell)), said(counted(count("TODO"))), "{}", demo["check"]);
}

fn git(home: &Home, folder: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    git.current_dir(folder).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME");
    git
}

#[test]
fn in_a_repository_with_every_oddity() {
    let home = Home::new();
    let run = |folder: &Path, arguments: &[&str]| {
        assert!(git(&home, folder, arguments).output().expect("git runs").status.success(), "{arguments:?}");
    };
    let work = home.work();
    run(&work, &["init", "-q"]);
    odd_files(&home);
    for (name, text) in [
        (".gitignore", "ignored/\n*.log\n"),
        (".gitattributes", "*.lock -diff\n"),
        ("ignored/x", LINES),
        ("x.log", LINES),
        ("x.lock", LINES),
        ("gone", LINES),
        ("nested/x", LINES),
        ("sub/it's/y", LINES),
        ("sub/it's/.env", LINES),
    ] {
        home.file(name, text);
    }
    run(&work.join("nested"), &["init", "-q"]);
    run(&work, &["add", "gone", "plain.txt"]);
    run(&work, &["commit", "-qm", "x"]);
    std::fs::remove_file(work.join("gone")).expect("removed");
    for folder in [work.clone(), work.join("sub/it's")] {
        let exclude = [":(exclude,icase).env*", ":(exclude,icase)*/.env*"];
        check(&home, &folder, |word| {
            let mut grep = git(&home, &folder, &["grep", "-cI", "--untracked", word, "--"]);
            grep.args(exclude);
            grep
        });
    }
}

#[test]
fn outside_of_any_repository() {
    let home = Home::new();
    odd_files(&home);
    // A folder of this name is no repository yet.
    std::fs::create_dir(home.work().join(".git")).expect("a folder");
    check(&home, &home.work(), |word| {
        let mut grep = Command::new("grep");
        grep.args([
            "-rcI",
            "--exclude-dir=.git",
            "--exclude-dir=.[eE][nN][vV]*",
            "--exclude=.[eE][nN][vV]*",
            word,
            ".",
        ]);
        grep.current_dir(home.work()).env("LC_ALL", "C");
        grep
    });
}

#[test]
fn in_an_empty_folder() {
    let home = Home::new();
    check(&home, &home.work(), |word| {
        let mut grep = Command::new("grep");
        grep.args(["-rcI", word, "."]).current_dir(home.work());
        grep
    });
}
