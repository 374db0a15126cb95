//! What a line's job is called. A value that is no good in a name is made good: a batch of a thousand does not fail for
//! a slash in a label. Nothing depends on it but what people see and type.

#![deny(clippy::disallowed_methods)]

use crate::job_file::{NAME_CHARS_MAX, check_name};

/// The name that a filled-in text makes, or why it makes none.
pub fn made_of(text: &str) -> Result<String, String> {
    let clean: String = text.trim().chars().map(|c| if c == '/' || c.is_control() { '-' } else { c }).collect();
    let name = shortened(clean.trim_start_matches(|c: char| c == '-' || c.is_whitespace()), NAME_CHARS_MAX);
    check_name(&name).map(|()| name)
}

/// For a job that has no name: the job file's and the line's number.
#[must_use]
pub fn numbered(stem: &str, number: u64) -> String {
    let number = format!("-{number}");
    let stem = made_of(stem).unwrap_or_else(|_| "job".to_owned());
    // `j` and a line of eight digits could read like an id; no list is that long.
    shortened(&stem, NAME_CHARS_MAX.saturating_sub(number.len())) + &number
}

fn shortened(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect::<String>().trim_end().to_owned()
}
