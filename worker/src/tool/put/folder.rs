//! The folder that a file is put into: opened at the very path that was judged, created step by step where it is missing.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;
use ukai_protocol::disk;

use super::PutError;
use crate::tool::open::{OpenError, open_folder};

/// Opens a folder at an absolute path without links, and creates what is missing of it where `may_create` says yes.
pub fn open_or_create(real: &Path, may_create: impl Fn(&Path) -> bool) -> Result<File, PutError> {
    let folder = match open_folder(real) {
        Err(OpenError::Missing) => {
            create(real, may_create)?;
            open_folder(real)
        }
        opened => opened,
    };
    let folder = match folder {
        Ok(folder) => File::from(folder),
        Err(OpenError::NotAFolder) => return Err(PutError::NoFolder { at: real.to_owned() }),
        Err(error) => return Err(error.into()),
    };
    check_place(&folder, real)?;
    Ok(folder)
}

/// Whether an open folder is still where it was judged to be: it may have been moved, and what is put into it with it.
pub fn check_place(folder: &File, real: &Path) -> Result<(), PutError> {
    let place = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).map_err(PutError::NoPlace)?;
    if place == real { Ok(()) } else { Err(OpenError::Moved.into()) }
}

/// Each step is taken from the one before and none by a link, so that nothing is created anywhere else.
fn create(real: &Path, may_create: impl Fn(&Path) -> bool) -> Result<(), PutError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |at: &Path| {
        let at = at.to_owned();
        move |errno: Errno| match errno {
            Errno::NOTDIR | Errno::LOOP => PutError::NoFolder { at },
            errno => PutError::Create { at, error: errno.into() },
        }
    };
    let mut path = PathBuf::from("/");
    let mut at = open(&path, flags, Mode::empty()).map_err(failed(&path))?;
    for part in real.components() {
        let Component::Normal(name) = part else { continue };
        path.push(name);
        at = match openat(&at, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if !may_create(&path) => return Err(PutError::FolderMissing { at: path }),
            Err(Errno::NOENT) => {
                match mkdirat(&at, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(failed(&path)(errno)),
                }
                sync(&at).map_err(|error| PutError::Create { at: path.clone(), error })?;
                openat(&at, name, flags, Mode::empty()).map_err(failed(&path))?
            }
            opened => opened.map_err(failed(&path))?,
        };
    }
    Ok(())
}

/// What was opened as a mere path cannot be synced.
fn sync(folder: &impl std::os::fd::AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    disk::sync(&File::from(openat(folder, ".", flags, Mode::empty())?))
}
