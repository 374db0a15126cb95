//! What `ukai` asks of the worker's program in passing, about no job: JSON on stdin, one JSON line on stdout.
//!
//! Rules are parsed and calls are judged by the worker's code alone, and what the kernel grants it has to be asked by the
//! program that will need it. So these questions go where jobs go, and a person hears what a job would have met. JSON and
//! not frames: whoever doubts an answer can put the question by hand.

#![deny(clippy::disallowed_methods)]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::policy::{Policy, RuleList, Sandbox};

/// A policy, what narrows it and a file of cases have at most 1 MiB each, and escapes may make them longer.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A line for each rule and each case, none longer than what it is about.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// `ukai-worker policy check`: whether a policy holds together, and what it says of these calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyRequest {
    pub policy: Policy,
    /// Absolute.
    pub workdir: PathBuf,
    /// Where a job's spilled output would lie.
    pub outputs: PathBuf,
    pub calls: Vec<Call>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub tool: String,
    pub input: Json,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyAnswer {
    /// The policy denies everything, and this says where it is broken.
    pub broken: Option<String>,
    /// All rules that are wrong: deny, ask, allow, each list in its order.
    pub faults: Vec<RuleFault>,
    /// One for each call, in their order.
    pub verdicts: Vec<Answer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleFault {
    pub list: RuleList,
    /// In its list, from 0.
    pub at: usize,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Judged(Verdict),
    /// There is no such call: the tool is unknown, or it does not take this input.
    NoCall {
        why: String,
    },
}

/// The line that `ukai policy check` prints. Its keys are fixed (spec §14).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    /// The word of the decision's source: `rule`, `default`, `classifier`, `policy_error`, …
    pub source: String,
    /// The list and the rule as written: `deny Bash(rm -rf:*)`.
    pub rule: Option<String>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// `ukai-worker sandbox`: what would confine commands here, with this policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRequest {
    pub sandbox: Sandbox,
    /// Where a job would work.
    pub workdir: PathBuf,
}

/// What this machine has. `Err` carries the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxAnswer {
    /// 0: none, or switched off.
    pub landlock_abi: u32,
    pub landlock_abi_min: u32,
    pub namespaces: Result<(), String>,
    pub seccomp: Result<(), String>,
    /// A host was really confined: what it could not have and goes without, or why no command can be started.
    pub entered: Result<Vec<String>, String>,
    /// The same of the worker itself: what it goes without, or why it does not start.
    pub worker: Result<Vec<String>, String>,
    /// The shell that runs command lines.
    pub bash: Option<PathBuf>,
    /// Where one is looked for.
    pub bash_places: Vec<PathBuf>,
    /// Folders of PATH whose programs commands may not run, in their order.
    pub hidden_programs: Vec<PathBuf>,
}
