//! What a job is, where it stands, and the ways in which it can end.

#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::event::BatchPlace;

/// A job as submitted, with everything resolved that the worker needs: no file is read for it later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    pub name: String,
    pub prompt: String,
    /// Absolute, existed and was readable at submission.
    pub workdir: PathBuf,
    /// What its commands find in their environment besides the usual: names to pass on, or `NAME=value`.
    #[serde(default)]
    pub env: Vec<String>,
    pub mode: Mode,
    /// Pins: no fallback to another provider.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub context: ContextStrategy,
    /// Tokens; absent = what the provider offers.
    pub window: Option<u64>,
    /// 9 goes first, 0 last.
    pub priority: u8,
    pub needs_tools: bool,
    pub limits: Limits,
    pub policy: crate::policy::Policy,
    /// In a worktree of its own, made when it first starts; `workdir` is then the place in the repository that it is of.
    #[serde(default)]
    pub worktree: bool,
    /// The owner's scripts, in the order in which they were written.
    #[serde(default)]
    pub hooks: Vec<crate::hook::Hook>,
    /// Tools of the owner's, sorted by name.
    #[serde(default)]
    pub tools: Vec<crate::declared::Declared>,
    /// As in the first record of its log: a line keeps its job, whichever of the two is damaged.
    #[serde(default)]
    pub batch: Option<BatchPlace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No tools; one answer.
    Once,
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextStrategy {
    KeepAll,
}

/// Ceilings of one job (spec §6), checked before firing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub steps: u64,
    pub tool_calls: u64,
    /// Input + output as reported, cached included.
    pub tokens: u64,
    pub run_time_ms: u64,
    pub max_wall_ms: u64,
    /// Only where prices are configured.
    pub max_cost_usd: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 25,
            tool_calls: 40,
            tokens: 500_000,
            run_time_ms: 10 * 60 * 1000,
            max_wall_ms: 24 * 60 * 60 * 1000,
            max_cost_usd: None,
        }
    }
}

/// What a job has consumed. Carried through restarts by the fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    pub steps: u64,
    pub tool_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub run_time_ms: u64,
    pub wall_ms: u64,
    pub cost_usd: f64,
}

impl Used {
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Steps,
    ToolCalls,
    Tokens,
    RunTime,
    MaxWall,
    Cost,
    /// Of one node of a graph.
    MaxVisits,
}

impl Limit {
    /// So much of it as a person reads it: seconds and USD with their unit, and no more decimals than tell something.
    #[must_use]
    pub fn amount(self, amount: f64) -> String {
        let (unit, parts) = match self {
            Limit::RunTime | Limit::MaxWall => (" s", 1e3),
            // A short call costs no more than a millionth.
            Limit::Cost => (" USD", 1e6),
            Limit::Steps | Limit::ToolCalls | Limit::Tokens | Limit::MaxVisits => ("", 1.0),
        };
        format!("{}{unit}", (amount * parts).round() / parts)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Steps => "steps",
            Limit::ToolCalls => "tool_calls",
            Limit::Tokens => "tokens",
            Limit::RunTime => "run_time",
            Limit::MaxWall => "max_wall",
            Limit::Cost => "cost",
            Limit::MaxVisits => "max_visits",
        })
    }
}

/// Where a job stands (spec §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Queued,
    Starting,
    Running,
    Waiting,
    /// Between a crash and its restart.
    Interrupted,
    /// Until a person lets it go on.
    Paused,
    Completed,
    Aborted,
    Cancelled,
}

impl JobStatus {
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, JobStatus::Completed | JobStatus::Aborted | JobStatus::Cancelled)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobStatus::Queued => "queued",
            JobStatus::Starting => "starting",
            JobStatus::Running => "running",
            JobStatus::Waiting => "waiting",
            JobStatus::Interrupted => "interrupted",
            JobStatus::Paused => "paused",
            JobStatus::Completed => "completed",
            JobStatus::Aborted => "aborted",
            JobStatus::Cancelled => "cancelled",
        })
    }
}

