//! The read-only list (spec §8 ③): commands that change nothing and run nothing, whatever they are given.
//!
//! It only ever allows, and only by what it knows: a program that is not here, or an option that is not good for it, is
//! not read-only. That operands lie beneath the roots is the judge's part, who resolves them.

#![deny(clippy::disallowed_methods)]

use super::options::{Options, Valued};
use super::shell::Simple;
use super::shell::environment;
use super::shell::word::Word;

/// Programs of which no option writes or runs anything.
const ANY: &[&str] = &[
    "ls",
    "cat",
    "tac",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "stat",
    "du",
    "df",
    "pwd",
    "echo",
    "printf",
    "true",
    "false",
    ":",
    "test",
    "[",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "uname",
    "whoami",
    "id",
    "which",
    "type",
    "cut",
    "tr",
    "comm",
    "cmp",
    "diff",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "b2sum",
    "cksum",
    "od",
    "nl",
    "rev",
    "fold",
    "fmt",
    "column",
    "seq",
    "sleep",
    "cd",
    "exit",
    "return",
    "break",
    "continue",
    "shift",
    "wait",
    "nproc",
    "arch",
    "expand",
    "unexpand",
    "paste",
    "join",
    "hexdump",
    "read",
    "unset",
    "local",
    "set",
    "export",
    "declare",
    "readonly",
    "base64",
];

/// Only without any operand or option.
const BARE: &[&str] = &["env", "hostname", "printenv", "uptime", "free", "umask", "tty", "jobs"];

/// Programs with options that are not good, by letter and by long name (an abbreviation counts).
struct Row {
    name: &'static str,
    bad: &'static str,
    bad_long: &'static [&'static str],
    valued: &'static str,
    valued_long: &'static [&'static str],
    operands_max: usize,
}

const ROWS: &[Row] = &[
    Row {
        name: "sort",
        bad: "oT",
        bad_long: &["output", "compress-program", "temporary-directory", "files0-from"],
        valued: "ktSoT",
        valued_long: &["key", "field-separator", "buffer-size", "parallel", "batch-size", "sort"],
        operands_max: usize::MAX,
    },
    // A second operand is written.
    Row { name: "uniq", bad: "", bad_long: &[], valued: "fsw", valued_long: &["skip-fields"], operands_max: 1 },
    Row { name: "xxd", bad: "r", bad_long: &["revert"], valued: "clsgon", valued_long: &[], operands_max: 1 },
    Row { name: "date", bad: "s", bad_long: &["set"], valued: "dfrs", valued_long: &["date", "file"], operands_max: 1 },
    Row {
        name: "file",
        bad: "CmzZ",
        bad_long: &["compile", "magic-file", "uncompress"],
        valued: "FePfm",
        valued_long: &[],
        operands_max: usize::MAX,
    },
    Row {
        name: "rg",
        bad: "z",
        bad_long: &["pre", "hostname-bin", "search-zip"],
        valued: "ABCmegtTMjrEdf",
        valued_long: &[
            "regexp",
            "glob",
            "iglob",
            "type",
            "type-not",
            "context",
            "max-count",
            "max-depth",
            "sort",
            "color",
        ],
        operands_max: usize::MAX,
    },
    Row {
        name: "tree",
        bad: "oR",
        bad_long: &["output"],
        valued: "LPIoH",
        valued_long: &["filelimit"],
        operands_max: usize::MAX,
    },
];

/// Whether a command changes nothing, and its redirects left aside runs nothing but itself.
#[must_use]
pub fn is_read_only(command: &Simple) -> bool {
    // `IFS=, read a b`: for that one reading.
    let reads = command.words.first().is_some_and(|word| word.is("read"));
    let safe = |(name, _): &(String, Word)| environment::is_harmless(name) || reads && name == "IFS";
    let Some((first, rest)) = command.words.split_first() else {
        // Variables of the shell itself; what is bad among them makes the reading opaque.
        return true;
    };
    if !command.assigns.iter().all(safe) {
        return false;
    }
    let Some(name) = first.literal() else { return false };
    match name.as_str() {
        "find" => find(rest),
        "sed" => sed(rest),
        "command" => matches!(rest.first().map(Word::head).as_deref(), Some("-v" | "-V")),
        name if ANY.contains(&name) => true,
        name if BARE.contains(&name) => rest.is_empty(),
        // Anything but a format sets the clock.
        "date"
            if rest.iter().any(|word| {
                !matches!(word.head().chars().next(), Some('+' | '-' | '@') | None) && rest[0].head() != "-d"
            }) =>
        {
            false
        }
        name => ROWS.iter().find(|row| row.name == name).is_some_and(|row| row.is_good(rest)),
    }
}

