//! All pure machines on one clock, against a reference: what an undisturbed run would have done.
//!
//! Every run prints its seed when it fails; `UKAI_SIM_SEED=N` plays that one alone.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

mod fleet;
mod query;
