//! Landlock: which files, which ports, whose signals. It holds for this process and for all that it starts.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::FileType;

use super::{Confine, Reach};
use ukai_protocol::policy::Network;

/// The newest that this was tried with. An older kernel leaves out what it does not know; what that is, is said.
const ABI_WANTED: ABI = ABI::V6;

/// Programs, and what they are made of.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/snap"];
/// Devices that hold nothing of anybody's.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/fd"];
const SYSTEM_FACTS: [&str; 6] = [
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf",
    "/proc/sys/kernel",
    "/proc/sys/vm",
];
/// In /etc, what a server is found by, and what git reads of it.
const ETC_OF_NETWORK: [&str; 13] = [
    "resolv.conf",
    "hosts",
    "host.conf",
    "hostname",
    "nsswitch.conf",
    "gai.conf",
    "services",
    "protocols",
    "mdns.allow",
    "ld.so.cache",
    "localtime",
    "gitconfig",
    "gitattributes",
];
/// A name whose answer is too long for a datagram is asked for by TCP.
const DNS: u16 = 53;
/// In /etc, what only root reads, where commands may run as root.
const ETC_SECRETS: [&str; 18] = [
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "sudoers",
    "sudoers.d",
    "ssh",
    "ssl/private",
    "krb5.keytab",
    "wireguard",
    "NetworkManager",
    "ppp",
    "docker",
    "kubernetes",
    "letsencrypt",
    "openvpn",
    "ipsec.secrets",
    "credstore",
];

/// What all that a command starts may touch.
pub(super) fn restrict(
    confine: &Confine,
    landlock_abi: u32,
    has_namespaces: bool,
    missing: &mut Vec<String>,
) -> io::Result<()> {
    if landlock_abi == 0 {
        missing.push("Landlock: this kernel has none, or it is switched off".to_owned());
        return Err(io::Error::other("Landlock is missing, so what commands may read and write cannot be held"));
    }
    let (read, all) = (AccessFs::from_read(ABI_WANTED), AccessFs::from_all(ABI_WANTED));
    let mut rules = system(everything_closed(confine.network == Network::Off)?)?;
    for path in etc() {
        rules = open(rules, &path, read)?;
    }
    // Its own; without namespaces that of all, whose secrets Landlock keeps by itself: they are no child's.
    rules = open(rules, Path::new("/proc"), read)?;
    if has_namespaces {
        rules = open(rules, Path::new("/dev/shm"), all)?;
    }
    for path in &confine.read {
        rules = open(rules, path, read)?;
    }
    for path in &confine.write {
        rules = open(rules, path, all)?;
    }
    enforce(rules, landlock_abi, missing)
}

/// What the worker itself may touch: a thread that this is called in, and those that it starts later.
pub(super) fn restrict_worker(reach: &Reach, landlock_abi: u32, missing: &mut Vec<String>) -> io::Result<()> {
    let (read, all) = (AccessFs::from_read(ABI_WANTED), AccessFs::from_all(ABI_WANTED));
    let mut rules = system(everything_closed(true)?)?;
    for name in ETC_OF_NETWORK {
        rules = open(rules, &Path::new("/etc").join(name), read)?;
    }
    rules = open(rules, Path::new("/proc/self"), read)?;
    if let Some(folder) = folder_of_names() {
        rules = open(rules, &folder, read)?;
    }
    for path in &reach.read {
        rules = open(rules, path, read)?;
    }
    for path in &reach.write {
        rules = open(rules, path, all)?;
    }
    if let Some(folder) = &reach.remove_folders_in {
        rules = open(rules, folder, AccessFs::RemoveDir.into())?;
    }
    for port in reach.ports.iter().copied().chain([DNS]) {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    enforce(rules, landlock_abi, missing)
}

fn failed(error: landlock::RulesetError) -> io::Error {
    io::Error::other(format!("Landlock: {error}"))
}

fn everything_closed(network_too: bool) -> io::Result<RulesetCreated> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))
        .and_then(|rules| rules.scope(Scope::from_all(ABI_WANTED)))
        .map_err(failed)?;
    if network_too {
        rules = rules.handle_access(AccessNet::from_all(ABI_WANTED)).map_err(failed)?;
    }
    rules.create().map_err(failed)
}

/// Opens what is everybody's.
fn system(mut rules: RulesetCreated) -> io::Result<RulesetCreated> {
    let read = AccessFs::from_read(ABI_WANTED);
    for path in SYSTEM.iter().chain(&SYSTEM_FACTS) {
        rules = open(rules, Path::new(path), read)?;
    }
    for path in DEVICES {
        rules = open(rules, Path::new(path), read | AccessFs::WriteFile)?;
    }
    Ok(rules)
}

fn enforce(rules: RulesetCreated, landlock_abi: u32, missing: &mut Vec<String>) -> io::Result<()> {
    let status = rules.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced => {
            missing.push(format!("Landlock ABI {landlock_abi} holds less than ABI {} would", ABI_WANTED as u32));
        }
        RulesetStatus::NotEnforced => return Err(io::Error::other("Landlock was not enforced")),
    }
    Ok(())
}

/// Where the names of servers are looked up is written anew, as another file, when the network changes: so its folder is
/// opened. Not so /etc itself to root, who would read secrets there; such a worker asks again after its next start.
fn folder_of_names() -> Option<PathBuf> {
    let folder = Path::new("/etc/resolv.conf").canonicalize().ok()?.parent()?.to_owned();
    (folder != Path::new("/etc") || !rustix::process::geteuid().is_root()).then_some(folder)
}

/// What is not there is not opened; of a file only what a file can have.
fn open(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    let kind = rustix::fs::fstat(&file).map(|found| FileType::from_raw_mode(found.st_mode));
    let access = if kind == Ok(FileType::Directory) { access } else { access & AccessFs::from_file(ABI_WANTED) };
    rules
        .add_rule(PathBeneath::new(file, access))
        .map_err(|error| io::Error::other(format!("Landlock, {}: {error}", path.display())))
}

/// /etc entry by entry, without its secrets.
fn etc() -> Vec<PathBuf> {
    let is_secret = |path: &Path| ETC_SECRETS.iter().any(|secret| path == Path::new("/etc").join(secret));
    let below = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| !is_secret(path)).collect::<Vec<_>>()
    };
    let mut entries = below("/etc");
    // A folder of which a part is secret is opened part by part.
    entries.retain(|path| path != Path::new("/etc/ssl"));
    entries.extend(below("/etc/ssl"));
    entries
}
