//! All regular files below a folder, in the order of their paths, without ever following a link.
//!
//! One folder after the other, on one thread, sorted as git sorts, so that results stream out in their final order and
//! memory holds no more than the names along one path. Written by hand because a walker that opens by name can be led
//! away by a link that is put in the place of a folder while it walks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, statat};
use tokio_util::sync::CancellationToken;

use super::Stopped;
use super::git_attributes::{Attributes, Decree};
use super::git_ignore::Ignores;
use super::git_repo::{Repo, is_repo};
use super::open::{OpenError, open_folder};

/// More names than this in one folder are not held in memory; the rest is left out and counted.
pub const FOLDER_NAMES_MAX: usize = 1_000_000;

/// Something found: no folder, no other kind of file.
pub struct Found {
    /// Where it is, all links above it followed.
    pub real: PathBuf,
    pub is_link: bool,
    pub decree: Decree,
}

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    pub unreadable: u64,
    pub ignored: u64,
    /// Names beyond [`FOLDER_NAMES_MAX`].
    pub crowded: u64,
    /// The folder itself is one that git ignores.
    pub start_ignored: bool,
}

/// Git's view of where a walk begins.
struct Git {
    top: PathBuf,
    ignores: Ignores,
    attributes: Attributes,
}

pub struct Walk<'a> {
    git: Option<Git>,
    cancel: &'a CancellationToken,
    passed: PassedOver,
}

/// A folder that is being gone through: what is still to come, the next one last.
struct Level {
    path: PathBuf,
    names: Vec<Name>,
}

struct Name {
    name: OsString,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Link,
}

impl<'a> Walk<'a> {
    /// `home` holds git's configuration.
    #[must_use]
    pub fn new(cancel: &'a CancellationToken) -> Self {
        Walk { git: None, cancel, passed: PassedOver::default() }
    }

    /// Goes through `start`, an absolute path without links. In a repository what git ignores is left out, unless
    /// `start` was `named` and is itself ignored: then somebody wants to see just that.
    pub fn run(
        mut self,
        start: &Path,
        named: bool,
        home: &Path,
        visit: &mut dyn FnMut(Found) -> Result<(), Stopped>,
    ) -> Result<PassedOver, Stopped> {
        if let Some(repo) = Repo::discover(start) {
            match Git::at(&repo, start, home) {
                Some(git) => self.git = Some(git),
                None if named => {}
                None => return Ok(PassedOver { start_ignored: true, ..self.passed }),
            }
        }
        let failed = |error| Stopped::Failed(format!("{}: {error}", start.display()));
        let mut stack = vec![self.list(start, true)?.map_err(failed)?];
        while let Some(level) = stack.last_mut() {
            if self.cancel.is_cancelled() {
                return Err(Stopped::Cancelled);
            }
            let Some(name) = level.names.pop() else {
                stack.pop();
                if let Some(git) = &mut self.git {
                    git.ignores.leave();
                    git.attributes.leave();
                }
                continue;
            };
            let path = level.path.join(&name.name);
            let from_top = self.git.as_ref().map(|git| git.below_top(&path));
            if let (Some(git), Some(from_top)) = (&self.git, &from_top)
                && git.ignores.ignore(from_top, name.kind == Kind::Folder)
            {
                self.passed.ignored += 1;
                continue;
            }
            if name.kind == Kind::Folder {
                match self.list(&path, false)? {
                    Ok(level) => stack.push(level),
                    Err(OpenError::MadeUp | OpenError::Missing) => {}
                    Err(_) => self.passed.unreadable += 1,
                }
                continue;
            }
            let decree = match (&self.git, &from_top) {
                (Some(git), Some(from_top)) => git.attributes.decree(from_top),
                _ => Decree::Unsaid,
            };
            visit(Found { real: path, is_link: name.kind == Kind::Link, decree })?;
        }
        Ok(self.passed)
    }

    /// The names in a folder, sorted so that the last is the first by path. A repository of its own is taken as empty.
    fn list(&mut self, path: &Path, is_start: bool) -> Result<Result<Level, OpenError>, Stopped> {
        let folder = match open_folder(path) {
            Ok(folder) => folder,
            Err(error) => return Ok(Err(error)),
        };
        let mut names = Vec::new();
        let mut has_dot_git = false;
        let entries = match Dir::read_from(&folder) {
            Ok(entries) => entries,
            Err(errno) => return Ok(Err(errno.into())),
        };
        for entry in entries {
            if self.cancel.is_cancelled() {
                return Err(Stopped::Cancelled);
            }
            let Ok(entry) = entry else {
                self.passed.unreadable += 1;
                break;
            };
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            if bytes == b".git" {
                has_dot_git = true;
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => continue,
            };
            if names.len() == FOLDER_NAMES_MAX {
                self.passed.crowded += 1;
                continue;
            }
            names.push(Name { name: OsString::from_vec(bytes.to_vec()), kind });
        }
        if self.git.is_some() && !is_start && has_dot_git && is_repo(path) {
            names.clear();
        }
        // A folder sorts with its slash, so that going through it in place gives the order of whole paths.
        let slash = |name: &Name| if name.kind == Kind::Folder { &b"/"[..] } else { b"" };
        names.sort_unstable_by(|a, b| {
            b.name.as_bytes().iter().chain(slash(b)).cmp(a.name.as_bytes().iter().chain(slash(a)))
        });
        if let Some(git) = &mut self.git {
            git.enter(path);
        }
        Ok(Ok(Level { path: path.to_owned(), names }))
    }
}

impl Git {
    /// `None` if git ignores `start` itself or a folder above it.
    fn at(repo: &Repo, start: &Path, home: &Path) -> Option<Self> {
        let settings = repo.settings(home);
        let mut git = Git {
            top: repo.top.clone(),
            ignores: Ignores::new(repo, &settings),
            attributes: Attributes::new(repo, &settings),
        };
        let below = start.strip_prefix(&repo.top).ok()?;
        let mut path = repo.top.clone();
        for part in below {
            git.enter(&path);
            path.push(part);
            if part == OsStr::new(".git") || git.ignores.ignore(&git.below_top(&path), true) {
                return None;
            }
        }
        Some(git)
    }

    fn enter(&mut self, path: &Path) {
        let from_top = self.below_top(path);
        self.ignores.enter(path, &from_top);
        self.attributes.enter(path, &from_top);
    }

    fn below_top(&self, path: &Path) -> Vec<u8> {
        path.strip_prefix(&self.top).unwrap_or(path).as_os_str().as_bytes().to_vec()
    }
}
