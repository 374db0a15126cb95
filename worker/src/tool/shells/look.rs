//! Looks through the workdir for what deny rules close, all of it once and then only where something has changed.
//!
//! The rules are patterns, so what they close is found by name, in every folder. A listing of a large project costs tenths
//! of a second; a second one can be spared, since nothing comes into a folder without changing the folder's ctime, which
//! no command can set. So a later look asks each folder for that alone. What was changed a moment before it was listed may
//! change again without its ctime moving, and is listed again, too.

#![allow(clippy::disallowed_methods, reason = "the IO of looking through the workdir")]

use std::collections::{HashMap, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::permission::Permission;
use crate::permission::closed::Closing;

/// What one look may take. Half a million files are gone through in that.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// Each is remembered by its path: some 20 MB for so many.
const FOLDERS_MAX: usize = 100_000;
/// Entries of one folder between two looks at the clock.
const ENTRIES_A_TIME: usize = 1_024;
/// The kernel counts a file's times in ticks of at most 10 ms.
const TICK: Duration = Duration::from_millis(40);

/// Which file it is, whatever it is called.
pub type Node = (u64, u64);

/// A place that is closed to commands.
#[derive(Clone, Debug)]
pub struct Found {
    pub path: PathBuf,
    pub closing: Closing,
    pub node: Node,
    /// Where the file system knows.
    pub born: Option<SystemTime>,
    pub is_link: bool,
}

/// The folders of a workdir, and how each stood when it was last listed.
#[derive(Debug)]
pub struct Look {
    workdir: PathBuf,
    /// Not looked into: nobody's but ukai's.
    besides: Vec<PathBuf>,
    /// None: to be listed again in any case.
    folders: HashMap<PathBuf, Option<Stamp>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    node: Node,
    changed: (i64, i64),
}

/// What a look brought.
#[derive(Debug, Default)]
pub struct Seen {
    pub found: Vec<Found>,
    /// What was not looked through, if something was not.
    pub left_out: Option<String>,
}

impl Look {
    #[must_use]
    pub fn new(workdir: &Path, besides: Vec<PathBuf>) -> Self {
        let folders = HashMap::from([(workdir.to_owned(), None)]);
        Look { workdir: workdir.to_owned(), besides, folders }
    }

    /// What is closed in every folder that is not as it was at the last look. Blocks.
    pub fn again(&mut self, permission: &Permission) -> Seen {
        let deadline = Instant::now() + LOOK_TIME_MAX;
        let mut todo: Vec<PathBuf> = Vec::new();
        self.folders.retain(|folder, stamp| match std::fs::symlink_metadata(folder) {
            Ok(found) if found.is_dir() => {
                if stamp.is_none() || *stamp != Some(Stamp::of(&found)) {
                    todo.push(folder.clone());
                }
                true
            }
            // It is gone, or another thing stands there now: whatever does, its folder has changed and is listed.
            _ => false,
        });
        // What lies nearer is of more weight where not all can be looked through.
        todo.sort_by_key(|folder| folder.components().count());
        let mut todo = VecDeque::from(todo);
        let mut seen = Seen::default();
        while let Some(folder) = todo.pop_front() {
            if Instant::now() >= deadline {
                seen.left_out = Some(format!("{} folders and more", todo.len() + 1));
                self.folders.insert(folder, None);
                return seen;
            }
            self.list(&folder, permission, deadline, &mut todo, &mut seen);
        }
        seen
    }

    /// Has a folder listed again by the next look.
    pub fn forget(&mut self, folder: &Path) {
        if let Some(stamp) = self.folders.get_mut(folder) {
            *stamp = None;
        }
    }

    fn list(
        &mut self,
        folder: &Path,
        permission: &Permission,
        deadline: Instant,
        todo: &mut VecDeque<PathBuf>,
        seen: &mut Seen,
    ) {
        // Before it is listed: what comes in between is then found by the next look.
        let stamp = std::fs::symlink_metadata(folder).ok().and_then(|found| Stamp::settled(&found));
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                // Who owns it can open it at any time.
                self.folders.insert(folder.to_owned(), None);
                seen.left_out = Some(format!("{}: {error}", self.shown(folder)));
                return;
            }
        };
        self.folders.insert(folder.to_owned(), stamp);
        let near = permission.near(folder);
        for (count, entry) in entries.flatten().enumerate() {
            if count % ENTRIES_A_TIME == ENTRIES_A_TIME - 1 && Instant::now() >= deadline {
                self.forget(folder);
                seen.left_out = Some(format!("{}, of which only {count} entries were seen", self.shown(folder)));
                return;
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if self.besides.contains(&path) {
                continue;
            }
            if let Some(closing) = near.closing(&path, kind.is_dir()) {
                // Gone again since it was listed: nothing is there to be closed.
                let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
                let (node, born) = ((found.dev(), found.ino()), found.created().ok());
                seen.found.push(Found { path, closing, node, born, is_link: kind.is_symlink() });
            } else if kind.is_dir() && !self.folders.contains_key(&path) {
                if self.folders.len() + todo.len() >= FOLDERS_MAX {
                    seen.left_out = Some(format!("all but {FOLDERS_MAX} folders"));
                } else {
                    todo.push_back(path);
                }
            }
        }
    }

    fn shown(&self, folder: &Path) -> String {
        folder.strip_prefix(&self.workdir).unwrap_or(folder).display().to_string()
    }
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Stamp { node: (found.dev(), found.ino()), changed: (found.ctime(), found.ctime_nsec()) }
    }

    /// None: a change in this very moment would not be seen by it.
    fn settled(found: &Metadata) -> Option<Self> {
        let changed = Duration::new(u64::try_from(found.ctime()).ok()?, u32::try_from(found.ctime_nsec()).ok()?);
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed).ok()?;
        (age > TICK).then(|| Stamp::of(found))
    }
}

#[cfg(test)]
mod tests;
