//! Who may ask which provider, and when (spec §5).
//!
//! This is the only place in ukai where anything is tried again: workers make one attempt per lease, so that no second
//! retry loop can multiply ours or hide a failure from it.

//!
//! Everything here is pure: `now` comes in, what is to be done goes out. In reading order: what is chosen (`router`,
//! `survey`, `fit`), what it is chosen by (`account`: `breaker`, `bucket`), and the rest.

pub mod router;
pub mod survey;

pub mod fit;

pub mod account;
pub mod breaker;
pub mod bucket;

pub mod backoff;
pub mod decision;
pub mod estimate;
pub mod lease;
pub mod probe;
