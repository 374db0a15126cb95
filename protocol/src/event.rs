//! The closed list of what happens to a job. The log of these is the truth; everything else is their fold.
//!
//! Every variant has named fields, so that the name and the data can stand side by side on disk
//! (`"event":"ToolStarted","data":{…}`). A field added later carries a serde default: old logs load for ever.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

use crate::hook::HookPoint;
use crate::id::BatchId;
use crate::job::{Limit, Limits, Outcome};
use crate::json::Json;
use crate::lease::AnswerClass;
use crate::message::{Call, Opaque, Stop, Usage};
use crate::policy::Judgement;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    Submitted {
        name: String,
        prompt: String,
        priority: u8,
        #[serde(default)]
        batch: Option<BatchPlace>,
    },
    /// A worker process was started for the job. Only the hash of its token is kept.
    Started {
        attempt: u32,
        process: ProcessMark,
        token_hash: String,
    },
    /// The worker died before the job ended.
    Interrupted {
        attempt: u32,
        how: String,
        stderr_tail: String,
        /// It had been told to pause and stopped for that: no crash.
        #[serde(default)]
        stopped: bool,
    },
    /// A person wants it to pause: the call under way ends, nothing new begins, its process goes.
    Paused {},
    /// It goes on when there is a slot.
    Unpaused {},
    /// Text from ukai itself, for whom `why` says.
    Injected {
        why: Why,
        text: String,
    },
    /// A provider was assigned to one attempt at a call.
    Leased {
        step: u64,
        lease: u64,
        provider: String,
        account: String,
        model: String,
    },
    /// One attempt at a call that brought no reply.
    AttemptFailed {
        step: u64,
        provider: String,
        class: AnswerClass,
        detail: String,
        wait_ms: Option<u64>,
        /// What a reply that broke off is estimated to have cost; `None` where none had begun.
        #[serde(default)]
        usage: Option<Usage>,
        #[serde(default)]
        cost_usd: f64,
        #[serde(default)]
        run_time_ms: u64,
        #[serde(default)]
        wall_ms: u64,
    },
    /// The job waits, and until when as far as that is known (milliseconds from now).
    Waiting {
        why: WaitingFor,
        wait_ms: Option<u64>,
    },
    /// A model call was answered: one step.
    Replied {
        step: u64,
        text: String,
        calls: Vec<Call>,
        opaque: Vec<Opaque>,
        stop: Stop,
        usage: Usage,
        cost_usd: f64,
        run_time_ms: u64,
        wall_ms: u64,
    },
    /// The decision on one call, and the input that it is about: the one that runs.
    Judged {
        call: String,
        tool: String,
        input: Json,
        read_only: bool,
        judgement: Judgement,
    },
    /// A call waits for a person: what would run, and why nobody else may decide. The job waits without a process.
    AskOpened {
        call: String,
        tool: String,
        input: Json,
        read_only: bool,
        /// The rule of an `ask` list; without one no list names the call.
        rule: Option<String>,
        /// For the person.
        why: String,
        /// Rules with which it would be allowed.
        #[serde(default)]
        missing: Vec<String>,
        /// Milliseconds since 1970: no answer until then is a no.
        deadline_ms: u64,
    },
    /// The one verdict on such a call, whoever was first: a person, a hook, the clock.
    AskAnswered {
        call: String,
        tool: String,
        judgement: Judgement,
        /// Rules that hold for the rest of this job: its like is not asked again.
        #[serde(default)]
        granted: Vec<String>,
    },
    /// One of the owner's scripts was run, and what came of it.
    HookRan {
        on: HookPoint,
        /// Its command line.
        hook: String,
        /// The call that it was about, where it was about one.
        call: Option<String>,
        said: HookSaid,
        /// For a person: its reason, its message, or why it failed.
        detail: String,
        /// For the model, at the end of that call's result.
        #[serde(default)]
        context: String,
        duration_ms: u64,
    },
    /// The intent, durable before the tool acts.
    ToolStarted {
        call: String,
        tool: String,
        read_only: bool,
        idempotent: bool,
    },
    /// A call has its answer, whether it ran or not.
    ToolFinished {
        call: String,
        tool: String,
        status: ToolStatus,
        output: String,
        run_time_ms: u64,
        wall_ms: u64,
        /// What it left changed on the disk, as far as its tool knows; also where it failed half-way.
        #[serde(default)]
        files_changed: Vec<FileChange>,
        /// The files that it showed or wrote, as they are then: what may be overwritten, also by a later process.
        #[serde(default)]
        seen: Vec<SeenFile>,
    },
    LimitWarned {
        limit: Limit,
        used: f64,
        max: f64,
    },
    /// Bytes after the last whole line were cut off when the log was opened.
    Recovered {
        torn_bytes: u64,
    },
    /// A person should look at this job.
    Attention {
        why: String,
    },
    /// A person has looked at it.
    Acked {},
    /// A person lets it go on after its end: it did not complete, and what it has consumed stays consumed.
    Resumed {
        /// In force from now on.
        limits: Limits,
    },
    /// The end. What a person lets go on after it may have another.
    Finished {
        outcome: Outcome,
        text: String,
    },
}

