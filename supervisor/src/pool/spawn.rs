//! The start of one worker process.
//!
//! The token goes in by stdin, never by argument or environment: those can be read by others of the same user. Only
//! its hash is kept.

use std::io;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::Arc;

use rand::Rng as _;
use ukai_protocol::event::ProcessMark;
use ukai_protocol::id::JobId;
use ukai_protocol::process;
use ukai_protocol::secret::Secret;

use crate::settings::Settings;

/// 256 bits: not to be guessed.
const TOKEN_BYTES: usize = 32;

pub struct Spawned {
    pub child: Child,
    pub stderr: Option<ChildStderr>,
    pub mark: ProcessMark,
}

/// What is to be started: a test puts its own process here.
pub type Start = Arc<dyn Fn(&Settings, &Order<'_>) -> io::Result<Child> + Send + Sync>;

pub struct Order<'a> {
    pub job: &'a JobId,
    pub attempt: u32,
    pub token: &'a Secret,
    /// The job names what its owner has run beside it.
    pub launcher: bool,
}

/// `ukai-worker job`. Blocks for the fork.
pub fn worker(settings: &Settings, order: &Order<'_>) -> io::Result<Child> {
    let mut stdin = order.token.expose().as_bytes().to_vec();
    stdin.push(b'\n');
    let mut args = vec![
        "job".into(),
        "--socket".into(),
        settings.socket.clone().into(),
        "--id".into(),
        order.job.as_str().into(),
        "--attempt".into(),
        order.attempt.to_string().into(),
    ];
    if order.launcher {
        args.push("--launcher".into());
    }
    let mut env = process::own_environment();
    if let Some(home) = &settings.home {
        env.retain(|(name, _)| name != "HOME");
        env.push(("HOME".into(), home.into()));
    }
    process::start(process::Start {
        program: settings.worker_program.clone(),
        args,
        env,
        workdir: Some(Path::new("/").to_owned()),
        stdin: process::Stdin::Given(stdin),
        stdout: Stdio::null(),
        stderr: Stdio::piped(),
    })
}

/// The child with its identity; one that died meanwhile still has it, until it is reaped.
pub fn identified(mut child: Child) -> io::Result<Spawned> {
    let stderr = child.stderr.take();
    match process::mark(child.id()) {
        Some(mark) => Ok(Spawned { child, stderr, mark }),
        None => {
            // Without an identity it could never be ended safely.
            child.kill()?;
            child.wait()?;
            Err(io::Error::other("/proc does not show the process that was just started"))
        }
    }
}

#[must_use]
pub fn new_token() -> Secret {
    let mut bytes = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is stored and compared.
#[must_use]
pub fn token_hash(token: &Secret) -> String {
    blake3::hash(token.expose().as_bytes()).to_hex().to_string()
}
