//! The threads on which calls are judged and tools run: both look at file systems, and those may hang.

use ukai_protocol::threads::Threads;

use crate::provider::wire::draft::REPLY_CALLS_MAX;
use crate::tool::partition::BATCH_CALLS_MAX;

/// A batch of calls, and as many that hang while the next one runs.
const THREADS_MAX: usize = 2 * BATCH_CALLS_MAX;
/// All calls of a reply are judged at once.
const WAITING_MAX: usize = REPLY_CALLS_MAX;

/// Those of this process.
pub static THREADS: Threads = Threads::new("calls", THREADS_MAX, WAITING_MAX);
