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
