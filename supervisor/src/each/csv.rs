//! A table as a list: the first row names the fields, each row below is a line (RFC 4180).
//!
//! Rows are split by the crate `csv`, and judged here: it forgives a row of another length, drops quotes that stand
//! within a quoted field, and lets one that is never closed make a single job of all lines that follow.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};

use csv::StringRecord;

use super::items::List;
use crate::config::fault::Fault;

pub(super) fn read(text: &str, list: &mut List<'_>) -> Result<(), Fault> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut place = Place { text, at: 0, line: 1 };
    let mut row = StringRecord::new();
    let mut header: Option<Vec<String>> = None;
    loop {
        let before = reader.position().byte() as usize;
        let read = reader.read_record(&mut row);
        let after = reader.position().byte() as usize;
        let start = place.go_to_row(before);
        let line = place.line;
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(list.fault(line, format!("it is no row: {error}"), "correct it there")),
        }
        let written = &text[start..after.max(start)];
        if written.trim().is_empty() {
            continue;
        }
        if let Some(why) = bad_quote(written) {
            return Err(list.fault(line, why, "write a quote within a field in quotes twice"));
        }
        let Some(names) = &header else {
            header = Some(names(&row, line, list)?);
            continue;
        };
        if row.len() != names.len() {
            let why = format!("the header has {} fields, and it has {}", names.len(), row.len());
            return Err(list.fault(line, why, "complete it; a field that holds a comma stands in quotes"));
        }
        let fields: BTreeMap<_, _> = names.iter().cloned().zip(row.iter().map(str::to_owned)).collect();
        list.push(line, fields)?;
    }
}

fn names(header: &StringRecord, line: u64, list: &mut List<'_>) -> Result<Vec<String>, Fault> {
    let mut seen = BTreeSet::new();
    for (at, name) in header.iter().map(str::trim).enumerate() {
        if name.is_empty() {
            let why = format!("the header has no name for field {}", at + 1);
            return Err(list.fault(line, why, "the first row names the fields: give it one"));
        }
        list.field(line, name)?;
        if !seen.insert(name) {
            let why = format!("the header names `{name}` twice");
            return Err(list.fault(line, why, "rename one of them"));
        }
    }
    Ok(header.iter().map(|name| name.trim().to_owned()).collect())
}

/// What is wrong with the quotes of a row as written. In a field that does not begin with one they are text.
fn bad_quote(row: &str) -> Option<&'static str> {
    let mut rest = row.as_bytes();
    loop {
        if let [b'"', quoted @ ..] = rest {
            rest = quoted;
            rest = loop {
                let Some(quote) = rest.iter().position(|byte| *byte == b'"') else {
                    return Some("a quote opens in this row and is never closed");
                };
                match &rest[quote + 1..] {
                    [b'"', behind @ ..] => rest = behind,
                    behind => break behind,
                }
            };
            if !matches!(rest, [] | [b',' | b'\r' | b'\n', ..]) {
                return Some("text follows a closing quote in this row");
            }
        }
        rest = &rest[rest.iter().position(|byte| *byte == b',')? + 1..];
    }
}

/// Where the reader is, in lines: its own count takes the blank ones before a row for a part of it.
struct Place<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl Place<'_> {
    /// Goes to the row that begins at `offset` or behind the line ends there. Its offset is returned.
    fn go_to_row(&mut self, offset: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut start = offset.min(bytes.len());
        while bytes.get(start).is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            start += 1;
        }
        for at in self.at..start {
            // `\r` alone ends a row too.
            let ends = bytes[at] == b'\n' || (bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
            self.line += u64::from(ends);
        }
        self.at = start;
        start
    }
}
