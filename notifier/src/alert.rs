//! What the owner may be told, and where it stands on disk.

#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use ukai_protocol::command::{command, quoted};
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{Cause, CauseKind, Limit};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    pub what: What,
    /// The record that it is about. None: it could not be recorded, and is told at most once.
    pub source: Option<Source>,
    /// When it happened, for people.
    pub at: SystemTime,
    /// An earlier process had to tell it, and did not come to it.
    pub late: bool,
}

/// A record in a log: what a sink's cursor points to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Job {
        job: JobId,
        seq: u64,
    },
    /// In `supervisor/events.jsonl`.
    Server {
        seq: u64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    JobAborted {
        job: JobId,
        name: String,
        /// Of the provider that it was last assigned to.
        account: Option<String>,
        cause: Cause,
        /// The limits without which it cannot go on, as one types them: `steps=50`.
        raise: Vec<String>,
    },
    /// It ended well, and a person should look at it all the same.
    Attention {
        job: JobId,
        name: String,
        /// Of the provider that it was last assigned to. None: no provider has to do with it.
        account: Option<String>,
        why: String,
    },
    /// A call of it waits for a person.
    AskWaiting {
        job: JobId,
        name: String,
        call: String,
        tool: String,
        /// What it would do, on a line.
        argument: String,
    },
    LimitNear {
        job: JobId,
        name: String,
        /// Of the provider that it was last assigned to.
        account: Option<String>,
        limit: Limit,
        used: f64,
        max: f64,
    },
    /// Nobody asks this provider account any more, for as long, or until a person resets it.
    BreakerOpened { account: String, why: String, until: Option<Duration> },
    BreakerClosed {
        account: String,
        /// A person said that it is well again, and so knows.
        by_person: bool,
    },
    /// Files that do not verify: a job's (by its id), or the supervisor's own (by its name).
    Quarantined { subject: String, why: String },
    /// Too many jobs crashed at once.
    StartsPaused { pause: Duration },
    /// All jobs of a list have ended.
    BatchDone {
        batch: BatchId,
        name: String,
        completed: u64,
        /// That ended in another way.
        other: u64,
    },
    /// Alerts that a sink could not deliver.
    Lost { sink: String, count: u64 },
    /// Somebody wants to see one arrive.
    Test,
}

/// What repeated alerts are grouped by: whatever they say, they are about the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub kind: Kind,
    /// The account, job, batch or file that it is about; empty where there is only one.
    pub subject: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Opened and closed: one breaker that flaps is one matter.
    Breaker,
    JobAborted,
    CrashLoop,
    Attention,
    AskWaiting,
    LimitNear,
    Quarantined,
    StartsPaused,
    BatchDone,
    Lost,
    Test,
}

/// The key of the notice that this job comes near that limit.
#[must_use]
pub fn limit_near(job: &JobId, limit: Limit) -> Key {
    Key { kind: Kind::LimitNear, subject: format!("{job} {limit}") }
}

impl What {
    #[must_use]
    pub fn key(&self) -> Key {
        let (kind, subject) = match self {
            What::BreakerOpened { account, .. } | What::BreakerClosed { account, .. } => {
                (Kind::Breaker, account.clone())
            }
            What::JobAborted { job, cause, .. } if cause.kind == CauseKind::CrashLoop => {
                (Kind::CrashLoop, job.to_string())
            }
            What::JobAborted { job, .. } => (Kind::JobAborted, job.to_string()),
            What::Attention { job, .. } => (Kind::Attention, job.to_string()),
            What::AskWaiting { job, call, .. } => (Kind::AskWaiting, format!("{job}/{call}")),
            // One notice per limit and job.
            What::LimitNear { job, limit, .. } => return limit_near(job, *limit),
            What::Quarantined { subject, .. } => (Kind::Quarantined, subject.clone()),
            What::StartsPaused { .. } => (Kind::StartsPaused, String::new()),
            What::BatchDone { batch, .. } => (Kind::BatchDone, batch.to_string()),
            What::Lost { sink, .. } => (Kind::Lost, sink.clone()),
            What::Test => (Kind::Test, String::new()),
        };
        Key { kind, subject }
    }

