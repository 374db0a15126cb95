//! What the disk says of the words of a command: which files a pattern of the shell names, what lies below a folder that
//! is read or removed as a whole, and whether git would believe a folder that a model could have written.

#![allow(clippy::disallowed_methods, reason = "the IO of judging a command line")]

use std::path::{Path, PathBuf};

use super::shell::word::{Atom, Word};

/// Names that are looked at for one pattern or one folder. Who names more is asked.
pub const NAMES_MAX: usize = 4_000;

/// The paths that a word with `*`, `?` or `[…]` becomes in `dir`. `None`: more than are looked at, or unknown text.
#[must_use]
pub fn expand(word: &Word, dir: &Path) -> Option<Vec<PathBuf>> {
    let mut parts: Vec<Vec<Atom>> = vec![Vec::new()];
    for atom in &word.atoms {
        match atom {
            Atom::Unknown | Atom::Split | Atom::Tilde | Atom::Var(..) => return None,
            Atom::Char('/') => parts.push(Vec::new()),
            other => parts.last_mut()?.push(*other),
        }
    }
    let rooted = word.atoms.first() == Some(&Atom::Char('/'));
    let mut found = vec![if rooted { PathBuf::from("/") } else { dir.to_owned() }];
    let mut budget = NAMES_MAX;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let literal: Option<String> =
            part.iter().map(|atom| if let Atom::Char(c) = atom { Some(*c) } else { None }).collect();
        let mut next = Vec::new();
        for folder in &found {
            match &literal {
                Some(name) => next.push(folder.join(name)),
                None => {
                    let Some(names) = listed(folder)? else { continue };
                    for name in names.flatten().map(|entry| entry.file_name()) {
                        budget = budget.checked_sub(1)?;
                        if name.to_str().is_none_or(|name| fits(part, name)) {
                            next.push(folder.join(name));
                        }
                    }
                }
            }
        }
        found = next;
    }
    Some(found)
}

/// What stands in a folder; `Some(None)`: it is none. `None`: we may not look, and what a command would find is unknown.
fn listed(folder: &Path) -> Option<Option<std::fs::ReadDir>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Some(Some(entries)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(None),
    }
}

/// Whether a name is what the pattern says; a bracket expression is taken for any character.
fn fits(pattern: &[Atom], name: &str) -> bool {
    if name.starts_with('.') && pattern.first() != Some(&Atom::Char('.')) {
        return false;
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(atom) = pattern.get(at) {
        at += 1;
        match atom {
            Atom::Glob('*') => tokens.push(None),
            Atom::Glob('[') => {
                // A `]` right behind the bracket is one of its characters.
                let close = pattern[at..].iter().skip(1).position(|atom| *atom == Atom::Char(']'));
                match close {
                    Some(close) => at += close + 2,
                    None => return true,
                }
                tokens.push(Some(None));
            }
            Atom::Glob(_) => tokens.push(Some(None)),
            Atom::Char(c) | Atom::Brace(c) => tokens.push(Some(Some(*c))),
            Atom::Unknown | Atom::Split | Atom::Tilde | Atom::Var(..) => return true,
        }
    }
    let name: Vec<char> = name.chars().collect();
    // Which beginnings of the name the tokens so far can be.
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for token in &tokens {
        let mut next = vec![false; name.len() + 1];
        match token {
            None => {
                let first = reach.iter().position(|reached| *reached).unwrap_or(next.len());
                next.iter_mut().skip(first).for_each(|reached| *reached = true);
            }
            Some(wanted) => {
                for at in 0..name.len() {
                    next[at + 1] = reach[at] && wanted.is_none_or(|wanted| wanted == name[at]);
                }
            }
        }
        reach = next;
    }
    reach.last().copied().unwrap_or_default()
}

/// Whether `bad` is true of anything below a folder; `None` if there is more than is looked at.
#[must_use]
pub fn below(folder: &Path, hidden: bool, mut bad: impl FnMut(&Path, bool) -> bool) -> Option<bool> {
    let mut todo = vec![folder.to_owned()];
    let mut budget = NAMES_MAX;
    while let Some(folder) = todo.pop() {
        let Some(entries) = listed(&folder)? else { continue };
        for entry in entries.flatten() {
            budget = budget.checked_sub(1)?;
            let name = entry.file_name();
            if !hidden && name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            if bad(&path, is_dir) {
                return Some(true);
            }
            if is_dir {
                todo.push(path);
            }
        }
    }
    Some(false)
}
