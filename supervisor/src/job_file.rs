//! A job as written in a file (spec §2): TOML, YAML or JSON, the same keys in each.
//!
//! A key whose feature is not in this version is an error that says so. Ignoring it would run another job than the one
//! that was asked for: without its check, before what it waits for.

#![deny(clippy::disallowed_methods)]

pub mod env;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{ContextStrategy, Mode};

use crate::config::fault::{Fault, Format, Source, nearest};
use crate::config::limits::LimitSet;
use crate::each::fill::has_fields;

/// A prompt is one message; a larger text belongs into a file that the job reads.
pub const PROMPT_BYTES_MAX: usize = 1024 * 1024;
/// Names stand in tables, branches and file names.
pub const NAME_CHARS_MAX: usize = 64;
pub const PRIORITY_MAX: u8 = 9;
pub const PRIORITY_DEFAULT: u8 = 5;

/// What a file says, checked; flags may still replace any of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFile {
    pub name: Option<String>,
    pub prompt: Option<String>,
    /// As written: a relative one starts at the file's folder.
    pub workdir: Option<PathBuf>,
    /// As written; see [`env`].
    pub env: Vec<String>,
    pub mode: Option<Mode>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub needs_tools: Option<bool>,
    /// As written, like `workdir`.
    pub policy: Option<PathBuf>,
    pub context: Option<ContextStrategy>,
    pub window: Option<u64>,
    pub priority: Option<u8>,
    pub worktree: Option<bool>,
    /// As written, like `workdir`.
    pub hooks: Option<PathBuf>,
    pub limits: LimitSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    name: Option<String>,
    prompt: Option<String>,
    workdir: Option<PathBuf>,
    #[serde(default)]
    env: Vec<String>,
    mode: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    needs_tools: Option<bool>,
    policy: Option<PathBuf>,
    context: Option<String>,
    window: Option<u64>,
    priority: Option<u8>,
    worktree: Option<bool>,
    hooks: Option<PathBuf>,
    #[serde(default)]
    limits: LimitSet,
    // Of later versions.
    #[serde(default)]
    after: Vec<String>,
    result_schema: Option<IgnoredAny>,
    graph: Option<IgnoredAny>,
    verify: Option<IgnoredAny>,
    mcp: Option<IgnoredAny>,
}

/// How a job file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is the job: `{{…}}` in it is text like any other.
    Out,
    /// A list fills its fields. What holds a field is checked when it has been filled.
    AsTemplate,
}

impl Written {
    /// Whether this text is all that the job will have there.
    #[must_use]
    pub fn whole(self, text: &str) -> bool {
        self == Written::Out || !has_fields(text)
    }
}

pub fn parse(text: &str, file: &Path, format: Format, written: Written) -> Result<JobFile, Fault> {
    let source = Source { file, text, format };
    let keys: Keys = source.read()?;
    let later = [
        ("after", !keys.after.is_empty()),
        ("result_schema", keys.result_schema.is_some()),
        ("graph", keys.graph.is_some()),
        ("verify", keys.verify.is_some()),
        ("mcp", keys.mcp.is_some()),
    ];
    if let Some((key, _)) = later.iter().find(|(_, asked)| *asked) {
        return Err(source.at_key(key, "it is not in this version", "take it out"));
    }
    let bad = |key, (why, next): (String, String)| source.at_key(key, why, next);
    let mode = keys.mode.as_deref().map(mode).transpose().map_err(|words| bad("mode", words))?;
    let context = keys.context.as_deref().map(context).transpose().map_err(|words| bad("context", words))?;
    if let Some(name) = keys.name.as_deref().filter(|name| written.whole(name)) {
        check_name(name).map_err(|why| bad("name", (why, "choose another".to_owned())))?;
    }
    if let Some(prompt) = keys.prompt.as_deref().filter(|prompt| written.whole(prompt)) {
        check_prompt(prompt).map_err(|why| bad("prompt", (why, "say what is to be done".to_owned())))?;
    }
    if keys.env.iter().all(|entry| written.whole(entry)) {
        env::check(&keys.env).map_err(|words| bad("env", words))?;
    }
    if keys.window == Some(0) {
        return Err(source.at_key("window", "0 tokens hold nothing", "take it out, or give its tokens"));
    }
    if keys.priority.is_some_and(|priority| priority > PRIORITY_MAX) {
        return Err(source.at_key("priority", "it must be from 0 to 9", "9 goes first"));
    }
    Ok(JobFile {
        name: keys.name,
        prompt: keys.prompt,
        workdir: keys.workdir,
        env: keys.env,
        mode,
        provider: keys.provider,
        model: keys.model,
        needs_tools: keys.needs_tools,
        policy: keys.policy,
        context,
        window: keys.window,
        priority: keys.priority,
        worktree: keys.worktree,
        hooks: keys.hooks,
        limits: keys.limits,
    })
}

