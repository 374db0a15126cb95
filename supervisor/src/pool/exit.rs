//! When a process ends, and how.
//!
//! A pidfd instead of SIGCHLD: it names one process for ever, works for those that are no children of ours (adopted
//! after a restart), and takes no exit status away from anybody.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use ukai_protocol::event::ProcessMark;
use ukai_protocol::process;

use crate::restart::Exit;

/// Returns once that process has ended; at once if it is another one by now.
pub async fn ended(mark: &ProcessMark) -> io::Result<()> {
    let pid = Pid::from_raw(mark.pid.cast_signed()).ok_or_else(|| io::Error::other("0 is no process"))?;
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other?,
    };
    // Only now is the pid held: what it named before may have been somebody else.
    if !process::is_alive(mark) {
        return Ok(());
    }
    // Its successor is unsafe for the sake of types that could change their descriptor; an OwnedFd cannot.
    #[allow(deprecated)]
    let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    descriptor.readable().await?.retain_ready();
    Ok(())
}

/// The status of a child that has ended. Blocks no longer than the kernel takes to hand it out.
pub fn status(child: &mut Child) -> Exit {
    match child.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Unknown,
        },
        Err(error) => {
            tracing::error!(pid = child.id(), %error, "the exit status of a worker could not be read");
            Exit::Unknown
        }
    }
}