/// The six reasons for which a job ends without having completed (spec §10). A new kind of end is a new [`Cause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    BreakerOpen,
    RetriesExhausted,
    PermissionDenied,
    FatalError,
    CheckpointFailed,
    UserInterrupt,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::BreakerOpen => "breaker_open",
            Reason::RetriesExhausted => "retries_exhausted",
            Reason::PermissionDenied => "permission_denied",
            Reason::FatalError => "fatal_error",
            Reason::CheckpointFailed => "checkpoint_failed",
            Reason::UserInterrupt => "user_interrupt",
        })
    }
}

/// What exactly ended a job. Each kind belongs to one [`Reason`]. Written as people read it: `limit(steps)`, `io(28)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CauseKind {
    AllOpen,
    Limit(Limit),
    Attempts,
    EmptyReply,
    Verify,
    ResultSchema,
    CannotGoOn,
    ContextOverflow,
    Loop,
    ProviderRejected,
    NoCapableProvider,
    Depth,
    ToolInOnce,
    NodeFailed,
    CrashLoop,
    PolicyError,
    HookStop,
    Internal,
    Io(i32),
    Quarantined,
    Cancel,
    Signal,
    UserAbort,
}

impl CauseKind {
    #[must_use]
    pub fn reason(self) -> Reason {
        use CauseKind::*;
        match self {
            AllOpen | Limit(_) => Reason::BreakerOpen,
            Attempts | EmptyReply | Verify | ResultSchema => Reason::RetriesExhausted,
            CannotGoOn => Reason::PermissionDenied,
            ContextOverflow | Loop | ProviderRejected | NoCapableProvider | Depth | ToolInOnce | NodeFailed
            | CrashLoop | PolicyError | HookStop | Internal => Reason::FatalError,
            Io(_) | Quarantined => Reason::CheckpointFailed,
            Cancel | Signal | UserAbort => Reason::UserInterrupt,
        }
    }
}

/// Without arguments: those that Display writes as a bare word.
const PLAIN_CAUSES: [CauseKind; 21] = [
    CauseKind::AllOpen,
    CauseKind::Attempts,
    CauseKind::EmptyReply,
    CauseKind::Verify,
    CauseKind::ResultSchema,
    CauseKind::CannotGoOn,
    CauseKind::ContextOverflow,
    CauseKind::Loop,
    CauseKind::ProviderRejected,
    CauseKind::NoCapableProvider,
    CauseKind::Depth,
    CauseKind::ToolInOnce,
    CauseKind::NodeFailed,
    CauseKind::CrashLoop,
    CauseKind::PolicyError,
    CauseKind::HookStop,
    CauseKind::Internal,
    CauseKind::Quarantined,
    CauseKind::Cancel,
    CauseKind::Signal,
    CauseKind::UserAbort,
];

const LIMITS: [Limit; 7] =
    [Limit::Steps, Limit::ToolCalls, Limit::Tokens, Limit::RunTime, Limit::MaxWall, Limit::Cost, Limit::MaxVisits];

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no cause")]
pub struct NotACause(String);

impl TryFrom<String> for CauseKind {
    type Error = NotACause;

    fn try_from(text: String) -> Result<Self, NotACause> {
        let errno = text.strip_prefix("io(").and_then(|rest| rest.strip_suffix(')')?.parse().ok());
        let limits = LIMITS.into_iter().map(CauseKind::Limit);
        let known = PLAIN_CAUSES.into_iter().chain(limits).chain(errno.map(CauseKind::Io));
        known.into_iter().find(|kind| kind.to_string() == text).ok_or(NotACause(text))
    }
}

