//! What has arrived, for a test to ask: kept in memory up to a bound, and written to a file where one is wanted.
//!
//! A line is there as soon as its request is, since a test may wait for it while the answer hangs. When the headers of the
//! answer leave, the instant is written into the space that the line has kept for it: blanks after a value are JSON too.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::conversation::Wire;

/// Kept for `/_arrivals`; the oldest go first. A file keeps more.
const ARRIVALS_MAX: usize = 10_000;
/// Lines in the file, after which requests are refused: an endless loop of a client must not fill the disk.
const RECORD_LINES_MAX: u64 = 1_000_000;
const PROMPT_CHARS_MAX: usize = 80;
/// Milliseconds of thirty years with their microseconds.
const INSTANT_CHARS: usize = 16;
/// What stands before the space, and nowhere else: it is a name, and quotes in values are escaped.
const ANSWERED: &str = "\"answered_ms\":";

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
    /// Since the server started, by a clock that only goes forward.
    pub at_ms: f64,
    /// The same of the moment in which the headers of the answer left; `null` until then.
    pub answered_ms: Option<f64>,
    /// Input and output, as the reply reports them or estimated.
    pub tokens: u64,
    /// Counted from 1 as they were accepted; requests on a kept connection share it.
    pub connection: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot write to the record {path}: {why}", path = .path.display())]
    Write { path: PathBuf, why: std::io::Error },
    #[error("the record {path} is full: {RECORD_LINES_MAX} requests", path = .path.display())]
    Full { path: PathBuf },
}

/// Names a line, to say later when it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    number: u64,
    /// Of the space in the line.
    space: usize,
    /// Of the line in the file.
    offset: u64,
}

#[derive(Debug, Default)]
pub struct Arrivals {
    kept: VecDeque<String>,
    record: Option<Record>,
    count: u64,
}

#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    /// Where the next line goes; nobody else writes.
    end: u64,
}

impl Arrivals {
    pub fn recording_to(path: Option<&Path>) -> Result<Arrivals, RecordError> {
        let Some(path) = path else { return Ok(Arrivals::default()) };
        let failed = |why| RecordError::Write { path: path.to_owned(), why };
        // Not in the mode of appending: it would put the instants to the end, too.
        let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        Ok(Arrivals { record: Some(Record { path: path.to_owned(), file, end }), ..Arrivals::default() })
    }

    pub fn add(&mut self, mut arrival: Arrival) -> Result<Ticket, RecordError> {
        arrival.prompt = arrival.prompt.map(|prompt| prompt.chars().take(PROMPT_CHARS_MAX).collect());
        arrival.answered_ms = None;
        let mut line = serde_json::json!(arrival).to_string();
        let space = line.rfind(ANSWERED).map_or(line.len(), |at| at + ANSWERED.len());
        line.insert_str((space + "null".len()).min(line.len()), &" ".repeat(INSTANT_CHARS - "null".len()));
        line.push('\n');
        let mut offset = 0;
        if let Some(record) = &mut self.record {
            if self.count >= RECORD_LINES_MAX {
                return Err(RecordError::Full { path: record.path.clone() });
            }
            offset = record.end;
            record.write(&line, offset)?;
            record.end += line.len() as u64;
        }
        if self.kept.len() == ARRIVALS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
        self.count += 1;
        Ok(Ticket { number: self.count - 1, space, offset })
    }

    pub fn answered(&mut self, ticket: Ticket, at_ms: f64) -> Result<(), RecordError> {
        let mut text = at_ms.to_string();
        text.truncate(INSTANT_CHARS);
        let text = format!("{text:INSTANT_CHARS$}");
        if let Some(record) = &mut self.record {
            record.write(&text, ticket.offset + ticket.space as u64)?;
        }
        let first = self.count - self.kept.len() as u64;
        let place = ticket.number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(line) = place.and_then(|at| self.kept.get_mut(at)) {
            line.replace_range(ticket.space..ticket.space + INSTANT_CHARS, &text);
        }
        Ok(())
    }

    pub fn lines(&self) -> String {
        self.kept.iter().map(String::as_str).collect()
    }
}

impl Record {
    fn write(&self, text: &str, at: u64) -> Result<(), RecordError> {
        let written = self.file.write_all_at(text.as_bytes(), at);
        written.map_err(|why| RecordError::Write { path: self.path.clone(), why })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn arrival(prompt: &str) -> Arrival {
        Arrival {
            at: String::new(),
            wire: Some(Wire::Gemini),
            path: "/".to_owned(),
            rule: Some(ANSWERED.to_owned()),
            status: Some(200),
            step: None,
            prompt: Some(prompt.to_owned()),
            refused: None,
            at_ms: 1.002,
            answered_ms: None,
            tokens: 7,
            connection: 1,
        }
    }

    #[test]
    fn a_line_is_there_at_once_and_learns_when_it_was_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record.jsonl");
        std::fs::write(&path, "{\"old\":1}\n").expect("an earlier record");
        let mut arrivals = Arrivals::recording_to(Some(&path)).expect("it opens");
        let odd = r#"say "answered_ms":null, please"#;
        let tickets = [odd, "b", "c"].map(|prompt| arrivals.add(arrival(prompt)).expect("it writes"));
        arrivals.answered(tickets[2], 123_456_789.012).expect("it writes");
        arrivals.answered(tickets[0], 0.5).expect("it writes");
        let text = std::fs::read_to_string(&path).expect("a record");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(lines[0], json!({"old": 1}));
        let found: Vec<_> = lines[1..].iter().map(|line| line["answered_ms"].clone()).collect();
        assert_eq!(found, [json!(0.5), Value::Null, json!(123_456_789.012)]);
        assert_eq!((&lines[1]["prompt"], &lines[1]["at_ms"]), (&json!(odd), &json!(1.002)));
        assert!(text.ends_with(&arrivals.lines()), "{text}");
    }
}
