//! Which words of a command name files, and what becomes of those.
//!
//! A table of the programs that are known, one row each. Of a program without a row nothing is known: each of its words
//! may be a file that it reads or writes, and is held against what is denied, no more.

#![deny(clippy::disallowed_methods)]

mod table;

use table::{Mode, ROWS, Row};

use super::options::{Options, Valued};
use super::shell::Simple;
use super::shell::git;
use super::shell::word::{Atom, Word};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// Read or written or no file at all.
    Any,
}

/// A word that names a file.
#[derive(Clone, Debug)]
pub struct Touch {
    pub kind: Kind,
    /// By the shell itself, before the command runs.
    pub redirect: bool,
    /// All that lies below it too.
    pub tree: bool,
    /// Below it, what a walk that skips hidden names finds.
    pub hidden: bool,
    pub word: Word,
}

#[derive(Debug, Default)]
pub struct Touches {
    pub list: Vec<Touch>,
    /// Words that may be options or files, and nobody knows which.
    pub uncertain: bool,
}

/// Whether the table says something of this program.
#[must_use]
pub fn is_known(name: &str) -> bool {
    matches!(name, "git" | "find" | "dd") || ROWS.iter().any(|row| row.names.contains(&name))
}

/// The files that a command names: its redirects and its operands.
#[must_use]
pub fn touches(command: &Simple) -> Touches {
    let mut found = Touches::default();
    for redirect in &command.redirects {
        let kinds: &[Kind] = match redirect.op {
            "<" | "<&" => &[Kind::Read],
            "<>" => &[Kind::Read, Kind::Write],
            _ => &[Kind::Write],
        };
        for kind in kinds {
            found.add(*kind, false, &redirect.target);
        }
    }
    found.list.iter_mut().for_each(|touch| touch.redirect = true);
    let (Some(base), Some((_, rest))) = (command.base(), command.words.split_first()) else { return found };
    match base.as_str() {
        "git" => git_words(&command.words, &mut found),
        "find" => find(rest, &mut found),
        "dd" => {
            for word in rest {
                let head = word.head();
                match head.split_once('=') {
                    Some(("if", _)) => found.add(Kind::Read, false, &word.after(3)),
                    Some(("of", _)) => found.add(Kind::Write, false, &word.after(3)),
                    Some(_) => {}
                    None => found.uncertain |= word.is_unknown(),
                }
            }
        }
        name => match ROWS.iter().find(|row| row.names.contains(&name)) {
            Some(row) => row.touches(rest, &mut found),
            None => {
                any(rest, &mut found);
                if is_interpreter(name) {
                    rest.iter().for_each(|word| code(word, &mut found));
                }
            }
        },
    }
    found
}

/// Of a program that is not known, each word and each value.
fn any(words: &[Word], found: &mut Touches) {
    for word in words {
        found.add(Kind::Any, false, word);
    }
}

fn is_interpreter(name: &str) -> bool {
    ["python", "node", "perl", "ruby", "php", "lua", "deno", "bun", "ed", "ex", "vim"]
        .iter()
        .any(|head| name.starts_with(head))
}

/// Files that a program in a word may name: what stands in it between quotes, blanks and brackets, and looks like one.
fn code(word: &Word, found: &mut Touches) {
    const NAMES_MAX: usize = 64;
    let text = word.head();
    let parts = text.split(|c: char| c.is_whitespace() || "\"'`;,(){}<>=|&".contains(c));
    let named = parts.filter(|part| part.len() > 1 && (part.starts_with(['.', '~']) || part.contains('/')));
    for part in named.take(NAMES_MAX) {
        found.add(Kind::Any, false, &Word::of(part));
    }
}

impl Touches {
    fn add(&mut self, kind: Kind, tree: bool, word: &Word) {
        self.list.push(Touch { kind, redirect: false, tree, hidden: true, word: word.clone() });
    }
}

