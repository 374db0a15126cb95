//! What the owner has run beside a job ends when it should, whatever it does, and says no more than is kept (spec §9).

use std::process::{Command, Stdio};

use serde_json::Value;
use ukai_protocol::process;
use ukai_tests::wait;

const DEADLINE_MS: u64 = 1_000;
/// Settled within this of the deadline, or of the exit.
const SETTLED_MS: u64 = 200;
/// What a busy machine adds to the start of a process.
const BUSY_MS: u64 = 600;
const KEPT: u64 = 1024 * 1024;

/// Runs these at once; what came of each.
fn launch(stdin_bytes: usize, commands: &[&[&str]]) -> Vec<Value> {
    let numbers = [DEADLINE_MS.to_string(), stdin_bytes.to_string()];
    let output = Command::new(ukai_tests::binary("launch"))
        .args(numbers)
        .args(commands.join(&"--"))
        .env("NOT_PASSED_ON", "secret")
        .stdin(Stdio::null())
        .output()
        .expect("it launches");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let Ok(Value::Array(ran)) = serde_json::from_str(&stdout) else { panic!("{output:?}") };
    ran
}

fn sh(line: &str) -> [&str; 3] {
    ["sh", "-c", line]
}

fn lives(words: &str) -> bool {
    let line = words.replace(' ', "\0");
    process::all().iter().filter(|seen| !seen.is_dead).any(|seen| {
        std::fs::read(format!("/proc/{}/cmdline", seen.pid))
            .is_ok_and(|found| found.windows(line.len()).any(|window| window == line.as_bytes()))
    })
}

#[test]
fn whatever_is_launched_settles_and_is_told_as_it_was() {
    let cases: [(&str, &str, &str, &str); 12] = [
        ("echo out; echo err >&2; exit 3", "Code(3)", "out\n", "err\n"),
        ("exit 127", "Code(127)", "", ""),
        ("nosuchprogram", "Code(127)", "", "nosuchprogram"),
        ("kill -9 $$", "Signal(9)", "", ""),
        ("sleep 39501", "TimedOut", "", ""),
        ("trap '' TERM; echo before; sleep 39501", "TimedOut", "before\n", ""),
        ("sleep 39501 & echo ok", "Code(0)", "ok\n", ""),
        ("setsid sleep 39501 & echo ok", "Code(0)", "ok\n", ""),
        ("(env -i setsid sleep 39501 &) ; echo ok", "Code(0)", "ok\n", ""),
        ("sleep 39501 | cat; echo never", "TimedOut", "", ""),
        ("ulimit -c; echo $TOLD$NOT_PASSED_ON; tty", "Code(1)", "0\nyes\nnot a tty\n", ""),
        ("cat; echo end", "Code(0)", "end\n", ""),
    ];
    for (line, ended, stdout, stderr) in cases {
        let [ran] = &launch(0, &[&sh(line)])[..] else { panic!("one") };
        assert_eq!(ran["ended"], ended, "{line}: {ran}");
        assert_eq!(ran["stdout"]["text"], stdout, "{line}: {ran}");
        assert!(ran["stderr"]["text"].as_str().is_some_and(|text| text.contains(stderr)), "{line}: {ran}");
        let ms = ran["ms"].as_u64().expect("a number");
        let latest = if ended == "TimedOut" { DEADLINE_MS } else { BUSY_MS } + SETTLED_MS;
        assert!(ms <= latest, "{line}: {ran}");
        assert!(!lives("sleep 39501"), "{line}");
    }
}

#[test]
fn a_program_that_is_missing_is_named() {
    for (program, part) in [
        ("nosuchprogram", "there is no nosuchprogram in \"/usr/bin:/bin\""),
        ("/no/such/program", "/no/such/program in /"),
        ("./relative", "neither a name nor an absolute path"),
    ] {
        let [ran] = &launch(0, &[&[program]])[..] else { panic!("one") };
        let ended = ran["ended"].as_str().expect("text").replace("\\\"", "\"");
        assert!(ended.starts_with("NotStarted") && ended.contains(part), "{ran}");
    }
}

#[test]
fn megabytes_in_either_direction_hold_nothing_up() {
    const GIVEN: usize = 1_000_000;
    let given = GIVEN.to_string();
    for (line, ended, stdout) in [
        // Junk, cut.
        ("head -c 5000000 /dev/zero; exit 4", "Code(4)", KEPT),
        ("yes", "TimedOut", KEPT),
        // All of it is read, or none.
        ("wc -c", "Code(0)", given.len() as u64 + 1),
        ("sleep 0.2; echo read none", "Code(0)", 10),
        ("cat", "Code(0)", GIVEN as u64),
        ("exec <&-; sleep 39502", "TimedOut", 0),
    ] {
        let [ran] = &launch(GIVEN, &[&sh(line)])[..] else { panic!("one") };
        assert_eq!((ran["ended"].as_str(), &ran["stdout"]["bytes"]), (Some(ended), &stdout.into()), "{line}: {ran}");
        assert_eq!(ran["stdout"]["cut"], stdout == KEPT, "{line}: {ran}");
        assert!(ran["ms"].as_u64().expect("a number") <= DEADLINE_MS + SETTLED_MS, "{line}: {ran}");
    }
}

#[test]
fn several_run_at_once_and_none_is_taken_for_another() {
    let commands = [
        sh("sleep 0.5; echo first"),
        sh("setsid sleep 39503 & exit 2"),
        sh("sleep 39503"),
        sh("sleep 0.7; echo fourth; exit 1"),
    ];
    let ran = launch(0, &commands.each_ref().map(|command| &command[..]));
    let told: Vec<_> = ran.iter().map(|ran| (ran["ended"].as_str(), ran["stdout"]["text"].as_str())).collect();
    let expected = [("Code(0)", "first\n"), ("Code(2)", ""), ("TimedOut", ""), ("Code(1)", "fourth\n")];
    assert_eq!(told, expected.map(|(ended, stdout)| (Some(ended), Some(stdout))));
    assert!(!lives("sleep 39503"));
}

#[test]
fn what_was_launched_ends_with_who_asked_for_it() {
    let mut launching = Command::new(ukai_tests::binary("launch"))
        .args(["60000", "0", "sh", "-c", "(env -i setsid sleep 39504 &) ; sleep 39504"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it launches");
    wait::until("both to run", || lives("sleep 39504").then_some(()));
    launching.kill().expect("killed");
    launching.wait().expect("gone");
    wait::until("them to be gone", || (!lives("sleep 39504")).then_some(()));
}
