//! The format of `events.jsonl` (spec §10): one event a line, numbered without gaps, each line under its own checksum.
//!
//! ```text
//! {"v":1,"seq":1,"at":"2026-11-29T12:00:00.000Z","event":"ToolStarted","data":{…},"crc":"8 hex"}
//! ```
//! Name and data stand side by side, where serde would nest them, so that `jq` and `grep` find an event by its name.
//! A line is written with its newline at once: what follows the last newline was never acknowledged. There is no other
//! repair; which lines to believe is `recovery`'s business.
#![deny(clippy::disallowed_methods)]

use serde::Deserialize;
use serde_json::value::RawValue;
use ukai_protocol::event::Event;
use ukai_protocol::frame::FRAME_BYTES_MAX;

use super::checksum;

const VERSION: u64 = 1;

/// The longest line. A record arrives in one frame; JSON writes a control character in six bytes; and the line's own head.
pub const RECORD_BYTES_MAX: usize = 6 * FRAME_BYTES_MAX + 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub seq: u64,
    /// RFC 3339, UTC, milliseconds; for people only.
    pub at: String,
    pub event: Event,
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
pub fn encode(record: &Record) -> Result<String, Unwritable> {
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
pub fn decode(line: &[u8], expected: u64) -> Result<Record, Damage> {
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
mod tests {
    use proptest::prelude::*;
    use ukai_protocol::job::Limit;

    use super::*;
    use crate::store::testing::{AT, at, every_event, log_of, tool_finished};

    const GOLDEN: &str = include_str!("../../testdata/events.golden.jsonl");

    #[test]
    fn every_event_is_these_bytes_for_ever() {
        assert_eq!(String::from_utf8(log_of(&every_event())).expect("text"), GOLDEN);
    }

    #[test]
    fn the_golden_lines_decode_for_ever() {
        assert!(GOLDEN.lines().count() >= every_event().len());
        for (line, (seq, event)) in GOLDEN.lines().zip((1..).zip(every_event())) {
            assert_eq!(decode(line.as_bytes(), seq), Ok(Record { seq, at: at(), event }), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_not_ours_is_told_apart_by_why() {
        let sealed = |head: &str| checksum::seal(head.to_owned()).into_bytes();
        let good = r#"{"v":1,"seq":1,"at":"T","event":"Recovered","data":{"torn_bytes":1}"#;
        let check = |quirk: &str, line: &[u8], expected: fn(&Damage) -> bool| {
            let damage = decode(line, 1).expect_err(quirk);
            assert!(expected(&damage), "{quirk}: {damage}");
        };
        assert!(decode(&sealed(good), 1).is_ok());
        check("empty", b"", |damage| *damage == Damage::Checksum);
        check("NULs", &[0; 100], |damage| *damage == Damage::Checksum);
        check("no seal", format!("{good}}}").as_bytes(), |damage| *damage == Damage::Checksum);
        check("a later version", &sealed(&good.replace("\"v\":1", "\"v\":2")), |damage| *damage == Damage::Version(2));
        check("a later version of another shape", &sealed(r#"{"v":3,"body":[]"#), |damage| {
            *damage == Damage::Version(3)
        });
        check("a gap", &sealed(&good.replace("\"seq\":1", "\"seq\":2")), |damage| {
            *damage == Damage::Number { found: 2, expected: 1 }
        });
        check("sealed, but no JSON", &sealed("{v:1"), |damage| matches!(damage, Damage::Shape(_)));
        check("sealed, but no record", &sealed(r#"{"v":1"#), |damage| matches!(damage, Damage::Shape(_)));
        check("an unknown event", &sealed(&good.replace("Recovered", "Exploded")), |damage| {
            matches!(damage, Damage::Event(_))
        });
        check("data of another event", &sealed(&good.replace("torn_bytes", "why")), |damage| {
            matches!(damage, Damage::Event(_))
        });
    }

    #[test]
    fn a_field_that_a_later_ukai_adds_is_no_damage() {
        let head = r#"{"v":1,"seq":1,"at":"T","event":"Recovered","data":{"torn_bytes":1,"since":2}"#;
        assert!(decode(checksum::seal(head.to_owned()).as_bytes(), 1).is_ok());
    }

    #[test]
    fn what_would_not_read_back_is_not_written() {
        let check = |quirk: &str, event: Event| {
            let refused = encode(&Record { seq: 1, at: at(), event });
            assert!(refused.is_err(), "{quirk}: {refused:?}");
        };
        for used in [f64::NAN, f64::INFINITY] {
            check("a number that JSON has not", Event::LimitWarned { limit: Limit::Cost, used, max: 1.0 });
        }
        let mut deep = serde_json::Value::Null;
        for _ in 0..200 {
            deep = serde_json::json!([deep]);
        }
        let mut event = crate::store::testing::judged("c");
        if let Event::Judged { input, .. } = &mut event {
            input.0.insert("deep".to_owned(), deep);
        }
        check("deeper than the reader goes", event);
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut splitter = Splitter::default();
        let piece = vec![b'x'; RECORD_BYTES_MAX / 4 + 1];
        let fed: Vec<_> = (0..4).map(|_| splitter.feed::<TooLong>(&piece, |_| Ok(()))).collect();
        assert_eq!(fed, [Ok(()), Ok(()), Ok(()), Err(TooLong)]);
    }

    proptest! {
        #[test]
        fn any_text_and_any_number_read_back_as_they_were(
            output in any::<String>(), used in any::<f64>().prop_filter("finite", |number| number.is_finite()), seq in 1..=u64::MAX,
        ) {
            for event in [tool_finished("c", &output), Event::LimitWarned { limit: Limit::Cost, used, max: used }] {
                let record = Record { seq, at: AT.to_owned(), event };
                let line = encode(&record).expect("it can be written");
                prop_assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
                prop_assert_eq!(decode(line.trim_end_matches('\n').as_bytes(), seq), Ok(record));
            }
        }

        #[test]
        fn lines_do_not_depend_on_the_pieces_they_arrive_in(text in "[ab\n]{0,40}", cuts in prop::collection::vec(0..40usize, 0..6)) {
            let bytes = text.as_bytes();
            let mut ends: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let (mut splitter, mut lines, mut begin) = (Splitter::default(), Vec::new(), 0);
            for end in ends {
                splitter.feed::<TooLong>(&bytes[begin..end], |line| { lines.push(line.to_vec()); Ok(()) }).expect("short");
                begin = end;
            }
            let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let torn = expected.pop().map_or(0, |torn| torn.len());
            prop_assert_eq!((lines, splitter.torn()), (expected, torn as u64));
        }
    }
}
