//! `supervisor/trust.json`: to which folders a person has said yes, as they were.
//!
//! Only the command line reads and writes it, with and without a server: a job takes with it what held when it was
//! submitted. Whoever writes holds a lock of this file alone.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use ukai_protocol::{checksum, disk};

use crate::store::paths::StateDir;

const SCHEMA: u64 = 1;
const BYTES_MAX: u64 = 1024 * 1024;
/// A person looks through no more; the file stays well below its bound.
pub const FOLDERS_MAX: usize = 1_000;

/// One yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Real, absolute.
    pub folder: PathBuf,
    /// Of what it shipped.
    pub hash: String,
    /// RFC 3339.
    pub at: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u64,
    folders: Vec<Kept>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("what is trusted could not be read or written, {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} does not verify, so that no folder is trusted: {why}; take it away, and trust again what you have looked at", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("{FOLDERS_MAX} folders are trusted already; take some back with --revoke")]
    TooMany,
}

/// None yet: none is trusted.
pub fn read(state: &StateDir) -> Result<Vec<Kept>, KeptError> {
    let path = state.trust();
    let bytes = match disk::read_bounded(&path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes.map_err(|error| KeptError::Io { path: path.clone(), error })?,
    };
    let broken = |why: String| KeptError::Broken { path: path.clone(), why };
    if !checksum::is_sealed(&bytes) {
        return Err(broken("its checksum is wrong".to_owned()));
    }
    let file: File = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    match file.schema {
        SCHEMA => Ok(file.folders),
        other => Err(broken(format!("schema {other} is not known here"))),
    }
}

/// Changes it, whoever else wants to at the same time. True: it is another now.
pub fn change(state: &StateDir, change: impl FnOnce(&mut Vec<Kept>)) -> Result<bool, KeptError> {
    let path = state.trust();
    let io = |error: io::Error| KeptError::Io { path: path.clone(), error };
    let lock_path = path.with_extension("lock");
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock_path).map_err(io)?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| io(errno.into()))?;
    let before = read(state)?;
    let mut folders = before.clone();
    change(&mut folders);
    folders.sort_by(|one, other| one.folder.cmp(&other.folder));
    if folders.len() > FOLDERS_MAX {
        return Err(KeptError::TooMany);
    }
    if folders == before {
        return Ok(false);
    }
    let mut text = serde_json::to_string(&File { schema: SCHEMA, folders }).map_err(|error| io(error.into()))?;
    // Of a closed object: the seal closes it again.
    text.pop();
    disk::write_atomic(&path, checksum::seal(text).as_bytes()).map_err(io)?;
    Ok(true)
}
