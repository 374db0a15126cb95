//! Which tools, sources or prompts a hook is about.
//!
//! A pattern is found anywhere in a name, as in the public contract: `Edit.*` is about `NotebookEdit` too.

#![deny(clippy::disallowed_methods)]

use regex::Regex;
use ukai_protocol::hook::{Hook, Matching};

#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Patterns are checked where they are read. One that is none all the same is about everything: a guard that asks too
    /// often is better than one that never does.
    pub(super) fn of(hook: &Hook) -> Self {
        match hook.matching() {
            Matching::All => Matcher::All,
            Matching::Names(names) => Matcher::Names(names.into_iter().map(str::to_owned).collect()),
            Matching::Pattern(pattern) => Regex::new(pattern).map_or(Matcher::All, Matcher::Pattern),
        }
    }

    pub(super) fn matches(&self, subject: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|name| name == subject),
            Matcher::Pattern(pattern) => pattern.is_match(subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::hook::{HOOK_TIMEOUT_MS, HookPoint};

    use super::*;

    #[test]
    fn a_hook_is_about_what_its_matcher_says() {
        use HookPoint::{PreToolUse, SessionStart, UserPromptSubmit};
        for (on, matcher, subject, expected) in [
            (PreToolUse, "", "Bash", true),
            (PreToolUse, "*", "Bash", true),
            (PreToolUse, "Bash", "Bash", true),
            (PreToolUse, "Bash", "BashOutput", false),
            (PreToolUse, "bash", "Bash", false),
            (PreToolUse, "Edit|Write", "Write", true),
            (PreToolUse, "Edit|Write", "NotebookEdit", false),
            (PreToolUse, "Edit.*", "NotebookEdit", true),
            (PreToolUse, "^Edit", "NotebookEdit", false),
            (PreToolUse, "mcp__files", "mcp__files__read", false),
            (PreToolUse, "mcp__files__.*", "mcp__files__read", true),
            (PreToolUse, "(", "Bash", true),
            (SessionStart, "startup", "startup", true),
            (SessionStart, "startup", "resume", false),
            (UserPromptSubmit, "deploy", "please deploy it", true),
            (UserPromptSubmit, "(?i)\\bprod\\b", "to PROD now", true),
            (UserPromptSubmit, "prod$", "to prod now", false),
        ] {
            let hook = Hook {
                on,
                matcher: matcher.to_owned(),
                command: "true".to_owned(),
                timeout_ms: HOOK_TIMEOUT_MS,
                fails_open: false,
            };
            assert_eq!(Matcher::of(&hook).matches(subject), expected, "{matcher:?} of {subject}");
        }
    }
}
