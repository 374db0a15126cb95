//! `batches/<id>.json`: what the logs of a batch's jobs cannot say.
//!
//! It is written before the first job of a submission is, with those jobs named as void, and again without them when
//! all are on disk: that second write is what makes the submission one. A file that is missing or does not verify is
//! therefore no reason to doubt a job; it is put aside and said.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::{checksum, disk};

use super::error::StoreError;
use super::paths::StateDir;

const SCHEMA: u64 = 1;
/// As many void jobs as a queue holds, many times over.
pub(super) const BATCH_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchFile {
    pub schema: u64,
    pub id: BatchId,
    pub name: String,
    /// Jobs of submissions that were broken off: nobody was told that they are queued.
    pub void: BTreeSet<JobId>,
    /// The owner has been told that it is done.
    pub told: bool,
}

impl BatchFile {
    #[must_use]
    pub fn new(id: BatchId, name: String, void: BTreeSet<JobId>, told: bool) -> Self {
        BatchFile { schema: SCHEMA, id, name, void, told }
    }
}

pub fn save(state: &StateDir, file: &BatchFile) -> io::Result<()> {
    let json = serde_json::to_string(file)?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("a batch that is no JSON object"))?;
    disk::write_atomic(&state.batch(&file.id), checksum::seal(open.to_owned()).as_bytes())
}

/// What lies in `batches/`.
#[derive(Debug, Default)]
pub struct Found {
    /// By id.
    pub files: Vec<BatchFile>,
    /// That do not verify, and why.
    pub bad: Vec<(BatchId, String)>,
    /// That were being written when something died.
    left_over: Vec<PathBuf>,
}

/// Reads all and changes nothing.
pub fn read_all(state: &StateDir) -> Result<Found, StoreError> {
    let folder = state.batches();
    let error = |error: io::Error| StoreError::io("listing", &folder, &error);
    let mut found = Found::default();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        // Of an earlier version, or looked at before a server ever ran.
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(other) => return Err(error(other)),
    };
    for entry in entries {
        let path = entry.map_err(error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".json").and_then(|id| id.parse().ok()) else {
            if name.ends_with(".tmp") {
                found.left_over.push(path);
            } else {
                tracing::warn!("{} is no batch of ukai's: left alone", path.display());
            }
            continue;
        };
        match disk::read_bounded(&path, BATCH_BYTES_MAX) {
            Ok(bytes) => match decode(&bytes, &id) {
                Ok(file) => found.files.push(file),
                Err(why) => found.bad.push((id, why)),
            },
            Err(error) if error.raw_os_error().is_none() => found.bad.push((id, error.to_string())),
            // Nothing is known to be wrong with it, and its jobs know that they are of it.
            Err(error) => tracing::error!("reading {}: {error}; the batch goes on without it", path.display()),
        }
    }
    found.files.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

/// What a supervisor begins with. One that does not verify is moved to quarantine: its jobs know that they are of it.
pub fn recover_all(state: &StateDir) -> Result<Vec<BatchFile>, StoreError> {
    let Found { files, bad, left_over } = read_all(state)?;
    for path in left_over {
        disk::remove_file(&path).map_err(|error| StoreError::io("removing", &path, &error))?;
    }
    for (id, why) in bad {
        let (from, to) = (state.batch(&id), state.quarantine().join(format!("{id}.json")));
        disk::rename(&from, &to).map_err(|error| StoreError::io("moving to quarantine", &from, &error))?;
        tracing::error!("the file of batch {id} does not verify ({why}): kept as {}; its jobs go on", to.display());
    }
    Ok(files)
}

pub(super) fn decode(bytes: &[u8], id: &BatchId) -> Result<BatchFile, String> {
    if !checksum::is_sealed(bytes) {
        return Err("its checksum does not match".to_owned());
    }
    match serde_json::from_slice::<BatchFile>(bytes) {
        Ok(file) if file.schema != SCHEMA => Err(format!("it is of schema {}, this ukai reads {SCHEMA}", file.schema)),
        Ok(file) if file.id != *id => Err(format!("it is of {}", file.id)),
        Ok(file) => Ok(file),
        Err(error) => Err(format!("it is no batch: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::Temp;

    fn file() -> BatchFile {
        let void = [JobId::from_random([0; 5])].into();
        BatchFile::new("b-abcdefgh".parse().expect("an id"), "survey".to_owned(), void, false)
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let temp = Temp::new();
        assert_eq!(recover_all(&temp.state).expect("none"), []);
        save(&temp.state, &file()).expect("saved");
        assert_eq!(recover_all(&temp.state).expect("one"), [file()]);
        let text = fs::read_to_string(temp.state.batch(&file().id)).expect("text");
        let golden = r#"{"schema":1,"id":"b-abcdefgh","name":"survey","void":["j-aaaaaaaa"],"told":false,"crc":"#;
        assert!(text.starts_with(golden), "{text}");
    }

    #[test]
    fn what_a_crash_left_half_written_goes() {
        let temp = Temp::new();
        let left = temp.state.batches().join("b-abcdefgh.json.4711.tmp");
        fs::write(&left, "{").expect("written");
        assert_eq!(recover_all(&temp.state).expect("none"), []);
        assert!(!left.exists());
    }

    #[test]
    fn what_does_not_verify_is_put_aside_and_forgotten() {
        for spoil in [
            |_: &str| String::new(),
            |text: &str| text.replace("j-aaaaaaaa", "j-aaaaaaab"),
            |_: &str| checksum::seal(r#"{"schema":2"#.to_owned()),
            |text: &str| checksum::seal(text[..text.len() - 18].replace("b-abcdefgh", "b-abcdefgg")),
        ] {
            let temp = Temp::new();
            save(&temp.state, &file()).expect("saved");
            let path = temp.state.batch(&file().id);
            let bad = spoil(&fs::read_to_string(&path).expect("text"));
            fs::write(&path, &bad).expect("spoiled");
            assert_eq!(read_all(&temp.state).expect("looked at").bad.len(), 1);
            assert!(path.exists(), "looking changes nothing");
            assert_eq!(recover_all(&temp.state).expect("put aside"), [], "{bad}");
            assert!(!path.exists());
            assert_eq!(fs::read_to_string(temp.state.quarantine().join("b-abcdefgh.json")).expect("kept"), bad);
        }
    }
}
