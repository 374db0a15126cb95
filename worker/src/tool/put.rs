//! The only door through which a file that a model named is written: whole or not at all, and nowhere else.
//!
//! The folder is opened at the path that was judged, without following any link, and everything after that happens by
//! name within it: a link that is put in the way later is replaced or refused, and never followed. The new contents
//! come into a hidden file beside the target, which then takes its name. Whoever dies in between leaves the old file
//! or the new one, and at most that hidden file, which the next write in this folder removes.
//!
//! What a rename would break silently is refused: a file of several names would lose the others, one that is write-
//! protected would be written all the same.

mod folder;
mod temporary;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{
    Access, AtFlags, Mode, RenameFlags, Stat, accessat, fchmod, fchown, fstat, linkat, renameat, renameat_with, statat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use ukai_protocol::disk;

use self::temporary::{Temporary, sweep};
use super::Context;
use super::look::mark;
use super::open::{OpenError, open_file_in};
use super::seen::Mark;
use crate::permission::path::Resolved;

/// What of a mode is kept: a file that is written anew does not lend its owner's rights.
const KEPT_MODE: u32 = 0o777;

/// A place for a file, with its folder held open.
pub struct Spot {
    folder: File,
    name: OsString,
    real: PathBuf,
    old: Option<Old>,
}

/// What is there now.
struct Old {
    file: File,
    stat: Stat,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{} does not exist, and this tool may not create it. Choose a place in a folder that exists", .at.display())]
    FolderMissing { at: PathBuf },
    #[error("{} is no folder (or a link was put there meanwhile)", .at.display())]
    NoFolder { at: PathBuf },
    #[error("the folder {} could not be created: {error}", .at.display())]
    Create { at: PathBuf, error: io::Error },
    #[error("where its folder is now cannot be told, so nothing was written: {0}")]
    NoPlace(io::Error),
    #[error("it is one of {links} names of the same file (hard links), which writing would part. Write another file")]
    HardLink { links: u64 },
    #[error("it is write-protected. Leave it as it is")]
    Protected,
    #[error("whether it may be written could not be found out: {0}")]
    Unknown(io::Error),
    #[error("somebody else changed it at this very moment, so nothing was written. Read it again")]
    Changed,
    #[error("somebody else created it at this very moment, so nothing was written. Read it")]
    Appeared,
    #[error("cancelled")]
    Cancelled,
    #[error("the new contents could not be written beside it, so it is as it was: {0}")]
    Write(io::Error),
    #[error("the new contents could not take its place, so it is as it was: {0}")]
    Rename(io::Error),
    /// It has the new contents, for now.
    #[error("it was written, but whether the disk would keep that through a crash is unknown: {0}")]
    Unsynced(io::Error),
}

impl Spot {
    /// Opens the place that was judged. `may_create` says which missing folders may be created.
    pub fn open(place: &Resolved, may_create: impl Fn(&std::path::Path) -> bool) -> Result<Spot, PutError> {
        let (Some(parent), Some(name)) = (place.real.parent(), place.real.file_name()) else {
            return Err(OpenError::NotAFile("a folder").into());
        };
        let folder = folder::open_or_create(parent, may_create)?;
        let old = match open_file_in(&folder, name) {
            Ok((file, _)) => Some(Old { stat: fstat(&file).map_err(OpenError::from)?, file }),
            Err(OpenError::Missing) => None,
            Err(error) => return Err(error.into()),
        };
        let spot = Spot { folder, name: name.to_owned(), real: place.real.clone(), old };
        spot.check_replaceable()?;
        Ok(spot)
    }

    /// The file that is there now, open for reading.
    #[must_use]
    pub fn old(&self) -> Option<&File> {
        self.old.as_ref().map(|old| &old.file)
    }

