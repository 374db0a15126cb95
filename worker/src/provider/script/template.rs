//! Texts with holes, filled from the request: `{{result.Grep | match: "total: (\d+)"}}`.
//!
//! A template engine would bring loops, includes and its weight into every worker; a script needs to take a number or a
//! path out of a result and say it again. Names and filters are checked when the script is loaded; a hole that cannot be
//! filled is an error that names it, never an empty string.

#![deny(clippy::disallowed_methods)]

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::pause;
use crate::provider::wire::clean;

/// What a hole may name. `names()` of a request answers them; the list here is what loading checks against.
const NAMES: [&str; 10] = ["prompt", "model", "system", "step", "wire", "item", "now", "last", "last_user", "tools"];
/// Families: a word, a dot, and what is meant.
const FAMILIES: [&str; 4] = ["result.", "results.", "call.", "header."];

/// Where the holes' values come from. `None`: the request holds nothing of that name.
pub trait Names {
    fn get(&self, name: &str) -> Option<String>;
}

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

/// A hole that could not be filled.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("template {{{{{hole}}}}}: {why}")]
pub struct Unfilled {
    pub hole: String,
    pub why: String,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Hole { source: String, from: Origin, filters: Vec<Filter> },
}

#[derive(Clone, Debug)]
enum Origin {
    Name(String),
    Literal(String),
}

#[derive(Clone, Debug)]
enum Filter {
    Match(Regex),
    Matches(Regex),
    Count(Option<Regex>),
    Sum(Regex),
    Lines(Option<usize>),
    Line(i64),
    Chars(usize),
    Trim,
    Quote,
    Pointer(String),
    Number,
    Json,
    Default(String),
    Plus(std::time::Duration),
    HttpDate,
    Rfc3339,
}

impl Template {
    pub fn render(&self, names: &dyn Names) -> Result<String, Unfilled> {
        let mut out = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole { source, from, filters } => out.push_str(&fill(source, from, filters, names)?),
            }
        }
        Ok(out)
    }

    /// Whether a call of this name may come back under that one: a client has to mend what no wire takes as a name, and
    /// one with holes may say anything.
    pub fn may_return_as(&self, name: &str) -> bool {
        clean::name(&self.source) == name || self.parts.iter().any(|part| matches!(part, Part::Hole { .. }))
    }

    /// As an argument: text, unless the whole template is one hole that ends in `number` or `json`.
    pub fn value(&self, names: &dyn Names) -> Result<Value, Unfilled> {
        let text = self.render(names)?;
        match self.parts.as_slice() {
            [Part::Hole { source, filters, .. }] if matches!(filters.last(), Some(Filter::Number | Filter::Json)) => {
                serde_json::from_str(&text)
                    .map_err(|why| Unfilled { hole: source.clone(), why: format!("'{text}' is no JSON value: {why}") })
            }
            _ => Ok(Value::String(text)),
        }
    }
}

fn fill(source: &str, from: &Origin, filters: &[Filter], names: &dyn Names) -> Result<String, Unfilled> {
    let mut value = match from {
        Origin::Literal(text) => Ok(text.clone()),
        Origin::Name(name) => names.get(name).ok_or_else(|| format!("the request holds no {name}")),
    };
    for filter in filters {
        value = match filter {
            Filter::Default(text) => value.or_else(|_| Ok(text.clone())),
            other => value.and_then(|text| other.apply(text)),
        };
    }
    value.map_err(|why| Unfilled { hole: source.trim().to_owned(), why })
}

