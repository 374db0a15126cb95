//! What a command line may run, read before any of it runs (spec §8).
//!
//! A reading lists every simple command that may run, wherever it stands: in lists, pipelines, loops, functions,
//! substitutions, here-documents that expand, and inside wrappers such as `env`, `xargs` or `bash -c`. Whatever is not
//! understood for certain makes the reading *opaque*: it then lists what was found so far, and nobody may conclude that
//! it is all. Two parsers have to agree: ours, which decodes words, and tree-sitter's grammar of bash (`agree`).
//!
//! Values are followed where the line itself sets them (`value`); what else a variable holds is marked as unknown, and
//! whoever judges it has to take it for anything.

#![deny(clippy::disallowed_methods)]

mod agree;
mod builtin;
pub mod environment;
mod flow;
pub mod git;
mod parse;
pub mod value;
pub mod word;
mod wrapper;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flow::State;
use parse::{Node, Parser};
use value::{Sources, Values};
use word::Word;

/// Bytes of a command line. What is longer is data, and belongs into a file.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Compound commands, substitutions and wrappers within one another: the parser recurses this deep.
pub const DEPTH_MAX: usize = 32;
/// Simple commands of one reading.
pub const COMMANDS_MAX: usize = 256;

/// What the reading has to know of the place where it will run.
pub struct Surroundings<'a> {
    pub home: &'a str,
    /// The job's own folder for temporary files, as commands find it in `TMPDIR`.
    pub temp: Option<&'a str>,
    /// Where the values of its expansions come from.
    pub sources: Sources,
    /// Names that are arrays somewhere: who sets one of them as a whole sets its first element.
    pub arrays: RefCell<BTreeSet<String>>,
    /// It defines functions, which run where they are called.
    pub functions: Cell<bool>,
}

/// The places of a job.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub workdir: &'a Path,
    pub home: &'a Path,
    /// `None`: it has no folder for temporary files that is known.
    pub temp: Option<&'a Path>,
}

#[derive(Debug, Default)]
pub struct Reading {
    pub commands: Vec<Simple>,
    /// Why there may be more than `commands` says; none: it is all.
    pub opaque: Option<&'static str>,
}

/// A simple command that may run.
#[derive(Clone, Debug, Default)]
pub struct Simple {
    /// `NAME=value` before it, by an `env` around it too.
    pub assigns: Vec<(String, Word)>,
    /// Empty for redirects of a compound command, or where only variables are set.
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    pub input: Input,
    /// The folders that it may run in, absolute.
    pub dirs: Vec<PathBuf>,
    /// A wrapper that only passes on what it is given: what is inside is judged in its place too.
    pub wraps: bool,
    /// What variables hold where it runs.
    pub values: Rc<Values>,
}

pub use parse::Redirect;

/// What a command may read on its stdin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// That of the whole call: `/dev/null`.
    #[default]
    Nothing,
    Text(Word),
    Unknown,
}

impl Simple {
    /// The program's name as written, if it is known.
    #[must_use]
    pub fn program(&self) -> Option<String> {
        self.words.first()?.literal()
    }

    /// The last part of the program's path.
    #[must_use]
    pub fn base(&self) -> Option<String> {
        let program = self.program()?;
        Some(program.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
impl Job<'_> {
    pub fn example() -> Self {
        Job { workdir: Path::new("/w"), home: Path::new("/h"), temp: Some(Path::new("/t")) }
    }
}

/// Reads one command line of a job.
#[must_use]
pub fn read(text: &str, job: &Job<'_>) -> Reading {
    let (Some(home), Some(_)) = (job.home.to_str(), job.workdir.to_str()) else {
        return Reading { opaque: Some("the folders of this job are no text"), ..Reading::default() };
    };
    let temp = job.temp.and_then(Path::to_str);
    let (sources, functions) = (Sources::default(), Cell::new(false));
    let around = Surroundings { home, temp, sources, arrays: RefCell::default(), functions };
    let mut reading = Reading::default();
    let begun = State::new(vec![job.workdir.to_owned()], Values::default());
    nested(text, &around, &begun, &Input::Nothing, 0, &mut reading);
    reading
}

/// The tree of a text. `depth` counts the texts within texts.
fn tree(text: &str, around: &Surroundings<'_>, depth: usize, reading: &mut Reading) -> Option<Node> {
    let doubt = if text.len() > TEXT_BYTES_MAX {
        Some("it is too long")
    } else if depth > DEPTH_MAX {
        Some("it is nested too deeply")
    } else if text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || is_mark(c)) {
        Some("it holds a character that a command line should not")
    } else {
        None
    };
    if doubt.is_some() {
        reading.opaque = reading.opaque.or(doubt);
        return None;
    }
    let mut parser = Parser::new(text, around, depth);
    let found = parser.program();
    let doubt = parser.doubt.or_else(|| found.as_ref().err().copied());
    reading.opaque = reading.opaque.or(doubt);
    let node = found.ok()?;
    if doubt.is_none() && !agree::agree(text, &parser.hidden, &parser.starts) {
        reading.opaque = reading.opaque.or(Some("two readings of it differ"));
    }
    Some(node)
}

/// Adds what the text of a shell of its own runs to a reading.
fn nested(text: &str, around: &Surroundings<'_>, begun: &State, input: &Input, depth: usize, reading: &mut Reading) {
    let Some(node) = tree(text, around, depth, reading) else { return };
    let from = reading.commands.len();
    flow::flatten(&node, begun, input, around, depth, reading);
    let mut at = from;
    while at < reading.commands.len() {
        let outer = reading.commands[at].clone();
        let inside = wrapper::inside(&outer);
        reading.commands[at].wraps = inside.wraps;
        reading.opaque = reading.opaque.or(inside.doubt);
        for (assigns, words) in inside.lines {
            let input = if inside.passes_input { outer.input.clone() } else { Input::Unknown };
            let (dirs, values) = (outer.dirs.clone(), outer.values.clone());
            reading.commands.push(Simple { assigns, words, input, dirs, values, ..Simple::default() });
        }
        for script in inside.scripts {
            let values = inherited(&outer, &inside.arguments);
            let begun = State::new(outer.dirs.clone(), values);
            nested(&script, around, &begun, &Input::Unknown, depth + 1, reading);
        }
        if reading.commands.len() > COMMANDS_MAX {
            reading.opaque = reading.opaque.or(Some("it holds too many commands"));
            return;
        }
        at += 1;
    }
}

/// What variables hold in a shell that a command starts: what is handed to it, and perhaps what was set before.
fn inherited(outer: &Simple, arguments: &[Word]) -> Values {
    let mut values = outer.values.guessed();
    for (name, value) in &outer.assigns {
        values.set(name, vec![vec![value.clone()]]);
    }
    values.arguments(arguments);
    values
}

/// Characters that stand for what is not known where words are compared: no text may hold them.
#[must_use]
pub fn is_mark(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests;
