//! `routes.json`: until when providers asked not to be asked. It outlives the supervisor, so that neither a restart nor
//! the next `ukai run` sends a request that it knows a provider asked it not to send (spec §5).
//!
//! The wall clock is the only one that two processes share. A clock that was set back cannot make a wait longer than
//! the provider named it.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use ukai_protocol::disk;

use super::checksum;

const SCHEMA: u64 = 1;
/// A thousand accounts and more.
const ROUTES_BYTES_MAX: u64 = 256 * 1024;

/// What one account asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotBefore {
    pub account: String,
    /// Milliseconds since 1970.
    pub until_ms: u64,
    /// The wait as it was named.
    pub wait_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u64,
    not_before: Vec<NotBefore>,
}

#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    #[error("reading {path}: {error}")]
    Io { path: String, error: io::Error },
    /// Nobody knows then whom not to ask.
    #[error(
        "{path} does not verify ({why}), so it is not known which providers asked to wait; \
         look at it, and when nobody has to be waited for, move it away"
    )]
    Damaged { path: String, why: String },
}

impl NotBefore {
    #[must_use]
    pub fn new(account: String, left: Duration, wait: Duration, now: SystemTime) -> Self {
        let until = now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(left);
        NotBefore { account, until_ms: millis(until), wait_ms: millis(wait) }
    }

    /// None: it is over.
    #[must_use]
    pub fn left(&self, now: SystemTime) -> Option<Duration> {
        let now = millis(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        let left = self.until_ms.checked_sub(now).filter(|left| *left > 0)?;
        Some(Duration::from_millis(left.min(self.wait_ms)))
    }

    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub fn save(path: &Path, not_before: Vec<NotBefore>) -> io::Result<()> {
    let json = serde_json::to_string(&File { schema: SCHEMA, not_before })?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("routes that are no JSON object"))?;
    disk::write_atomic(path, checksum::seal(open.to_owned()).as_bytes())
}

/// What is still to be waited for; a file that is not there names nothing.
pub fn load(path: &Path) -> Result<Vec<NotBefore>, RoutesError> {
    let shown = path.display().to_string();
    let damaged = |why: String| RoutesError::Damaged { path: shown.clone(), why };
    match disk::read_bounded(path, ROUTES_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(damaged(error.to_string())),
        Err(error) => Err(RoutesError::Io { path: shown, error }),
        Ok(bytes) if !checksum::is_sealed(&bytes) => Err(damaged("its checksum does not match".to_owned())),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(File { schema: SCHEMA, not_before }) => Ok(not_before),
            Ok(File { schema, .. }) => Err(damaged(format!("it is of schema {schema}, this ukai reads {SCHEMA}"))),
            Err(error) => Err(damaged(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_is_over_when_it_is_and_a_clock_set_back_does_not_stretch_it() {
        let now = UNIX_EPOCH + SECOND * 1_000;
        let named = NotBefore::new("a".into(), SECOND * 6, SECOND * 9, now);
        for (at, left) in [(1_000, Some(6)), (1_005, Some(1)), (1_006, None), (2_000, None), (10, Some(9))] {
            assert_eq!(named.left(UNIX_EPOCH + SECOND * at), left.map(|left| SECOND * left), "{at}");
        }
    }

    #[test]
    fn the_bytes_are_these_for_ever_and_no_others_pass() {
        let temp = tempfile::tempdir().expect("temp");
        let path = temp.path().join("routes.json");
        assert_eq!(load(&path).expect("nothing named"), []);
        let named = vec![NotBefore { account: "lab".into(), until_ms: 1_700_000_006_000, wait_ms: 6_000 }];
        save(&path, named.clone()).expect("saved");
        assert_eq!(load(&path).expect("sound"), named);
        let text = std::fs::read_to_string(&path).expect("text");
        let golden = r#"{"schema":1,"not_before":[{"account":"lab","until_ms":1700000006000,"wait_ms":6000}],"crc":"#;
        assert!(text.starts_with(golden), "{text}");
        for bad in ["", "{}", &text.replace("6000}", "1000}"), &text[..text.len() / 2]] {
            std::fs::write(&path, bad).expect("written");
            assert!(matches!(load(&path), Err(RoutesError::Damaged { .. })), "{bad}");
        }
    }
}