impl Filter {
    fn apply(&self, text: String) -> Result<String, String> {
        let kept = || text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
        match self {
            Filter::Match(regex) => {
                first(regex, &text).ok_or_else(|| format!("no match of {regex} in {}", shown(&text)))
            }
            Filter::Matches(regex) => {
                let all: Vec<_> = regex.captures_iter(&text).map(|found| wanted(&found)).collect();
                if all.is_empty() {
                    Err(format!("no match of {regex} in {}", shown(&text)))
                } else {
                    Ok(all.join("\n"))
                }
            }
            Filter::Count(None) => Ok(kept().count().to_string()),
            Filter::Count(Some(regex)) => Ok(regex.find_iter(&text).count().to_string()),
            Filter::Sum(regex) => {
                let mut sum: i64 = 0;
                for found in regex.captures_iter(&text) {
                    let word = wanted(&found);
                    let number: i64 = word.parse().map_err(|_| format!("'{word}' is no whole number to sum"))?;
                    sum = sum.checked_add(number).ok_or("the sum is too large")?;
                }
                Ok(sum.to_string())
            }
            Filter::Lines(most) => {
                let lines: Vec<_> = kept().take(most.unwrap_or(usize::MAX)).collect();
                if lines.is_empty() { Err("there is no line in it".to_owned()) } else { Ok(lines.join("\n")) }
            }
            Filter::Line(n) => {
                let lines: Vec<_> = kept().collect();
                let from_end = || lines.len().checked_sub(n.unsigned_abs() as usize);
                let at = if *n > 0 { Some(*n as usize - 1) } else { from_end() };
                at.and_then(|at| lines.get(at))
                    .map(|line| (*line).to_owned())
                    .ok_or_else(|| format!("there is no line {n} among {}", lines.len()))
            }
            Filter::Chars(most) => Ok(text.chars().take(*most).collect()),
            Filter::Trim => Ok(text.trim().to_owned()),
            Filter::Quote => Ok(Value::String(text).to_string()),
            Filter::Pointer(pointer) => {
                let value: Value =
                    serde_json::from_str(&text).map_err(|why| format!("{} is no JSON: {why}", shown(&text)))?;
                match value.pointer(pointer) {
                    None => Err(format!("there is nothing at '{pointer}'")),
                    Some(Value::String(text)) => Ok(text.clone()),
                    Some(other) => Ok(other.to_string()),
                }
            }
            Filter::Number => {
                let word = text.trim();
                match serde_json::from_str::<serde_json::Number>(word) {
                    Ok(number) => Ok(number.to_string()),
                    Err(_) => Err(format!("{} is no number", shown(word))),
                }
            }
            Filter::Json => match serde_json::from_str::<Value>(&text) {
                Ok(value) => Ok(value.to_string()),
                Err(why) => Err(format!("{} is no JSON: {why}", shown(&text))),
            },
            Filter::Plus(more) => Ok((seconds(&text)? + more.as_secs_f64()).to_string()),
            Filter::HttpDate => {
                let since = std::time::Duration::try_from_secs_f64(seconds(&text)?).map_err(|why| why.to_string())?;
                Ok(httpdate::fmt_http_date(std::time::UNIX_EPOCH + since))
            }
            Filter::Rfc3339 => {
                let at = jiff::Timestamp::from_millisecond((seconds(&text)? * 1000.0) as i64);
                at.map(|at| at.to_string()).map_err(|why| why.to_string())
            }
            Filter::Default(_) => Ok(text),
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{} is no instant in seconds", shown(text)))
}

fn first(regex: &Regex, text: &str) -> Option<String> {
    regex.captures(text).map(|found| wanted(&found))
}

/// The first group that took part; without groups, the whole match.
fn wanted(found: &regex::Captures<'_>) -> String {
    found.iter().skip(1).flatten().next().or_else(|| found.get(0)).map_or_else(String::new, |m| m.as_str().to_owned())
}

fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    format!("'{}'", text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = source.as_str();
        while let Some(start) = rest.find("{{") {
            if start > 0 {
                parts.push(Part::Text(rest[..start].to_owned()));
            }
            let inside = &rest[start + 2..];
            let end = hole_end(inside).ok_or_else(|| format!("'{{{{{}' is never closed by '}}}}'", shown(inside)))?;
            parts.push(hole(&inside[..end])?);
            rest = &inside[end + 2..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Template { source, parts })
    }
}

/// Where the hole's `}}` is; one inside quotes does not count.
fn hole_end(text: &str) -> Option<usize> {
    pieces(text, &mut |rest, _| rest.starts_with("}}")).first().copied()
}

/// The byte places, outside quotes, at which `is` holds.
fn pieces(text: &str, is: &mut dyn FnMut(&str, char) -> bool) -> Vec<usize> {
    let (mut quote, mut escaped, mut found) = (None, false, Vec::new());
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if is(&text[at..], c) => found.push(at),
            None => {}
        }
    }
    found
}

