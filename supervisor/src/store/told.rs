//! What providers named and only a job's log remembers: a supervisor and its worker can die together after the answer is
//! recorded and before anything else is done about it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::Deserialize;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;

use super::event_log;
use super::paths::StateDir;

/// Of a log, from its end: the last answers of a run are among its last records.
const TAIL_BYTES: u64 = 64 * 1024;

/// A wait that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub provider: String,
    pub left: Duration,
}

/// The number that a record has, to have the rest of it checked.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// What the log of this run says that is not over yet. A log that cannot be read says nothing, and is told of elsewhere.
#[must_use]
pub fn waits(state: &StateDir, id: &JobId, clock: SystemTime) -> Vec<Told> {
    let tail = match tail(&state.run(id).log()) {
        Ok(tail) => tail,
        Err(error) => {
            tracing::debug!(job = %id, %error, "its log is not looked through for what providers named");
            return Vec::new();
        }
    };
    let lines = tail.split(|byte| *byte == b'\n').filter(|line| line.windows(13).any(|word| word == b"AttemptFailed"));
    lines.filter_map(|line| wait(line, clock)).collect()
}

fn tail(log: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Of a line that verifies. The wait counts from when it was recorded, a moment after it was named.
fn wait(line: &[u8], clock: SystemTime) -> Option<Told> {
    let Numbered { seq } = serde_json::from_slice(line).ok()?;
    let record = event_log::decode(line, seq).ok()?;
    let Event::AttemptFailed { provider, wait_ms: Some(wait_ms), .. } = record.event else { return None };
    let at = SystemTime::try_from(record.at.parse::<Timestamp>().ok()?).ok()?;
    let wait = Duration::from_millis(wait_ms);
    // A clock that was set back makes no wait longer than it was named.
    let passed = clock.duration_since(at).unwrap_or_default();
    let left = wait.checked_sub(passed).filter(|left| !left.is_zero())?;
    Some(Told { provider, left })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_verifies_and_is_not_over_counts() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        let id = JobId::from_random([0; 5]);
        std::fs::create_dir_all(state.run(&id).root()).expect("a folder");
        let failed = |wait_ms| Event::AttemptFailed {
            step: 1,
            provider: "lab".to_owned(),
            class: ukai_protocol::lease::AnswerClass::RateLimited,
            detail: String::new(),
            wait_ms,
            usage: None,
            cost_usd: 0.0,
            run_time_ms: 0,
            wall_ms: 0,
        };
        let at = "2026-11-29T12:00:00.000Z";
        let line = |seq, event| {
            let record = event_log::Record { seq, at: at.to_owned(), event };
            event_log::encode(&record).expect("encoded").trim_end().to_owned() + "\n"
        };
        let flipped = line(9, failed(Some(90_000))).replace("90000", "80000");
        let log = line(7, failed(Some(9_000))) + &line(8, failed(None)) + &flipped;
        std::fs::write(state.run(&id).log(), log).expect("written");
        let began = SystemTime::try_from(at.parse::<Timestamp>().expect("a time")).expect("in range");
        let after = |seconds| waits(&state, &id, began + Duration::from_secs(seconds));
        let told = |seconds| vec![Told { provider: "lab".to_owned(), left: Duration::from_secs(seconds) }];
        assert_eq!((after(0), after(8), after(9)), (told(9), told(1), Vec::new()));
        assert_eq!(waits(&state, &id, SystemTime::UNIX_EPOCH), told(9));
        assert_eq!(waits(&state, &JobId::from_random([1; 5]), began), Vec::new());
    }
}
