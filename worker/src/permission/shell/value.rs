//! What variables may hold: the values that the line itself gives them, so that `x=~/.ssh/id; cat "$x"` is read as what
//! it runs.
//!
//! Of each name all values are kept that it may have at one place; a name that the line has not set may hold anything. A
//! value that is only guessed (a default, a word of a text that is read) stands beside one that may be anything: then it
//! is held against what is denied, and allows nothing.

#![deny(clippy::disallowed_methods)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::parse::Line;
use super::word::{Atom, Word};

/// Values of one name at one place, and ways in which one command may come out.
pub const VALUES_MAX: usize = 64;
/// Of a longer value nothing is known: no path is so long.
const VALUE_ATOMS_MAX: usize = 4_096;
/// Expansions of one command line.
const SOURCES_MAX: usize = 4_096;

/// Which expansion of the line it is, by its place in [`Sources`].
pub type Id = u16;

/// The words of a variable: one, or those of an array.
pub type Value = Vec<Word>;

/// How an expansion becomes words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// `$x`: split at blanks, patterns of files put in.
    Bare,
    /// `"$x"`: part of one word.
    Quoted,
    /// `"${x[@]}"`: each element a word.
    Each,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    Name(String),
    /// All elements of an array, `$@`.
    All(String),
    /// One element of an array.
    Part(String),
    /// `${x:-word}` and its kin.
    Either(String, Word),
    /// `$(echo word)`.
    Output(Line),
}

/// All expansions of one command line.
#[derive(Debug, Default)]
pub struct Sources(RefCell<Vec<Source>>);

impl Sources {
    /// `None`: more than are followed.
    pub fn add(&self, source: Source) -> Option<Id> {
        let mut sources = self.0.borrow_mut();
        if sources.len() >= SOURCES_MAX {
            return None;
        }
        sources.push(source);
        Id::try_from(sources.len() - 1).ok()
    }

    pub fn get(&self, id: Id) -> Option<Source> {
        self.0.borrow().get(usize::from(id)).cloned()
    }
}

/// What may be anything, even no word or several.
pub fn anything() -> Value {
    vec![Word::any()]
}

/// Names of which the shell itself says what they hold.
fn is_special(name: &str) -> bool {
    name.starts_with("BASH")
        || name.starts_with("OPT")
        || name.starts_with("COMP")
        || name.starts_with("HIST")
        || name.starts_with("EPOCH")
        || name.starts_with("READLINE")
        || matches!(
            name,
            "RANDOM"
                | "SRANDOM"
                | "SECONDS"
                | "LINENO"
                | "UID"
                | "EUID"
                | "PPID"
                | "GROUPS"
                | "FUNCNAME"
                | "DIRSTACK"
                | "PIPESTATUS"
                | "COPROC"
                | "HOSTNAME"
                | "HOSTTYPE"
                | "MACHTYPE"
                | "OSTYPE"
                | "SHLVL"
                | "COLUMNS"
                | "LINES"
                | "_"
        )
}

/// What names may hold at one place of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    of: BTreeMap<String, Vec<Value>>,
    /// A name may hold more than is followed.
    pub overflow: bool,
}

impl Values {
    #[must_use]
    pub fn get(&self, name: &str) -> Vec<Value> {
        self.of.get(name).cloned().unwrap_or_else(|| vec![anything()])
    }

    /// It holds one of these from here on.
    pub fn set(&mut self, name: &str, values: Vec<Value>) {
        self.of.remove(name);
        if is_special(name) {
            self.add(name, vec![anything()]);
        } else if let Some((first, rest)) = values.split_first() {
            self.of.insert(name.to_owned(), vec![first.clone()]);
            self.add(name, rest.to_vec());
            return;
        }
        self.add(name, values);
    }

    /// It may hold one of these, or what it held.
    pub fn add(&mut self, name: &str, values: Vec<Value>) {
        let known = self.of.entry(name.to_owned()).or_insert_with(|| vec![anything()]);
        for value in values {
            let long = value.iter().map(|word| word.atoms.len()).sum::<usize>() > VALUE_ATOMS_MAX;
            let value = if long || value.len() > VALUES_MAX { anything() } else { value };
            if !known.contains(&value) {
                if known.len() >= VALUES_MAX {
                    self.overflow = true;
                    return;
                }
                known.push(value);
            }
        }
    }