    /// The job that it is about.
    #[must_use]
    pub fn job(&self) -> Option<&JobId> {
        match self {
            What::JobAborted { job, .. }
            | What::Attention { job, .. }
            | What::AskWaiting { job, .. }
            | What::LimitNear { job, .. } => Some(job),
            _ => None,
        }
    }

    /// Whether it waits for a person, or is only for their information (spec §10, attention and notices).
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !matches!(
            self,
            What::LimitNear { .. }
                | What::BatchDone { .. }
                | What::BreakerOpened { .. }
                | What::BreakerClosed { .. }
                | What::Test
        )
    }
}

/// What one would type now. Names and ids only; never a token.
#[must_use]
pub fn next(what: &What) -> Option<String> {
    Some(match what {
        What::JobAborted { job, raise, .. } => {
            let limits = raise.iter().flat_map(|limit| ["--limit", limit]);
            command(&["resume", job.as_str()].into_iter().chain(limits).collect::<Vec<_>>())
        }
        What::Attention { job, .. } | What::LimitNear { job, .. } => command(&["show", job.as_str()]),
        What::AskWaiting { job, call, .. } => command(&["approve", &format!("{job}/{call}")]),
        What::BreakerOpened { account, until: None, .. } => command(&["providers", "reset", account]),
        What::BreakerOpened { .. } => command(&["providers"]),
        What::Quarantined { .. } => command(&["quarantine", "ls"]),
        What::StartsPaused { .. } => command(&["unpause", "--all"]),
        What::BatchDone { batch, .. } => command(&["results", batch.as_str()]),
        What::Lost { .. } => command(&["ls"]),
        What::BreakerClosed { .. } | What::Test => return None,
    })
}

/// One line, without the time.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::JobAborted { job, name, cause, .. } => {
                write!(f, "{job} ({name}) aborted: {} ({}): {}", cause.kind.reason(), cause.kind, cause.detail)
            }
            What::Attention { job, name, why, .. } => write!(f, "{job} ({name}) needs attention: {why}"),
            What::AskWaiting { job, name, call, tool, argument } => {
                let deny = quoted(&["deny", &format!("{job}/{call}"), "--because", "WHY"]);
                write!(f, "{job} ({name}) waits for you: {tool} {argument}; {deny} forbids it")
            }
            What::LimitNear { job, name, limit, used, max, .. } => {
                let (used, max) = (limit.amount(*used), limit.amount(*max));
                write!(f, "{job} ({name}) has used {used} of {max} ({limit})")
            }
            What::BreakerOpened { account, why, until: Some(until) } => {
                write!(f, "provider account {account} is not asked for {} s: {why}", until.as_secs())
            }
            What::BreakerOpened { account, why, until: None } => {
                let reset = quoted(&["providers", "reset", account]);
                write!(f, "provider account {account} is not asked until it is reset: {why}; mend that, then {reset}")
            }
            What::BreakerClosed { account, .. } => write!(f, "provider account {account} is asked again"),
            What::Quarantined { subject, why } => write!(f, "{subject} does not verify and is refused: {why}"),
            What::StartsPaused { pause } => {
                write!(f, "many jobs crashed at once: no job is started for {} s", pause.as_secs())
            }
            What::BatchDone { batch, name, completed, other: 0 } => {
                write!(f, "batch {batch} ({name}) is done: all {completed} completed")
            }
            What::BatchDone { batch, name, completed, other } => {
                write!(f, "batch {batch} ({name}) is done: {completed} completed, {other} did not")
            }
            What::Lost { sink, count } => {
                let ls = quoted(&["ls"]);
                write!(f, "{count} alerts could not be delivered to {sink}; {ls} shows what they were about")
            }
            What::Test => f.write_str("a test: alerts of ukai arrive here"),
        }
    }
}
