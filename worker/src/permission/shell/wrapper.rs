//! Commands that run what they are given: `env`, `xargs`, `find -exec`, `bash -c` and their kin are seen through.
//!
//! One row per wrapper, with every option that is known; an option that is not in its row may take a value, so behind
//! it nobody knows which word is the command: a doubt.

#![deny(clippy::disallowed_methods)]

use super::git;
use super::word::{Atom, Word};
use super::{Input, Simple};

/// What is inside a wrapper.
#[derive(Debug, Default)]
pub struct Inside {
    pub wraps: bool,
    pub lines: Vec<(Vec<(String, Word)>, Vec<Word>)>,
    pub scripts: Vec<String>,
    pub passes_input: bool,
    pub doubt: Option<&'static str>,
}

/// A wrapper whose command is the rest of its words.
struct Row {
    name: &'static str,
    /// Letters of options without a value, and of those with one.
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Operands of its own before the command.
    skip: usize,
    /// It only passes on: allowed where what is inside is.
    plain: bool,
}

const fn row(name: &'static str, flags: &'static str, valued: &'static str) -> Row {
    Row { name, flags, valued, long: &[], long_valued: &[], skip: 0, plain: false }
}

const ROWS: &[Row] = &[
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

/// Commands that run others in ways that are not followed.
const UNFOLLOWED: &[&str] = &[
    ".",
    "source",
    "alias",
    "unalias",
    "shopt",
    "enable",
    "bind",
    "complete",
    "compgen",
    "fc",
    "history",
    "let",
    "coproc",
    "pushd",
    "popd",
    "hash",
    "parallel",
    "runuser",
    "systemd-run",
    "nsenter",
    "script",
    "gdb",
    "ltrace",
    "at",
    "batch",
    "crontab",
    "flock",
    "trap",
    "logout",
    "suspend",
];

const SHELLS: &[&str] = &["bash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish"];

/// Whether a name means something to this reading, so that a function of that name would deceive it.
#[must_use]
pub fn is_special(name: &str) -> bool {
    ROWS.iter().any(|row| row.name == name)
        || UNFOLLOWED.contains(&name)
        || SHELLS.contains(&name)
        || matches!(
            name,
            "cd" | "eval"
                | "find"
                | "su"
                | "ssh"
                | "watch"
                | "git"
                | "export"
                | "declare"
                | "typeset"
                | "readonly"
                | "local"
                | "read"
                | "set"
                | "unset"
                | "printf"
                | "test"
                | "exit"
                | "return"
                | "true"
                | "false"
                | "echo"
        )
}

/// Looks inside one command.
#[must_use]
pub fn inside(command: &Simple) -> Inside {
    let Some(first) = command.words.first() else { return Inside::default() };
    let Some(base) = command.base() else {
        return Inside { doubt: Some("a command whose name is known only when it runs"), ..Inside::default() };
    };
    if first.has_glob() || base.is_empty() {
        return Inside { doubt: Some("a command whose name is odd"), ..Inside::default() };
    }
    let words = &command.words;
    let doubt = |why| Inside { doubt: Some(why), ..Inside::default() };
    match base.as_str() {
        name if SHELLS.contains(&name) => shell(command, name),
        "eval" => match joined(&words[1..]) {
            Some(text) if text.contains("cd") => doubt("`eval` that changes the folder"),
            Some(text) => Inside { wraps: true, scripts: vec![text], ..Inside::default() },
            None => doubt("`eval` of what is known only when it runs"),
        },
        "find" => find(words),
        "ssh" => ssh(words),
        "su" => match words.iter().position(|word| word.is("-c")).and_then(|at| words.get(at + 1)) {
            Some(script) => match script.literal() {
                Some(text) => Inside { scripts: vec![text], ..Inside::default() },
                None => doubt("a script that is known only when it runs"),
            },
            None => doubt("`su` starts a shell"),
        },
        "watch" => match words.iter().position(|word| !word.head().starts_with('-')).map(|_| &words[1..]) {
            Some(rest) if rest.iter().all(|word| !word.may_be_flag()) => match joined(rest) {
                Some(text) => Inside { scripts: vec![text], ..Inside::default() },
                None => doubt("`watch` of what is known only when it runs"),
            },
            _ => doubt("`watch` with options"),
        },
        "git" => Inside { doubt: git::git(words).doubt, ..Inside::default() },
        "command"
            if words[1..].iter().take_while(|word| word.may_be_flag()).any(|word| word.head().contains(['v', 'V'])) =>
        {
            Inside::default()
        }
        name if UNFOLLOWED.contains(&name) => doubt("a command that runs others in ways that are not followed"),
        name => match ROWS.iter().find(|row| row.name == name) {
            Some(row) => tail(row, command),
            None => Inside::default(),
        },
    }
}

fn joined(words: &[Word]) -> Option<String> {
    let texts = words.iter().map(Word::literal).collect::<Option<Vec<_>>>()?;
    Some(texts.join(" "))
}

/// The command that is the rest of the words.
fn tail(row: &Row, command: &Simple) -> Inside {
    let words = &command.words;
    let doubt = |why| Inside { doubt: Some(why), ..Inside::default() };
    let Some(mut at) = options(row, words) else { return doubt("a wrapper with options that are not known") };
    at += row.skip;
    let mut assigns = command.assigns.clone();
    if matches!(row.name, "env" | "sudo" | "doas") {
        while let Some(word) = words.get(at) {
            let head = word.head();
            let Some((name, _)) = head.split_once('=') else {
                if word.literal().is_none() {
                    return doubt("a wrapper around what is known only when it runs");
                }
                break;
            };
            assigns.push((name.to_owned(), word.after(name.chars().count() + 1)));
            at += 1;
        }
    }
    let mut inner: Vec<Word> = words.get(at..).unwrap_or_default().to_vec();
    if row.skip > 0 && words.get(at - row.skip).is_some_and(Word::may_split) {
        return doubt("a wrapper around what is known only when it runs");
    }
    if matches!(row.name, "command" | "builtin" | "exec") && inner.first().is_some_and(|word| changes_shell(word)) {
        return doubt("a wrapper around a command that changes the shell");
    }
    if row.name == "xargs" {
        let replaced = replacement(words.get(..at).unwrap_or_default());
        match replaced {
            Some(mark) => inner = inner.iter().map(|word| replace(word, &mark)).collect(),
            None if !inner.is_empty() => inner.push(Word::any()),
            None => {}
        }
    }
    if inner.is_empty() {
        // `env` alone prints, `exec` alone redirects, `xargs` alone echoes; `sudo -i` is a shell.
        let shell = matches!(row.name, "sudo" | "doas" | "chroot" | "unshare" | "pkexec" | "fakeroot");
        return Inside { doubt: shell.then_some("a wrapper that starts a shell"), ..Inside::default() };
    }
    Inside { wraps: row.plain, lines: vec![(assigns, inner)], passes_input: row.name != "xargs", ..Inside::default() }
}

fn changes_shell(word: &Word) -> bool {
    word.literal().is_none_or(|name| {
        matches!(
            name.as_str(),
            "cd" | "eval"
                | "export"
                | "declare"
                | "typeset"
                | "readonly"
                | "local"
                | "read"
                | "set"
                | "unset"
                | "printf"
                | "mapfile"
                | "readarray"
                | "getopts"
                | "wait"
        )
    })
}

/// Where the operands begin.
fn options(row: &Row, words: &[Word]) -> Option<usize> {
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

/// The mark of `xargs -I`.
fn replacement(options: &[Word]) -> Option<String> {
    let mut found = None;
    for (at, word) in options.iter().enumerate().skip(1) {
        let text = word.literal().unwrap_or_default();
        if let Some(mark) = text.strip_prefix("--replace") {
            found = Some(mark.strip_prefix('=').unwrap_or("{}").to_owned());
        } else if text.starts_with('-') && !text.starts_with("--") {
            if let Some((_, mark)) = text.split_once('I') {
                let next = || options.get(at + 1).and_then(Word::literal).unwrap_or_default();
                found = Some(if mark.is_empty() { next() } else { mark.to_owned() });
            } else if let Some((_, mark)) = text.split_once('i') {
                found = Some(if mark.is_empty() { "{}".to_owned() } else { mark.to_owned() });
            }
        }
    }
    found.filter(|mark| !mark.is_empty())
}

/// The word with every mark as something unknown.
fn replace(word: &Word, mark: &str) -> Word {
    let mark: Vec<Atom> = mark.chars().map(Atom::Char).collect();
    let (mut atoms, mut at) = (Vec::new(), 0);
    while at < word.atoms.len() {
        if word.atoms[at..].starts_with(&mark) {
            atoms.push(Atom::Unknown);
            at += mark.len();
        } else {
            atoms.push(word.atoms[at]);
            at += 1;
        }
    }
    Word { atoms, quoted: word.quoted }
}

fn find(words: &[Word]) -> Inside {
    let mut inside = Inside::default();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.literal().as_deref() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                let rest = &words[at..];
                let end = rest
                    .iter()
                    .enumerate()
                    .position(|(place, word)| word.is(";") || (word.is("+") && place > 0 && rest[place - 1].is("{}")));
                let Some(end) = end else {
                    inside.doubt = Some("`find -exec` without an end");
                    return inside;
                };
                inside.lines.push((Vec::new(), rest[..end].iter().map(|word| replace(word, "{}")).collect()));
                inside.wraps = true;
                at += end + 1;
            }
            None if word.may_split() && word.may_be_flag() => {
                inside.doubt = Some("`find` with an option that is not known");
            }
            _ => {}
        }
    }
    inside
}