impl Row {
    fn touches(&self, rest: &[Word], found: &mut Touches) {
        if let Mode::Texts = self.mode
            && self.reads.short.is_empty()
        {
            // Names of files are shown, and their folder is read.
            rest.iter().filter(|word| word.has_glob() && self.names.contains(&"echo")).for_each(|word| {
                found.add(Kind::Any, false, word);
            });
            return;
        }
        let name = self.names[0];
        let options = self.options(rest);
        found.uncertain |= options.uncertain;
        let short = options.short.iter().filter_map(|(letter, value)| Some((letter.to_string(), value.as_ref()?)));
        let long = options.long.iter().filter_map(|(name, value)| Some((name.clone(), value.as_ref()?)));
        for (option, value) in short.chain(long) {
            let is = |valued: &Valued| {
                valued.short.contains(&option)
                    || option.len() > 1 && valued.long.iter().any(|name| name.starts_with(option.as_str()))
            };
            if is(&self.writes) {
                found.add(Kind::Write, false, value);
            } else if is(&self.reads) {
                found.add(Kind::Read, false, value);
            } else if !is(&self.texts) {
                found.add(Kind::Any, false, value);
            }
        }
        let deep = options.has(self.recursive)
            || ["recursive", "archive", "dereference-recursive"].iter().any(|name| {
                !self.recursive.is_empty()
                    && options.long.iter().any(|(found, _)| found.len() > 1 && name.starts_with(found))
            });
        let mut operands = options.operands.as_slice();
        let given =
            |letters: &str, names: &[&str]| options.has(letters) || names.iter().any(|name| options.has_long(name));
        match self.mode {
            Mode::Texts => {}
            Mode::Reads => operands.iter().for_each(|word| found.add(Kind::Read, deep, word)),
            Mode::Searches => {
                let script = match name {
                    "awk" => given("fe", &["file", "source"]),
                    // With values of two words what stands first need not be the filter.
                    "jq" => given("f", &["from-file", "arg", "argjson", "slurpfile", "rawfile", "args"]),
                    "rg" => given("ef", &["regexp", "file", "files"]),
                    _ => given("ef", &["regexp", "expression", "file"]),
                };
                if !script {
                    if matches!(name, "sed" | "awk") {
                        operands.iter().take(1).for_each(|word| code(word, found));
                    }
                    operands = operands.get(1..).unwrap_or_default();
                }
                let in_place = match name {
                    "sed" => given("i", &["in-place"]),
                    "jq" => given("i", &["inplace"]),
                    _ => false,
                };
                let kind = if in_place { Kind::Write } else { Kind::Read };
                let walks = name == "rg" || deep;
                let here = Word::of(".");
                // Without a folder it is the one that the command runs in.
                let operands = if walks && operands.is_empty() { std::slice::from_ref(&here) } else { operands };
                for word in operands {
                    found.add(kind, walks, word);
                    if let Some(last) = found.list.last_mut() {
                        last.hidden = name != "rg"
                            || options.has("u.")
                            || options.has_long("hidden")
                            || options.has_long("unrestricted");
                    }
                }
            }
            Mode::Writes => operands.iter().for_each(|word| found.add(Kind::Write, deep, word)),
            Mode::Changes => {
                // `-w` is a mode that looks like an option.
                let mode = options.has("rwxXstugoa") || options.has_long("reference");
                let skip = usize::from(!mode);
                operands.iter().skip(skip).for_each(|word| found.add(Kind::Write, deep, word));
            }
            Mode::Copies | Mode::Moves => self.copies(name, &options, deep, found),
            Mode::Any => any(operands, found),
        }
    }

    fn options(&self, rest: &[Word]) -> Options {
        Options::of_all(rest, &[self.texts, self.reads, self.writes])
    }

