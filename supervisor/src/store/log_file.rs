//! One log open for appending, and the rule of the failed sync: what a descriptor has failed to sync is never tried on it
//! again, for the kernel may have dropped the pages and would report success (fsync(2), "fsyncgate"). The file is
//! opened anew and cut to what was acknowledged before anything else is written.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;

use super::error::StoreError;

/// A piece of a log as it is read: large enough to be few calls, small enough to be nothing.
const READ_BYTES: usize = 256 * 1024;

pub struct LogFile {
    path: PathBuf,
    /// Absent while nothing is to be written, and after an error.
    file: Option<File>,
    /// How much of it is acknowledged.
    bytes: u64,
}

impl LogFile {
    /// A new, empty log.
    pub fn create(path: PathBuf) -> Result<Self, StoreError> {
        let file = disk::open_append(&path).map_err(|error| StoreError::io("creating", &path, &error))?;
        Ok(LogFile { path, file: Some(file), bytes: 0 })
    }

    /// A log of which `bytes` are good. It is opened when first written to.
    #[must_use]
    pub fn at(path: PathBuf, bytes: u64) -> Self {
        LogFile { path, file: None, bytes }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// On an error nothing has been added, or nothing that will be read: the next append cuts it off first.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut file = match self.file.take() {
            Some(file) if self.is_ours(&file) => file,
            _ => self.open().map_err(|error| StoreError::io("opening", &self.path, &error))?,
        };
        match disk::append(&mut file, bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                drop(file);
                match self.open() {
                    Ok(fresh) => self.file = Some(fresh),
                    Err(error) => {
                        let path = self.path.display();
                        tracing::warn!("cutting {path} back to {} bytes: {error}; tried again later", self.bytes);
                    }
                }
                Err(StoreError::io("appending to", &self.path, &error))
            }
        }
    }

    /// Whether the file is where it was and ends where we left it. Another hand (an editor, a restored backup, `rm`) may
    /// have removed, replaced or lengthened it; a record after foreign bytes, or in a file that has no name any more,
    /// would be acknowledged and never be read.
    fn is_ours(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|found| found.nlink() > 0 && found.len() == self.bytes)
    }

    /// Gives the descriptor back; the next append opens the file again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Opens what must be there, and cuts what was never acknowledged.
    fn open(&self) -> io::Result<File> {
        // Looked at first: opening creates, and an empty log would pass for one that never held anything.
        let length = fs::metadata(&self.path)?.len();
        if length < self.bytes {
            let (path, bytes) = (self.path.display(), self.bytes);
            return Err(io::Error::other(format!("{path} has {length} bytes where {bytes} were acknowledged")));
        }
        let file = disk::open_append(&self.path)?;
        if length > self.bytes {
            let (path, surplus) = (self.path.display(), length - self.bytes);
            tracing::warn!("{path}: {surplus} bytes that were never acknowledged are cut off");
            disk::truncate(&file, self.bytes)?;
        }
        Ok(file)
    }
}

#[derive(Debug)]
pub enum ReadError<E> {
    Io(io::Error),
    Refused(E),
}

/// Feeds a file from `from` up to `until` (or its end) to `each`, piece by piece.
pub fn read<E>(
    path: &Path,
    from: u64,
    until: Option<u64>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), ReadError<E>> {
    let mut file = disk::open_read(path).map_err(ReadError::Io)?;
    file.seek(SeekFrom::Start(from)).map_err(ReadError::Io)?;
    let mut file = file.take(until.map_or(u64::MAX, |until| until.saturating_sub(from)));
    let mut piece = vec![0; READ_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => each(&piece[..length]).map_err(ReadError::Refused)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReadError::Io(error)),
        }
    }
}
