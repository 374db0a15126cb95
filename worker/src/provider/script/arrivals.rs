//! What has arrived, for a test to ask: kept in memory up to a bound, and appended to a file where one is wanted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::conversation::Wire;

/// Kept for `/_arrivals`; the oldest go first. A file keeps more.
const ARRIVALS_MAX: usize = 10_000;
/// Lines in the file, after which requests are refused: an endless loop of a client must not fill the disk.
const RECORD_LINES_MAX: u64 = 1_000_000;
const PROMPT_CHARS_MAX: usize = 80;

#[derive(Debug, Serialize)]
pub struct Arrival {
    /// RFC 3339, in milliseconds.
    pub at: String,
    pub wire: Option<Wire>,
    pub path: String,
    pub rule: Option<String>,
    /// `null` for an answer whose headers never come.
    pub status: Option<u16>,
    pub step: Option<u64>,
    pub prompt: Option<String>,
    /// Why the request was refused, by the judge or for want of a rule.
    pub refused: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot append to the record {path}: {why}", path = .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("the record {path} is full: {RECORD_LINES_MAX} requests", path = .path.display())]
    Full { path: PathBuf },
}

#[derive(Debug, Default)]
pub struct Arrivals {
    kept: VecDeque<String>,
    record: Option<(PathBuf, File)>,
    written: u64,
}

impl Arrivals {
    pub fn recording_to(path: Option<&Path>) -> Result<Arrivals, RecordError> {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.map(|file| (path.to_owned(), file)).map_err(|why| RecordError::Write { path: path.to_owned(), why })
        };
        Ok(Arrivals { record: path.map(open).transpose()?, ..Arrivals::default() })
    }

    pub fn add(&mut self, mut arrival: Arrival) -> Result<(), RecordError> {
        arrival.prompt = arrival.prompt.map(|prompt| prompt.chars().take(PROMPT_CHARS_MAX).collect());
        let value = serde_json::json!(arrival);
        let line = format!("{value}\n");
        if let Some((path, file)) = &mut self.record {
            if self.written >= RECORD_LINES_MAX {
                return Err(RecordError::Full { path: path.clone() });
            }
            file.write_all(line.as_bytes()).map_err(|why| RecordError::Write { path: path.clone(), why })?;
            self.written += 1;
        }
        if self.kept.len() == ARRIVALS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
        Ok(())
    }

    pub fn lines(&self) -> String {
        self.kept.iter().map(String::as_str).collect()
    }
}
