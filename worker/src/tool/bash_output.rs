//! BashOutput: what a command in the background has said since the last look, and whether it still runs.

use regex::Regex;
use ukai_protocol::json::Json;

use super::background::{News, Over};
use super::bash::named;
use super::output::counted;
use super::{Context, Stopped, text};
use crate::host::words::Exit;

/// A pattern may not become a program of its own.
const FILTER_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let id = text(input, "bash_id").unwrap_or_default();
    let filter = text(input, "filter").map(|pattern| {
        regex::RegexBuilder::new(pattern).size_limit(FILTER_BYTES_MAX).build().map_err(|error| {
            Stopped::Invalid(format!("The filter is no regular expression: {error}. Nothing was read."))
        })
    });
    let filter: Option<Regex> = filter.transpose()?;
    let shell = context.shells.find(id).map_err(Stopped::Invalid)?;
    let News { text, lost, over } = shell.news();
    let mut sink = context.sink("BashOutput");
    if lost > 0 {
        let lost = counted(lost, "byte");
        sink.push(&format!("[lost before this: {lost}; it said more than is kept between two looks]\n"));
    }
    for line in text.split_inclusive('\n') {
        if filter.as_ref().is_none_or(|filter| filter.is_match(line.trim_end_matches('\n'))) {
            sink.push(line);
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        sink.push("\n");
    }
    Ok(format!("{}[{}]\n", sink.finish(), how_it_stands(over.as_ref())))
}

pub(super) fn how_it_stands(over: Option<&Over>) -> String {
    match over {
        None => "it is running".to_owned(),
        Some(Over::Exited(Exit::Code(code))) => format!("it has ended: exit code {code}"),
        Some(Over::Exited(Exit::Signal(signal))) => format!("it was ended by {}", named(*signal)),
        Some(Over::Killed) => "it was ended".to_owned(),
        Some(Over::Lost(why)) => format!("what became of it is not known: {why}"),
    }
}
