//! What of a filter outlives its process, and by which clock.
//!
//! Every `ukai run` is a process of its own: without this each would begin as if nothing had been told. Instants of one
//! process mean nothing to the next, so these are people's time; a clock that was set is clamped to what can be true:
//! nothing was told in the future, and nothing waits longer than its rule says.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::alert::Key;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    #[serde(default)]
    pub told: Vec<ToldKey>,
    #[serde(default)]
    pub standing: Vec<StandingAccount>,
    #[serde(default)]
    pub pace: PaceMemory,
}

/// When a key was told within the last hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldKey {
    pub key: Key,
    #[serde(default)]
    pub at_ms: Vec<u64>,
}

/// An account of whose OPEN breaker this sink has told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingAccount {
    pub account: String,
    #[serde(default)]
    pub since_ms: u64,
    /// As it was last heard.
    #[serde(default)]
    pub open: bool,
    /// How often it has moved and moved back since.
    #[serde(default)]
    pub untold: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceMemory {
    /// Since it was last quiet.
    #[serde(default)]
    pub messages: u64,
    #[serde(default)]
    pub last_ms: u64,
}

/// Milliseconds since 1970; 0 before.
#[must_use]
pub fn ms(clock: SystemTime) -> u64 {
    clock.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How long ago that was. What lies in the future counts as now.
#[must_use]
pub fn age(at_ms: u64, clock: SystemTime) -> Duration {
    Duration::from_millis(ms(clock).saturating_sub(at_ms))
}
