//! User, mount, pid, ipc and network namespaces: without any privilege, where the kernel lets an ordinary user have them.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use ukai_protocol::policy::Network;

/// Which of them are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces {
    pub network: Network,
}

impl Namespaces {
    /// Leaves those that this process is in. The next process that it forks is the init of the new ones. This process has
    /// one thread; it is dumpable while its ids are mapped, since only so does the kernel let it write the maps.
    pub fn leave(self) -> Result<(), String> {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        let mut flags =
            CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
        if self.network != Network::On {
            flags |= CloneFlags::CLONE_NEWNET;
        }
        let dumpable = |yes| {
            use rustix::process::{DumpableBehavior, set_dumpable_behavior};
            let behavior = if yes { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
            set_dumpable_behavior(behavior).map_err(|error| format!("prctl(PR_SET_DUMPABLE): {error}"))
        };
        unshare(flags).map_err(|error| format!("unshare: {error}"))?;
        let write = |name: &str, text: &str| {
            fs::write(format!("/proc/self/{name}"), text).map_err(|error| format!("writing /proc/self/{name}: {error}"))
        };
        // To have got capabilities in there has made it undumpable.
        dumpable(true)?;
        // Everybody stays who he is; nobody else has a name in there.
        write("setgroups", "deny")?;
        write("uid_map", &format!("{uid} {uid} 1"))?;
        write("gid_map", &format!("{gid} {gid} 1"))?;
        dumpable(false)
    }
}

/// Whether this kernel grants them to who asks now. Leaves them: for a process that does nothing else.
pub fn granted() -> Result<(), String> {
    Namespaces { network: Network::Off }.leave()
}

/// The loopback of a new network namespace is down.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    super::abi::raise_loopback(&socket)
}
