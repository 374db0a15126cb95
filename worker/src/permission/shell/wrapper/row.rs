//! The table of wrappers: which words before the command are theirs.

#![deny(clippy::disallowed_methods)]

use crate::permission::shell::word::Word;

/// A wrapper whose command is the rest of its words.
pub(super) struct Row {
    pub name: &'static str,
    /// Letters of options without a value, and of those with one.
    pub flags: &'static str,
    pub valued: &'static str,
    pub long: &'static [&'static str],
    pub long_valued: &'static [&'static str],
    /// Operands of its own before the command.
    pub skip: usize,
    /// It only passes on: allowed where what is inside is.
    pub plain: bool,
}

pub(super) const fn row(name: &'static str, flags: &'static str, valued: &'static str) -> Row {
    Row { name, flags, valued, long: &[], long_valued: &[], skip: 0, plain: false }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        long: &["ignore-environment", "null", "debug"],
        long_valued: &["unset"],
        plain: true,
        ..row("env", "i0v", "u")
    },
    Row {
        long: &["preserve-status", "foreground", "verbose"],
        long_valued: &["kill-after", "signal"],
        skip: 1,
        plain: true,
        ..row("timeout", "v", "ks")
    },
    Row { long_valued: &["adjustment"], plain: true, ..row("nice", "", "n") },
    Row { plain: true, ..row("nohup", "", "") },
    Row { plain: true, long_valued: &["input", "output", "error"], ..row("stdbuf", "", "ioe") },
    Row { plain: true, long: &["portability", "verbose", "quiet"], ..row("time", "pvq", "f") },
    Row { plain: true, ..row("command", "p", "") },
    Row { plain: true, ..row("builtin", "", "") },
    row("exec", "cl", "a"),
    Row {
        long: &["null", "no-run-if-empty", "verbose", "interactive", "open-tty", "exit", "show-limits"],
        long_valued: &["arg-file", "delimiter", "max-args", "max-procs", "max-lines", "max-chars", "replace", "eof"],
        plain: true,
        ..row("xargs", "0rtpox", "IadELnPs")
    },
    Row {
        long: &["preserve-env", "login", "non-interactive", "set-home", "stdin", "background", "reset-timestamp"],
        long_valued: &["user", "group", "host", "chdir", "chroot", "prompt", "role", "type", "command-timeout"],
        ..row("sudo", "AbEHiknPSs", "CDghpRrTtUu")
    },
    row("doas", "Lns", "aCu"),
    row("pkexec", "", ""),
    Row { plain: true, long: &["ctty", "fork", "wait"], ..row("setsid", "cfw", "") },
    Row { long_valued: &["userspec", "groups"], skip: 1, ..row("chroot", "", "") },
    Row {
        long: &["mount", "uts", "ipc", "net", "pid", "user", "fork", "map-root-user", "mount-proc", "cgroup", "time"],
        ..row("unshare", "muinpUCTfrc", "SGRw")
    },
    Row { plain: true, long_valued: &["class", "classdata"], ..row("ionice", "t", "cn") },
    Row { plain: true, skip: 1, ..row("taskset", "ac", "") },
    Row { plain: true, skip: 1, ..row("chrt", "bfior", "") },
    row("busybox", "", ""),
    row("toybox", "", ""),
    row("fakeroot", "", ""),
    row("chronic", "", ""),
    row("strace", "fFqvxyC", "aeopPsSu"),
];

/// Where the operands begin.
pub(super) fn options(row: &Row, words: &[Word]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        if !word.may_be_flag() {
            break;
        }
        let text = word.literal()?;
        if text == "-" && row.name == "env" {
            at += 1;
            continue;
        }
        at += 1;
        if text == "--" {
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            match long.split_once('=') {
                Some((name, _)) if row.long_valued.contains(&name) || row.long.contains(&name) => {}
                None if row.long.contains(&long) => {}
                // xargs alone has long options whose value must be attached.
                None if row.name == "xargs" && matches!(long, "replace" | "eof" | "max-lines") => {}
                None if row.long_valued.contains(&long) => at += 1,
                _ => return None,
            }
            continue;
        }
        let letters: Vec<char> = text.chars().skip(1).collect();
        for (place, letter) in letters.iter().enumerate() {
            if row.flags.contains(*letter) {
                continue;
            }
            // `-i`, `-e` and `-l` of xargs take what is attached, and need nothing.
            if row.name == "xargs" && matches!(letter, 'i' | 'e' | 'l') {
                break;
            }
            if !row.valued.contains(*letter) {
                return None;
            }
            if place + 1 == letters.len() {
                at += 1;
            }
            break;
        }
    }
    Some(at)
}
