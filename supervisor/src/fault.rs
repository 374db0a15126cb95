//! What a refusal of the store means for the job it was about.

use ukai_protocol::job::{Cause, CauseKind};

use crate::store::StoreError;

/// The cause with which a job ends whose event could not be recorded.
#[must_use]
pub fn cause(error: &StoreError) -> Cause {
    let kind = match error {
        StoreError::Io { errno, .. } => CauseKind::Io(*errno),
        StoreError::Corrupt { .. } | StoreError::Quarantined { .. } => CauseKind::Quarantined,
        _ => CauseKind::Internal,
    };
    Cause::new(kind, error.to_string())
}
