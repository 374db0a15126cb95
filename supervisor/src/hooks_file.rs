//! Hooks as their owner writes them: `[hooks]` of `ukai.toml`, or the `hooks` of a settings.json as Claude Code reads it.
//! The same shape in both. All of it is checked here: a guard with a slip in its name would guard nothing.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use ukai_protocol::hook::{HOOK_TIMEOUT_MS, Hook, HookPoint};

use crate::config::fault::{Fault, Format, Source};

/// Of one file. Each of them may hold up every call of a job.
pub const HOOKS_MAX: usize = 64;
/// A longer line belongs into a script.
const COMMAND_BYTES_MAX: usize = 8 * 1024;
/// Seconds. Nobody waits longer for a verdict.
const TIMEOUT_MAX: f64 = 3_600.0;

/// What stands under `hooks`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "PascalCase")]
pub struct Table {
    session_start: Vec<Group>,
    user_prompt_submit: Vec<Group>,
    pre_tool_use: Vec<Group>,
    permission_request: Vec<Group>,
    post_tool_use: Vec<Group>,
    post_tool_use_failure: Vec<Group>,
    pre_compact: Vec<Group>,
    notification: Vec<Group>,
    stop: Vec<Group>,
    session_end: Vec<Group>,
}

/// What is run for what matches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default)]
    matcher: Matcher,
    hooks: Vec<Command>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Command {
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "checked: there is one kind")]
    kind: Kind,
    command: Line,
    #[serde(default)]
    timeout: Timeout,
    #[serde(default)]
    on_failure: OnFailure,
    /// What a terminal shows meanwhile; there is none.
    #[serde(default)]
    #[expect(dead_code, reason = "known, and without a meaning here")]
    status_message: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Command,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum OnFailure {
    /// Where it decides beforehand.
    #[default]
    Block,
    Continue,
}

#[derive(Debug, Default)]
struct Matcher(String);

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        if written.trim() != "*"
            && let Err(error) = regex::Regex::new(&written)
        {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let what =
                "the matcher is neither a name, a list `A|B`, `*`, nor a regular expression that is understood here";
            return Err(D::Error::custom(format!("{what} ({why})")));
        }
        Ok(Matcher(written))
    }
}

#[derive(Debug)]
struct Line(String);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = String::deserialize(deserializer)?;
        if line.trim().is_empty() {
            return Err(D::Error::custom("there is nothing to run"));
        }
        if line.len() > COMMAND_BYTES_MAX || line.contains('\0') {
            let why = format!("it is longer than {COMMAND_BYTES_MAX} bytes, or holds a NUL: put it into a script");
            return Err(D::Error::custom(why));
        }
        Ok(Line(line))
    }
}

#[derive(Debug)]
struct Timeout(u64);

impl Default for Timeout {
    fn default() -> Self {
        Timeout(HOOK_TIMEOUT_MS)
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.001..=TIMEOUT_MAX).contains(&seconds) {
            return Err(D::Error::custom(format!("a timeout is in seconds, more than 0 and at most {TIMEOUT_MAX}")));
        }
        Ok(Timeout((seconds * 1_000.0) as u64))
    }
}

impl Table {
    /// By the point at which they run, then in the order in which they are written.
    pub fn hooks(self, source: Source<'_>) -> Result<Vec<Hook>, Fault> {
        let hooks: Vec<Hook> = HookPoint::ALL.into_iter().zip(self.groups()).flat_map(of_point).collect();
        if hooks.len() > HOOKS_MAX {
            let why = format!("there are {}, and {HOOKS_MAX} is the most", hooks.len());
            return Err(source.at_key("hooks", why, "take some out, or let one script do what several do"));
        }
        Ok(hooks)
    }

    /// In the order of [`HookPoint::ALL`].
    fn groups(self) -> [Vec<Group>; 10] {
        [
            self.session_start,
            self.user_prompt_submit,
            self.pre_tool_use,
            self.permission_request,
            self.post_tool_use,
            self.post_tool_use_failure,
            self.pre_compact,
            self.notification,
            self.stop,
            self.session_end,
        ]
    }
}

fn of_point((on, groups): (HookPoint, Vec<Group>)) -> impl Iterator<Item = Hook> {
    groups.into_iter().flat_map(move |Group { matcher: Matcher(matcher), hooks }| {
        hooks.into_iter().map(move |hook| Hook {
            on,
            matcher: matcher.clone(),
            command: hook.command.0,
            timeout_ms: hook.timeout.0,
            fails_open: hook.on_failure == OnFailure::Continue,
        })
    })
}

/// The `[hooks]` of a `ukai.toml`, whatever else stands in it.
pub fn of_toml(text: &str, file: &Path) -> Result<Vec<Hook>, Fault> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        hooks: Table,
    }
    let source = Source { file, text, format: Format::Toml };
    source.read::<Config>()?.hooks.hooks(source)
}

