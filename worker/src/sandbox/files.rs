//! Landlock: which files, which ports, whose signals. It holds for this process and for all that it starts.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::FileType;

use super::Confine;
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
    let failed = |error: landlock::RulesetError| io::Error::other(format!("Landlock: {error}"));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))
        .and_then(|rules| rules.scope(Scope::from_all(ABI_WANTED)))
        .map_err(failed)?;
    if confine.network == Network::Off {
        rules = rules.handle_access(AccessNet::from_all(ABI_WANTED)).map_err(failed)?;
    }
    let mut rules = rules.create().map_err(failed)?;
    let read = AccessFs::from_read(ABI_WANTED);
    let all = AccessFs::from_all(ABI_WANTED);
    for path in SYSTEM.iter().chain(&SYSTEM_FACTS) {
        rules = open(rules, Path::new(path), read)?;
    }
    for path in etc() {
        rules = open(rules, &path, read)?;
    }
    for path in DEVICES {
        rules = open(rules, Path::new(path), read | AccessFs::WriteFile)?;
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
