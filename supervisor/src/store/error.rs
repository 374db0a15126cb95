//! What the store answers instead of doing it.

use std::fmt::Display;
use std::io;
use std::path::Path;

use ukai_protocol::id::JobId;

use super::event_log::Unwritable;
use super::recovery::Corrupt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk refused. Nothing of what was asked is recorded; what was before is intact.
    #[error("{what}: {why}")]
    Io {
        what: String,
        why: String,
        /// 0 where the system named none.
        errno: i32,
    },
    /// The log verified when it was opened and does not now.
    #[error("the event log of {job} has changed on disk: {why}. The run is quarantined before anything is added to it")]
    Corrupt { job: JobId, why: String },
    #[error("{job} is quarantined: {why}")]
    Quarantined { job: JobId, why: String },
    #[error("there is no job {0} in the state directory")]
    Unknown(JobId),
    #[error("there is a job {0} already")]
    Exists(JobId),
    /// The events cannot follow what the log holds, or the sender may not write them.
    #[error("recording for {job}: {why}")]
    Illegal { job: JobId, why: String },
    #[error("recording for {job}: {unwritable}")]
    Unwritable { job: JobId, unwritable: Unwritable },
    #[error("recording for {job}: attempt {theirs} is over, the log is at attempt {ours}")]
    StaleAttempt { job: JobId, theirs: u32, ours: u32 },
    #[error("recording for {job}: events {expected} to {found} of this attempt never arrived")]
    Gap { job: JobId, expected: u64, found: u64 },
    /// A bound of the store: ask again when earlier requests have been answered.
    #[error("the store has {waiting} {what} waiting already: wait for their answers")]
    Full { waiting: usize, what: &'static str },
    /// Whether the events were recorded is not known: the log tells at the next start.
    #[error("the store has stopped")]
    Stopped,
}

impl StoreError {
    #[must_use]
    pub fn io(doing: impl Display, path: &Path, error: &io::Error) -> Self {
        StoreError::Io {
            what: format!("{doing} {}", path.display()),
            why: error.to_string(),
            errno: error.raw_os_error().unwrap_or(0),
        }
    }

    #[must_use]
    pub fn corrupt(job: &JobId, corrupt: &Corrupt) -> Self {
        StoreError::Corrupt { job: job.clone(), why: corrupt.to_string() }
    }

    /// Whether space is what is missing, and giving the reserve back may help.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        use nix::libc::{EDQUOT, ENOSPC};
        matches!(self, StoreError::Io { errno: ENOSPC | EDQUOT, .. })
    }
}
