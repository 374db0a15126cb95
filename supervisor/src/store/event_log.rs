//! The format of `events.jsonl` (spec §10): one event a line, numbered without gaps, each line under its own checksum.
//!
//! ```text
//! {"v":1,"seq":1,"at":"2026-11-29T12:00:00.000Z","event":"ToolStarted","data":{…},"crc":"8 hex"}
//! ```
//! Name and data stand side by side, where serde would nest them, so that `jq` and `grep` find an event by its name.
//! A line is written with its newline at once: what follows the last newline was never acknowledged. There is no other
//! repair; which lines to believe is `recovery`'s business.
#![deny(clippy::disallowed_methods)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use ukai_protocol::checksum;
use ukai_protocol::event::Event;
use ukai_protocol::frame::FRAME_BYTES_MAX;
use ukai_protocol::server_event::ServerEvent;

const VERSION: u64 = 1;

/// The longest line. A record arrives in one frame; JSON writes a control character in six bytes; and the line's own head.
pub const RECORD_BYTES_MAX: usize = 6 * FRAME_BYTES_MAX + 1024;

/// What a log can hold: one closed list of events each.
pub trait Logged: Serialize + DeserializeOwned + PartialEq {
    /// The name that stands on disk.
    fn name(&self) -> &'static str;
}

impl Logged for Event {
    fn name(&self) -> &'static str {
        Event::name(self)
    }
}

impl Logged for ServerEvent {
    fn name(&self) -> &'static str {
        ServerEvent::name(self)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Record<E = Event> {
    pub seq: u64,
    /// RFC 3339, UTC, milliseconds; for people only.
    pub at: String,
    pub event: E,
}

/// Why a line is not one that ukai wrote at this place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("its checksum does not match")]
    Checksum,
    #[error("it is not a record: {0}")]
    Shape(String),
    #[error("it is of format version {0}, this ukai reads {VERSION}")]
    Version(u64),
    #[error("it has number {found} where {expected} belongs")]
    Number { found: u64, expected: u64 },
    #[error("it holds no event that this ukai knows: {0}")]
    Event(String),
    #[error("{0}")]
    Illegal(String),
    #[error("it is longer than {RECORD_BYTES_MAX} bytes")]
    TooLong,
}

/// An event that would not read back as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} cannot be recorded: {why}")]
pub struct Unwritable {
    pub event: &'static str,
    pub why: String,
}

/// One line with its newline. It is read back before it is handed out: a number that JSON cannot write, or a nesting
/// that it cannot read, would otherwise be found when the log is needed.
pub fn encode<E: Logged>(record: &Record<E>) -> Result<String, Unwritable> {
    let name = record.event.name();
    let refuse = |why: String| Unwritable { event: name, why };
    let json = serde_json::to_string(&record.event).map_err(|error| refuse(error.to_string()))?;
    let data = json
        .strip_prefix("{\"")
        .and_then(|rest| rest.strip_prefix(name))
        .and_then(|rest| rest.strip_prefix("\":"))
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(|| refuse("its name and its data do not stand as they should".to_owned()))?;
    let Record { seq, at, .. } = record;
    let head = format!(r#"{{"v":{VERSION},"seq":{seq},"at":"{at}","event":"{name}","data":{data}"#);
    let mut line = checksum::seal(head);
    match decode(line.as_bytes(), *seq) {
        Ok(read) if read == *record => {}
        Ok(_) => return Err(refuse("it would read back as another".to_owned())),
        Err(damage) => return Err(refuse(damage.to_string())),
    }
    line.push('\n');
    Ok(line)
}

/// Reads one line, without its newline, that must have number `expected`.
pub fn decode<E: Logged>(line: &[u8], expected: u64) -> Result<Record<E>, Damage> {
    if line.len() > RECORD_BYTES_MAX {
        return Err(Damage::TooLong);
    }
    if !checksum::is_sealed(line) {
        return Err(Damage::Checksum);
    }
    let Line { v: _, seq, at, event, data } = match serde_json::from_slice::<Line>(line) {
        Ok(line) if line.v != VERSION => return Err(Damage::Version(line.v)),
        Ok(line) => line,
        Err(error) => return Err(shape_or_version(line, &error)),
    };
    if seq != expected {
        return Err(Damage::Number { found: seq, expected });
    }
    let json = format!("{{\"{event}\":{data}}}");
    let event = serde_json::from_str(&json).map_err(|error| Damage::Event(error.to_string()))?;
    Ok(Record { seq, at: at.to_owned(), event })
}

#[derive(Deserialize)]
struct Line<'a> {
    v: u64,
    seq: u64,
    at: &'a str,
    event: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// A later version may have another shape altogether.
fn shape_or_version(line: &[u8], error: &serde_json::Error) -> Damage {
    #[derive(Deserialize)]
    struct Version {
        v: u64,
    }
    match serde_json::from_slice::<Version>(line) {
        Ok(Version { v }) if v != VERSION => Damage::Version(v),
        _ => Damage::Shape(error.to_string()),
    }
}

/// Cuts a byte stream into lines, whatever the pieces in which it arrives.
#[derive(Default)]
pub struct Splitter {
    partial: Vec<u8>,
}

/// A line above its bound: nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Splitter {
    /// Hands each whole line, without its newline, to `each`, until that refuses one.
    pub fn feed<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() {
                each(line)?;
            } else {
                self.partial.extend_from_slice(line);
                each(&self.partial)?;
                self.partial.clear();
            }
            bytes = rest;
        }
        if self.partial.len() + bytes.len() > RECORD_BYTES_MAX {
            return Err(TooLong.into());
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Bytes after the last newline.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.partial.len() as u64
    }
}

#[cfg(test)]
mod tests;
