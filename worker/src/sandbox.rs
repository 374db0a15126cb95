//! What everything that a model starts is confined by: namespaces where the kernel grants them, Landlock and seccomp always.
//!
//! Each layer holds by itself what it can: Landlock what is read and written, seccomp sockets and the calls that could undo
//! the rest, namespaces what neither can (a read-only `.git` inside the workdir, processes that are not seen, an end that
//! nobody outlives). A process enters once, before it starts anything; all that it starts inherits it and nothing gives
//! it up. What could not be had is said, never passed over.

mod abi;
mod files;
mod limits;
mod mounts;
mod namespaces;
mod privileges;
mod syscalls;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use abi::landlock_abi;
pub use namespaces::{Namespaces, granted};
use ukai_protocol::policy::Network;

/// Below this Landlock cannot hold a file that is truncated; with no namespaces either, nothing is started (spec §8).
pub const LANDLOCK_ABI_MIN: u32 = 3;

/// What is opened. Everything else is closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confine {
    pub network: Network,
    /// Files and folders to read and to run, with all below them.
    pub read: Vec<PathBuf>,
    /// To write, too.
    pub write: Vec<PathBuf>,
    /// Inside of those, what is read-only where there are namespaces.
    pub protect: Vec<PathBuf>,
    /// And what is not even seen there.
    pub hide: Vec<PathBuf>,
}

/// What holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub namespaces: bool,
    pub landlock_abi: u32,
    /// What was wanted and could not be had, with the reason.
    pub missing: Vec<String>,
}

/// Confines this process and all that it will start. With namespaces, it is their init already.
pub fn enter(confine: &Confine, namespaces: Result<(), String>) -> io::Result<Held> {
    let mut missing = Vec::new();
    let has_namespaces = match namespaces {
        Ok(()) => {
            mounts::arrange(confine, &mut missing)?;
            if confine.network == Network::Loopback {
                namespaces::raise_loopback()?;
            }
            true
        }
        Err(why) => {
            missing.push(format!("namespaces: {why}"));
            false
        }
    };
    let landlock_abi = landlock_abi();
    if !has_namespaces {
        if landlock_abi < LANDLOCK_ABI_MIN {
            return Err(io::Error::other(cannot(landlock_abi, &missing)));
        }
        if let Some(path) = confine.hide.iter().chain(&confine.protect).next() {
            missing.push(format!("{} and its like inside the workdir can be written to by commands", path.display()));
        }
        if confine.network == Network::Loopback {
            return Err(io::Error::other(
                "a loopback of its own needs a network namespace, which this kernel does not grant",
            ));
        }
    }
    limits::set()?;
    privileges::give_up()?;
    files::restrict(confine, landlock_abi, has_namespaces, &mut missing)?;
    syscalls::forbid(confine.network)?;
    Ok(Held { namespaces: has_namespaces, landlock_abi, missing })
}

/// Why nothing can be started on this machine, and what to do.
#[must_use]
pub fn cannot(landlock_abi: u32, missing: &[String]) -> String {
    format!(
        "this kernel can confine no command: it has Landlock ABI {landlock_abi} (at least {LANDLOCK_ABI_MIN} is needed) and {}. \
         Run on a kernel of at least 6.2, allow user namespaces, or set `sandbox: off` in the tool policy",
        if missing.is_empty() { "no namespaces".to_owned() } else { missing.join("; ") }
    )
}
