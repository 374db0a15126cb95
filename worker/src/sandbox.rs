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
pub use limits::no_core;
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
    /// Folders there that cannot be moved away with what is hidden in them, from the outermost inwards.
    pub pin: Vec<PathBuf>,
}

/// What the worker itself keeps of what its owner may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and folders to read, with all below them.
    pub read: Vec<PathBuf>,
    /// To read and to write.
    pub write: Vec<PathBuf>,
    /// Where it may remove empty folders, and do nothing else.
    pub remove_folders_in: Option<PathBuf>,
    /// Where it may connect to, whatever the host.
    pub ports: Vec<u16>,
}

/// What holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub namespaces: bool,
    pub landlock_abi: u32,
    /// What was wanted and could not be had, with the reason.
    pub missing: Vec<String>,
}

/// What will hold, before anything is entered; the error says why nothing may be started.
pub fn check(confine: &Confine, namespaces: &Result<(), String>) -> io::Result<Held> {
    let landlock_abi = landlock_abi();
    let mut missing = Vec::new();
    if let Err(why) = namespaces {
        missing.push(format!("namespaces: {why}"));
        if landlock_abi < LANDLOCK_ABI_MIN {
            return Err(io::Error::other(cannot(landlock_abi, &missing)));
        }
        if let Some(path) = confine.hide.iter().chain(&confine.protect).next() {
            missing.push(format!("{} and its like inside the workdir are open to commands", path.display()));
        }
        missing.push("who else runs here, with which arguments, can be seen in /proc".to_owned());
        if confine.network == Network::Loopback {
            let why = "a loopback of its own needs a network namespace, which this kernel does not grant";
            return Err(io::Error::other(why));
        }
    }
    Ok(Held { namespaces: namespaces.is_ok(), landlock_abi, missing })
}

/// For the init of new namespaces: what a command will see of the machine.
pub fn arrange(confine: &Confine, missing: &mut Vec<String>) -> io::Result<()> {
    mounts::arrange(confine, missing)?;
    if confine.network == Network::Loopback {
        namespaces::raise_loopback()?;
    }
    Ok(())
}

/// Confines this process and all that it will start, for good.
pub fn confine(confine: &Confine, has_namespaces: bool, missing: &mut Vec<String>) -> io::Result<()> {
    limits::set()?;
    privileges::give_up()?;
    files::restrict(confine, landlock_abi(), has_namespaces, missing)?;
    syscalls::forbid(confine.network, has_namespaces)
}

/// Confines this thread, and all that it will start, to what a worker does: for good, and when nothing is left to be executed
/// or forked. Returns what could not be had; where Landlock is too old for it, all that it would hold.
pub fn confine_worker(reach: &Reach) -> io::Result<Vec<String>> {
    let mut missing = Vec::new();
    let landlock_abi = landlock_abi();
    privileges::give_up_but_files()?;
    if landlock_abi < LANDLOCK_ABI_MIN {
        missing.push(format!(
            "which files it opens and where it connects to: Landlock ABI {landlock_abi} (at least {LANDLOCK_ABI_MIN} is needed)"
        ));
    } else {
        files::restrict_worker(reach, landlock_abi, &mut missing)?;
    }
    syscalls::forbid_to_worker()?;
    Ok(missing)
}

/// Whether this kernel takes the filter of calls. Keeps it on: for a process that does nothing else.
pub fn seccomp() -> Result<(), String> {
    privileges::give_up().and_then(|()| syscalls::forbid(Network::Off, false)).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests;
