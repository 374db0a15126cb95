//! The link between a client (the CLI; later the page) and the supervisor. One request, its answers in order.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::JobId;
use crate::job::{JobSpec, JobStatus, Outcome, Used};
use crate::run_state::Progress;

/// How many jobs one `Submit` may carry: a larger list is sent in several.
pub const SUBMIT_JOBS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// All are queued or none.
    Submit {
        jobs: Vec<JobSpec>,
    },
    List,
    Show {
        job: String,
    },
    Cancel {
        jobs: Selection,
    },
    /// Everything that happens from now on to the selected jobs, preceded by what is in their logs after `after`.
    Subscribe {
        filter: Filter,
        after: u64,
    },
    /// What `doctor` asks a running server.
    Status,
}

/// Which jobs a request is about. Names and prefixes are resolved by the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    All,
    /// Ids, names or unique prefixes.
    These(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    pub jobs: Selection,
    /// Also the provisional text.
    pub deltas: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    Submitted {
        ids: Vec<JobId>,
    },
    Jobs {
        rows: Vec<JobRow>,
    },
    Shown {
        row: Box<JobRow>,
        result: Box<JobResult>,
    },
    /// The named jobs have ended, processes and all.
    Cancelled {
        ids: Vec<JobId>,
    },
    /// A record of a selected job's log.
    Happened(Box<Happened>),
    Delta {
        job: JobId,
        step: u64,
        text: String,
    },
    /// The listener was too slow: this many were left out. Ask again with `after`.
    Missed {
        count: u64,
    },
    /// The backlog has been told; what follows is live.
    Live,
    Status(Box<ServerStatus>),
    /// Nothing was done. `usage`: the request itself was wrong.
    Refused {
        why: String,
        usage: bool,
    },
}

/// One durable record, as listeners get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    pub job: JobId,
    pub seq: u64,
    /// RFC 3339, UTC, milliseconds.
    pub at: String,
    pub event: Event,
}

/// One job in `ukai ls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    pub id: JobId,
    pub name: String,
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub attention: bool,
    pub used: Used,
    pub restarts: u32,
    pub provider: Option<String>,
    /// Where it stands in the queue or what it waits for; empty when it simply runs.
    pub note: String,
}

impl JobRow {
    /// The row of a job that stands like this.
    #[must_use]
    pub fn of(id: JobId, progress: &Progress, note: String) -> Self {
        JobRow {
            id,
            name: progress.name.clone(),
            status: progress.status,
            outcome: progress.outcome.clone(),
            attention: progress.attention.is_some(),
            used: progress.used,
            restarts: progress.restarts(),
            provider: progress.provider.clone(),
            note,
        }
    }
}

impl JobResult {
    #[must_use]
    pub fn of(progress: &Progress) -> Self {
        JobResult { text: progress.text.clone(), duration_ms: progress.used.wall_ms, denied: progress.denied.clone() }
    }
}

/// What `show` and the result add to a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    pub text: String,
    pub duration_ms: u64,
    pub denied: Vec<DeniedCall>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeniedCall {
    pub tool: String,
    pub input: crate::json::Json,
    pub source: crate::policy::Source,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub pid: u32,
    pub version: String,
    pub state_dir: std::path::PathBuf,
    pub max_workers: u32,
    pub running: u32,
    pub queued: u32,
}
