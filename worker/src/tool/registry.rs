//! The tools there are: what the model is told of them, what an input must look like, and how a call may be run.
//!
//! The list is closed and sorted, and the definitions are built the same way each time, because a provider's cache of
//! the prompt lives only while these bytes stay the same.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value, json};
use ukai_protocol::json::Json;

use super::bash::TIMEOUT_MS_MAX;
use crate::provider::wire::Definition;

/// What a call may do, said by its tool for its very input. Nothing is assumed: all false unless known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It changes nothing.
    pub read_only: bool,
    /// It may run beside other calls.
    pub concurrency_safe: bool,
    /// Running it twice is the same as once.
    pub idempotent: bool,
    pub destructive: bool,
    /// Its failure cancels the rest of its batch.
    pub cancels_siblings: bool,
}

/// The tools that can be run, sorted.
const BUILT: [&str; 8] = ["Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "Read", "Write"];

/// Names of the vocabulary (spec §7) that rules may speak of, and that no model is offered yet.
const NAMED: [&str; 2] = ["Agent", "Note"];

/// How many nearest names an unknown one is answered with.
const NEAREST_MAX: usize = 3;

#[must_use]
pub fn is_built(tool: &str) -> bool {
    BUILT.contains(&tool)
}

/// Whether permission has an opinion on this name, built or not.
#[must_use]
pub fn is_known(tool: &str) -> bool {
    is_built(tool) || NAMED.contains(&tool)
}

/// `None` for what cannot be run.
#[must_use]
pub fn flags(tool: &str, _input: &Json) -> Option<Flags> {
    match tool {
        // What a command does is not known here, and what follows it may count on it.
        "Bash" => Some(Flags { cancels_siblings: true, ..Flags::default() }),
        // What was told once is not told again.
        "BashOutput" => Some(Flags { read_only: true, ..Flags::default() }),
        "KillShell" => Some(Flags { idempotent: true, destructive: true, ..Flags::default() }),
        // What it replaces is gone, and the same again leaves the same.
        "Write" => Some(Flags { idempotent: true, destructive: true, ..Flags::default() }),
        // It takes away what it names and no more; again, it may find nothing, or what it put there itself.
        "Edit" => Some(Flags::default()),
        _ if is_built(tool) => {
            Some(Flags { read_only: true, concurrency_safe: true, idempotent: true, ..Flags::default() })
        }
        _ => None,
    }
}

/// The built names nearest to one that does not exist, best first, for the answer to the model.
#[must_use]
pub fn nearest(name: &str) -> Vec<&'static str> {
    let lower = name.to_lowercase();
    let mut names = BUILT;
    let distance = |tool: &str| strsim::damerau_levenshtein(&lower, &tool.to_lowercase());
    names.sort_by_key(|tool| distance(tool));
    names.into_iter().take(NEAREST_MAX).collect()
}

/// The tools that are offered, sorted by name, the same to the byte each time.
#[must_use]
pub fn definitions(hidden: impl Fn(&str) -> bool) -> Vec<Definition> {
    BUILT.into_iter().filter(|name| !hidden(name)).map(define).collect()
}

