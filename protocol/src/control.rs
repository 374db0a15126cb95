//! The link between a client (the CLI; later the page) and the supervisor. One request, its answers in order.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

use crate::event::{BatchPlace, Event, FileChange, Line};
use crate::id::{BatchId, JobId};
use crate::job::{JobSpec, JobStatus, Limits, Outcome, Used};
use crate::lease::{AnswerClass, Wire};
use crate::policy::Verdict;
use crate::run_state::{OpenAsk, Progress};

/// How many jobs one part of a `Submit` may carry.
pub const SUBMIT_JOBS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// All are queued or none. What does not fit into a frame is sent in parts, each but the last with `more`; the
    /// answer to such a part is [`Response::Taken`].
    Submit {
        jobs: Vec<NewJob>,
        /// The jobs are lines of a list.
        batch: Option<ToBatch>,
        more: bool,
    },
    List {
        jobs: Selection,
    },
    Show {
        job: String,
    },
    /// One [`Response::Batch`], then [`Response::Shown`] for each of its jobs, in the order of their lines.
    Results {
        batch: String,
    },
    Cancel {
        jobs: Selection,
    },
    /// Let the call under way end and begin nothing new.
    Pause {
        jobs: Selection,
    },
    /// Let them go on; `All` also ends a pause of starts.
    Unpause {
        jobs: Selection,
    },
    /// A person lets these go on that ended without having completed; all of them or none.
    Resume {
        jobs: Vec<ToResume>,
    },
    /// A person has seen these: jobs, batches, or what is no job's by its name. `all`: everything that wants to be seen.
    Ack {
        what: Vec<String>,
        all: bool,
    },
    /// A person's answer to what was put to one: `JOB/CALL`, or a job that asks one thing.
    Decide {
        what: String,
        decision: Decision,
    },
    /// What a person has not seen yet.
    Attention,
    /// Have each sink of alerts tell something now.
    TestNotify,
    /// How each sink of alerts stands; nothing is told.
    Sinks,
    /// Everything that happens from now on to the selected jobs, preceded by what is in their logs.
    Subscribe {
        filter: Filter,
        seen: Seen,
    },
    /// What `doctor` asks a running server.
    Status,
    /// How each provider stands.
    Providers,
    /// Why the last call of a job went where it went.
    Why {
        job: String,
    },
    /// A person says that these providers are well again. What they asked to wait for binds all the same, unless it is
    /// to be forgotten.
    ResetProviders {
        ids: Vec<String>,
        forget_wait: bool,
    },
    /// Ask these providers, or all, whether they answer and take tools. `refresh`: what was known of it is forgotten.
    ProbeProviders {
        ids: Vec<String>,
        refresh: bool,
    },
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// `always`: and its like, by a rule that is kept.
    Approve { always: bool },
    Deny {
        /// For the model.
        because: Option<String>,
    },
}

/// An answer that is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub job: JobId,
    pub call: String,
    pub tool: String,
    pub verdict: Verdict,
    /// The rules that were kept, and in which file.
    pub kept: Option<(Vec<String>, std::path::PathBuf)>,
}

/// A job to be queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub spec: JobSpec,
    /// Of the list that it was made of.
    pub line: Option<Line>,
}

/// A job to go on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToResume {
    pub job: JobId,
    /// Of the end that the person has seen.
    pub token: String,
    /// In force from now on.
    pub limits: Limits,
}

/// How a list becomes a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToBatch {
    pub name: String,
    pub again: Again,
}

/// Of which lines that have had their job another is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Again {
    Never,
    /// Of those whose job was cancelled or aborted; it takes that one's place in the batch.
    Unfinished,
    /// Of all, in a batch of their own.
    Always,
}

/// What a listener has been told already: those records of a job's log are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The number of the last record, of the jobs that are not named below.
    pub all: u64,
    pub of: Vec<(JobId, u64)>,
}

/// Which jobs a request is about. Names and prefixes are resolved by the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    All,
    /// Ids, names or unique prefixes, of jobs or of batches.
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
    /// A part of a submission: nothing is queued yet.
    Taken,
    Submitted {
        /// What was queued, in the order sent.
        ids: Vec<JobId>,
        batch: Option<Joined>,
        /// What a person should know of them that only the server does.
        notes: Vec<String>,
    },
    Jobs {
        /// In the order of submission.
        rows: Vec<JobRow>,
        /// Older ones that did not fit.
        left_out: u64,
    },
    Batch(Box<BatchRow>),
    Shown {
        row: Box<JobRow>,
        result: Box<JobResult>,
    },
    /// The named jobs have ended, processes and all.
    Cancelled {
        ids: Vec<JobId>,
    },
    /// A person's word about these is on disk. Who still has a call under way pauses when it has ended; one that
    /// ended in this moment says so itself.
    Paused {
        rows: Vec<JobRow>,
    },
    Unpaused {
        rows: Vec<JobRow>,
        /// Starts had been paused after many crashes, and no longer are.
        starts: bool,
    },
    /// These are queued again, in the order asked.
    Resumed {
        ids: Vec<JobId>,
    },
    /// What was acked now, and why it had wanted to be seen.
    Acked {
        seen: Vec<ToSee>,
    },
    Decided(Box<Answered>),
    Attention {
        /// The first of them, in the order of submission for jobs.
        first: Vec<ToSee>,
        count: u64,
        /// What waits for a person, the first as `JOB/CALL`, and how many.
        asks: (Vec<String>, u64),
    },
    /// How each sink fared, or stands.
    Notified {
        sinks: Vec<SinkRow>,
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
    /// In the order of the configuration.
    Providers {
        rows: Vec<ProviderRow>,
    },
    /// What was decided, then each candidate, a line each.
    Why {
        job: JobId,
        lines: Vec<String>,
    },
    Probed {
        rows: Vec<ProbeRow>,
        /// The folder with the evidence; None where nobody could be asked.
        evidence: Option<std::path::PathBuf>,
    },
    /// Nothing was done. `usage`: the request itself was wrong.
    Refused {
        why: String,
        usage: bool,
    },
}

