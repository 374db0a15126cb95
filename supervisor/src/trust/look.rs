//! One look at what a folder ships: each file read once, all of them one hash.
//!
//! Nothing outside of the folder is read: a link that leads out stays a link, whose words count. Whoever changes the folder
//! meanwhile changes what is read, and with it the hash.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2, readlinkat};

use super::{CONFIG, POLICY, SETTINGS, TOOLS};
use crate::tools_file::read::{Text, is_tool};

/// More is no configuration.
pub const FILES_MAX: usize = 500;
pub const BYTES_MAX: usize = 8 * 1024 * 1024;
const DEPTH_MAX: usize = 8;
/// Of ukai's own in a folder.
const OWN: &str = ".ukai";

#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("{} cannot be looked at: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} ships more than {FILES_MAX} files, {BYTES_MAX} bytes or {DEPTH_MAX} levels in .ukai/, which nobody looks through", .0.display())]
    TooMuch(PathBuf),
}

/// What a folder ships, as it was at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    folder: PathBuf,
    found: BTreeMap<PathBuf, Found>,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    File(Vec<u8>),
    /// Its words; it leads out of the folder, or to nothing that can be read.
    Link(PathBuf),
    /// No file, folder or link.
    Other,
}

impl Look {
    /// `folder` is real. One that ships nothing is one look like another.
    pub fn at(folder: &Path) -> Result<Self, LookError> {
        let unreadable = |error: io::Error| LookError::Unreadable { path: folder.to_owned(), error };
        let root = rustix::fs::open(folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let mut walk = Walk { root: root.map_err(|errno| unreadable(errno.into()))?, found: BTreeMap::new(), bytes: 0 };
        for name in [CONFIG, POLICY, SETTINGS, OWN] {
            match walk.take(Path::new(name), 0) {
                Ok(()) => {}
                Err(Stop::TooMuch) => return Err(LookError::TooMuch(folder.to_owned())),
                Err(Stop::Io(path, error)) => {
                    return Err(LookError::Unreadable { path: folder.join(path), error });
                }
            }
        }
        Ok(Look { folder: folder.to_owned(), found: walk.found })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Of all that was found, in hex.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"ukai trust 1");
        for (path, found) in &self.found {
            let (kind, bytes): (u8, &[u8]) = match found {
                Found::File(bytes) => (b'f', bytes),
                Found::Link(target) => (b'l', target.as_os_str().as_bytes()),
                Found::Other => (b'o', &[]),
            };
            for part in [&[kind][..], path.as_os_str().as_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// What stands in a file, by its place in the folder. None: there is none, or no text in it.
    #[must_use]
    pub fn text(&self, below: &Path) -> Option<&str> {
        match self.found.get(below)? {
            Found::File(bytes) => std::str::from_utf8(bytes).ok(),
            Found::Link(_) | Found::Other => None,
        }
    }

    /// The files of declared tools, sorted.
    #[must_use]
    pub fn tools(&self) -> Vec<Text> {
        let tools = self.found.keys().filter(|path| path.parent() == Some(Path::new(TOOLS)) && is_tool(path));
        let text = |path: &PathBuf| Some(Text { file: self.folder.join(path), text: self.text(path)?.to_owned() });
        tools.filter_map(text).collect()
    }

    /// All that was found, with what a person should know of each that is no plain file.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, Option<String>)> {
        self.found.iter().map(|(path, found)| {
            let said = match found {
                Found::File(_) => None,
                Found::Link(target) => Some(format!("a link to {}, which is not followed", target.display())),
                Found::Other => Some("neither file nor folder; it is not read".to_owned()),
            };
            (path.as_path(), said)
        })
    }
}

enum Stop {
    TooMuch,
    Io(PathBuf, io::Error),
}

struct Walk {
    root: OwnedFd,
    found: BTreeMap<PathBuf, Found>,
    bytes: usize,
}

impl Walk {
    /// What is there by this name, with all below it.
    fn take(&mut self, path: &Path, depth: usize) -> Result<(), Stop> {
        let fault = |error: io::Error| Stop::Io(path.to_owned(), error);
        // Not blocked by a FIFO, and by a link only beneath the folder.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let found = match openat2(&self.root, path, flags, Mode::empty(), beneath) {
            Ok(open) => {
                let mut file = File::from(open);
                let kind = file.metadata().map_err(fault)?.file_type();
                if kind.is_dir() {
                    return self.below(file.as_fd(), path, depth);
                }
                if kind.is_file() { Found::File(self.read(&mut file).map_err(fault)?) } else { Found::Other }
            }
            Err(rustix::io::Errno::NOENT) => match readlinkat(&self.root, path, Vec::new()) {
                Ok(target) => Found::Link(path_of(target.to_bytes())),
                Err(_) => return Ok(()),
            },
            // What stands in the way of the last name is no place that anything is read from.
            Err(rustix::io::Errno::NOTDIR) => return Ok(()),
            Err(errno) => match readlinkat(&self.root, path, Vec::new()) {
                Ok(target) => Found::Link(path_of(target.to_bytes())),
                // A folder on the way is a link that leads out: then nothing is there for us.
                Err(_) if errno == rustix::io::Errno::XDEV => Found::Other,
                // A socket, or what only opens for who may.
                Err(_) if errno == rustix::io::Errno::NXIO => Found::Other,
                Err(_) => return Err(fault(errno.into())),
            },
        };
        if self.found.len() >= FILES_MAX || self.bytes > BYTES_MAX {
            return Err(Stop::TooMuch);
        }
        self.found.insert(path.to_owned(), found);
        Ok(())
    }

    fn read(&mut self, file: &mut File) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let room = BYTES_MAX.saturating_sub(self.bytes) as u64 + 1;
        file.take(room).read_to_end(&mut bytes)?;
        self.bytes += bytes.len();
        Ok(bytes)
    }

    fn below(&mut self, folder: impl AsFd, path: &Path, depth: usize) -> Result<(), Stop> {
        if depth >= DEPTH_MAX {
            return Err(Stop::TooMuch);
        }
        let fault = |errno: rustix::io::Errno| Stop::Io(path.to_owned(), errno.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(path_of(name));
            }
            if names.len() > FILES_MAX {
                return Err(Stop::TooMuch);
            }
        }
        names.iter().try_for_each(|name| self.take(&path.join(name), depth + 1))
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