/// Why it is none, and what to do.
pub fn mode(word: &str) -> Result<Mode, (String, String)> {
    match word {
        "once" => Ok(Mode::Once),
        "loop" => Ok(Mode::Loop),
        "graph" => Err(("graph is not in this version".to_owned(), "write once or loop".to_owned())),
        other => Err((format!("there is no mode `{other}`"), or_nearest(other, &["once", "loop"]))),
    }
}

fn context(word: &str) -> Result<ContextStrategy, (String, String)> {
    match word {
        "keep_all" => Ok(ContextStrategy::KeepAll),
        "recent" | "fold" | "fold_notes" | "compact" => {
            Err((format!("{word} is not in this version"), "write keep_all, or take it out".to_owned()))
        }
        other => Err((format!("there is no context strategy `{other}`"), or_nearest(other, &["keep_all"]))),
    }
}

fn or_nearest(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write {}", known.join(" or ")),
    }
}

pub fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(format!("a name has 1 to {NAME_CHARS_MAX} characters"));
    }
    if name.starts_with('-') || name.chars().any(|c| c.is_control() || c == '/') {
        return Err("a name neither begins with `-` nor holds `/` or control characters".to_owned());
    }
    if name.parse::<JobId>().is_ok() || name.parse::<BatchId>().is_ok() {
        return Err("it looks like the id of a job or a batch".to_owned());
    }
    Ok(())
}

pub fn check_prompt(prompt: &str) -> Result<(), String> {
    if prompt.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if prompt.len() > PROMPT_BYTES_MAX {
        return Err(format!("it is longer than {PROMPT_BYTES_MAX} bytes; let the job read a file instead"));
    }
    Ok(())
}

