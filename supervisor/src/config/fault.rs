//! What is wrong with a file that a person wrote: which file, line and key, why, and what to do.
//!
//! The three formats that we read report their errors differently. Here they become one kind of sentence, and never
//! one that quotes the line: a key pasted into the wrong place would go to the terminal and into every log.

#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::path::{Path, PathBuf};

/// Below this likeness (0 to 1) a suggestion confuses more than it helps.
const JARO_WINKLER_MIN: f64 = 0.7;
const EDITS_MIN: f64 = 0.6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: PathBuf,
    /// From 1.
    pub line: Option<usize>,
    pub key: Option<String>,
    pub why: String,
    pub next: String,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", key `{key}`")?;
        }
        write!(f, ": {}", self.why)?;
        if !self.next.is_empty() {
            write!(f, "; {}", self.next)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Toml,
    Yaml,
    Json,
}

impl Format {
    /// By the file's extension.
    #[must_use]
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "toml" => Some(Format::Toml),
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// A text that is being read, so that a place in it can be named.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    pub format: Format,
}

impl<'a> Source<'a> {
    /// Reads it as `T`; what the reader has to say becomes a [`Fault`].
    pub fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Fault> {
        match self.format {
            Format::Toml => toml::from_str(self.text)
                .map_err(|error| self.of_reader(error.message(), error.span().map(|span| span.start))),
            Format::Yaml => {
                let options = serde_saphyr::options! { with_snippet: false };
                serde_saphyr::from_str_with_options(self.text, options).map_err(|error| {
                    let at = error.location();
                    let offset = at.map(|at| self.offset(at.line() as usize, at.column() as usize));
                    match error.without_snippet() {
                        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                            self.unknown(field.clone(), expected, offset)
                        }
                        error => self.of_reader(&without_place(&error.to_string()), offset),
                    }
                })
            }
            Format::Json => serde_json::from_str(self.text).map_err(|error| {
                let offset = self.offset(error.line(), error.column());
                self.of_reader(&without_place(&error.to_string()), Some(offset))
            }),
        }
    }

    /// A fault at a byte offset, under a key that we know.
    #[must_use]
    pub fn fault(self, offset: usize, key: &str, why: impl Into<String>, next: impl Into<String>) -> Fault {
        Fault {
            file: self.file.to_owned(),
            line: Some(self.line(offset)),
            key: Some(key.to_owned()),
            why: why.into(),
            next: next.into(),
        }
    }

    /// A fault under a key of the top level, wherever it stands.
    #[must_use]
    pub fn at_key(self, key: &str, why: impl Into<String>, next: impl Into<String>) -> Fault {
        let line = self.text.lines().position(|line| {
            let line = line.trim_start_matches([' ', '\t', '{', ',', '[', '"']);
            line.strip_prefix(key).is_some_and(|rest| !rest.starts_with(is_key_char))
        });
        let (file, key) = (self.file.to_owned(), Some(key.to_owned()));
        Fault { file, line: line.map(|at| at + 1), key, why: why.into(), next: next.into() }
    }

    fn of_reader(self, message: &str, offset: Option<usize>) -> Fault {
        if let Some((key, known)) = unknown_field(message) {
            return self.unknown(key, &known, offset);
        }
        let key = offset.and_then(|offset| self.key_at(offset).or_else(|| self.key_before(offset)));
        // Readers may go on in further lines with a picture of the place; one line is enough.
        let mut why = message.lines().next().unwrap_or_default().trim().to_owned();
        if let Some(id) = offset.and_then(|offset| self.provider_around(offset)) {
            why = format!("in the [[provider]] `{id}`: {why}");
        }
        let line = offset.map(|offset| self.line(offset));
        Fault { file: self.file.to_owned(), line, key, why, next: "correct it there".to_owned() }
    }

    fn unknown(self, key: String, known: &[impl AsRef<str>], offset: Option<usize>) -> Fault {
        let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
        let next = match nearest(&key, known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        // A reader of JSON stops somewhere behind the key: the last line up to there that names it is meant.
        let upto = offset.map(|offset| self.line(offset));
        let lines = self.text.lines().enumerate().take(upto.unwrap_or(usize::MAX));
        let named = lines.filter(|(_, line)| self.format == Format::Json && line_names(line, &key)).last();
        let line = named.map(|(at, _)| at + 1).or(upto);
        Fault { file: self.file.to_owned(), line, key: Some(key), why: "there is no such key".to_owned(), next }
    }

    fn line(self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn offset(self, line: usize, column: usize) -> usize {
        let start: usize = self.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        (start + column.saturating_sub(1)).min(self.text.len())
    }

    /// The key that `offset` itself is at: TOML points there when a key stands twice.
    fn key_at(self, offset: usize) -> Option<String> {
        let rest = self.text.get(offset..).filter(|_| self.format == Format::Toml)?;
        let key: String = rest.chars().take_while(|c| is_key_char(*c)).collect();
        let assigned = rest[key.len()..].trim_start().starts_with('=');
        (assigned && !key.is_empty()).then_some(key)
    }

    /// Which of several `[[provider]]` a place is in, by its id.
    fn provider_around(self, offset: usize) -> Option<&'a str> {
        let head = self.text.get(..offset).filter(|_| self.format == Format::Toml)?;
        let start = head.rfind("[[provider]]")?;
        if head[start + 2..].contains("\n[") {
            return None;
        }
        let table = self.text[start + 2..].split("\n[").next()?;
        let id = table.lines().find_map(|line| line.trim().strip_prefix("id")?.trim_start().strip_prefix('='))?;
        id.trim().strip_prefix('"')?.split('"').next()
    }

    /// The last key that stands before `offset`: the value that is wrong is its value.
    fn key_before(self, offset: usize) -> Option<String> {
        let mark = if self.format == Format::Toml { '=' } else { ':' };
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let head = &self.text[..end];
        head.match_indices(mark).filter_map(|(at, _)| last_word(&head[..at])).next_back().map(str::to_owned)
    }
}

