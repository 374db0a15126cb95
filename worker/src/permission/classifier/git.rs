//! Which calls of git only look.

#![deny(clippy::disallowed_methods)]

use crate::permission::options::{Options, Valued};
use crate::permission::shell::git;
use crate::permission::shell::word::Word;

/// What these are given they show, but for the options below.
const LOOKS: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "blame",
    "annotate",
    "describe",
    "grep",
    "rev-list",
    "merge-base",
    "name-rev",
    "shortlog",
    "show-ref",
    "for-each-ref",
    "count-objects",
    "check-ignore",
    "cat-file",
    "version",
    "whatchanged",
    "cherry",
    "diff-tree",
    "var",
];

/// Options that write, run something, or leave the repository. Abbreviations count.
const BAD: &[&str] = &[
    "output",
    "output-directory",
    "ext-diff",
    "textconv",
    "filters",
    "no-index",
    "open-files-in-pager",
    "exec",
    "upload-pack",
    "help",
    "edit",
    "unset",
    "add",
    "stdin",
    "batch",
    "batch-check",
    "batch-command",
    "contents",
    "git-dir",
    "resolve-git-dir",
];

/// `words[0]` is git.
pub fn is_read_only(words: &[Word]) -> bool {
    let git = git::git(words);
    if !git.plain || git.doubt.is_some() {
        return false;
    }
    let Some(at) = git.at else { return words.len() == 2 && words[1].is("--version") };
    let rest = &words[at + 1..];
    let options = Options::of(rest, Valued::default());
    if options.uncertain
        || BAD.iter().any(|name| bad_long(&options, name))
        || rest.iter().any(|word| word.begins_with_glob())
    {
        return false;
    }
    let operands = &options.operands;
    let first = operands.first().and_then(Word::literal);
    let only = |letters: &str, long: &[&str]| {
        options.short.iter().all(|(letter, _)| letters.contains(*letter))
            && options.long.iter().all(|(name, _)| long.contains(&name.as_str()))
    };
    match words[at].literal().as_deref() {
        // -O of grep opens a pager, of others it names a file with an order.
        Some(name) if LOOKS.contains(&name) => !options.has("O"),
        Some("branch") => {
            let lists = [
                "all",
                "remotes",
                "list",
                "show-current",
                "verbose",
                "merged",
                "no-merged",
                "contains",
                "no-color",
                "sort",
            ];
            only("avrl", &lists)
                && (operands.is_empty() || options.has("l") || options.long.iter().any(|(name, _)| name == "list"))
        }
        Some("tag") => only("ln", &["list", "sort", "contains"]) && (operands.is_empty() || options.has("l")),
        Some("remote") => {
            only("v", &["verbose", "all", "push"]) && (operands.is_empty() || first.as_deref() == Some("get-url"))
        }
        Some("config") => {
            only("lz", &["get", "get-all", "list", "local", "show-origin", "name-only"])
                && (options.has("l")
                    || options.long.iter().any(|(name, _)| matches!(name.as_str(), "get" | "get-all" | "list")))
                && operands.len() <= 1
        }
        Some("stash" | "worktree") => first.as_deref() == Some("list"),
        Some("reflog") => matches!(first.as_deref(), None | Some("show")),
        _ => false,
    }
}

fn bad_long(options: &Options, bad: &str) -> bool {
    // `--stat` is no abbreviation of a bad one, `--out` is.
    options.long.iter().any(|(name, _)| name.len() >= 2 && bad.starts_with(name.as_str()))
}