    /// What it may hold where two ways meet.
    pub fn join(&mut self, other: Values) {
        self.overflow |= other.overflow;
        for (name, values) in &mut self.of {
            if !other.of.contains_key(name) && !values.contains(&anything()) {
                values.push(anything());
            }
        }
        for (name, values) in other.of {
            self.add(&name, values);
        }
    }

    /// Each may hold anything beside: what another shell may have been told.
    #[must_use]
    pub fn guessed(&self) -> Values {
        let mut found = self.clone();
        for name in self.of.keys() {
            found.add(name, vec![anything()]);
        }
        found
    }

    /// The arguments of a shell, its name first. Without any, they may be anything.
    pub fn arguments(&mut self, words: &[Word]) {
        self.of.retain(|name, _| !name.starts_with(|c: char| c.is_ascii_digit() || c == '@'));
        let known = words.iter().take_while(|word| !word.may_split()).count();
        for (at, word) in words.iter().take(known.min(10)).enumerate() {
            self.set(&at.to_string(), vec![vec![word.clone()]]);
        }
        if let Some(rest) = words.get(1..).filter(|_| known == words.len()) {
            self.set("@", vec![rest.to_vec()]);
        }
    }
}

/// Puts values into words.
pub struct Filling<'a> {
    pub choose: &'a dyn Fn(Id) -> Value,
    /// Where the shell splits nothing: behind a `=`, in a here-document.
    pub text: bool,
    /// Names of files that a pattern became are not known.
    pub loose: bool,
    /// The pattern stood elsewhere than where its names are used.
    pub moved: bool,
    /// A pattern is not the whole word, so its names are found by no look at the disk.
    pub inexact: bool,
}

impl Filling<'_> {
    pub fn word(&mut self, word: &Word, out: &mut Vec<Word>) {
        let mut piece = Word { atoms: Vec::new(), quoted: word.quoted };
        // An unquoted expansion of nothing is no word.
        let mut stands = word.quoted || word.atoms.is_empty();
        for atom in &word.atoms {
            let Atom::Var(id, quote) = *atom else {
                piece.atoms.push(*atom);
                stands = true;
                continue;
            };
            let value = (self.choose)(id);
            let several = value.len() != 1 && self.text || value.is_empty() && quote == Quote::Each;
            if several {
                piece.atoms.push(if self.text { Atom::Unknown } else { Atom::Split });
                stands = true;
                continue;
            }
            let quote = if self.text { Quote::Quoted } else { quote };
            for (at, part) in value.iter().enumerate() {
                if at > 0 {
                    if stands || !piece.atoms.is_empty() {
                        out.push(std::mem::take(&mut piece));
                    }
                    stands = quote == Quote::Each;
                    piece.quoted = stands;
                }
                let alone = word.atoms.len() == 1 && part.has_glob();
                for atom in &part.atoms {
                    let breaks = quote == Quote::Bare && matches!(atom, Atom::Char(' ' | '\t' | '\n'));
                    if breaks {
                        if !piece.atoms.is_empty() {
                            out.push(std::mem::take(&mut piece));
                        } else if word.quoted {
                            // Whether an empty quote stands before it is not known here.
                            piece.atoms.push(Atom::Split);
                        }
                        stands = false;
                        continue;
                    }
                    let atom = self.atom(*atom, quote, alone);
                    piece.atoms.push(atom);
                    stands = true;
                }
            }
        }
        if !stands && piece.atoms.is_empty() && word.quoted {
            piece.atoms.push(Atom::Split);
        }
        if stands || !piece.atoms.is_empty() {
            out.push(piece);
        }
    }

    fn atom(&mut self, atom: Atom, quote: Quote, alone: bool) -> Atom {
        match (atom, quote) {
            (Atom::Unknown | Atom::Split, Quote::Bare) => Atom::Split,
            (Atom::Unknown | Atom::Split, Quote::Quoted) => Atom::Unknown,
            (Atom::Char(c @ ('*' | '?' | '[')), Quote::Bare) => Atom::Glob(c),
            // A backslash in it is one of a pattern, or stands for itself.
            (Atom::Char('\\'), Quote::Bare) => Atom::Split,
            (Atom::Glob(_), Quote::Quoted | Quote::Each) if alone && !self.moved => atom,
            (Atom::Glob(_), _) => {
                self.inexact = true;
                match (self.loose, quote) {
                    (false, _) => atom,
                    (true, Quote::Bare) => Atom::Split,
                    (true, _) => Atom::Unknown,
                }
            }
            (other, _) => other,
        }
    }
}
