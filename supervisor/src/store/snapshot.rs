//! `run_state.json`: the fold of a log up to some record, kept so that opening a run need not begin at its beginning.
//!
//! A checked cache and never more: it names the place in the log that it was made from, and what disagrees with the log
//! is put aside. Fixed shape, sealed like everything else: `{"schema":1,"log_bytes":N,"state":{…},"crc":"8 hex"}`.

use std::io;
use std::path::Path;

use serde::Deserialize;
use ukai_protocol::run_state::{Progress, RunState};
use ukai_protocol::{checksum, disk};

const SCHEMA: u64 = 1;

/// The largest snapshot: far above any window a model has, far below what would hurt the supervisor for a moment.
pub const SNAPSHOT_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot<State = RunState> {
    /// Length of the log up to and with the record `state.progress.seq`.
    pub log_bytes: u64,
    pub state: State,
}

/// What is left of a state when only lists are to be made of it: the conversation is skipped, not kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Outline {
    pub progress: Progress,
}

#[derive(Debug)]
pub enum Loaded<State> {
    Missing,
    Sound(Snapshot<State>),
    Bad(String),
}

/// Errors are the disk's; a snapshot that does not verify is no error but [`Loaded::Bad`].
pub fn load<State: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Loaded<State>> {
    match disk::read_bounded(path, SNAPSHOT_BYTES_MAX) {
        Ok(bytes) => Ok(decode(&bytes).map_or_else(Loaded::Bad, Loaded::Sound)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Loaded::Missing),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Loaded::Bad(error.to_string())),
        Err(error) => Err(error),
    }
}

pub fn save(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let text = encode(snapshot)?;
    if text.len() as u64 > SNAPSHOT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it would exceed {SNAPSHOT_BYTES_MAX} bytes")));
    }
    disk::write_atomic(path, text.as_bytes())
}

fn encode(Snapshot { log_bytes, state }: &Snapshot) -> io::Result<String> {
    let state = serde_json::to_string(state)?;
    Ok(checksum::seal(format!(r#"{{"schema":{SCHEMA},"log_bytes":{log_bytes},"state":{state}"#)))
}

fn decode<State: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<Snapshot<State>, String> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u64,
    }
    #[derive(Deserialize)]
    struct File<State> {
        log_bytes: u64,
        state: State,
    }
    if !checksum::is_sealed(bytes) {
        return Err("its checksum does not match".to_owned());
    }
    match serde_json::from_slice(bytes) {
        Ok(Schema { schema: SCHEMA }) => {}
        Ok(Schema { schema }) => return Err(format!("it is of schema {schema}, this ukai reads {SCHEMA}")),
        Err(error) => return Err(format!("it is no snapshot: {error}")),
    }
    let File { log_bytes, state } =
        serde_json::from_slice(bytes).map_err(|error| format!("it is no snapshot: {error}"))?;
    Ok(Snapshot { log_bytes, state })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{fold, judged, replied, run, tool_started};

    /// In the middle of a turn, with everything filled in that may be.
    fn state() -> RunState {
        let mut state = fold(&run(2));
        for event in [replied(3, &["a", "b"]), judged("a"), tool_started("a"), judged("b")] {
            state.apply(&event).expect("test data");
        }
        state
    }

    #[test]
    fn a_state_reads_back_to_the_last_bit() {
        let mut state = state();
        for cost_usd in [0.1 + 0.2, 1e-7, 123_456.789, f64::MIN_POSITIVE, 5e-324, 0.300_000_000_000_000_04] {
            state.progress.used.cost_usd = cost_usd;
            let snapshot = Snapshot { log_bytes: 4711, state: state.clone() };
            assert_eq!(decode(encode(&snapshot).expect("text").as_bytes()), Ok(snapshot), "{cost_usd}");
        }
    }

    #[test]
    fn the_outline_is_the_progress_of_the_whole() {
        let snapshot = Snapshot { log_bytes: 4711, state: state() };
        let outline = decode::<Outline>(encode(&snapshot).expect("text").as_bytes()).expect("an outline");
        assert_eq!((outline.log_bytes, outline.state.progress), (4711, snapshot.state.progress));
    }

    #[test]
    fn a_snapshot_of_the_first_build_loads_for_ever() {
        let golden = include_bytes!("../../testdata/run_state.first.json");
        let snapshot = Snapshot { log_bytes: 4711, state: state() };
        assert_eq!(decode(golden), Ok(snapshot));
    }

    #[test]
    fn what_does_not_verify_is_bad_and_what_is_not_there_is_missing() {
        let temp = tempfile::tempdir().expect("temp");
        let path = temp.path().join("run_state.json");
        assert!(matches!(load::<RunState>(&path), Ok(Loaded::Missing)));
        save(&path, &Snapshot { log_bytes: 1, state: state() }).expect("saved");
        assert!(matches!(load::<RunState>(&path), Ok(Loaded::Sound(_))));
        let text = std::fs::read_to_string(&path).expect("text");
        let other_schema = checksum::seal(text[..text.len() - 18].replace("\"schema\":1", "\"schema\":2"));
        for bad in ["", "{}", &text[..text.len() - 1], &text.replace("step 1", "step 9"), &other_schema] {
            std::fs::write(&path, bad).expect("written");
            assert!(matches!(load::<RunState>(&path), Ok(Loaded::Bad(_))), "{bad:.60}");
        }
    }
}
