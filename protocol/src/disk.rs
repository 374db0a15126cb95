//! All durable file work goes through here, so that crash points and injected errors have one place to touch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use fault::Operation;
use rustix::fs::OFlags;

pub mod fault;

/// Opens (or creates, 0600) a file to append to.
pub fn open_append(path: &Path) -> io::Result<File> {
    fault::at_path(Operation::Open, path)?;
    OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)
}

/// Appends and makes durable. On an error the descriptor is not to be used again: what a failed sync left is unknown.
pub fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = fault::at_file(Operation::Write, file) {
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(error);
    }
    file.write_all(bytes)?;
    fault::at_file(Operation::Sync, file)?;
    file.sync_data()
}

/// Writes a new file's bytes and makes them durable together with its mode and owner.
pub fn write_new(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = fault::at_file(Operation::Write, file) {
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(error);
    }
    file.write_all(bytes)?;
    sync(file)
}

/// Makes an open file or folder durable. On an error it is unknown what is.
pub fn sync(file: &File) -> io::Result<()> {
    fault::at_file(Operation::Sync, file)?;
    file.sync_all()
}

/// Cuts a file to `length` and makes that durable.
pub fn truncate(file: &File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.sync_data()
}

/// The file becomes `bytes` or stays as it was: temp, fsync, rename, fsync of the folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fault::at_path(Operation::Replace, path)?;
    let folder = path.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    let mut name = path.file_name().ok_or_else(|| io::Error::other("a path without a file name"))?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // The first error is the one to tell; a left-over temporary is overwritten by the next attempt.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_dir(folder)
}

/// Creates a folder (0700) with its parents, durably.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
    }
}

/// Creates a folder (0700) in one that is there. It is durable once the folder around it is synced, which a file that is
/// made beside it sees to.
pub fn create_dir_within(path: &Path) -> io::Result<()> {
    fault::at_path(Operation::Open, path)?;
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Moves a file within a file system, durably at both ends. What stood at `to` is replaced.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    for end in [to, from] {
        end.parent().map_or(Ok(()), sync_dir)?;
    }
    Ok(())
}

/// Gives a file a second name, durably: whatever is done to the first, these bytes stay.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// Removes a file, durably; one that is not there is no error.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a folder and all in it, durably; also where folders in it are closed to their owner, as caches of build tools are.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)?;
        }
        removed => removed?,
    }
    path.parent().map_or(Ok(()), sync_dir)
}

fn open_up(path: &Path) -> io::Result<()> {
    let mut todo = vec![path.to_owned()];
    while let Some(folder) = todo.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Creates a file (0600) of `bytes` bytes whose space on the disk is really taken.
pub fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    fault::at_path(Operation::Open, path)?;
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // Not every file system can; written bytes take space on all of them.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => io::copy(&mut io::repeat(0).take(bytes), &mut file).map(|_| ()),
        other => Ok(other?),
    }
}

pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Opens a regular file for reading. Anything else is an error: a FIFO would block whoever opens it, a device would act.
pub fn open_read(path: &Path) -> io::Result<File> {
    fault::at_path(Operation::Open, path)?;
    let regular = |is_file: bool| if is_file { Ok(()) } else { Err(io::Error::other("it is no regular file")) };
    regular(fs::metadata(path)?.is_file())?;
    // NONBLOCK: should it have become a FIFO since the look, opening it still returns.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    regular(file.metadata()?.is_file())?;
    Ok(file)
}

/// Reads a whole regular file of at most `max` bytes.
pub fn read_bounded(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_read(path)?.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let temp = tempfile::tempdir().expect("a folder");
        let fifo = temp.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        std::os::unix::fs::symlink(&fifo, temp.path().join("link")).expect("a link");
        fs::write(temp.path().join("file"), "text").expect("a file");
        for path in [&fifo, &temp.path().join("link"), Path::new("/dev/zero"), temp.path()] {
            let error = read_bounded(path, 10).expect_err("it is refused");
            assert!(error.to_string().contains("no regular file"), "{}: {error}", path.display());
        }
        assert_eq!(read_bounded(&temp.path().join("file"), 10).expect("it is read"), b"text");
        assert_eq!(read_bounded(&temp.path().join("none"), 10).expect_err("none").kind(), io::ErrorKind::NotFound);
    }
}
