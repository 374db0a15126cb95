//! How a command is started: by a host that is confined itself, or where there are no namespaces by a child that is.
//!
//! With namespaces all that a host starts inherits what it has entered, and `posix_spawn` copies nothing. Without them a
//! host that shared the confinement of its commands could be signalled by them, and what they left would have nobody who
//! ends it. So there each command is confined on its own, in a copy of the host, which is small.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::{fs, io};

use nix::sys::signal::SigSet;
use ukai_protocol::process;

use super::fork::{self, Fork};
use super::spawn::{self, Stdio};
use super::words::Start;
use crate::sandbox::{self, Confine};

/// What it ends with when it could not be confined or started, as a shell does.
const NOT_STARTED: i32 = 126;

pub enum Launch {
    /// What this process is confined by, they are.
    Inherited,
    Each(Confine),
}

impl Launch {
    /// Returns the pid.
    pub fn start(&self, start: &Start, stdio: Stdio<'_>) -> io::Result<u32> {
        match self {
            Launch::Inherited => spawn::spawn(start, stdio),
            Launch::Each(confine) => match fork::fork()? {
                Fork::Parent(pid) => Ok(pid),
                Fork::Child => {
                    let error = become_command(start, stdio, confine);
                    // Somebody reads it, or nobody wants to know.
                    let _ = writeln!(io::stderr(), "ukai: the command was not started: {error}");
                    std::process::exit(NOT_STARTED)
                }
            },
        }
    }
}

/// Returns only if it failed.
fn become_command(start: &Start, stdio: Stdio<'_>, confine: &Confine) -> io::Error {
    let ready = || {
        rustix::stdio::dup2_stdout(stdio.stdout)?;
        rustix::stdio::dup2_stderr(stdio.stderr)?;
        match stdio.stdin {
            Some(stdin) => rustix::stdio::dup2_stdin(stdin)?,
            None => rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?.as_fd())?,
        }
        nix::unistd::setsid()?;
        std::env::set_current_dir(&start.workdir)?;
        SigSet::empty().thread_set_mask()?;
        sandbox::confine(confine, false, &mut Vec::new())
    };
    if let Err(error) = ready() {
        return error;
    }
    process::become_other(&start.program, &start.args, &start.env)
}
