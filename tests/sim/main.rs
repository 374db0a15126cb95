//! All pure machines on one clock, against a reference: what an undisturbed run would have done.
//!
//! Every run prints its seed when it fails; `UKAI_SIM_SEED=N` plays that one alone.

mod query;
