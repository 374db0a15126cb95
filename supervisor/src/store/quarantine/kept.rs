//! What lies in quarantine, and what is wrong with it, found out again from the files themselves: a note beside each
//! could be lost as they were, and would tell of yesterday.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use ukai_protocol::disk;
use ukai_protocol::id::{BatchId, JobId};

use crate::store::error::StoreError;
use crate::store::log_file::{self, ReadError};
use crate::store::paths::StateDir;
use crate::store::recovery::Replay;
use crate::store::snapshot::{self, Outline};
use crate::store::{batch_file, capabilities, loader, routes, server_log, spec_file};

pub(super) const CLEARED: &str = ".cleared";

/// One file that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What `clear` takes: the id of a run, else the file's own name.
    pub name: String,
    /// Below `quarantine/`.
    pub file: String,
    pub bytes: u64,
    /// When it was put there, or cleared.
    pub moved_at: Timestamp,
    pub why: String,
    pub cleared: bool,
    /// What it belongs to does nothing before it is cleared.
    pub refused: bool,
}

/// Everything that lies there, by name. Looks only.
pub fn list(state: &StateDir) -> Result<Vec<Kept>, StoreError> {
    let folder = state.quarantine();
    let mut kept = Vec::new();
    for name in names(&folder)? {
        match name.parse::<JobId>() {
            Ok(id) => kept.extend(of_run(state, &id)?),
            Err(_) => {
                let path = folder.join(&name);
                let of = original(&name).to_owned();
                let refused = of == "routes.json";
                kept.extend(look(&path, of, name, refused)?);
            }
        }
    }
    Ok(kept)
}

fn of_run(state: &StateDir, id: &JobId) -> Result<Vec<Kept>, StoreError> {
    let folder = state.quarantine_of(id);
    // What cannot be looked at is taken for refused: nothing of it runs then either.
    let refused = loader::refusal(state, id).map_or(true, |why| why.is_some());
    let mut kept = Vec::new();
    for name in names(&folder)? {
        kept.extend(look(&folder.join(&name), id.to_string(), format!("{id}/{name}"), refused)?);
    }
    Ok(kept)
}

/// The names in a folder, sorted; one that is not there holds none.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let error = |error: io::Error| StoreError::io("listing", folder, &error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(missing) if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(other) => return Err(error(other)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(error)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// None: it is gone, or no file.
fn look(path: &Path, name: String, file: String, refused: bool) -> Result<Option<Kept>, StoreError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => found,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("looking at", path, &error)),
    };
    // Moving a file changes nothing of it but this.
    let moved_at = Timestamp::new(found.ctime(), i32::try_from(found.ctime_nsec()).unwrap_or(0)).unwrap_or_default();
    let cleared = is_cleared(&file);
    let why = why(path).unwrap_or_else(|error| format!("it cannot be read: {error}"));
    Ok(Some(Kept { name, file, bytes: found.len(), moved_at, why, cleared, refused: refused && !cleared }))
}

pub(super) fn is_cleared(name: &str) -> bool {
    unnumbered(name).ends_with(CLEARED)
}

/// The name that a file had in its place: `events.jsonl` of `events.jsonl.2.cleared.3`.
pub(super) fn original(name: &str) -> &str {
    let name = unnumbered(name);
    unnumbered(name.strip_suffix(CLEARED).unwrap_or(name))
}

fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, number)) if number.parse::<u32>().is_ok() => stem,
        _ => name,
    }
}

fn why(path: &Path) -> io::Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = original(&name);
    let sound = "it verifies by itself, and does not fit what else was found".to_owned();
    let bounded =
        |bytes_max: u64, judge: &dyn Fn(&[u8]) -> Result<(), String>| match disk::read_bounded(path, bytes_max) {
            Ok(bytes) => Ok(judge(&bytes).err().unwrap_or_else(|| sound.clone())),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(error.to_string()),
            Err(error) => Err(error),
        };
    match name {
        server_log::NAME if path.parent().is_some_and(|folder| folder.ends_with("quarantine")) => {
            Ok(server_log::damage(path)?.unwrap_or(sound))
        }
        "events.jsonl" => {
            let mut replay = Replay::default();
            match log_file::read(path, 0, None, |bytes| replay.feed(bytes)) {
                Ok(()) => Ok(format!("its {} records verify, and later ones are missing", replay.state.progress.seq)),
                Err(ReadError::Refused(corrupt)) => Ok(corrupt.to_string()),
                Err(ReadError::Io(error)) => Err(error),
            }
        }
        "job.json" => Ok(match spec_file::load(path)? {
            spec_file::Loaded::Bad(why) => why,
            spec_file::Loaded::Missing | spec_file::Loaded::Sound(_) => sound,
        }),
        "run_state.json" => Ok(match snapshot::load::<Outline>(path)? {
            snapshot::Loaded::Bad(why) => why,
            snapshot::Loaded::Missing | snapshot::Loaded::Sound(_) => sound,
        }),
        routes::NAME => Ok(routes::verify(path)?.err().unwrap_or(sound)),
        "capabilities.json" => {
            bounded(capabilities::CAPABILITIES_BYTES_MAX, &|bytes| capabilities::decode(bytes).map(drop))
        }
        name => match name.strip_suffix(".json").map(str::parse::<BatchId>) {
            Some(Ok(id)) => bounded(batch_file::BATCH_BYTES_MAX, &|bytes| batch_file::decode(bytes, &id).map(drop)),
            _ => Ok("ukai does not know this file".to_owned()),
        },
    }
}
