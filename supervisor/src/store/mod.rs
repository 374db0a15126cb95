//! What survives: the event log of every run, its snapshot, and the one actor that writes them.
//!
//! The log is the truth and everything else is made from it. A record is on disk before anyone is told. Each run has a
//! file of its own, synced on a thread of its own: a log for all jobs would save under a tenth and be a second truth.

// On disk.
pub mod artifacts;
pub mod batch_file;
pub mod capabilities;
pub mod event_log;
pub mod paths;
pub mod routes;
pub mod server_log;
pub mod snapshot;
pub mod spec_file;
pub mod told;

// After a crash.
pub mod loader;
pub mod lock;
pub mod owed;
pub mod quarantine;
pub mod recovery;

// While it runs.
pub mod actor;
pub mod error;
pub mod lane;
pub mod log_file;
pub mod message;
pub mod reads;
pub mod writer;

#[cfg(test)]
pub(crate) mod testing;

pub use actor::start;
pub use error::StoreError;
pub use loader::{Problem, Recovered, recover_all};
pub use lock::Lock;
pub use message::{Appended, Numbered, Piece, Position, Published, Reply, StoreMessage};
pub use paths::{StateDir, socket_path};
