//! Who may ask which provider, and when (spec §5).
//!
//! This is the only place in ukai where anything is tried again: workers make one attempt per lease, so that no second
//! retry loop can multiply ours or hide a failure from it.

pub mod account;
pub mod backoff;
pub mod fit;
pub mod router;