fn define(name: &'static str) -> Definition {
    let description = match name {
        "Read" => {
            "Reads a text file and returns its lines, each after its number and a tab. Returns up to 2,000 lines from \
             `offset` (the first line is 1); says where to go on when there is more. Only regular files below the \
             folders that this job may read."
        }
        "Bash" => {
            "Runs a command line with bash in the working folder; each call begins there anew. Returns what it wrote to \
             stdout and stderr, and its exit code where that is not 0. Nothing can be typed into it. It may write below the \
             working folder and in $TMPDIR, and as a rule reaches no network. Up to 30,000 characters are shown, the rest is \
             kept in a file. With `run_in_background` it returns at once: see BashOutput and KillShell. Whatever still runs \
             is ended with the job."
        }
        "BashOutput" => {
            "Returns what a command in the background has said since the last look at it, and whether it still runs. \
             `filter` keeps only the lines that match a regular expression; the others are gone all the same."
        }
        "KillShell" => "Ends a command in the background, with all that it started.",
        "Write" => {
            "Writes a text file: creates it, with the folders that it needs, or replaces all of its contents. A file that \
             exists must have been read here before, and not have changed since. Its mode and line ends are kept. To \
             change a part of a file, use Edit."
        }
        "Edit" => {
            "Replaces `old_string` by `new_string` in a text file that has been read here before. `old_string` must be \
             the text exactly as it stands in the file, blanks included and without the line numbers of Read, and stand \
             there once; with `replace_all` every occurrence is replaced. An empty `old_string` creates a file. Returns \
             the lines around the change."
        }
        "Glob" => {
            "Lists the files whose path matches a glob pattern, sorted, relative to the working folder. `*` stays within \
             a folder, `**/` crosses folders, `{a,b}` is a choice: `**/*.rs`. Hidden files are listed; `.git` and what \
             git ignores are not, unless `path` names an ignored folder."
        }
        _ => {
            "Searches the contents of files with a regular expression (Rust syntax). output_mode `content` gives \
             path:line:text, `files_with_matches` (the default) the paths, `count` the number of matching lines per \
             file; the last line is the total. Hidden files are searched; `.git`, binary files and what git ignores are \
             not, unless `path` names an ignored folder. With `multiline` a match may span lines and `.` matches a line \
             end."
        }
    };
    let (properties, required): (Map<String, Value>, Vec<&str>) = (
        parameters(name).iter().map(|parameter| (parameter.name.to_owned(), parameter.schema())).collect(),
        parameters(name).iter().filter(|parameter| parameter.required).map(|parameter| parameter.name).collect(),
    );
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    Definition { name: name.to_owned(), description: description.to_owned(), schema }
}

/// One key of an input.
#[derive(Clone, Copy)]
struct Parameter {
    name: &'static str,
    kind: Kind,
    required: bool,
    about: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A whole number from 1.
    Count,
    /// And up to this one.
    CountTo(u64),
    Flag,
    OneOf(&'static [&'static str]),
}

const fn must(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, required: true, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, required: false, about }
}

const READ: &[Parameter] = &[
    must("file_path", Kind::Text, "The file, absolute or relative to the working folder"),
    may("offset", Kind::Count, "The first line to return; 1 is the first of the file"),
    may("limit", Kind::Count, "How many lines to return at most"),
];
const BASH: &[Parameter] = &[
    must("command", Kind::Text, "The command line"),
    may("description", Kind::Text, "What it does, in a few words"),
    may(
        "timeout",
        Kind::CountTo(TIMEOUT_MS_MAX),
        "After how many milliseconds it is ended: 120000 if absent, at most 600000; what takes longer runs in the background",
    ),
    may("run_in_background", Kind::Flag, "Return at once and let it run"),
];
const BASH_OUTPUT: &[Parameter] = &[
    must("bash_id", Kind::Text, "The id that Bash returned"),
    may("filter", Kind::Text, "Return only the lines that match this regular expression"),
];
const KILL_SHELL: &[Parameter] = &[must("shell_id", Kind::Text, "The id that Bash returned")];
const WRITE: &[Parameter] = &[
    must("file_path", Kind::Text, "The file, absolute or relative to the working folder"),
    must("content", Kind::Text, "All that the file is to hold"),
];
const EDIT: &[Parameter] = &[
    must("file_path", Kind::Text, "The file, absolute or relative to the working folder"),
    must("old_string", Kind::Text, "The text to replace"),
    must("new_string", Kind::Text, "The text to put in its place"),
    may("replace_all", Kind::Flag, "Replace every occurrence"),
];
const GLOB: &[Parameter] = &[
    must("pattern", Kind::Text, "The glob pattern, relative to `path`"),
    may("path", Kind::Text, "The folder to look in; the working folder if absent"),
];
const GREP: &[Parameter] = &[
    must("pattern", Kind::Text, "The regular expression"),
    may("path", Kind::Text, "The file or folder to search; the working folder if absent"),
    may("glob", Kind::Text, "Only files whose path matches, such as `*.rs` or `src/**/*.{c,h}`"),
    may("output_mode", Kind::OneOf(&["content", "files_with_matches", "count"]), "What to return"),
    may("-i", Kind::Flag, "Ignore case"),
    may("multiline", Kind::Flag, "Let a match span lines"),
];

