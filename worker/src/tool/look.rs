//! A look at an open file: its marks and what is in it, so that a later look can tell whether it changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::seen::{Look, Mark};
use super::{Context, Stopped};

/// What is hashed at every look, and held in memory by an Edit, twice. More than any text that is written by hand.
pub const WHOLE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Read between two looks at the cancellation.
const PIECE_BYTES: usize = 256 * 1024;

/// What came of reading: whole, or larger than [`WHOLE_BYTES_MAX`].
#[derive(Debug)]
pub enum Contents {
    Whole(Vec<u8>),
    TooLarge,
}

/// Why a look ended early.
#[derive(Debug)]
pub enum LookError {
    Cancelled,
    Io(io::Error),
}

impl LookError {
    /// In words for the model. `tool` and `named` as it called them.
    pub fn stopped(self, tool: &str, named: &str) -> Stopped {
        match self {
            LookError::Cancelled => Stopped::Cancelled,
            LookError::Io(error) => Stopped::Failed(format!("{tool} {named}: reading failed: {error}")),
        }
    }
}

/// Looks at all of a file, keeping nothing of it. Where the next read begins stays as it is.
pub fn look(file: &File, context: &Context) -> Result<Look, LookError> {
    let mark = mark(file).map_err(LookError::Io)?;
    let mut hasher = blake3::Hasher::new();
    let whole = pieces(file, context, |piece| {
        hasher.update(piece);
    })?;
    Ok(Look { mark, hash: whole.then(|| hasher.finalize()) })
}

/// Reads all of a file into memory, with the look that belongs to it.
pub fn read(file: &File, context: &Context) -> Result<(Look, Contents), LookError> {
    let mark = mark(file).map_err(LookError::Io)?;
    let mut bytes = Vec::new();
    let whole = pieces(file, context, |piece| bytes.extend_from_slice(piece))?;
    let hash = whole.then(|| blake3::hash(&bytes));
    Ok((Look { mark, hash }, if whole { Contents::Whole(bytes) } else { Contents::TooLarge }))
}

pub fn mark(file: &File) -> io::Result<Mark> {
    let meta = file.metadata()?;
    let modified_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    Ok(Mark { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), modified_ns })
}

/// Hands out a file piece by piece; false where it is too large, perhaps after some pieces.
fn pieces(file: &File, context: &Context, mut take: impl FnMut(&[u8])) -> Result<bool, LookError> {
    if file.metadata().map_err(LookError::Io)?.len() > WHOLE_BYTES_MAX {
        return Ok(false);
    }
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        if context.cancel.is_cancelled() {
            return Err(LookError::Cancelled);
        }
        let count = match file.read_at(&mut piece, at) {
            Ok(0) => return Ok(true),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(LookError::Io(error)),
        };
        at += count as u64;
        // It grows while it is read.
        if at > WHOLE_BYTES_MAX {
            return Ok(false);
        }
        take(piece.get(..count).unwrap_or_default());
    }
}
