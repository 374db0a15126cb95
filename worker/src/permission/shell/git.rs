//! Git's own words before its subcommand, and whether what follows is the subcommand that it seems to be.
//!
//! `git -C x push --force` is a `git push --force`, and `git -c alias.st='!rm -rf x' st` is anything at all.

#![deny(clippy::disallowed_methods)]

use super::word::Word;

/// Subcommands that no alias can take the place of: git looks for its own first.
const KNOWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "filter-branch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "gui",
    "hash-object",
    "help",
    "init",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "maintenance",
    "merge",
    "merge-base",
    "merge-tree",
    "mergetool",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Configuration on the command line that runs nothing.
const HARMLESS_CONFIG: [&str; 8] = [
    "advice.",
    "color.",
    "core.quotepath=",
    "init.defaultbranch=",
    "log.date=",
    "status.",
    "user.email=",
    "user.name=",
];

/// Options of subcommands that run a program, or hand one to the other side.
const RUNS: [&str; 8] = [
    "--exec",
    "--extcmd",
    "--ext-diff",
    "--open-files-in-pager",
    "--receive-pack",
    "--strategy=!",
    "--upload-pack",
    "--textconv",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Git {
    /// Which word is the subcommand.
    pub at: Option<usize>,
    /// Only globals that change neither what is run nor where.
    pub plain: bool,
    /// `-C`, in their order.
    pub folders: Vec<Word>,
    /// Why it may be something else.
    pub doubt: Option<&'static str>,
}

/// `words[0]` is git itself.
#[must_use]
pub fn git(words: &[Word]) -> Git {
    let mut found = Git { plain: true, ..Git::default() };
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let head = word.head();
        if !head.starts_with('-') && !word.may_be_flag() {
            break;
        }
        let Some(text) = word.literal() else {
            found.doubt = Some("git with an option that is not known");
            return found;
        };
        at += 1;
        match text.as_str() {
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" | "--no-replace-objects" => {}
            "--version" | "-v" | "--help" | "-h" | "--html-path" | "--man-path" | "--info-path" | "--exec-path" => {
                return found;
            }
            "-C" => {
                found.plain = false;
                found.folders.extend(words.get(at).cloned());
                at += 1;
            }
            "-c" => {
                let value = words.get(at).map(Word::head).unwrap_or_default().to_lowercase();
                at += 1;
                if !HARMLESS_CONFIG.iter().any(|head| value.starts_with(head)) {
                    found.plain = false;
                    found.doubt = Some("git with a configuration that may run commands");
                }
            }
            "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" | "--config-env" | "--attr-source" => {
                at += 1;
                found.plain = false;
                found.doubt = Some("git with a repository of its own");
            }
            _ => {
                found.plain = false;
                found.doubt = Some("git with an option before its subcommand");
            }
        }
    }
    let Some(name) = words.get(at) else { return found };
    found.at = Some(at);
    let rest = &words[at + 1..];
    match name.literal().as_deref() {
        Some("bisect") if rest.iter().any(|word| word.is("run")) => found.doubt = Some("git runs a command"),
        Some("submodule") if rest.iter().any(|word| word.is("foreach")) => found.doubt = Some("git runs a command"),
        Some("filter-branch" | "difftool" | "mergetool" | "gui" | "send-email") => {
            found.doubt = Some("git runs a command");
        }
        Some("rebase") if rest.iter().any(|word| word.head().starts_with("-x")) => {
            found.doubt = Some("git runs a command");
        }
        Some("clone" | "init") if rest.iter().any(|word| matches!(word.head().get(..2), Some("-c" | "-u"))) => {
            found.doubt = Some("git runs a command");
        }
        Some(name) if KNOWN.contains(&name) => {
            let runs = |word: &Word| {
                let head = word.head();
                let option = head.split('=').next().unwrap_or_default();
                option.len() > 4 && RUNS.iter().any(|runs| runs.starts_with(option))
            };
            if rest.iter().any(runs) {
                found.doubt = Some("git runs a command");
            }
        }
        _ => found.doubt = Some("a word of git that may be an alias"),
    }
    found
}
