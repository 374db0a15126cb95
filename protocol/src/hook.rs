//! The owner's scripts that have a say in a job (spec §9), read once by the supervisor and run by the worker.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

/// Where `timeout` is not given.
pub const HOOK_TIMEOUT_MS: u64 = 60_000;

/// One command at one point of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    pub on: HookPoint,
    /// Which tools, sources or prompts it is about: exact, a list `A|B`, a regular expression, or all (`*` and nothing).
    pub matcher: String,
    /// A line for `sh -c`.
    pub command: String,
    pub timeout_ms: u64,
    /// Its failure does not block (`onFailure: continue`).
    pub fails_open: bool,
}

/// What a matcher is, by how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matching<'a> {
    All,
    /// One of these, exactly.
    Names(Vec<&'a str>),
    /// A regular expression that is found anywhere.
    Pattern(&'a str),
}

impl Hook {
    /// Names are letters, digits, `_`, `-` and blanks, parted by `|` or `,`; anything else makes it a pattern. A prompt is no
    /// name, so its matcher is always one.
    #[must_use]
    pub fn matching(&self) -> Matching<'_> {
        let written = self.matcher.trim();
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '|' | ',');
        if written.is_empty() || written == "*" {
            Matching::All
        } else if self.on != HookPoint::UserPromptSubmit && written.chars().all(of_name) {
            Matching::Names(written.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty()).collect())
        } else {
            Matching::Pattern(written)
        }
    }
}

/// When a hook runs: the names of the public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookPoint {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    PreCompact,
    Notification,
    Stop,
    SessionEnd,
}

impl HookPoint {
    /// Whether what fails here counts as a no: else a guard that is broken would be none.
    #[must_use]
    pub fn fails_closed(self) -> bool {
        matches!(self, HookPoint::PreToolUse | HookPoint::PermissionRequest | HookPoint::UserPromptSubmit)
    }

    pub const ALL: [HookPoint; 10] = [
        HookPoint::SessionStart,
        HookPoint::UserPromptSubmit,
        HookPoint::PreToolUse,
        HookPoint::PermissionRequest,
        HookPoint::PostToolUse,
        HookPoint::PostToolUseFailure,
        HookPoint::PreCompact,
        HookPoint::Notification,
        HookPoint::Stop,
        HookPoint::SessionEnd,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HookPoint::SessionStart => "SessionStart",
            HookPoint::UserPromptSubmit => "UserPromptSubmit",
            HookPoint::PreToolUse => "PreToolUse",
            HookPoint::PermissionRequest => "PermissionRequest",
            HookPoint::PostToolUse => "PostToolUse",
            HookPoint::PostToolUseFailure => "PostToolUseFailure",
            HookPoint::PreCompact => "PreCompact",
            HookPoint::Notification => "Notification",
            HookPoint::Stop => "Stop",
            HookPoint::SessionEnd => "SessionEnd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_what_it_looks_like() {
        let hook = |on, matcher: &str| Hook {
            on,
            matcher: matcher.to_owned(),
            command: "true".to_owned(),
            timeout_ms: HOOK_TIMEOUT_MS,
            fails_open: false,
        };
        for (matcher, expected) in [
            ("", Matching::All),
            (" * ", Matching::All),
            ("Bash", Matching::Names(vec!["Bash"])),
            ("Edit|Write", Matching::Names(vec!["Edit", "Write"])),
            ("Edit, Write", Matching::Names(vec!["Edit", "Write"])),
            ("|Edit|", Matching::Names(vec!["Edit"])),
            ("Edit.*", Matching::Pattern("Edit.*")),
            ("^Notebook", Matching::Pattern("^Notebook")),
            ("mcp__.*__write", Matching::Pattern("mcp__.*__write")),
        ] {
            assert_eq!(hook(HookPoint::PreToolUse, matcher).matching(), expected, "{matcher}");
        }
        assert_eq!(hook(HookPoint::UserPromptSubmit, "deploy").matching(), Matching::Pattern("deploy"));
    }
}