    fn copies(&self, name: &str, options: &Options, deep: bool, found: &mut Touches) {
        let into: Vec<Word> = options
            .short
            .iter()
            .filter(|(letter, _)| *letter == 't')
            .filter_map(|(_, value)| value.clone())
            .chain(
                options
                    .long
                    .iter()
                    .filter(|(name, _)| "target-directory".starts_with(name.as_str()))
                    .filter_map(|(_, v)| v.clone()),
            )
            .collect();
        let operands = &options.operands;
        let (sources, target) = match (into.first(), operands.split_last()) {
            (Some(into), _) => (operands.as_slice(), into.clone()),
            (None, Some((last, []))) if name == "ln" => (std::slice::from_ref(last), Word::of(".")),
            (None, Some((last, []))) if name == "uniq" => {
                found.add(Kind::Read, false, last);
                return;
            }
            (None, Some((last, sources))) => (sources, last.clone()),
            (None, None) => return,
        };
        let moves = matches!(self.mode, Mode::Moves);
        for source in sources {
            // A link opens all that is below what it names.
            // What is written through it later cannot be seen here.
            let links = name == "ln" || name == "cp" && (options.has("sl") || options.has_long("symbolic-link"));
            if moves || links {
                found.add(Kind::Write, true, source);
            }
            found.add(Kind::Read, deep || moves || links, source);
            // Into a folder, under its own name.
            let mut inside = target.clone();
            inside.atoms.push(Atom::Char('/'));
            let slash = source.atoms.iter().rposition(|atom| *atom == Atom::Char('/'));
            inside.atoms.extend(source.atoms.iter().skip(slash.map_or(0, |at| at + 1)));
            found.add(Kind::Write, false, &inside);
        }
        // `cp -r x/. y` writes over what is in `y`, whatever that is.
        let merges = deep && sources.iter().any(text_ends_with_dot);
        found.add(Kind::Write, merges, &target);
    }
}

fn text_ends_with_dot(word: &Word) -> bool {
    matches!(word.atoms.as_slice(), [Atom::Char('.')] | [.., Atom::Char('/'), Atom::Char('.')])
}

fn find(rest: &[Word], found: &mut Touches) {
    let deletes = rest.iter().any(|word| word.is("-delete"));
    let mut places = rest
        .iter()
        .skip_while(|word| matches!(word.head().as_str(), "-H" | "-L" | "-P"))
        .take_while(|word| !word.head().starts_with(['-', '(', '!', ')']))
        .peekable();
    let kind = if deletes { Kind::Write } else { Kind::Read };
    if places.peek().is_none() {
        found.add(kind, deletes, &Word::of("."));
    }
    places.for_each(|word| found.add(kind, deletes, word));
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.literal().as_deref() {
            Some("-fprint" | "-fprint0" | "-fprintf" | "-fls") => {
                if let Some(file) = words.next() {
                    found.add(Kind::Write, false, file);
                }
            }
            Some("-newer" | "-anewer" | "-cnewer" | "-samefile" | "-files0-from") => {
                if let Some(file) = words.next() {
                    found.add(Kind::Read, false, file);
                }
            }
            _ => {}
        }
    }
}

fn git_words(words: &[Word], found: &mut Touches) {
    let git = git::git(words);
    for folder in &git.folders {
        found.add(Kind::Read, false, folder);
    }
    let Some(at) = git.at else { return };
    // The same letter takes a value of one subcommand, and none of another.
    let short = match words[at].literal().as_deref() {
        Some("commit" | "merge" | "tag" | "notes") => "mFCct",
        Some("stash") => "m",
        Some("log" | "rev-list" | "shortlog" | "whatchanged") => "nGSL",
        Some("diff" | "show") => "GSL",
        Some("blame") => "L",
        Some("grep") => "efABCm",
        _ => "",
    };
    let texts = Valued {
        short,
        long: &[
            "message",
            "format",
            "pretty",
            "grep",
            "author",
            "since",
            "until",
            "after",
            "before",
            "date",
            "max-count",
            "trailer",
        ],
    };
    let options = Options::of(&words[at + 1..], texts);
    let option = |name: &str, value: &Word, found: &mut Touches| {
        if name == "output" {
            found.add(Kind::Write, false, value);
        } else if matches!(name, "F" | "f") {
            found.add(Kind::Read, false, value);
        } else if !texts.long.contains(&name) && !texts.short.contains(name) {
            found.add(Kind::Any, false, value);
        }
    };
    for (letter, value) in &options.short {
        if let Some(value) = value {
            option(&letter.to_string(), value, found);
        }
    }
    for (name, value) in &options.long {
        if let Some(value) = value {
            let name = if name.len() > 2 && "output".starts_with(name.as_str()) { "output" } else { name };
            option(name, value, found);
        }
    }
    any(&options.operands, found);
}