/// A settings.json: its hooks, and the keys of it that have no meaning here.
pub fn of_settings(text: &str, file: &Path) -> Result<(Vec<Hook>, Vec<String>), Fault> {
    #[derive(Deserialize)]
    struct Settings {
        hooks: Option<Table>,
    }
    let source = Source { file, text, format: Format::Json };
    let all: serde_json::Map<String, serde_json::Value> = source.read()?;
    let settings: Settings = source.read()?;
    let Some(table) = settings.hooks else {
        return Err(source.at_key("hooks", "there are none in it", "name the settings.json that has them"));
    };
    let ignored = all.into_iter().map(|(key, _)| key).filter(|key| key != "hooks").collect();
    Ok((table.hooks(source)?, ignored))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<(Vec<Hook>, Vec<String>), String> {
        of_settings(text, Path::new("/h/settings.json")).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_settings_file_says_what_a_toml_table_says() {
        let json = r#"{
            "permissions": {"allow": ["Bash"]},
            "model": "opus",
            "hooks": {
                "Stop": [{"hooks": [{"type": "command", "command": "./done.sh"}]}],
                "PreToolUse": [
                    {"matcher": "Bash|Edit", "hooks": [
                        {"type": "command", "command": "a", "timeout": 5, "onFailure": "continue", "statusMessage": "…"},
                        {"type": "command", "command": "b", "timeout": 0.5}
                    ]}
                ]
            }
        }"#;
        let (hooks, ignored) = settings(json).expect("it loads");
        assert_eq!(ignored.len(), 2, "{ignored:?}");
        let hook = |on, matcher: &str, command: &str, timeout_ms, fails_open| Hook {
            on,
            matcher: matcher.to_owned(),
            command: command.to_owned(),
            timeout_ms,
            fails_open,
        };
        let expected = [
            hook(HookPoint::PreToolUse, "Bash|Edit", "a", 5_000, true),
            hook(HookPoint::PreToolUse, "Bash|Edit", "b", 500, false),
            hook(HookPoint::Stop, "", "./done.sh", 60_000, false),
        ];
        assert_eq!(hooks, expected);
        let toml = r#"
            [[PreToolUse]]
            matcher = "Bash|Edit"
            hooks = [
                {type = "command", command = "a", timeout = 5, onFailure = "continue"},
                {type = "command", command = "b", timeout = 0.5},
            ]
            [[Stop]]
            hooks = [{type = "command", command = "./done.sh"}]
        "#;
        let source = Source { file: Path::new("/h/ukai.toml"), text: toml, format: Format::Toml };
        assert_eq!(source.read::<Table>().and_then(|table| table.hooks(source)), Ok(hooks));
    }

    #[test]
    fn each_slip_names_its_place() {
        let hook = |inner: &str| format!("{{\"hooks\": {{\"PreToolUse\": [{{\n\"hooks\": [{{{inner}}}]}}]}}}}");
        let matcher = |text: &str| {
            format!(
                "{{\"hooks\": {{\"Stop\": [{{\n\"matcher\": \"{text}\", \"hooks\": [{{\"type\": \"command\", \"command\": \"a\"}}]}}]}}}}"
            )
        };
        for (text, parts) in [
            (
                "{\"hooks\": {\n\"PreTolUse\": []}}".to_owned(),
                &["line 2", "`PreTolUse`", "did you mean `PreToolUse`"][..],
            ),
            ("{\"hooks\": {\n\"SubagentStop\": []}}".to_owned(), &["line 2", "`SubagentStop`"]),
            (hook("\"type\": \"prompt\", \"command\": \"x\""), &["line 2", "`prompt`", "`command`"]),
            (hook("\"type\": \"command\""), &["line 2", "missing field `command`"]),
            (hook("\"type\": \"command\", \"command\": \" \""), &["line 2", "`command`", "nothing to run"]),
            (hook("\"type\": \"command\", \"command\": \"a\", \"timeout\": 0"), &["line 2", "`timeout`", "in seconds"]),
            (hook("\"type\": \"command\", \"command\": \"a\", \"timout\": 5"), &["`timout`", "did you mean `timeout`"]),
            (
                hook("\"type\": \"command\", \"command\": \"a\", \"onFailure\": \"pass\""),
                &["line 2", "`pass`", "`continue`"],
            ),
            (matcher("("), &["line 2", "`matcher`", "unclosed group"]),
            (matcher("^(?!Read$)"), &["line 2", "`matcher`", "look-around"]),
            ("{\"permissions\": {}}".to_owned(), &["`hooks`", "there are none in it"]),
            ("{\"hooks\": ".to_owned(), &["line 1"]),
        ] {
            let error = settings(&text).expect_err(&text);
            for part in parts {
                assert!(error.contains(part), "{text}\n{error}\nlacks {part}");
            }
        }
    }
}
