//! What a list says: its lines, and of each line the fields that a job may be filled with.
//!
//! The ending of its name tells how it is read, not its content: a list of texts may well look like a table. A list is
//! taken as a whole or not at all, since a line that was passed over would be a job that nobody misses in time.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{csv, jsonl};
use crate::config::fault::Fault;

/// As many as the queue of a server holds: a longer list could not be queued in one piece.
pub const ITEMS_MAX: usize = 10_000;
/// A list is read whole: 6 KiB for each line of the longest one.
pub const ITEMS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Names stand in templates and errors. A longer one is a line of data where the header should be.
pub const FIELD_CHARS_MAX: usize = 100;
/// Every line holds every field in memory: with [`ITEMS_MAX`] lines, a few hundred megabytes.
pub const FIELDS_MAX: usize = 256;

/// The one field of a line in a list of texts.
const LINE: &str = "line";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    pub file: PathBuf,
    /// All that any line has, as they come up.
    pub fields: Vec<String>,
    /// At least one.
    pub lines: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Of the line in the file that it begins in, from 1.
    pub number: u64,
    pub fields: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each line is a text, whole.
    Txt,
    /// The first row names the fields (RFC 4180).
    Csv,
    /// Each line is a JSON object.
    Jsonl,
}

impl Kind {
    /// By the ending of its name.
    pub fn of(file: &Path) -> Result<Self, Fault> {
        let ending = file.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("txt") => Ok(Kind::Txt),
            Some("csv") => Ok(Kind::Csv),
            Some("jsonl" | "ndjson") => Ok(Kind::Jsonl),
            _ => Err(fault(
                file,
                None,
                "its name ends in none of .txt (a text per line), .csv (with a header), .jsonl or .ndjson (a JSON object \
                 per line)",
                "rename it",
            )),
        }
    }
}

pub fn parse(bytes: &[u8], file: &Path) -> Result<Items, Fault> {
    let kind = Kind::of(file)?;
    if bytes.len() > ITEMS_BYTES_MAX {
        let why = format!("it is longer than {ITEMS_BYTES_MAX} bytes");
        return Err(fault(file, None, why, "split it, or let its lines name files that the jobs read"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(fault(file, Some(line as u64), "it is not UTF-8 text", "save the list as UTF-8"));
        }
    };
    let mut list = List { file, fields: Vec::new(), lines: Vec::new() };
    match kind {
        Kind::Txt => list.txt(text)?,
        Kind::Csv => csv::read(text, &mut list)?,
        Kind::Jsonl => jsonl::read(text, &mut list)?,
    }
    if list.lines.is_empty() {
        let what = if kind == Kind::Csv { "it has no lines below its header" } else { "it has no lines" };
        return Err(fault(file, None, what, "each line that is not blank becomes a job: write some"));
    }
    Ok(Items { file: file.to_owned(), fields: list.fields, lines: list.lines })
}

/// A list as far as it has been read.
pub(super) struct List<'a> {
    file: &'a Path,
    fields: Vec<String>,
    lines: Vec<Item>,
}

impl List<'_> {
    pub(super) fn fault(&self, line: u64, why: impl Into<String>, next: impl Into<String>) -> Fault {
        fault(self.file, Some(line), why, next)
    }

    pub(super) fn field(&mut self, line: u64, name: &str) -> Result<(), Fault> {
        if self.fields.iter().any(|known| known == name) {
            return Ok(());
        }
        if name.chars().count() > FIELD_CHARS_MAX {
            let why = format!("the name of a field is longer than {FIELD_CHARS_MAX} characters");
            return Err(self.fault(line, why, "shorten it; does the list lack its header?"));
        }
        if self.fields.len() == FIELDS_MAX {
            return Err(self.fault(line, format!("there are more than {FIELDS_MAX} fields"), "take some out"));
        }
        self.fields.push(name.to_owned());
        Ok(())
    }

    pub(super) fn push(&mut self, number: u64, fields: BTreeMap<String, String>) -> Result<(), Fault> {
        if self.lines.len() == ITEMS_MAX {
            let why = format!("there are more than {ITEMS_MAX} lines, as many as a queue holds");
            return Err(self.fault(number, why, "split the list"));
        }
        self.lines.push(Item { number, fields });
        Ok(())
    }

    fn txt(&mut self, text: &str) -> Result<(), Fault> {
        self.field(1, LINE)?;
        for (number, line) in lines(text) {
            self.push(number, BTreeMap::from([(LINE.to_owned(), line.to_owned())]))?;
        }
        Ok(())
    }
}

/// Those that are not blank, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

fn fault(file: &Path, line: Option<u64>, why: impl Into<String>, next: impl Into<String>) -> Fault {
    // A text that is in memory has no more lines than a usize counts.
    let line = line.and_then(|line| usize::try_from(line).ok());
    Fault { file: file.to_owned(), line, key: None, why: why.into(), next: next.into() }
}

#[cfg(test)]
mod tests;