/// The word that a text ends in, quotes and blanks aside.
fn last_word(text: &str) -> Option<&str> {
    let text = text.trim_end().trim_end_matches('"');
    let start = text.rfind(|c: char| !is_key_char(c)).map_or(0, |at| at + 1);
    text.get(start..).filter(|word| !word.is_empty())
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn line_names(line: &str, key: &str) -> bool {
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + key.len()..].trim_start_matches('"').trim_start().chars().next();
        !before.is_some_and(is_key_char) && after == Some(':')
    })
}

/// serde words it alike for every format: ``unknown field `x`, expected one of `a`, `b` ``.
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let mut words = message.lines().next()?.split("unknown field `").nth(1)?.split('`');
    let key = words.next()?.to_owned();
    Some((key, words.skip(1).step_by(2).map(str::to_owned).collect()))
}

/// The readers of YAML and JSON put the place into the sentence; we have it in front.
fn without_place(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line = match line.find(" at line ") {
        Some(at) => &line[..at],
        None => line,
    };
    match line.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, rest)) => rest.to_owned(),
        None => line.to_owned(),
    }
}

/// The known word most like `word`, if any is like it at all. Jaro-Winkler is right about long words with a common
/// beginning, the edit distance about short ones with two letters swapped.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known| (strsim::jaro_winkler(word, known), strsim::normalized_damerau_levenshtein(word, known));
    let alike = known.map(|known| (likeness(known), known));
    let alike = alike.filter(|((letters, edits), _)| *letters >= JARO_WINKLER_MIN || *edits >= EDITS_MIN);
    alike.max_by(|(a, _), (b, _)| (a.0 + a.1).total_cmp(&(b.0 + b.1))).map(|(_, known)| known)
}