fn parameters(tool: &str) -> &'static [Parameter] {
    match tool {
        "Read" => READ,
        "Bash" => BASH,
        "BashOutput" => BASH_OUTPUT,
        "KillShell" => KILL_SHELL,
        "Write" => WRITE,
        "Edit" => EDIT,
        "Glob" => GLOB,
        "Grep" => GREP,
        _ => &[],
    }
}

impl Parameter {
    fn schema(&self) -> Value {
        let about = self.about;
        match self.kind {
            Kind::Text => json!({"type": "string", "description": about}),
            Kind::Count => json!({"type": "integer", "minimum": 1, "description": about}),
            Kind::CountTo(max) => json!({"type": "integer", "minimum": 1, "maximum": max, "description": about}),
            Kind::Flag => json!({"type": "boolean", "description": about}),
            Kind::OneOf(values) => json!({"type": "string", "enum": values, "description": about}),
        }
    }

    /// What is wrong with this value, if anything is.
    fn fault(&self, value: &Value) -> Option<String> {
        let name = self.name;
        match self.kind {
            Kind::Text => match value.as_str() {
                None => Some(format!("`{name}` must be a string, not {}", kind_of(value))),
                Some(text) if text.contains('\0') => Some(format!("`{name}` holds a NUL character")),
                Some(text) if self.required && matches!(name, "file_path" | "command") && text.trim().is_empty() => {
                    Some(format!("`{name}` is empty"))
                }
                Some(_) => None,
            },
            Kind::Count => match value.as_u64() {
                Some(1..) => None,
                _ => Some(format!("`{name}` must be a whole number from 1, not {value}")),
            },
            Kind::CountTo(max) => match value.as_u64() {
                Some(count) if (1..=max).contains(&count) => None,
                _ => Some(format!("`{name}` must be a whole number from 1 to {max}, not {value}")),
            },
            Kind::Flag if value.is_boolean() => None,
            Kind::Flag => Some(format!("`{name}` must be true or false, not {}", kind_of(value))),
            Kind::OneOf(values) if value.as_str().is_some_and(|text| values.contains(&text)) => None,
            Kind::OneOf(values) => Some(format!("`{name}` must be one of {}, not {value}", values.join(", "))),
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What is wrong with an input, in words for the model. Nothing is guessed: a call with a fault is not run.
pub fn validate(tool: &str, input: &Json) -> Result<(), String> {
    let parameters = parameters(tool);
    let mut faults = Vec::new();
    for parameter in parameters {
        match input.0.get(parameter.name) {
            None if parameter.required => faults.push(format!("`{}` is missing", parameter.name)),
            None => {}
            Some(value) => faults.extend(parameter.fault(value)),
        }
    }
    for key in input.0.keys().filter(|key| !parameters.iter().any(|parameter| parameter.name == **key)) {
        faults.push(format!("there is no `{}`", key.escape_debug()));
    }
    if faults.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    Err(format!("{tool} was not run: {}. Its parameters are {}.", faults.join("; "), keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Json {
        Json(serde_json::from_str(text).expect("test data"))
    }

    #[test]
    fn definitions_are_sorted_and_the_same_each_time() {
        let text = || format!("{:?}", definitions(|_| false));
        assert_eq!(text(), text());
        let names: Vec<String> = definitions(|_| false).into_iter().map(|definition| definition.name).collect();
        assert_eq!(names, ["Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "Read", "Write"]);
        assert_eq!(definitions(|name| name == "Grep").len(), 7);
    }

    #[test]
    fn the_schema_names_the_keys_that_hooks_expect() {
        for (tool, keys) in [
            ("Bash", &["command", "description", "run_in_background", "timeout"][..]),
            ("BashOutput", &["bash_id", "filter"]),
            ("Edit", &["file_path", "new_string", "old_string", "replace_all"]),
            ("Glob", &["path", "pattern"]),
            ("Grep", &["-i", "glob", "multiline", "output_mode", "path", "pattern"]),
            ("KillShell", &["shell_id"]),
            ("Read", &["file_path", "limit", "offset"]),
            ("Write", &["content", "file_path"]),
        ] {
            let schema = define(tool).schema;
            let mut found: Vec<String> = schema["properties"].as_object().expect("an object").keys().cloned().collect();
            found.sort();
            assert_eq!(found, keys, "{tool}");
        }
    }

    #[test]
    fn a_faulty_input_is_named_and_never_guessed() {
        for (tool, input, fault) in [
            ("Read", r#"{}"#, Some("`file_path` is missing")),
            ("Read", r#"{"file_path":3}"#, Some("must be a string, not a number")),
            ("Read", r#"{"file_path":"a\u0000"}"#, Some("NUL")),
            ("Read", r#"{"file_path":""}"#, Some("empty")),
            ("Read", r#"{"file_path":"a","offset":0}"#, Some("from 1, not 0")),
            ("Read", r#"{"file_path":"a","offset":"1"}"#, Some("from 1, not \"1\"")),
            ("Read", r#"{"file_path":"a","limit":1.5}"#, Some("from 1, not 1.5")),
            ("Read", r#"{"file_path":"a","path":"b"}"#, Some("there is no `path`")),
            ("Read", r#"{"file_path":"a","offset":1,"limit":5}"#, None),
            ("Bash", r#"{"command":"ls","timeout":99999999}"#, Some("from 1 to 600000, not 99999999")),
            ("Bash", r#"{"command":"ls","timeout":0,"run_in_background":true}"#, Some("from 1 to 600000, not 0")),
            ("Bash", r#"{"command":"ls","timeout":600000}"#, None),
            ("Grep", r#"{"pattern":"x","output_mode":"lines"}"#, Some("one of content")),
            ("Grep", r#"{"pattern":"x","-i":"yes"}"#, Some("true or false")),
            (
                "Grep",
                r#"{"pattern":"x","-i":true,"multiline":false,"glob":"*","path":".","output_mode":"count"}"#,
                None,
            ),
            ("Glob", r#"{"path":"x"}"#, Some("`pattern` is missing")),
            ("Write", r#"{"file_path":"a"}"#, Some("`content` is missing")),
            ("Write", r#"{"file_path":"a","content":"a\u0000b"}"#, Some("NUL")),
            ("Write", r#"{"file_path":"","content":""}"#, Some("`file_path` is empty")),
            ("Write", r#"{"file_path":"a","content":""}"#, None),
            ("Edit", r#"{"file_path":"a","old_string":"x"}"#, Some("`new_string` is missing")),
            ("Edit", r#"{"file_path":"a","old_string":"","new_string":"x","replace_all":1}"#, Some("true or false")),
            ("Edit", r#"{"file_path":"a","old_string":"","new_string":"","replace_all":true}"#, None),
        ] {
            let found = validate(tool, &object(input));
            match fault {
                None => assert_eq!(found, Ok(()), "{input}"),
                Some(fault) => assert!(found.as_ref().is_err_and(|why| why.contains(fault)), "{input}: {found:?}"),
            }
        }
    }

    #[test]
    fn an_unknown_name_finds_its_neighbours() {
        assert_eq!(nearest("read_file").first(), Some(&"Read"));
        assert_eq!(nearest("grep").first(), Some(&"Grep"));
        assert_eq!(nearest("globb").first(), Some(&"Glob"));
    }

    #[test]
    fn only_what_is_built_has_flags() {
        let input = Json::default();
        assert!(flags("Read", &input).is_some_and(|flags| flags.read_only && flags.concurrency_safe));
        assert!(flags("Bash", &input).is_some_and(|flags| !flags.read_only && flags.cancels_siblings));
        assert_eq!(flags("Agent", &input), None);
        let write = Flags { idempotent: true, destructive: true, ..Flags::default() };
        assert_eq!((flags("Write", &input), flags("Edit", &input)), (Some(write), Some(Flags::default())));
        assert!(is_known("Bash") && !is_known("Foo"));
    }
}
