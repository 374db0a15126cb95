//! A tool as its owner declares it (spec §7): one TOML file, one tool.
//!
//! What nobody would see to is an error and never ignored: a key, a word of the schema, an address beyond this machine.

#![deny(clippy::disallowed_methods)]

pub mod read;
mod schema;

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use ukai_protocol::declared::{Declared, DeclaredFlags, Run};

use crate::config::duration::{Millis, show};
use crate::config::fault::{Fault, Format, Source};
use crate::config::url;

pub const NAME_BYTES_MAX: usize = 48;
/// Travels with every request of every job.
pub const DESCRIPTION_CHARS_MAX: usize = 4_000;
/// A program and its arguments.
pub const WORDS_MAX: usize = 64;
const WORD_BYTES_MAX: usize = 4_096;
/// As for a command line of Bash.
const TIMEOUT_MS: u64 = 120_000;
const TIMEOUT_MS_MAX: u64 = 600_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    description: Spanned<String>,
    command: Option<Spanned<Vec<String>>>,
    http: Option<Spanned<String>>,
    timeout: Option<Spanned<Millis>>,
    schema: Option<Spanned<toml::Table>>,
    flags: Option<Spanned<Flags>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flags {
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    concurrency_safe: bool,
    #[serde(default)]
    idempotent: bool,
    #[serde(default)]
    destructive: bool,
    cancels_siblings: Option<bool>,
}

/// `file` is absolute: a program that is named by a path starts at its folder. `home` is what `~/` stands for.
pub fn parse(text: &str, file: &Path, home: Option<&Path>) -> Result<Declared, Fault> {
    let source = Source { file, text, format: Format::Toml };
    let read: File = source.read()?;
    let at = |span: std::ops::Range<usize>| span.start;
    let fault = |offset, key: &str, why: &str, next: &str| Err(source.fault(offset, key, why, next));
    let (name, description) = (read.name.get_ref(), read.description.get_ref().trim());
    if !is_name(name) {
        let why = format!("a tool's name is 1 to {NAME_BYTES_MAX} of a-z, 0-9 and _");
        return Err(source.fault(at(read.name.span()), "name", why, "choose another"));
    }
    if description.is_empty() || description.chars().count() > DESCRIPTION_CHARS_MAX {
        let why = format!("it has 1 to {DESCRIPTION_CHARS_MAX} characters: the model goes by it");
        return Err(source.fault(at(read.description.span()), "description", why, "say what the tool does"));
    }
    let run = match (&read.command, &read.http) {
        (Some(command), None) => Run::Command(
            words(command.get_ref(), file, home)
                .map_err(|(why, next)| source.fault(at(command.span()), "command", why, next))?,
        ),
        (None, Some(http)) => Run::Http(address(http.get_ref()).map_err(|why| {
            source.fault(at(http.span()), "http", why, "write for instance \"http://127.0.0.1:7001/command\"")
        })?),
        (Some(_), Some(http)) => {
            return fault(at(http.span()), "http", "there is a `command`, too", "keep one of the two");
        }
        (None, None) => {
            return Err(source.at_key(
                "name",
                "the tool has neither `command` nor `http`, so nothing would carry it out",
                "write for instance command = [\"./deploy.sh\"]",
            ));
        }
    };
    let timeout_ms = match &read.timeout {
        None => TIMEOUT_MS,
        Some(timeout) if (1..=TIMEOUT_MS_MAX).contains(&timeout.get_ref().0) => timeout.get_ref().0,
        Some(timeout) => {
            let why = format!("it must be from 1ms to {}", show(TIMEOUT_MS_MAX));
            return Err(source.fault(at(timeout.span()), "timeout", why, "choose a time in between"));
        }
    };
    let schema = schema::checked(source, read.schema.as_ref())?;
    let flags_at = read.flags.as_ref().map_or(0, |flags| at(flags.span()));
    let flags = read.flags.map(Spanned::into_inner).unwrap_or_default();
    if flags.read_only && flags.destructive {
        return fault(flags_at, "flags", "what is read_only is not destructive", "keep one of the two");
    }
    Ok(Declared {
        name: name.clone(),
        description: description.to_owned(),
        run,
        timeout_ms,
        schema,
        flags: DeclaredFlags {
            read_only: flags.read_only,
            concurrency_safe: flags.concurrency_safe,
            idempotent: flags.idempotent,
            destructive: flags.destructive,
            cancels_siblings: flags.cancels_siblings.unwrap_or(true),
        },
        file: file.to_owned(),
    })
}

#[must_use]
pub fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(letter)
}

/// A program by its name stays one, to be looked for where commands look; one by a path becomes absolute.
fn words(command: &[String], file: &Path, home: Option<&Path>) -> Result<Vec<String>, (String, String)> {
    let bad = |why: &str, next: &str| Err((why.to_owned(), next.to_owned()));
    let Some((program, args)) = command.split_first().filter(|(program, _)| !program.is_empty()) else {
        return bad("it names no program", "write for instance [\"./deploy.sh\"]");
    };
    if command.len() > WORDS_MAX || command.iter().any(|word| word.len() > WORD_BYTES_MAX || word.contains('\0')) {
        let why = format!("it has at most {WORDS_MAX} words of {WORD_BYTES_MAX} bytes, without NUL");
        return Err((why, "put what is long into a script".to_owned()));
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    let program = match (program.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) => return bad("there is no home folder for `~`", "write an absolute path"),
        (None, _) if program.contains('/') => folder.join(program.strip_prefix("./").unwrap_or(program)),
        (None, _) => return Ok(command.to_vec()),
    };
    let Some(program) = program.to_str() else {
        return bad("the folder that it starts from is not UTF-8", "write the program's name, and put it into PATH");
    };
    Ok([program.to_owned()].into_iter().chain(args.iter().cloned()).collect())
}

/// Only what stays on this machine, whatever a name may resolve to.
fn address(text: &str) -> Result<String, String> {
    let checked = url::check(text).map_err(|why| why.to_string())?;
    if checked.https || !checked.loopback {
        return Err("only http:// on this machine is asked: 127.0.0.0/8, [::1] or localhost".to_owned());
    }
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = authority.rfind(':').map_or("", |at| &authority[at..]);
    let is_named =
        authority.len() >= port.len() && authority[..authority.len() - port.len()].eq_ignore_ascii_case("localhost");
    let authority = if is_named { format!("127.0.0.1{port}") } else { authority.to_owned() };
    Ok(format!("http://{authority}{path}"))
}

#[cfg(test)]
mod tests;
