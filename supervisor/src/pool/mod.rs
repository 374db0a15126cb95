//! Worker processes: one job actor each, from before the start of the process until after its last record is stored.

pub mod actor;
pub mod commands_env;
pub(crate) mod exit;
pub mod link;
pub mod reaper;
mod silence;
pub mod spawn;
pub(crate) mod stderr;
pub mod stray;
pub mod temp;