/// What became of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    pub id: BatchId,
    pub name: String,
    /// The job of each line in the order sent, whether it is new or was known.
    pub jobs: Vec<JobId>,
}

/// A batch, as far as its jobs do not say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRow {
    pub id: BatchId,
    pub name: String,
    pub jobs: u64,
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
    pub batch: Option<BatchPlace>,
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub attention: bool,
    pub used: Used,
    pub restarts: u32,
    pub provider: Option<String>,
    /// What is put to a person.
    pub asks: Vec<OpenAsk>,
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
            batch: progress.batch.clone(),
            status: progress.status,
            outcome: progress.outcome.clone(),
            attention: progress.attention.is_some(),
            used: progress.used,
            restarts: progress.restarts(),
            provider: progress.provider.clone(),
            asks: progress.asks.clone(),
            note,
        }
    }
}

impl JobResult {
    #[must_use]
    pub fn of(progress: &Progress) -> Self {
        JobResult {
            text: progress.text.clone(),
            duration_ms: progress.used.wall_ms,
            denied: progress.denied.clone(),
            files_changed: progress.files_changed.clone(),
            notices: progress.notices.clone(),
            limits: progress.limits,
            resume_token: None,
            attention: progress.attention.clone(),
            resumes: progress.resumes,
        }
    }
}

/// What `show` and the result add to a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    pub text: String,
    pub duration_ms: u64,
    pub denied: Vec<DeniedCall>,
    pub files_changed: Vec<FileChange>,
    /// What ukai has to say of how it ran.
    pub notices: Vec<String>,
    /// Where a person set others than it was submitted with.
    pub limits: Option<Limits>,
    /// The word with which this end can be resumed; None where there is nothing to resume.
    pub resume_token: Option<String>,
    /// Why a person should look at it.
    pub attention: Option<String>,
    /// How often a person let it go on after an end.
    pub resumes: u32,
}

/// Something that waits for a person to see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToSee {
    /// A job's id, or the name of what is no job's.
    pub subject: String,
    pub why: String,
}

/// One sink of alerts: how it stands, or how it fared when it was told to tell something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkRow {
    pub sink: String,
    pub state: SinkState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SinkState {
    /// It takes messages; after a test: that one arrived.
    On,
    /// The test did not arrive: why, and what to do next.
    Failed(String),
    /// It takes no more messages: why, and what to do next.
    Dead(String),
    /// It is not configured, or cannot be had here.
    Off(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeniedCall {
    pub tool: String,
    pub input: crate::json::Json,
    pub source: crate::policy::Source,
    /// Rules with which it would have been allowed.
    #[serde(default)]
    pub missing: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub pid: u32,
    pub version: String,
    pub state_dir: std::path::PathBuf,
    /// The file that it was configured by, if there was one.
    pub config: Option<std::path::PathBuf>,
    pub max_workers: u32,
    pub running: u32,
    pub queued: u32,
}

/// How a provider stands. Times are milliseconds from now, or ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderRow {
    pub id: String,
    pub account: String,
    pub wire: Wire,
    pub model: String,
    pub breaker: BreakerState,
    /// Why it is OPEN.
    pub why: Option<String>,
    /// Until when it is OPEN; None also where that is until a person resets it.
    pub open_ms: Option<u64>,
    /// What it asked to wait for.
    pub not_before_ms: Option<u64>,
    pub in_flight: u64,
    pub in_flight_max: u64,
    /// What is left and what it holds; None without a bound.
    pub requests: Option<(f64, f64)>,
    pub tokens: Option<(f64, f64)>,
    /// None = not known, which counts as capable.
    pub tools: Option<bool>,
    pub last_failure: Option<FailureRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRow {
    pub class: AnswerClass,
    /// Codes, no text of a conversation.
    pub signature: String,
    pub ago_ms: u64,
}

/// What came of asking one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRow {
    pub id: String,
    /// None: it was not asked, or the probe itself failed.
    pub class: Option<AnswerClass>,
    pub tools: Option<bool>,
    pub detail: String,
}