impl Row {
    fn is_good(&self, rest: &[Word]) -> bool {
        let options = Options::of(rest, Valued { short: self.valued, long: self.valued_long });
        !options.uncertain
            && !options.has(self.bad)
            && !self.bad_long.iter().any(|name| options.has_long(name))
            // A file may be named like an option.
            && !rest.iter().any(|word| word.begins_with_glob())
            && options.operands.len() <= self.operands_max
            && (self.operands_max == usize::MAX || !options.operands.iter().any(Word::may_split))
    }
}

/// Tests and what only prints; `-exec` is judged by what it runs (`wrapper`).
fn find(rest: &[Word]) -> bool {
    const GOOD: &[&str] = &[
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-ctime",
        "-cmin",
        "-atime",
        "-amin",
        "-newer",
        "-newermt",
        "-maxdepth",
        "-mindepth",
        "-depth",
        "-print",
        "-print0",
        "-printf",
        "-ls",
        "-prune",
        "-empty",
        "-not",
        "-o",
        "-or",
        "-a",
        "-and",
        "-follow",
        "-mount",
        "-xdev",
        "-perm",
        "-user",
        "-group",
        "-links",
        "-inum",
        "-quit",
        "-true",
        "-false",
        "-readable",
        "-writable",
        "-executable",
        "-L",
        "-P",
        "-H",
        "-lname",
        "-samefile",
        "-nouser",
        "-nogroup",
        "-daystart",
    ];
    let mut within = false;
    for (at, word) in rest.iter().enumerate() {
        let Some(text) = word.literal() else {
            // The shell puts names of files there, and such a name begins with what it begins with.
            if word.may_be_flag() || word.begins_with_glob() {
                return false;
            }
            continue;
        };
        if within {
            within = !(text == ";" || text == "+" && rest[at - 1].is("{}"));
            continue;
        }
        if matches!(text.as_str(), "-exec" | "-execdir") {
            within = true;
        } else if text.starts_with('-') && !GOOD.contains(&text.as_str()) {
            // `-mtime -3` and the like.
            let number = text[1..].starts_with(|c: char| c.is_ascii_digit());
            if !(number && at > 0) {
                return false;
            }
        }
    }
    true
}

/// `sed -n 3,5p`: the one script that is known to do nothing but print.
fn sed(rest: &[Word]) -> bool {
    let options = Options::of(rest, Valued { short: "ef", long: &["expression", "file"] });
    let scripts: Vec<Word> =
        options.short.iter().filter(|(letter, _)| *letter == 'e').filter_map(|(_, word)| word.clone()).collect();
    let scripts = if scripts.is_empty() { options.operands.first().cloned().into_iter().collect() } else { scripts };
    let good = |word: &Word| {
        word.literal().is_some_and(|text| {
            let (lines, end) = text.split_at(text.len().saturating_sub(1));
            matches!(end, "p" | "d" | "q")
                && lines.bytes().all(|byte| byte.is_ascii_digit() || b",$ ;pd".contains(&byte))
        })
    };
    !options.uncertain
        && options.long.is_empty()
        && options.short.iter().all(|(letter, _)| "nEre".contains(*letter))
        && !rest.iter().any(|word| word.begins_with_glob())
        && !scripts.is_empty()
        && scripts.iter().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    #[test]
    fn only_what_changes_nothing() {
        for (command, expected) in [
            ("ls -la src", true),
            ("cat a b", true),
            ("sort -u -k2 a", true),
            ("sort a -o b", false),
            ("sort --outp=b a", false),
            ("sort --compress-program=x a", false),
            ("sort *", false),
            ("uniq a b", false),
            ("uniq -c a", true),
            ("xxd a b", false),
            ("xxd -r a", false),
            ("date", true),
            ("date -s x", false),
            ("date --se=x", false),
            ("date +%s", true),
            ("rg -n x src", true),
            ("rg --pre=x y", false),
            ("find . -name '*.rs' -type f", true),
            ("find . -delete", false),
            ("find . -fprint x", false),
            ("find . -mtime -3", true),
            ("find . -exec ls {} \\;", true),
            ("find . -ok ls {} \\;", false),
            ("sed -n 1,20p a", true),
            ("sed -n '1,20p;30q' a", true),
            ("sed -i 1d a", false),
            ("sed 's/a/b/e' a", false),
            ("sed '1w x' a", false),
            ("sed -n --in-place p a", false),
            ("env", true),
            ("env ls", false),
            ("command -v ls", true),
            ("command ls", false),
            ("awk 1 a", false),
            ("make", false),
            ("/bin/ls", false),
            ("PATH=. ls", false),
            ("LANG=C ls", true),
            // What it looks at names programs: fsmonitor, textconv, a helper that fetches what is missing.
            ("git status -s", false),
            ("git log", false),
            ("jq . a", false),
            ("strings @a", false),
        ] {
            let reading = shell::read(command, &shell::Job::example());
            let found = reading.opaque.is_none() && is_read_only(&reading.commands[0]);
            assert_eq!(found, expected, "{command}: {:?}", reading.opaque);
        }
    }
}
