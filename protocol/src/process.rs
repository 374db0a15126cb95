//! Every process that ukai starts is started here: own group, no inherited secret, nothing on stdin but what is given.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::event::ProcessMark;

/// What to start. The environment is exactly `env`.
pub struct Start {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub workdir: Option<PathBuf>,
    pub stdin: Stdin,
    pub stdout: Stdio,
    pub stderr: Stdio,
}

/// What the child finds on descriptor 0.
pub enum Stdin {
    Null,
    /// These bytes, then the end: how a token is handed over without an argument or a variable.
    Given(Vec<u8>),
    /// A pipe that [`Child::stdin`] holds open: the child can tell when we are gone.
    Open,
}

/// A pipe takes this much without a reader (POSIX guarantees 4 KiB, Linux gives 64).
const STDIN_BYTES_MAX: usize = 4096;

/// Variables that a helper process of ours needs; no other is passed on, and so no key is.
const PASSED_ON: [&str; 10] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "RUST_BACKTRACE",
    "UKAI_LOG",
    "SSL_CERT_FILE",
];

/// The environment for a process of ours.
#[must_use]
pub fn own_environment() -> Vec<(OsString, OsString)> {
    PASSED_ON.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?))).collect()
}

/// Starts it in a process group of its own. Blocks for the fork: call it from a thread that may.
pub fn start(what: Start) -> io::Result<Child> {
    let mut command = Command::new(&what.program);
    command.args(&what.args).env_clear().envs(what.env).process_group(0);
    command.stdin(match &what.stdin {
        Stdin::Null => Stdio::null(),
        Stdin::Given(bytes) if bytes.len() > STDIN_BYTES_MAX => {
            return Err(io::Error::other("more for stdin than a pipe takes at once"));
        }
        Stdin::Given(_) | Stdin::Open => Stdio::piped(),
    });
    command.stdout(what.stdout).stderr(what.stderr);
    if let Some(workdir) = what.workdir {
        command.current_dir(workdir);
    }
    let mut child = command.spawn()?;
    if let Stdin::Given(bytes) = what.stdin
        && let Some(mut pipe) = child.stdin.take()
    {
        // A child that died before reading is seen by its exit, not here.
        match pipe.write_all(&bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    Ok(child)
}

/// Becomes another program of ours, in the environment of one. Returns only if that failed.
pub fn become_program(program: &Path, args: &[OsString]) -> io::Error {
    Command::new(program).args(args).env_clear().envs(own_environment()).exec()
}

/// Becomes a program that is not ours, under this name (its first argument) and in exactly this environment. Returns only if
/// that failed.
pub fn become_other(program: &Path, args: &[String], env: &[(String, String)]) -> io::Error {
    let (name, args) = args.split_first().map_or(("", &[][..]), |(name, args)| (name.as_str(), args));
    let env = env.iter().map(|(name, value)| (name, value));
    Command::new(program).arg0(name).args(args).env_clear().envs(env).exec()
}

/// The identity of a live process, or None if there is none with this pid.
#[must_use]
pub fn mark(pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark { pid, start_time: stat(pid)?.start_time, boot_id: boot_id()?.to_owned() })
}

/// Whether exactly that process still lives (a zombie does not).
#[must_use]
pub fn is_alive(mark: &ProcessMark) -> bool {
    boot_id() == Some(&*mark.boot_id)
        && stat(mark.pid).is_some_and(|stat| stat.start_time == mark.start_time && stat.state != 'Z')
}

/// Whether a process runs a program of the same name as this one. What it is by its file, another user's process and one
/// that is not dumpable do not tell.
#[must_use]
pub fn is_same_program(pid: u32) -> bool {
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    name("self").is_some_and(|own| name(&pid.to_string()) == Some(own))
}

/// The fields of `/proc/PID/stat` that we need.
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
}

/// One process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pid: u32,
    pub parent: u32,
    /// It has ended, and its parent has not asked how.
    pub is_dead: bool,
}

/// All that `/proc` shows now.
#[must_use]
pub fn all() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| {
        let Stat { state, parent, .. } = stat(pid)?;
        Some(Seen { pid, parent, is_dead: matches!(state, 'Z' | 'X') })
    })
    .collect()
}

/// A variable of the environment that a process was started with. None: it has none of this name, or may not be asked.
#[must_use]
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0).filter_map(|entry| str::from_utf8(entry).ok());
    entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Fifty numbers and a name of 15 bytes. The kernel gives them in one read; a sweep looks at every process there is, so
/// reads are counted.
const STAT_BYTES_MAX: usize = 2_048;

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let mut bytes = [0; STAT_BYTES_MAX];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    // The name, in parentheses, may hold anything: the fields begin after the last one.
    let mut fields = text.get(text.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, start_time })
}

/// The same as long as this process lives.
fn boot_id() -> Option<&'static str> {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = BOOT_ID.get() {
        return Some(id);
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    Some(BOOT_ID.get_or_init(|| id))
}
