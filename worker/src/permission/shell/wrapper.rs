//! Commands that run what they are given: `env`, `xargs`, `find -exec`, `bash -c` and their kin are seen through.
//!
//! One row per wrapper, with every option that is known; an option that is not in its row may take a value, so behind
//! it nobody knows which word is the command: a doubt.

#![deny(clippy::disallowed_methods)]

mod row;
mod shell;

use row::{ROWS, Row, options, row};

use super::git;
use super::word::{Atom, Word};
use super::{Input, Simple};

/// A command within another: what is set for it, and its words.
type Inner = (Vec<(String, Word)>, Vec<Word>);

/// What is inside a wrapper.
#[derive(Debug, Default)]
pub struct Inside {
    pub wraps: bool,
    pub lines: Vec<Inner>,
    pub scripts: Vec<String>,
    /// What those scripts find in `$0`, `$1` and so on.
    pub arguments: Vec<Word>,
    pub passes_input: bool,
    pub doubt: Option<&'static str>,
}

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
    "ld.so",
    "ld-linux.so.2",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "ld-musl-x86_64.so.1",
    "ld-musl-aarch64.so.1",
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
        name if SHELLS.contains(&name) => shell::shell(command, name),
        "eval" => match joined(&words[1..]) {
            // It runs in this very shell, so `flow` has read it.
            Some(_) => Inside { wraps: true, ..Inside::default() },
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

pub fn joined(words: &[Word]) -> Option<String> {
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
    if matches!(row.name, "command" | "builtin" | "exec") && inner.first().is_some_and(changes_shell) {
        return doubt("a wrapper around a command that changes the shell");
    }
    let mut said = None;
    if row.name == "xargs" {
        // What it is fed, if that is known: one way in which it may put it into words.
        if let Input::Text(text) = &command.input
            && let Some(text) = text.literal()
            && !inner.is_empty()
        {
            said = Some(fed(&inner, replacement(words.get(..at).unwrap_or_default()).as_deref(), &text));
        }
        let replaced = replacement(words.get(..at).unwrap_or_default());
        match replaced {
            Some(mark) => inner = inner.iter().map(|word| replace(word, &mark)).collect(),
            None if !inner.is_empty() => inner.push(Word::any()),
            None => {}
        }
    }
    if let (Some(input), "xargs") = (&said, row.name) {
        return Inside {
            wraps: row.plain,
            lines: vec![(assigns.clone(), inner), (assigns, input.clone())],
            ..Inside::default()
        };
    }
    if inner.is_empty() {
        // `env` alone prints, `exec` alone redirects, `xargs` alone echoes; `sudo -i` is a shell.
        let shell = matches!(row.name, "sudo" | "doas" | "chroot" | "unshare" | "pkexec" | "fakeroot");
        return Inside { doubt: shell.then_some("a wrapper that starts a shell"), ..Inside::default() };
    }
    Inside { wraps: row.plain, lines: vec![(assigns, inner)], passes_input: row.name != "xargs", ..Inside::default() }
}

/// The command of `xargs` with what it is fed.
fn fed(inner: &[Word], mark: Option<&str>, text: &str) -> Vec<Word> {
    let Some(mark) = mark else {
        return inner.iter().cloned().chain(text.split_whitespace().map(Word::of)).collect();
    };
    let line = text.lines().next().unwrap_or_default();
    let put = |word: &Word| word.literal().map_or_else(|| word.clone(), |text| Word::of(&text.replace(mark, line)));
    inner.iter().map(put).collect()
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
