//! How a verb ends without having done its work: one clear sentence and an exit code (spec §14).

use std::fmt;

use crate::config::fault::Fault;
use crate::config::load::LoadError;
use crate::store::StoreError;
use crate::store::lock::LockError;
use crate::store::paths::PathError;

/// Usage or configuration: nothing was done.
pub const USAGE: u8 = 2;
/// Something else went wrong.
pub const FAILED: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    /// What was attempted, on what, why it failed, what to do next.
    pub text: String,
}

impl Failure {
    pub fn usage(text: impl fmt::Display) -> Self {
        Failure { code: USAGE, text: text.to_string() }
    }

    pub fn failed(text: impl fmt::Display) -> Self {
        Failure { code: FAILED, text: text.to_string() }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::usage(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::usage(fault)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Failure::usage(error)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Failure::usage(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::failed(error)
    }
}
