//! The link between one worker process and its supervisor.
//!
//! Hello → Welcome (+ State chunks) → Record / Ack, Ask / Answer, Report, Heartbeat … until the worker closes.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::JobId;
use crate::job::{CauseKind, JobSpec};
use crate::lease::{Answer, Ask, Report};
use crate::policy::Judgement;
use crate::secret::Secret;
use crate::secret::fingerprint::Fingerprints;

/// A piece of [`ToWorker::State`]: well under the frame bound, so that a large state streams.
pub const STATE_CHUNK_BYTES: usize = 1024 * 1024;

/// The worker's first message on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub job: JobId,
    pub attempt: u32,
    /// Read from the inherited descriptor; good for reconnecting too.
    pub token: Secret,
    pub pid: u32,
    /// It has run already and lost its supervisor: it wants no state, only to go on.
    pub reconnect: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// `n`: the number of the first of these events among all that this attempt recorded, from 0.
    Record {
        attempt: u32,
        n: u64,
        events: Vec<Event>,
    },
    Ask(Ask),
    /// The ask is no longer wanted, whatever its answer was.
    Withdraw {
        call: u64,
    },
    Report(Report),
    /// After a reconnect: what was not acknowledged, and what a provider named meanwhile, has been sent again.
    Returned,
    /// Proof of life, with what moves it: bytes streamed and tools finished so far.
    Heartbeat {
        progress: u64,
    },
    /// A verdict on a call that was put to a person, found otherwise: the supervisor takes the first that comes.
    Settle {
        call: String,
        judgement: Judgement,
    },
    /// After a cancel: commands are being asked to end, which may take as long as they are given.
    Ending,
    /// Provisional text for listeners; may be dropped.
    Delta {
        step: u64,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    Welcome(Box<Welcome>),
    /// The encoded [`crate::run_state::RunState`], in pieces of at most [`STATE_CHUNK_BYTES`].
    State {
        chunk: Vec<u8>,
    },
    /// All events numbered below `n` are on disk.
    Ack {
        n: u64,
    },
    Answer {
        call: u64,
        answer: Answer,
    },
    /// End the tree, record nothing new, exit. The supervisor writes the terminal event when the process is gone.
    Cancel {
        kind: CauseKind,
    },
    /// Let the call under way end, begin nothing new, exit; the job goes on in a later attempt.
    Pause,
    /// Go on after all, if it still can.
    Unpause,
    /// What was put to a person is answered, and on disk.
    Answered {
        call: String,
        tool: String,
        judgement: Judgement,
        granted: Vec<String>,
    },
    /// After a reconnect: these are still put to a person. What else the worker waits for was answered meanwhile, and it
    /// exits; a later attempt reads the answer from the fold.
    StillAsked {
        calls: Vec<String>,
    },
    /// Exit if nothing but a person's answer is waited for; a later attempt goes on with it.
    Park,
    /// This attempt is not wanted (any more): exit at once.
    Reject {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    pub job: JobId,
    pub spec: JobSpec,
    /// How many bytes of State follow; 0 after a reconnect.
    pub state_bytes: u64,
    /// Events of this attempt that are on disk.
    pub acked: u64,
    pub heartbeat_ms: u64,
    pub orphan_grace_ms: u64,
    /// Where spilled output goes; a root for reading.
    pub outputs: std::path::PathBuf,
    /// For commands, besides the usual: name and value.
    pub env: Vec<(String, String)>,
    /// From TERM to KILL.
    pub term_grace_ms: u64,
    /// Somebody can be asked about a call that no rule decides.
    pub asks: bool,
    /// What must not come to stand in a record, known by its hash alone.
    pub secrets: Fingerprints,
    /// Those of all configured providers: the worker connects to no others, where the kernel can see to that.
    pub ports: Vec<u16>,
    /// What ukai itself keeps, wherever it lies: state, configuration, files with keys. Neither tools nor commands touch it.
    pub private: Vec<std::path::PathBuf>,
}