/// Which line of which list a job was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    pub id: BatchId,
    /// The job file's, without its folder and ending.
    pub name: String,
    pub line: Line,
}

/// One line of a list, as the job that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// In the list, from 1.
    pub number: u64,
    /// The same for ever for the same job file name and filled-in job: what is known is not added again (spec §2).
    pub key: String,
}

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// Clock ticks after boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
    pub boot_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The system prompt: composed once, the same to the byte in every call.
    System,
    /// Records were lost here, and the conversation goes on without them: the model is told.
    Lost,
    /// What a script of the owner's has to say to the model.
    Hook,
    /// For who watches, not for the model: what a person should know of how this job runs. Wants no word in return.
    Notice,
    /// The same, and a person must look at it.
    Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    Lease,
    Provider,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Ok,
    /// Carried out, or attempted, without success.
    Failed,
    Denied,
    /// Not carried out: unknown tool, broken arguments.
    Invalid,
    Cancelled,
    /// A limit came first.
    NotRun,
    /// A limit came while it ran.
    NotFinished,
    /// It may have run: the worker died in between.
    Unknown,
}

/// One file that a tool wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Absolute, links followed.
    pub path: String,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Created,
    Modified,
}

/// One file as a tool left or saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Absolute, links followed.
    pub path: String,
    pub bytes: u64,
    /// blake3 in hex; None where it is too large for one, and then the marks decide.
    pub hash: Option<String>,
    pub device: u64,
    pub inode: u64,
    /// Nanoseconds since 1970, as text: JSON numbers end before.
    pub modified_ns: String,
}

/// What one run of a hook came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookSaid {
    /// Nothing against it.
    Passed,
    Allowed,
    Asked,
    /// It forbids the call, or sends what it is about back.
    Blocked,
    /// The job is to end (`continue: false`).
    Stopped,
    /// It could not be run, or not be understood, and that counts as a no.
    FailedClosed,
    /// The same, and its owner said that it may.
    FailedOpen,
}

impl Event {
    /// The name that stands on disk.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Event::Submitted { .. } => "Submitted",
            Event::Started { .. } => "Started",
            Event::Interrupted { .. } => "Interrupted",
            Event::Paused {} => "Paused",
            Event::Unpaused {} => "Unpaused",
            Event::Injected { .. } => "Injected",
            Event::Leased { .. } => "Leased",
            Event::AttemptFailed { .. } => "AttemptFailed",
            Event::Waiting { .. } => "Waiting",
            Event::Replied { .. } => "Replied",
            Event::Judged { .. } => "Judged",
            Event::AskOpened { .. } => "AskOpened",
            Event::AskAnswered { .. } => "AskAnswered",
            Event::HookRan { .. } => "HookRan",
            Event::ToolStarted { .. } => "ToolStarted",
            Event::ToolFinished { .. } => "ToolFinished",
            Event::LimitWarned { .. } => "LimitWarned",
            Event::Recovered { .. } => "Recovered",
            Event::Attention { .. } => "Attention",
            Event::Acked {} => "Acked",
            Event::Resumed { .. } => "Resumed",
            Event::Finished { .. } => "Finished",
        }
    }

    /// Whether the supervisor, and not a worker, writes this into a run's log. `Finished` may come from either.
    ///
    /// The other events are numbered by the worker from 0 in each attempt; counting them in the log tells, also after
    /// a crash of the supervisor, which records it already holds.
    #[must_use]
    pub fn is_supervisors(&self) -> bool {
        matches!(
            self,
            Event::Submitted { .. }
                | Event::Started { .. }
                | Event::Interrupted { .. }
                | Event::Paused {}
                | Event::Unpaused {}
                | Event::AskAnswered { .. }
                | Event::Recovered { .. }
                | Event::Attention { .. }
                | Event::Acked {}
                | Event::Resumed { .. }
        )
    }

    /// Whether this shows that an attempt got somewhere (spec §11, crash loop).
    #[must_use]
    pub fn is_progress(&self) -> bool {
        !matches!(
            self,
            Event::Started { .. }
                | Event::Interrupted { .. }
                | Event::Paused {}
                | Event::Unpaused {}
                | Event::AskAnswered { .. }
                | Event::HookRan { .. }
                | Event::Leased { .. }
                | Event::Waiting { .. }
                | Event::AttemptFailed { .. }
                | Event::Recovered { .. }
                | Event::Attention { .. }
                | Event::Acked {}
                | Event::Resumed { .. }
        )
    }
}
