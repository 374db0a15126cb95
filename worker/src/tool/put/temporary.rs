//! The file beside the target that becomes it by one rename; and the end of those whose process died before.
//!
//! Who writes one holds a lock on it, which ends with the process however it ends. So what can be locked belongs to
//! nobody, in whatever pid namespace or on whatever machine its writer lived. Where a file system has no locks, nothing
//! is ever swept.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

const PREFIX: &str = ".ukai-";
const SUFFIX: &str = ".tmp";
const HEX_DIGITS: usize = 16;

/// Names that are tried before giving up: each is taken by chance once in 2⁶⁴.
const NAME_TRIES_MAX: u32 = 8;

/// Entries of a folder that are looked through for what a dead process left.
const SWEPT_ENTRIES_MAX: usize = 10_000;

/// Removed when dropped, unless it became something.
pub struct Temporary<'a> {
    folder: &'a File,
    name: String,
    pub file: File,
    became: bool,
}

impl<'a> Temporary<'a> {
    /// A new empty file in `folder`. The mode is narrowed by the umask or by what the folder hands down.
    pub fn create(folder: &'a File, mode: Mode) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..NAME_TRIES_MAX {
            let name = format!("{PREFIX}{:0HEX_DIGITS$x}{SUFFIX}", rand::random::<u64>());
            let file = match openat(folder, name.as_str(), flags, mode) {
                Ok(file) => File::from(file),
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let temporary = Temporary { folder, name, file, became: false };
            match flock(&temporary.file, FlockOperation::NonBlockingLockExclusive) {
                // Somebody swept it before it was locked.
                Ok(()) if fstat(&temporary.file)?.st_nlink == 0 => {}
                Err(Errno::WOULDBLOCK) => {}
                // Without locks it is not swept either.
                Ok(()) | Err(_) => return Ok(temporary),
            }
        }
        Err(io::Error::other("no name for a temporary file is free"))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name is gone: it has been renamed.
    pub fn became_something(&mut self) {
        self.became = true;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.became
            && let Err(error) = unlinkat(self.folder, self.name.as_str(), AtFlags::empty())
        {
            tracing::warn!(name = self.name, %error, "a temporary file stays until the next one is written beside it");
        }
    }
}

/// Removes what dead processes left in this folder. It is housekeeping: what cannot be swept stays, and is said.
pub fn sweep(folder: &File) {
    if let Err(errno) = try_sweep(folder) {
        tracing::debug!(error = %io::Error::from(errno), "a folder was not swept of old temporary files");
    }
}

fn try_sweep(folder: &File) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)?.take(SWEPT_ENTRIES_MAX) {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_ours(name) && is_nobodys(folder, name)? {
            unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn is_ours(name: &OsStr) -> bool {
    let middle = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    middle.is_some_and(|hex| hex.len() == HEX_DIGITS && hex.bytes().all(digit))
}

fn is_nobodys(folder: &File, name: &OsStr) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        // Its process renamed it or took it away; or it is a link or of another owner, and none of ours.
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    let stat = fstat(&file)?;
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_uid == geteuid().as_raw();
    Ok(plain && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}