fn ssh(words: &[Word]) -> Inside {
    let row = row("ssh", "46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOopQRSWw");
    let Some(at) = options(&row, words) else {
        return Inside { doubt: Some("a wrapper with options that are not known"), ..Inside::default() };
    };
    match words.get(at + 1..) {
        None | Some([]) => Inside { doubt: Some("`ssh` starts a shell"), ..Inside::default() },
        Some(rest) => match joined(rest) {
            Some(text) => Inside { scripts: vec![text], ..Inside::default() },
            None => Inside { doubt: Some("a script that is known only when it runs"), ..Inside::default() },
        },
    }
}

/// A shell: its `-c`, or what it is fed.
fn shell(command: &Simple, name: &str) -> Inside {
    let words = &command.words;
    let doubt = |why| Inside { doubt: Some(why), ..Inside::default() };
    let (mut at, mut script) = (1, false);
    while let Some(word) = words.get(at) {
        if !word.may_be_flag() && !word.head().starts_with('+') {
            break;
        }
        let Some(text) = word.literal() else { return doubt("a shell with options that are not known") };
        at += 1;
        match text.as_str() {
            "--" | "-" => break,
            "--norc" | "--noprofile" | "--posix" => {}
            "-o" | "+o" => {
                if !words.get(at).is_some_and(|word| word.is("pipefail") || word.is("errexit") || word.is("nounset")) {
                    return doubt("a shell with options that are not followed");
                }
                at += 1;
            }
            text if !text.starts_with("--") && text[1..].bytes().all(|byte| b"ceuxs".contains(&byte)) => {
                script |= text.contains('c');
            }
            "-euo" | "-eo" | "-uo" | "-exo" | "-euxo" if words.get(at).is_some_and(|word| word.is("pipefail")) => {
                at += 1
            }
            "-ceuo" | "-euoc" => return doubt("a shell with options that are not followed"),
            "--version" | "--help" => return Inside::default(),
            _ => return doubt("a shell with options that are not followed"),
        }
    }
    let text = if script {
        match words.get(at) {
            Some(word) => word.literal(),
            None => return doubt("a shell without its script"),
        }
    } else if words.get(at).is_some_and(|word| !word.is("/dev/stdin")) {
        // A file: what is in it runs as a command of its own, as any other program.
        return Inside::default();
    } else {
        match &command.input {
            Input::Nothing => return doubt("a shell that is fed from elsewhere"),
            Input::Text(word) => word.literal(),
            Input::Unknown => None,
        }
    };
    let Some(text) = text else { return doubt("a script that is known only when it runs") };
    // Other shells read some of bash's words in another way.
    let other = !matches!(name, "bash" | "rbash")
        && ["$'", "$\"", "&>", "<<<", "[[", "{", "=(", "<(", ">(", "|&", "function"]
            .iter()
            .any(|odd| text.contains(odd));
    let foreign = matches!(name, "zsh" | "fish" | "ksh" | "mksh") || other;
    Inside {
        wraps: true,
        scripts: vec![text],
        doubt: foreign.then_some("a script for a shell whose words differ"),
        ..Inside::default()
    }
}