/// A name for who gave none: the first words of the prompt.
#[must_use]
pub fn name_from_prompt(prompt: &str) -> String {
    const WORDS: usize = 4;
    const CHARS_MAX: usize = 32;
    let words = prompt.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(WORDS);
    let mut name = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    name.truncate(CHARS_MAX);
    let name = name.trim_end_matches('-');
    // Two words of a prompt can happen to read like an id.
    if check_name(name).is_ok() { name.to_owned() } else { "job".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, text: &str) -> Result<JobFile, String> {
        let file = Path::new("/j").join(name);
        let format = Format::of(&file).expect("a known extension");
        parse(text, &file, format, Written::Out).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_three_formats_say_the_same() {
        let toml = "name = \"a\"\nprompt = \"p\"\nmode = \"once\"\npriority = 7\nenv = [\"CI\"]\nworktree = false\n[limits]\nsteps = 3\nrun_time = \"5s\"\n";
        let yaml = "name: a\nprompt: p\nmode: once\npriority: 7\nenv: [CI]\nworktree: false\nlimits:\n  steps: 3\n  run_time: 5s\n";
        let json = r#"{"name": "a", "prompt": "p", "mode": "once", "priority": 7, "env": ["CI"], "worktree": false,
            "limits": {"steps": 3, "run_time": "5s"}}"#;
        let job = parsed("a.toml", toml).expect("TOML");
        assert_eq!((job.mode, job.priority, job.limits.steps), (Some(Mode::Once), Some(7), Some(3)));
        assert_eq!(job.limits.run_time.map(|time| time.0), Some(5_000));
        assert_eq!(job.env, ["CI"]);
        assert_eq!(parsed("a.yaml", yaml).as_ref(), Ok(&job));
        assert_eq!(parsed("a.json", json).as_ref(), Ok(&job));
    }

    #[test]
    fn each_mistake_names_its_place() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("a.toml", "promt = \"x\"\n", &["/j/a.toml, line 1", "`promt`", "did you mean `prompt`"]),
            ("a.yaml", "name: a\npromt: x\n", &["/j/a.yaml, line 2", "`promt`", "did you mean `prompt`"]),
            (
                "a.json",
                "{\n \"name\": \"a\",\n \"promt\": \"x\"\n}",
                &["/j/a.json, line 3", "`promt`", "did you mean `prompt`"],
            ),
            ("a.toml", "prompt = 3\n", &["line 1", "`prompt`", "invalid type"]),
            ("a.yaml", "name: a\npriority: high\n", &["line 2", "`priority`"]),
            ("a.json", "{\n \"priority\": \"high\"\n}", &["line 2", "`priority`", "invalid type"]),
            ("a.toml", "[limits]\nstpes = 1\n", &["line 2", "`stpes`", "did you mean `steps`"]),
            ("a.json", "{\"limits\": {\n\"stpes\": 1}}", &["line 2", "`stpes`", "did you mean `steps`"]),
            ("a.yaml", "limits:\n  run_time: soon\n", &["line 2", "`run_time`", "no duration"]),
            ("a.toml", "prompt = \" \"\n", &["line 1", "`prompt`", "empty"]),
            ("a.toml", "name = \"j-abcdefgh\"\n", &["`name`", "id of a job"]),
            ("a.toml", "name = \"-x\"\n", &["`name`", "begins with"]),
            ("a.toml", "priority = 10\n", &["`priority`", "0 to 9"]),
            ("a.toml", "window = 0\n", &["`window`"]),
            ("a.toml", "mode = \"loup\"\n", &["`mode`", "no mode `loup`", "did you mean `loop`"]),
            ("a.toml", "mode = \"graph\"\n", &["`mode`", "not in this version"]),
            ("a.toml", "context = \"fold_notes\"\n", &["`context`", "fold_notes is not in this version"]),
            ("a.toml", "context = \"x\"\n", &["`context`", "no context strategy `x`"]),
            ("a.toml", "\nworktree = 1\n", &["line 2", "expected a boolean"]),
            ("a.toml", "after = [\"b\"]\n", &["`after`", "not in this version"]),
            ("a.toml", "\nenv = [\"CI\", \"A-B=1\"]\n", &["line 2", "`env`", "entry 2 is neither", "a NAME is"]),
            ("a.yaml", "env: [A, A=1]\n", &["line 1", "`env`", "A stands in it twice"]),
            ("a.json", "{\"env\": \"CI\"}", &["`env`", "invalid type"]),
            ("a.toml", "env = [\"{{a}}=1\"]\n", &["`env`", "entry 1 is neither"]),
            ("a.toml", "name = \"{{a/b}}\"\n", &["`name`", "nor holds `/`"]),
            ("a.toml", "name = \"b-abcdefgh\"\n", &["`name`", "id of a job or a batch"]),
            ("a.toml", "hooks = 3\n", &["line 1", "`hooks`", "invalid type"]),
            ("a.toml", "result_schema = \"s.json\"\n", &["`result_schema`", "not in this version"]),
            ("a.toml", "graph = \"g.toml\"\n", &["`graph`", "not in this version"]),
            ("a.toml", "name = \"a\"\n[verify]\ncommand = [\"x\"]\n", &["line 2", "`verify`", "not in this version"]),
            ("a.toml", "[[mcp]]\nname = \"x\"\n", &["line 1", "`mcp`", "not in this version"]),
            ("a.yaml", "verify: {command: [x]}\n", &["line 1", "`verify`", "not in this version"]),
            ("a.json", "{", &["/j/a.json, line 1"]),
        ];
        for (name, text, parts) in cases {
            let error = parsed(name, text).expect_err(text);
            for part in *parts {
                assert!(error.contains(part), "{text}\n{error}\nlacks {part}");
            }
        }
    }

    #[test]
    fn a_template_is_checked_where_it_has_no_fields() {
        let check = |text: &str| parse(text, Path::new("/j/a.toml"), Format::Toml, Written::AsTemplate);
        let long = format!("name = \"{{{{{}}}}}\"\n", "f".repeat(NAME_CHARS_MAX));
        for text in [
            &*long,
            "name = \"-{{a/b}}\"\nworkdir = \"{{line}}\"\nprompt = \"{{line}}\"\n",
            "env = [\"{{a}}\", \"{{b}}=1\", \"CI={{a}}\"]\n",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        for (text, part) in [
            ("name = \"a/{{}}\"\n", "nor holds `/`"),
            ("prompt = \"\"\n", "empty"),
            ("env = [\"A-B\"]\n", "entry 1"),
            ("priority = \"{{a}}\"\n", "invalid type"),
        ] {
            let error = check(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_prompt_names_its_job() {
        for (prompt, name) in [
            ("Fix the failing test, please!", "fix-the-failing-test"),
            ("鵜飼", "job"),
            ("j abcdefgh", "job"),
            ("---", "job"),
            ("antidisestablishmentarianism antidisestablishmentarianism", "antidisestablishmentarianism-ant"),
        ] {
            assert_eq!(name_from_prompt(prompt), name);
        }
    }
}
