//! The rule that allows a call and its like: as a flag for one that nobody was there to be asked about, and as a rule that a
//! person who was asked keeps.
//!
//! No narrower than a person would type it: the folder of a file, a command as it stands. What cannot be put into a rule
//! without meaning more than itself is named by its tool alone.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Component, Path};

use ukai_protocol::command::word_of;
use ukai_protocol::control::DeniedCall;
use ukai_protocol::json::Json;
use ukai_protocol::policy::{Source, split_rule};

/// What a person still reads in one line.
const COMMAND_CHARS_MAX: usize = 120;

/// `--allow 'Edit(src/**)'`, as one types it in a shell. None: no rule would allow it.
#[must_use]
pub fn flag(denied: &DeniedCall, workdir: Option<&Path>) -> Option<String> {
    let tool = denied.tool.as_str();
    if denied.source != Source::NoOneToAsk || !matches!(split_rule(tool), Ok((_, None))) {
        return None;
    }
    if !denied.missing.is_empty() {
        let flags: Vec<_> = denied.missing.iter().map(|rule| format!("--allow {}", word_of(rule))).collect();
        return Some(flags.join(" "));
    }
    let text = |key: &str| denied.input.0.get(key).and_then(|value| value.as_str());
    let spec = match tool {
        "Read" | "Edit" | "Write" => text("file_path").and_then(|path| place(path, workdir)),
        "Bash" => text("command").filter(|command| is_plain(command)).map(str::to_owned),
        _ => None,
    };
    // A rule on Edit governs both.
    let tool = if tool == "Write" { "Edit" } else { tool };
    let rule = spec.map_or_else(|| tool.to_owned(), |spec| format!("{tool}({spec})"));
    Some(format!("--allow {}", word_of(&rule)))
}

/// The rule that a person keeps for good, in a file that holds for every folder: so it names the folder. None: it cannot be
/// put into a rule that allows no more than the like of this call.
#[must_use]
pub fn standing(tool: &str, input: &Json, workdir: Option<&Path>) -> Option<String> {
    let text = |key: &str| input.0.get(key).and_then(|value| value.as_str());
    match tool {
        "Bash" => text("command").filter(|command| is_plain(command)).map(|command| format!("Bash({command})")),
        "Read" | "Edit" | "Write" => {
            let below = names_of(text("file_path")?, workdir)?.join("/");
            let workdir = workdir?.to_str().filter(|folder| folder.split('/').all(is_plain_name))?;
            let tool = if tool == "Write" { "Edit" } else { tool };
            Some(format!("{tool}(/{workdir}/{below})"))
        }
        "Glob" | "Grep" => None,
        // Of a tool that somebody declared, or of a server, there is nothing narrower.
        _ => matches!(split_rule(tool), Ok((_, None))).then(|| tool.to_owned()),
    }
}

/// Those of many calls, each once, in the order of their first call.
#[must_use]
pub fn flags<'a>(denied: impl IntoIterator<Item = &'a DeniedCall>, workdir: Option<&Path>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    denied.into_iter().filter_map(|call| flag(call, workdir)).filter(|flag| seen.insert(flag.clone())).collect()
}

/// Everything below the folder of the file; a file of the job's own folder by itself.
fn place(path: &str, workdir: Option<&Path>) -> Option<String> {
    let mut names = names_of(path, workdir)?;
    let file = names.pop()?;
    Some(if names.is_empty() { file.to_owned() } else { format!("{}/**", names.join("/")) })
}

/// The way to a file from the job's folder.
fn names_of<'a>(path: &'a str, workdir: Option<&Path>) -> Option<Vec<&'a str>> {
    let path = Path::new(path);
    let below = match path.is_absolute() {
        true => path.strip_prefix(workdir?).ok()?,
        false => path,
    };
    let mut names = Vec::new();
    for component in below.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().filter(|name| is_plain_name(name))?),
            _ => return None,
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Without a character that means something in a pattern.
fn is_plain_name(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || " ._-+@,=".contains(c))
}

/// One command of plain words, and nothing that the shell would make another of: a rule is held against words, and never
/// against a line of shell or the variables before a command.
fn is_plain(command: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || " ._-+@,=/:%^".contains(c);
    let sets = command.split(' ').find(|word| !word.is_empty()).is_none_or(|word| word.contains('='));
    !sets && command.chars().count() <= COMMAND_CHARS_MAX && command.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_good_names_its_folder_and_is_never_a_whole_tool_of_ours() {
        for (tool, key, value, expected) in [
            ("Edit", "file_path", "src/lib.rs", Some("Edit(//work/src/lib.rs)")),
            ("Write", "file_path", "/work/notes.txt", Some("Edit(//work/notes.txt)")),
            ("Edit", "file_path", "/elsewhere/notes.txt", None),
            ("Edit", "file_path", "../notes.txt", None),
            ("Edit", "file_path", "a[b]/c", None),
            ("Bash", "command", "cargo test -q", Some("Bash(cargo test -q)")),
            ("Bash", "command", "rm *", None),
            ("Bash", "command", "echo a >> b", None),
            ("Bash", "command", "a; b", None),
            ("Bash", "command", "a \"b c\"", None),
            ("Grep", "pattern", "x", None),
            ("deploy", "to", "x", Some("deploy")),
            ("mcp__files__put", "to", "x", Some("mcp__files__put")),
        ] {
            let input = serde_json::from_str(&serde_json::json!({ key: value }).to_string()).expect("an object");
            assert_eq!(standing(tool, &input, Some(Path::new("/work"))).as_deref(), expected, "{tool} {value}");
        }
    }

    #[test]
    fn what_would_allow_it_can_be_typed_as_it_stands() {
        for (tool, key, value, expected) in [
            ("Edit", "file_path", "src/lib.rs", Some("--allow 'Edit(src/**)'")),
            ("Write", "file_path", "./src/a b/lib.rs", Some("--allow 'Edit(src/a b/**)'")),
            ("Write", "file_path", "/work/src/lib.rs", Some("--allow 'Edit(src/**)'")),
            ("Edit", "file_path", "notes.txt", Some("--allow 'Edit(notes.txt)'")),
            ("Edit", "file_path", "../notes.txt", Some("--allow Edit")),
            ("Edit", "file_path", "/elsewhere/notes.txt", Some("--allow Edit")),
            ("Edit", "file_path", "a[b]/c", Some("--allow Edit")),
            ("Bash", "command", "cargo test -q", Some("--allow 'Bash(cargo test -q)'")),
            ("Bash", "command", "echo 'it'", Some("--allow Bash")),
            ("Bash", "command", "cargo test | tail", Some("--allow Bash")),
            ("Bash", "command", "cd x && make", Some("--allow Bash")),
            ("Bash", "command", "CI=1 make", Some("--allow Bash")),
            ("Bash", "command", " ", Some("--allow Bash")),
            ("Bash", "command", "ls *", Some("--allow Bash")),
            ("Bash", "command", "a\nb", Some("--allow Bash")),
            ("mcp__files__put", "file_path", "a", Some("--allow mcp__files__put")),
            ("no tool)", "a", "b", None),
        ] {
            let json = serde_json::json!({ key: value }).to_string();
            let input = serde_json::from_str(&json).expect("an object");
            let denied = DeniedCall { tool: tool.to_owned(), input, source: Source::NoOneToAsk, missing: Vec::new() };
            assert_eq!(flag(&denied, Some(Path::new("/work"))).as_deref(), expected, "{tool} {value}");
            let by_ukai = DeniedCall { source: Source::Default, ..denied };
            assert_eq!(flag(&by_ukai, None), None, "no rule opens what ukai itself refuses");
        }
    }
}
