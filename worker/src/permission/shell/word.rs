//! One word of a command line, as far as it can be known before the shell runs it.
//!
//! Quotes, escapes and braces are gone; what a word will hold that only running can tell is marked as such, so that
//! whoever compares words compares what a program would really be given, and knows where it cannot.

#![deny(clippy::disallowed_methods)]

use super::value::{Id, Quote};

/// A brace expansion that makes more words than this is not followed.
const BRACES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atom {
    Char(char),
    /// An unquoted `*`, `?` or `[`: files of the disk may stand here.
    Glob(char),
    /// Some text.
    Unknown,
    /// Some text, which may be no word or several.
    Split,
    /// An unquoted `~` where it is a home folder.
    Tilde,
    /// An unquoted `{`, `,` or `}`.
    Brace(char),
    /// The value of an expansion, put in by `flow`: no command of a reading holds one.
    Var(Id, Quote),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub atoms: Vec<Atom>,
    /// Some of it was quoted or escaped, so it is no reserved word.
    pub quoted: bool,
}

impl Word {
    #[must_use]
    pub fn of(text: &str) -> Self {
        Word { atoms: text.chars().map(Atom::Char).collect(), quoted: true }
    }

    /// A word of which nothing is known, not even that it is one.
    #[must_use]
    pub fn any() -> Self {
        Word { atoms: vec![Atom::Split], quoted: false }
    }

    /// The text, if all of it is known.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        self.atoms.iter().map(|atom| if let Atom::Char(c) = atom { Some(*c) } else { None }).collect()
    }

    /// What is known of its beginning.
    #[must_use]
    pub fn head(&self) -> String {
        self.atoms.iter().map_while(|atom| if let Atom::Char(c) = atom { Some(*c) } else { None }).collect()
    }

    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.atoms.len() == text.chars().count()
            && self.atoms.iter().zip(text.chars()).all(|(atom, c)| *atom == Atom::Char(c))
    }

    /// Whether some of it is known only when it runs; a glob is known to be a file's name.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.atoms.iter().any(|atom| matches!(atom, Atom::Unknown | Atom::Split | Atom::Var(..)))
    }

    #[must_use]
    pub fn has_glob(&self) -> bool {
        self.atoms.iter().any(|atom| matches!(atom, Atom::Glob(_)))
    }

    /// Whether files' names stand at its beginning, and so whatever a file may be called.
    #[must_use]
    pub fn begins_with_glob(&self) -> bool {
        matches!(self.atoms.first(), Some(Atom::Glob(_)))
    }

    /// Whether it may become no word, or more than one.
    #[must_use]
    pub fn may_split(&self) -> bool {
        self.atoms.iter().any(|atom| matches!(atom, Atom::Split | Atom::Glob(_) | Atom::Var(..)))
    }

    /// Whether it may turn out to be an option: it is one, or nobody can say how it begins.
    #[must_use]
    pub fn may_be_flag(&self) -> bool {
        match self.atoms.first() {
            Some(Atom::Char(c)) => *c == '-',
            Some(Atom::Tilde | Atom::Brace(_)) | None => false,
            Some(Atom::Glob(_)) => self.atoms.iter().all(|atom| match atom {
                Atom::Char(c) => c.is_ascii_alphanumeric() || matches!(c, '-' | '='),
                _ => true,
            }),
            Some(Atom::Unknown | Atom::Split | Atom::Var(..)) => true,
        }
    }

    /// The rest of the word behind its first `chars` characters.
    #[must_use]
    pub fn after(&self, chars: usize) -> Word {
        Word { atoms: self.atoms.iter().skip(chars).copied().collect(), quoted: self.quoted }
    }

    pub(super) fn push_text(&mut self, text: &str) {
        self.atoms.extend(text.chars().map(Atom::Char));
    }

    /// Braces as plain characters: where the shell expands none.
    #[must_use]
    pub(super) fn without_braces(mut self) -> Word {
        for atom in &mut self.atoms {
            if let Atom::Brace(c) = *atom {
                *atom = Atom::Char(c);
            }
        }
        self
    }

    /// Puts the home folder where a `~` stands. Another user's is unknown.
    #[must_use]
    pub(super) fn with_home(mut self, home: &str) -> Word {
        let mut out = Vec::with_capacity(self.atoms.len());
        for (at, atom) in self.atoms.iter().enumerate() {
            match (atom, self.atoms.get(at + 1)) {
                (Atom::Tilde, None | Some(Atom::Char('/' | ':'))) => out.extend(home.chars().map(Atom::Char)),
                (Atom::Tilde, _) => out.push(Atom::Unknown),
                (other, _) => out.push(*other),
            }
        }
        self.atoms = out;
        self
    }

    /// The words that its braces make. `None`: more than are followed, or braces that do not pair.
    pub(super) fn expand(self) -> Option<Vec<Word>> {
        if !self.atoms.contains(&Atom::Brace('{')) {
            return Some(vec![self.without_braces()]);
        }
        let words = braces(&self.atoms)?;
        let whole = |atoms| Word { atoms, quoted: self.quoted }.without_braces();
        Some(words.into_iter().map(whole).collect())
    }
}

fn braces(atoms: &[Atom]) -> Option<Vec<Vec<Atom>>> {
    let Some(open) = atoms.iter().position(|atom| *atom == Atom::Brace('{')) else {
        return Some(vec![atoms.to_vec()]);
    };
    let (mut depth, mut commas, mut close) = (0_usize, vec![open], None);
    for (at, atom) in atoms.iter().enumerate().skip(open) {
        match atom {
            Atom::Brace('{') => depth += 1,
            Atom::Brace('}') => {
                depth -= 1;
                if depth == 0 {
                    close = Some(at);
                    break;
                }
            }
            Atom::Brace(',') if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    // Unpaired braces have rules of their own: not followed when they could mean something.
    let Some(close) = close else {
        return (!atoms.contains(&Atom::Brace(','))).then(|| vec![atoms.to_vec()]);
    };
    let inside = &atoms[open + 1..close];
    let rests = braces(&atoms[close + 1..])?;
    let mut middles: Vec<Vec<Atom>> = Vec::new();
    if commas.len() > 1 {
        commas.push(close);
        for pair in commas.windows(2) {
            middles.extend(braces(&atoms[pair[0] + 1..pair[1]])?);
        }
    } else if inside.windows(2).any(|pair| pair == [Atom::Char('.'), Atom::Char('.')]) {
        // A sequence: words, of which this says only that they are some.
        middles.push(vec![Atom::Split]);
    } else {
        for middle in braces(inside)? {
            middles.push([&[Atom::Char('{')], &middle[..], &[Atom::Char('}')]].concat());
        }
    }
    let mut out = Vec::new();
    for middle in &middles {
        for rest in &rests {
            out.push([&atoms[..open], middle, rest].concat());
            if out.len() > BRACES_MAX {
                return None;
            }
        }
    }
    Some(out)
}
