//! `worktrees/<id>.json`: what is known of a job's worktree, beside it.
//!
//! Written before anything is made, so that what a crash left half-made is known for that; again when it can be used, which is
//! before any worker runs in it; and at last when its end is settled. No event of the log says any of it: the log tells
//! what the job did, and a worktree is a thing on disk, which a person may merge and remove at any time.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use ukai_protocol::id::JobId;
use ukai_protocol::{checksum, disk};

use super::place::Place;
use crate::store::StateDir;

const SCHEMA: u64 = 1;
/// Five paths and a few words.
const RECORD_BYTES_MAX: u64 = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u64,
    pub job: JobId,
    /// The work tree that it is of.
    pub repository: PathBuf,
    /// What all work trees of that repository share.
    pub common: PathBuf,
    /// Git's own folder of this one, below `common`; empty until it is made.
    pub git_dir: PathBuf,
    pub path: PathBuf,
    /// Where in it the job works.
    pub workdir: PathBuf,
    pub branch: String,
    /// The commit that it began at.
    pub base: String,
    pub stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No worker has run in it.
    Making,
    /// The job goes on in it, or its end is not settled yet.
    Open,
    Ended(End),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// It and its branch are there. Else both were removed: there was nothing in it.
    pub kept: bool,
    /// What its branch points to. None where that is nothing of the job's.
    pub commit: Option<String>,
    /// Why a person should look: not all that changed could be committed.
    #[serde(default)]
    pub trouble: Option<String>,
}

impl Record {
    #[must_use]
    pub fn new(job: JobId, path: PathBuf) -> Self {
        let nowhere = PathBuf::new;
        Record {
            schema: SCHEMA,
            job,
            repository: nowhere(),
            common: nowhere(),
            git_dir: nowhere(),
            path,
            workdir: nowhere(),
            branch: String::new(),
            base: String::new(),
            stage: Stage::Making,
        }
    }

    #[must_use]
    pub fn place(&self) -> Place {
        Place { repository: self.repository.clone(), path: self.path.clone(), workdir: self.workdir.clone() }
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Ended(_))
    }
}

/// None: there is none. One that does not verify is an error: what lies beside it is then nobody's to touch.
pub fn load(state: &StateDir, job: &JobId) -> io::Result<Option<Record>> {
    let path = state.worktree_record(job);
    let bytes = match disk::read_bounded(&path, RECORD_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{} {why}", path.display()));
    if !checksum::is_sealed(&bytes) {
        return Err(bad("does not match its checksum".to_owned()));
    }
    let record: Record =
        serde_json::from_slice(&bytes).map_err(|error| bad(format!("tells of no worktree: {error}")))?;
    match record.schema {
        SCHEMA if record.job == *job => Ok(Some(record)),
        SCHEMA => Err(bad(format!("is of {}", record.job))),
        other => Err(bad(format!("is of schema {other}, this ukai reads {SCHEMA}"))),
    }
}

pub fn save(state: &StateDir, record: &Record) -> io::Result<()> {
    let json = serde_json::to_string(record)?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("a worktree that is no JSON object"))?;
    disk::create_dir(&state.worktrees())?;
    disk::write_atomic(&state.worktree_record(&record.job), checksum::seal(open.to_owned()).as_bytes())
}

/// Those whose end is not settled. One that cannot be read is said and left alone.
pub fn open_ones(state: &StateDir) -> io::Result<Vec<JobId>> {
    let entries = match std::fs::read_dir(state.worktrees()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut open = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<JobId>().ok());
        let Some(id) = id else { continue };
        match load(state, &id) {
            Ok(Some(record)) if record.is_open() => open.push(id),
            Ok(_) => {}
            Err(error) => tracing::error!(job = %id, %error, "what is known of a worktree cannot be read"),
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::id;

    #[test]
    fn a_record_reads_back_and_one_that_was_changed_is_none() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        assert!(load(&state, &id(1)).expect("no error").is_none());
        let mut record = Record::new(id(1), state.worktree(&id(1)));
        record.branch = "ukai/fix-a".to_owned();
        save(&state, &record).expect("saved");
        assert_eq!(load(&state, &id(1)).expect("read"), Some(record.clone()));
        assert_eq!(open_ones(&state).expect("listed"), [id(1)]);
        let path = state.worktree_record(&id(1));
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, text.replace("fix-a", "fix-b")).expect("written");
        assert!(load(&state, &id(1)).is_err());
        assert!(open_ones(&state).expect("listed").is_empty());
        record.stage = Stage::Ended(End { kept: true, ..End::default() });
        save(&state, &record).expect("saved");
        assert!(open_ones(&state).expect("listed").is_empty());
    }

    #[test]
    fn a_record_of_the_first_build_loads_for_ever() {
        let first = r#"{"schema":1,"job":"j-aaaaaaaa","repository":"/r","common":"/r/.git","git_dir":"/r/.git/worktrees/j-aaaaaaaa","path":"/s/worktrees/j-aaaaaaaa","workdir":"/s/worktrees/j-aaaaaaaa/src","branch":"ukai/fix-a","base":"b","stage":{"ended":{"kept":true,"commit":"c","trouble":null}}"#;
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        let job = JobId::from_random([0; 5]);
        disk::create_dir(&state.worktrees()).expect("a folder");
        std::fs::write(state.worktree_record(&job), checksum::seal(first.to_owned())).expect("written");
        let record = load(&state, &job).expect("read").expect("there");
        assert_eq!(record.stage, Stage::Ended(End { kept: true, commit: Some("c".to_owned()), trouble: None }));
        save(&state, &record).expect("saved");
        let again = std::fs::read_to_string(state.worktree_record(&job)).expect("text");
        assert_eq!(again, checksum::seal(first.to_owned()), "as it was written");
    }
}
