//! `job.json`: the job as submitted. Written before the first record, so that a record never stands without its job.
//!
//! The spec's own object, with a schema and the seal at its end: it holds the deny rules, and a changed byte in those
//! must not pass.

use std::io;
use std::path::Path;

use serde::Deserialize;
use ukai_protocol::frame::FRAME_BYTES_MAX;
use ukai_protocol::job::JobSpec;
use ukai_protocol::{checksum, disk};

const SCHEMA: u64 = 1;

/// A job arrives in one frame; JSON writes a control character in six bytes.
const SPEC_BYTES_MAX: u64 = 6 * FRAME_BYTES_MAX as u64 + 1024;

#[derive(Debug)]
pub enum Loaded {
    Missing,
    Sound(Box<JobSpec>),
    Bad(String),
}

pub fn save(path: &Path, spec: &JobSpec) -> io::Result<()> {
    let json = serde_json::to_string(spec)?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("a job that is no JSON object"))?;
    disk::write_atomic(path, checksum::seal(format!(r#"{open},"schema":{SCHEMA}"#)).as_bytes())
}

/// Errors are the disk's; a file that does not verify is no error but [`Loaded::Bad`].
pub fn load(path: &Path) -> io::Result<Loaded> {
    match disk::read_bounded(path, SPEC_BYTES_MAX) {
        Ok(bytes) => Ok(decode(&bytes).map_or_else(Loaded::Bad, |spec| Loaded::Sound(Box::new(spec)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Loaded::Missing),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Loaded::Bad(error.to_string())),
        Err(error) => Err(error),
    }
}

fn decode(bytes: &[u8]) -> Result<JobSpec, String> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u64,
    }
    if !checksum::is_sealed(bytes) {
        return Err("its checksum does not match".to_owned());
    }
    match serde_json::from_slice(bytes) {
        Ok(Schema { schema: SCHEMA }) => {}
        Ok(Schema { schema }) => return Err(format!("it is of schema {schema}, this ukai reads {SCHEMA}")),
        Err(error) => return Err(format!("it is no job: {error}")),
    }
    serde_json::from_slice(bytes).map_err(|error| format!("it is no job: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::spec;

    #[test]
    fn a_job_reads_back_and_is_plain_json_to_everyone_else() {
        let temp = tempfile::tempdir().expect("temp");
        let path = temp.path().join("job.json");
        assert!(matches!(load(&path), Ok(Loaded::Missing)));
        save(&path, &spec()).expect("saved");
        assert!(matches!(load(&path), Ok(Loaded::Sound(read)) if *read == spec()));
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(serde_json::from_str::<JobSpec>(&text).expect("a plain job"), spec());
        assert_eq!(text, include_str!("../../testdata/job.golden.json"));
    }

    #[test]
    fn a_job_of_the_first_build_loads_for_ever() {
        let first = include_bytes!("../../testdata/job.first.json");
        assert_eq!(decode(first), Ok(JobSpec { env: Vec::new(), ..spec() }));
    }

    #[test]
    fn a_job_of_before_there_were_commands_loads_for_ever() {
        let second = include_bytes!("../../testdata/job.second.json");
        assert_eq!(decode(second), Ok(spec()));
    }

    #[test]
    fn a_job_of_before_there_were_hooks_loads_for_ever() {
        let third = include_bytes!("../../testdata/job.third.json");
        assert_eq!(decode(third), Ok(spec()));
    }

    #[test]
    fn a_weakened_deny_rule_does_not_pass() {
        let temp = tempfile::tempdir().expect("temp");
        let path = temp.path().join("job.json");
        save(&path, &spec()).expect("saved");
        let text = std::fs::read_to_string(&path).expect("text");
        for bad in ["", "{}", &text.replace(".env*", ".enx*"), &text[..text.len() / 2]] {
            std::fs::write(&path, bad).expect("written");
            assert!(matches!(load(&path), Ok(Loaded::Bad(_))), "{bad:.60}");
        }
    }
}
