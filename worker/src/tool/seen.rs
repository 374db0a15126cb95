//! Which files this job has seen, and as what: nobody overwrites what they have not looked at, or what has changed since.
//!
//! The content decides, by its hash, and not the clock of a file system: a file that was only touched is the one that was
//! seen, one that was changed within the same tick is not. What is too large to be hashed at every look is held by the
//! marks that its file system keeps. What is seen stands in the job's log, so that a later process of it knows as much.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ukai_protocol::event::SeenFile;
use ukai_protocol::run_state::SEEN_FILES_MAX;

/// One file at one moment, as its file system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i128,
}

/// One file as it was seen. Without a hash it was too large for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub mark: Mark,
    pub hash: Option<blake3::Hash>,
}

/// What is between the last look at a file and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    NeverSeen,
    Unchanged,
    /// In words that follow "it".
    Changed(&'static str),
}

/// The files that a job has read or written, by where they really are.
#[derive(Debug, Default)]
pub struct Seen {
    /// The one that was seen last is the last.
    looks: Mutex<VecDeque<(PathBuf, Look)>>,
}

impl Look {
    /// As it stands in a record.
    #[must_use]
    pub fn of(&self, real: &Path) -> SeenFile {
        let Mark { device, inode, bytes, modified_ns } = self.mark;
        SeenFile {
            path: real.display().to_string(),
            bytes,
            hash: self.hash.map(|hash| hash.to_hex().to_string()),
            device,
            inode,
            modified_ns: modified_ns.to_string(),
        }
    }

    /// None: a hash or a number that is none. The file is then one that was not seen.
    fn recalled(file: &SeenFile) -> Option<Self> {
        let SeenFile { bytes, device, inode, .. } = *file;
        let mark = Mark { device, inode, bytes, modified_ns: file.modified_ns.parse().ok()? };
        let hash = file.hash.as_ref().map(blake3::Hash::from_hex).transpose().ok()?;
        Some(Look { mark, hash })
    }
}

impl Seen {
    /// What earlier processes of this job saw.
    #[must_use]
    pub fn recalled<'a>(files: impl IntoIterator<Item = &'a SeenFile>) -> Self {
        let seen = Seen::default();
        for file in files {
            if let Some(look) = Look::recalled(file) {
                seen.note(Path::new(&file.path), look);
            }
        }
        seen
    }

    pub fn note(&self, real: &Path, look: Look) {
        let mut looks = self.looks();
        looks.retain(|(path, _)| path != real);
        if looks.len() == SEEN_FILES_MAX {
            looks.pop_front();
        }
        looks.push_back((real.to_owned(), look));
    }

    #[must_use]
    pub fn since(&self, real: &Path, now: &Look) -> Since {
        let looks = self.looks();
        match looks.iter().find(|(path, _)| path == real) {
            None => Since::NeverSeen,
            Some((_, then)) => compare(then, now),
        }
    }

    /// Nothing is left half-changed by a panic elsewhere.
    fn looks(&self) -> MutexGuard<'_, VecDeque<(PathBuf, Look)>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compare(then: &Look, now: &Look) -> Since {
    match (then.hash, now.hash) {
        (Some(then), Some(now)) if then == now => Since::Unchanged,
        (None, None) if then.mark == now.mark => Since::Unchanged,
        _ if then.mark.bytes != now.mark.bytes => Since::Changed("has another size than when you last saw it"),
        (Some(_), Some(_)) => Since::Changed("has other contents than when you last saw it"),
        _ => Since::Changed("was written since you last saw it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(inode: u64, modified_ns: i128, text: &str, hashed: bool) -> Look {
        let mark = Mark { device: 1, inode, bytes: text.len() as u64, modified_ns };
        Look { mark, hash: hashed.then(|| blake3::hash(text.as_bytes())) }
    }

    #[test]
    fn the_content_decides_and_where_it_is_too_large_the_marks() {
        let changed = |since: Since| match since {
            Since::Changed(why) => why,
            Since::Unchanged => "unchanged",
            Since::NeverSeen => "never",
        };
        for (quirk, then, now, expected) in [
            ("the same", look(1, 1, "a", true), look(1, 1, "a", true), "unchanged"),
            ("touched", look(1, 1, "a", true), look(1, 2, "a", true), "unchanged"),
            ("replaced by its like", look(1, 1, "a", true), look(2, 1, "a", true), "unchanged"),
            ("changed within a tick", look(1, 1, "a", true), look(1, 1, "b", true), "has other contents"),
            ("longer", look(1, 1, "a", true), look(1, 1, "ab", true), "another size"),
            ("large", look(1, 1, "a", false), look(1, 1, "a", false), "unchanged"),
            ("large, written", look(1, 1, "a", false), look(1, 2, "a", false), "was written"),
            ("large, replaced", look(1, 1, "a", false), look(2, 1, "a", false), "was written"),
            ("large, longer", look(1, 1, "a", false), look(1, 1, "ab", false), "another size"),
        ] {
            let seen = Seen::default();
            let path = Path::new("/w/a");
            assert_eq!(seen.since(path, &now), Since::NeverSeen, "{quirk}");
            seen.note(path, then);
            let found = changed(seen.since(path, &now));
            assert!(found.contains(expected), "{quirk}: {found}");
            assert_eq!(seen.since(Path::new("/w/b"), &now), Since::NeverSeen, "{quirk}");
        }
    }

    #[test]
    fn a_later_process_knows_what_an_earlier_one_saw() {
        for look in [look(7, -5, "a", true), look(7, i128::from(i64::MAX) * 3, "a", false)] {
            let path = Path::new("/w/a");
            let seen = Seen::recalled([&look.of(path)]);
            assert_eq!(seen.since(path, &look), Since::Unchanged);
        }
        let bad = SeenFile { hash: Some("no hash".to_owned()), ..look(1, 1, "a", true).of(Path::new("/w/a")) };
        assert_eq!(Seen::recalled([&bad]).since(Path::new("/w/a"), &look(1, 1, "a", true)), Since::NeverSeen);
    }

    #[test]
    fn the_oldest_are_forgotten_and_a_new_look_makes_young() {
        let seen = Seen::default();
        let at = |number: usize| PathBuf::from(format!("/{number}"));
        let one = look(1, 1, "a", true);
        (0..SEEN_FILES_MAX).for_each(|number| seen.note(&at(number), one));
        seen.note(&at(0), one);
        seen.note(&at(SEEN_FILES_MAX), one);
        assert_eq!(seen.since(&at(0), &one), Since::Unchanged);
        assert_eq!(seen.since(&at(1), &one), Since::NeverSeen);
        assert_eq!(seen.since(&at(2), &one), Since::Unchanged);
    }
}