    /// Puts `bytes` there, durably. Whatever goes wrong, what was there is whole, and [`PutError::Unsynced`] alone says
    /// that it is no longer there.
    pub fn put(&self, bytes: &[u8], context: &Context) -> Result<Mark, PutError> {
        sweep(&self.folder);
        let mode = if self.old.is_some() { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(0o666) };
        let mut temporary = Temporary::create(&self.folder, mode).map_err(PutError::Write)?;
        if let Some(old) = &self.old {
            keep_owner_and_mode(&temporary.file, &old.stat).map_err(|errno| PutError::Write(errno.into()))?;
        }
        disk::write_new(&mut temporary.file, bytes).map_err(PutError::Write)?;
        if context.cancel.is_cancelled() {
            return Err(PutError::Cancelled);
        }
        let parent = self.real.parent().unwrap_or(&self.real);
        folder::check_place(&self.folder, parent)?;
        match &self.old {
            Some(old) => {
                self.check_unchanged(&old.stat)?;
                renameat(&self.folder, temporary.name(), &self.folder, &self.name)
                    .map_err(|errno| PutError::Rename(errno.into()))?;
                temporary.became_something();
            }
            None => self.appear(&mut temporary)?,
        }
        disk::sync(&self.folder).map_err(PutError::Unsynced)?;
        mark(&temporary.file).map_err(PutError::Unsynced)
    }

    fn check_replaceable(&self) -> Result<(), PutError> {
        let Some(Old { stat, .. }) = &self.old else { return Ok(()) };
        if stat.st_nlink > 1 {
            // The width of this number depends on the architecture.
            #[allow(clippy::useless_conversion)]
            return Err(PutError::HardLink { links: stat.st_nlink.into() });
        }
        // For root every file is writable; whoever took the bits away meant this one not to be.
        let mode = Mode::from_raw_mode(stat.st_mode);
        let ours = stat.st_uid == geteuid().as_raw();
        if !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH) || (ours && !mode.contains(Mode::WUSR)) {
            return Err(PutError::Protected);
        }
        match accessat(&self.folder, &self.name, Access::WRITE_OK, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Err(PutError::Protected),
            Err(Errno::NOENT) => Err(PutError::Changed),
            Err(errno) => Err(PutError::Unknown(errno.into())),
        }
    }

    /// Whether the name still stands for the file that was looked at, as it was then.
    fn check_unchanged(&self, then: &Stat) -> Result<(), PutError> {
        let now = match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => now,
            Err(Errno::NOENT) => return Err(PutError::Changed),
            Err(errno) => return Err(PutError::Unknown(errno.into())),
        };
        // ctime moves with everything but reading.
        let key = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec);
        if key(&now) == key(then) { Ok(()) } else { Err(PutError::Changed) }
    }

    /// Takes a name that nobody has.
    fn appear(&self, temporary: &mut Temporary<'_>) -> Result<(), PutError> {
        let folder = &self.folder;
        let appeared = match renameat_with(folder, temporary.name(), folder, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                temporary.became_something();
                Ok(())
            }
            // Not every file system can; a second name, of which the first then goes, comes to the same.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(folder, temporary.name(), folder, &self.name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        };
        appeared.map_err(|errno| match errno {
            Errno::EXIST => PutError::Appeared,
            errno => PutError::Rename(errno.into()),
        })
    }
}

/// As far as it can be: who is not root gives nothing away, but may hand a file to another of their groups.
fn keep_owner_and_mode(file: &File, old: &Stat) -> Result<(), Errno> {
    let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
    let new = fstat(file)?;
    let group_kept = (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid)
        || fchown(file, Some(owner), Some(group)).is_ok()
        || fchown(file, None, Some(group)).is_ok();
    fchmod(file, Mode::from_raw_mode(kept_mode(old.st_mode, group_kept)))
}

/// Where the group could not be kept, what it might do is not handed to another one.
fn kept_mode(old: u32, group_kept: bool) -> u32 {
    let everyone = (old & 0o007) << 3;
    if group_kept { old & KEPT_MODE } else { old & (0o707 | everyone) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_right_goes_to_whom_it_was_not_given() {
        for (old, kept, without_group) in [
            (0o100_644, 0o644, 0o644),
            (0o100_660, 0o660, 0o600),
            (0o100_775, 0o775, 0o755),
            (0o104_751, 0o751, 0o711),
            (0o102_604, 0o604, 0o604),
        ] {
            assert_eq!((kept_mode(old, true), kept_mode(old, false)), (kept, without_group), "{old:o}");
        }
    }
}
