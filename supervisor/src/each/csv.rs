//! A table as a list: the first row names the fields, each row below is a line (RFC 4180).
//!
//! Rows are split by the crate `csv`, and judged here: it forgives a row of another length and a quote that is never
//! closed, which would make one job of all lines that follow.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use csv::StringRecord;

use super::items::List;
use crate::config::fault::Fault;

/// Read behind the text: a row that reaches into it has an open quote.
const END: &str = "\nend";

pub(super) fn read(text: &str, list: &mut List<'_>) -> Result<(), Fault> {
    let source = text.as_bytes().chain(END.as_bytes());
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source);
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
            Ok(true) if start < text.len() => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(list.fault(line, format!("it is no row: {error}"), "correct it there")),
        }
        if after > text.len() + "\n".len() {
            return Err(list.fault(line, "a quote opens in this row and is never closed", "close it, or double it"));
        }
        if text[start..after.min(text.len())].trim().is_empty() {
            continue;
        }
        let Some(names) = &header else {
            header = Some(names(&row, line, list)?);
            continue;
        };
        if row.len() != names.len() {
            let why = format!("it has {} fields, and the header names {}", row.len(), names.len());
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
