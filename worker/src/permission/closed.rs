//! What deny rules close inside the workdir, as places on the disk: a command is judged by its words, and a script that
//! it runs is not. So what a rule denies is read-only for commands, or out of their sight, and what comes to be there is
//! told (`tool/shells/guard`).
//!
//! A project may have some hundred thousand files, and to hold each against every rule would take seconds. Most rules can
//! only be about a few folders, or about a name; what neither is near is not closed.

#![deny(clippy::disallowed_methods)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::places::Places;
use super::rule::{PathRule, Rule};
use super::{Listed, Permission};

/// How a place is closed to commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Not to be changed.
    Kept,
    /// Not even to be read.
    Hidden,
}

/// What may be closed right in one folder that is not closed itself.
pub struct Near<'a> {
    permission: &'a Permission,
    by_name: Vec<&'a PathRule>,
    /// Some rule may be about any name here.
    is_any: bool,
}

impl Permission {
    /// Whether commands are kept from what lies at this place below the workdir, links not followed. A folder is closed
    /// when whatever may come to lie in it is.
    #[must_use]
    pub fn closing(&self, path: &Path, is_dir: bool) -> Option<Closing> {
        let any = is_dir.then(|| path.join(ANY));
        let closes =
            |tool: &str| self.forbids(tool, path, path) || any.as_ref().is_some_and(|any| self.forbids(tool, any, any));
        if closes("Read") {
            Some(Closing::Hidden)
        } else if is_git(path.file_name()) || closes("Edit") {
            Some(Closing::Kept)
        } else {
            None
        }
    }

    /// To ask for many names in one folder, the workdir or one below it.
    #[must_use]
    pub fn near(&self, folder: &Path) -> Near<'_> {
        let deny = self.rules.as_ref().map_or(&[][..], |lists| &lists.deny);
        let mut near = Near { permission: self, by_name: Vec::new(), is_any: self.rules.is_err() };
        for listed in deny {
            match &listed.rule {
                Rule::Path(rule) if !["Read", "Edit"].iter().any(|tool| rule.governs(tool)) => {}
                Rule::Path(rule) if is_about_names(rule) => near.by_name.push(rule),
                Rule::Path(rule) => near.is_any |= self.places.is_near(rule, listed, folder),
                Rule::Tool(_) => near.is_any = true,
                Rule::Server(_) | Rule::Command(_) => {}
            }
        }
        // What closes whatever lies in a folder by its own name, or the workdir by one above it.
        near.is_any |= near.names(OsStr::new(ANY)) || folder == self.places.real_workdir();
        near.is_any |= self.places.private_in(folder).next().is_some();
        near
    }
}

/// A name that nobody gives to a file.
const ANY: &str = "\u{1}";

fn is_git(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

fn is_about_names(rule: &PathRule) -> bool {
    rule.any_depth && rule.anchor == super::rule::Anchor::Workdir
}

impl Near<'_> {
    /// As [`Permission::closing`].
    #[must_use]
    pub fn closing(&self, path: &Path, is_dir: bool) -> Option<Closing> {
        let name = path.file_name();
        let may_be = self.is_any || is_git(name) || name.is_some_and(|name| self.names(name));
        may_be.then(|| self.permission.closing(path, is_dir)).flatten()
    }

    fn names(&self, name: &OsStr) -> bool {
        let lowered = name.to_string_lossy().to_lowercase();
        let matches = |rule: &&PathRule| {
            rule.folded.matches(name.as_encoded_bytes(), true) || rule.folded.matches(lowered.as_bytes(), true)
        };
        self.by_name.iter().any(matches)
    }
}

impl Places {
    /// Whether what a rule names before its first wildcard is on the way to this folder, or below it.
    fn is_near(&self, rule: &PathRule, listed: &Listed, folder: &Path) -> bool {
        let folder = lowered(folder);
        let meet = |prefix: PathBuf| {
            let prefix = lowered(&prefix);
            folder.starts_with(&prefix) || prefix.starts_with(&folder)
        };
        self.literal_places(rule, &listed.base).into_iter().any(meet)
            || listed.elsewhere.as_ref().is_some_and(|place| meet(place.real.clone()))
    }
}

/// As deny rules look at names: blind to case.
fn lowered(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::tests::shipped;
    use ukai_protocol::policy;

    #[test]
    fn whoever_asks_for_many_names_hears_the_same() {
        let top = Path::new("/home/o/work");
        let rules = [
            "Edit(secrets/**)",
            "Read(a/*/key)",
            "Edit(**/generated/**)",
            "Edit(//home/o/work/Abs/x)",
            "Read(~/work/own)",
            "Edit(*.lock)",
            "Edit(/based/file)",
            "Edit(Über*)",
        ];
        let names = [
            ".git",
            ".env",
            ".ENV.x",
            "env",
            ".claude",
            ".Claude",
            "secrets",
            "Secrets",
            "a",
            "b",
            "key",
            "generated",
            "abs",
            "Abs",
            "x",
            "own",
            "Cargo.lock",
            "based",
            "file",
            "über",
            "ÜBER.txt",
            "tool_policy.yaml",
            "main.rs",
        ];
        let mut policy = shipped(top);
        for count in 0..=rules.len() {
            if let Some(rule) = count.checked_sub(1).map(|at| rules[at]) {
                policy.deny.push(policy::Rule::new(rule.to_owned(), top.to_str().expect("text")));
            }
            let permission = Permission::new(&policy, top, Path::new("/home/o"), Path::new("/noout"));
            assert_eq!(permission.broken(), None);
            let mut closed = 0;
            for folder in ["", "a", "a/b", "abs", "x/y", "based", "b/generated2"].map(|below| top.join(below)) {
                let near = permission.near(&folder);
                for (name, is_dir) in names.iter().flat_map(|name| [(name, false), (name, true)]) {
                    let path = folder.join(name);
                    let whole = permission.closing(&path, is_dir);
                    assert_eq!(near.closing(&path, is_dir), whole, "{count} rules: {}", path.display());
                    closed += usize::from(whole.is_some());
                }
            }
            assert!(closed > 20);
        }
    }
}