impl From<CauseKind> for String {
    fn from(kind: CauseKind) -> String {
        kind.to_string()
    }
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CauseKind::*;
        f.write_str(match self {
            Limit(limit) => return write!(f, "limit({limit})"),
            Io(errno) => return write!(f, "io({errno})"),
            AllOpen => "all_open",
            Attempts => "attempts",
            EmptyReply => "empty_reply",
            Verify => "verify",
            ResultSchema => "result_schema",
            CannotGoOn => "cannot_go_on",
            ContextOverflow => "context_overflow",
            Loop => "loop",
            ProviderRejected => "provider_rejected",
            NoCapableProvider => "no_capable_provider",
            Depth => "depth",
            ToolInOnce => "tool_in_once",
            NodeFailed => "node_failed",
            CrashLoop => "crash_loop",
            PolicyError => "policy_error",
            HookStop => "hook_stop",
            Internal => "internal",
            Quarantined => "quarantined",
            Cancel => "cancel",
            Signal => "signal",
            UserAbort => "user_abort",
        })
    }
}

/// `detail` is for a person: what was attempted, on what, why it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub kind: CauseKind,
    pub detail: String,
}

impl Cause {
    #[must_use]
    pub fn new(kind: CauseKind, detail: impl Into<String>) -> Self {
        Cause { kind, detail: detail.into() }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// `attention`: it asked for tools that change something, and none was carried out.
    Completed {
        attention: bool,
    },
    Ended(Cause),
}

impl Outcome {
    #[must_use]
    pub fn status(&self) -> JobStatus {
        match self {
            Outcome::Completed { .. } => JobStatus::Completed,
            Outcome::Ended(cause) if cause.kind.reason() == Reason::UserInterrupt => JobStatus::Cancelled,
            Outcome::Ended(_) => JobStatus::Aborted,
        }
    }

    /// The exit code of `ukai run` (spec §14).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Outcome::Completed { attention: false } => 0,
            Outcome::Completed { attention: true } => 7,
            Outcome::Ended(cause) => match cause.kind.reason() {
                Reason::FatalError => 1,
                Reason::PermissionDenied => 3,
                Reason::BreakerOpen => 4,
                Reason::RetriesExhausted => 5,
                Reason::CheckpointFailed => 6,
                Reason::UserInterrupt => 130,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_reads_back_from_its_words() {
        let limits = LIMITS.into_iter().map(CauseKind::Limit);
        for kind in PLAIN_CAUSES.into_iter().chain(limits).chain([CauseKind::Io(28), CauseKind::Io(-1)]) {
            assert_eq!(CauseKind::try_from(kind.to_string()).expect("its own words"), kind);
        }
        for text in ["", "limit()", "io()", "io(x)", "Limit(steps)"] {
            assert!(CauseKind::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_amount_has_its_unit_and_no_more_decimals_than_tell_something() {
        for (limit, amount, text) in [
            (Limit::RunTime, 2.401_247_407, "2.401 s"),
            (Limit::MaxWall, 86_400.0, "86400 s"),
            (Limit::Cost, 0.000_012_34, "0.000012 USD"),
            (Limit::Steps, 20.0, "20"),
            (Limit::Tokens, 400_000.0, "400000"),
        ] {
            assert_eq!(limit.amount(amount), text);
        }
    }

    #[test]
    fn cancelled_is_exactly_what_the_user_interrupted() {
        for (kind, status, code) in [
            (CauseKind::Cancel, JobStatus::Cancelled, 130),
            (CauseKind::Signal, JobStatus::Cancelled, 130),
            (CauseKind::Limit(Limit::Steps), JobStatus::Aborted, 4),
            (CauseKind::Attempts, JobStatus::Aborted, 5),
            (CauseKind::Io(28), JobStatus::Aborted, 6),
            (CauseKind::CannotGoOn, JobStatus::Aborted, 3),
            (CauseKind::CrashLoop, JobStatus::Aborted, 1),
        ] {
            let outcome = Outcome::Ended(Cause::new(kind, ""));
            assert_eq!((outcome.status(), outcome.exit_code()), (status, code), "{kind}");
        }
    }
}
