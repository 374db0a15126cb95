//! Options and operands of a command's words, as getopt takes them apart.

#![deny(clippy::disallowed_methods)]

use super::shell::word::Word;

/// Which options of a program take a value in the next word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Valued {
    pub short: &'static str,
    pub long: &'static [&'static str],
}

#[derive(Debug, Default)]
pub struct Options {
    pub short: Vec<(char, Option<Word>)>,
    /// Without its dashes, as written: it may be abbreviated.
    pub long: Vec<(String, Option<Word>)>,
    pub operands: Vec<Word>,
    /// A word may be an option, and which cannot be known.
    pub uncertain: bool,
}

impl Options {
    /// Takes apart what stands behind the program's name.
    #[must_use]
    pub fn of(words: &[Word], valued: Valued) -> Self {
        Options::of_all(words, &[valued])
    }

    /// The same, for options that several lists name.
    #[must_use]
    pub fn of_all(words: &[Word], valued: &[Valued]) -> Self {
        let mut found = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let head = word.head();
            if head == "--" && word.literal().is_some() {
                found.operands.extend(words.by_ref().cloned());
            } else if head == "-" && word.literal().is_some() || !word.may_be_flag() {
                found.operands.push(word.clone());
            } else if let Some(long) = head.strip_prefix("--") {
                if let Some((name, _)) = long.split_once('=') {
                    let value = word.after(name.chars().count() + 3);
                    found.long.push((name.to_owned(), Some(value)));
                } else if word.literal().is_some() {
                    let mut names = valued.iter().flat_map(|valued| valued.long);
                    let takes = names.any(|name| !long.is_empty() && name.starts_with(long));
                    let value = if takes { words.next().cloned() } else { None };
                    found.long.push((long.to_owned(), value));
                } else {
                    found.uncertain = true;
                    found.operands.push(word.clone());
                }
            } else if head.starts_with('-') {
                found.bundle(word, &head, valued, &mut words);
            } else {
                found.uncertain = true;
                found.operands.push(word.clone());
            }
        }
        found
    }

    fn bundle<'a>(&mut self, word: &Word, head: &str, valued: &[Valued], words: &mut impl Iterator<Item = &'a Word>) {
        let letters: Vec<char> = head.chars().collect();
        for (at, letter) in letters.iter().enumerate().skip(1) {
            if !valued.iter().any(|valued| valued.short.contains(*letter)) {
                self.short.push((*letter, None));
                continue;
            }
            let attached = word.after(at + 1);
            let value = if attached.atoms.is_empty() { words.next().cloned() } else { Some(attached) };
            self.short.push((*letter, value));
            return;
        }
        if word.literal().is_none() {
            self.uncertain = true;
            self.operands.push(word.clone());
        }
    }

    #[must_use]
    pub fn has(&self, letters: &str) -> bool {
        self.short.iter().any(|(letter, _)| letters.contains(*letter))
    }

    /// Whether this long option is there, abbreviated or not.
    #[must_use]
    pub fn has_long(&self, name: &str) -> bool {
        self.long.iter().any(|(found, _)| !found.is_empty() && name.starts_with(found.as_str()))
    }
}
