//! What one command may take of the machine.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// One file; a build with debug symbols stays far below.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Processes and threads of one job together, where they have a user namespace of their own; the kernel counts root's not.
const PROCESSES_MAX: u64 = 4_096;
const DESCRIPTORS_MAX: u64 = 16_384;

pub(super) fn set() -> io::Result<()> {
    lower(Resource::RLIMIT_FSIZE, FILE_BYTES_MAX)?;
    lower(Resource::RLIMIT_NPROC, PROCESSES_MAX)?;
    lower(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX)
}

/// For whatever this process starts: a core would hold what it read, and nobody looks at it.
pub fn no_core() -> io::Result<()> {
    lower(Resource::RLIMIT_CORE, 0)
}

/// Never raises what the owner has set.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let (soft, hard) = getrlimit(resource)?;
    Ok(setrlimit(resource, soft.min(to), hard.min(to))?)
}