fn hole(source: &str) -> Result<Part, String> {
    let mut words = Vec::new();
    let mut start = 0;
    for bar in pieces(source, &mut |_, c| c == '|') {
        words.push(source[start..bar].trim());
        start = bar + 1;
    }
    words.push(source[start..].trim());
    let (name, filters) = words.split_first().map_or(("", &[][..]), |(name, filters)| (*name, filters));
    let from = match unquote(name)? {
        Some(text) => Origin::Literal(text),
        None if NAMES.contains(&name) => Origin::Name(name.to_owned()),
        None if FAMILIES.iter().any(|family| name.len() > family.len() && name.starts_with(family)) => {
            Origin::Name(name.to_owned())
        }
        None => {
            return Err(format!(
                "template {{{{{source}}}}}: '{name}' is no name; there are {}, and {}…",
                NAMES.join(", "),
                FAMILIES.join("…, ")
            ));
        }
    };
    let filters = filters.iter().map(|word| filter(word).map_err(|why| format!("template {{{{{source}}}}}: {why}")));
    Ok(Part::Hole { source: source.trim().to_owned(), from, filters: filters.collect::<Result<_, _>>()? })
}

fn filter(word: &str) -> Result<Filter, String> {
    let (name, argument) = match word.split_once(':') {
        Some((name, argument)) => (name.trim(), Some(argument.trim())),
        None => (word, None),
    };
    let text = || -> Result<String, String> {
        let argument = argument.ok_or_else(|| format!("the filter '{name}' needs an argument: {name}: \"…\""))?;
        unquote(argument)?.ok_or_else(|| format!("the argument of '{name}' must stand in quotes"))
    };
    let regex = || Regex::new(&text()?).map_err(|why| format!("the pattern of '{name}': {why}"));
    let number = |argument: &str| {
        argument.parse::<i64>().map_err(|_| format!("the argument of '{name}' is a whole number, not '{argument}'"))
    };
    let count = |argument: &str| {
        usize::try_from(number(argument)?).map_err(|_| format!("the argument of '{name}' is zero or more"))
    };
    let bare = |filter: Filter| match argument {
        None => Ok(filter),
        Some(_) => Err(format!("the filter '{name}' takes no argument")),
    };
    match name {
        "match" => Ok(Filter::Match(regex()?)),
        "matches" => Ok(Filter::Matches(regex()?)),
        "count" => Ok(Filter::Count(argument.map(|_| regex()).transpose()?)),
        "sum" => Ok(Filter::Sum(regex()?)),
        "lines" => Ok(Filter::Lines(argument.map(count).transpose()?)),
        "line" => match number(argument.unwrap_or_default())? {
            0 => Err("lines count from 1 (or from -1, the last)".to_owned()),
            n => Ok(Filter::Line(n)),
        },
        "chars" => Ok(Filter::Chars(count(argument.unwrap_or_default())?)),
        "trim" => bare(Filter::Trim),
        "quote" => bare(Filter::Quote),
        "pointer" => Ok(Filter::Pointer(text()?)),
        "number" => bare(Filter::Number),
        "json" => bare(Filter::Json),
        "default" => Ok(Filter::Default(text()?)),
        "plus" => Ok(Filter::Plus(pause::parse(&text()?)?)),
        "http_date" => bare(Filter::HttpDate),
        "rfc3339" => bare(Filter::Rfc3339),
        _ => Err(format!(
            "'{name}' is no filter; there are match, matches, count, sum, lines, line, chars, trim, quote, pointer, \
             number, json, default, plus, http_date, rfc3339"
        )),
    }
}

/// The text between quotes, if it stands in quotes. Only the quote itself is escaped, so that patterns read as patterns.
fn unquote(word: &str) -> Result<Option<String>, String> {
    let Some(quote) = word.chars().next().filter(|c| *c == '"' || *c == '\'') else { return Ok(None) };
    let inner = word[1..].strip_suffix(quote).ok_or_else(|| format!("the text {word} is not closed"))?;
    Ok(Some(inner.replace(&format!("\\{quote}"), &quote.to_string())))
}

#[cfg(test)]
mod tests;
