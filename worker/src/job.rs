//! `ukai-worker job`: carries one job from where its log ends to its end.

mod reach;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ractor::Actor as _;
use ukai_protocol::event::{Event, Why};
use ukai_protocol::id::JobId;
use ukai_protocol::json::Json;
use ukai_protocol::secret::Secret;
use ukai_protocol::session::{ToWorker, Welcome};

use crate::deps::Deps;
use crate::host::{self, Begun, Host, fork};
use crate::launcher::Launcher;
use crate::query::actor::{Arguments, Message, QueryLoop};
use crate::query::machine::{Machine, Parts};
use crate::sandbox;
use crate::session::{self, Identity, Session, SessionError};
use crate::tool::shells::Shells;
use crate::{EX_USAGE, USAGE, context, fail};

/// `sysexits.h`: a fault in ukai itself, or ends that do not fit: not to be retried.
const EX_SOFTWARE: u8 = 70;
const EX_PROTOCOL: u8 = 76;
const EX_CONFIG: u8 = 78;
/// The supervisor is gone, or wants what this process can no longer do; the job is started again.
const EX_ORPHANED: u8 = 1;
/// The tool host is gone; a new process brings a new one.
const EX_HOST_LOST: u8 = 1;
/// The token is 64 hex digits and a newline.
const TOKEN_BYTES_MAX: u64 = 256;

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let asked = match asked(args) {
        Ok(asked) => asked,
        Err(why) => return fail(EX_USAGE, &format!("{why}\n{USAGE}")),
    };
    // Before there are threads, and before the token is read: neither is to know a secret.
    let host = match host::begin() {
        Ok(Begun::Worker(host)) => host,
        Ok(Begun::Host(host)) => return host.serve(),
        Err(error) => return fail(EX_ORPHANED, &format!("the tool host did not start: {error}")),
    };
    let launcher = match asked.launcher.then(host::begin).transpose() {
        Ok(None) => None,
        Ok(Some(Begun::Worker(launcher))) => Some(launcher),
        Ok(Some(Begun::Host(launcher))) => {
            // Else the tool host would not hear of the worker's end as long as this process lives.
            drop(host);
            return launcher.serve();
        }
        Err(error) => return fail(EX_ORPHANED, &format!("the launcher did not start: {error}")),
    };
    let identity = match asked.identity() {
        Ok(identity) => identity,
        Err(why) => return fail(EX_USAGE, &format!("{why}\n{USAGE}")),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EX_ORPHANED, &format!("the runtime did not start: {error}")),
    };
    let mut shells = None;
    let launcher = launcher.map(|host| Arc::new(Launcher::new(host, identity.job.clone())));
    let ended = runtime.block_on(carry(identity, host, launcher.clone(), &mut shells));
    // A tool that looks at a file system that hangs must not keep the process.
    runtime.shutdown_background();
    if let Some(shells) = shells {
        // The host ends with the line to it, and everything with the host; nobody is to find an orphan of a job that is over.
        shells.close();
    }
    if let Some(launcher) = launcher {
        launcher.close();
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Session(error @ (SessionError::Orphaned(_) | SessionError::Outgrown(_) | SessionError::Link(_)))) => {
            fail(EX_ORPHANED, &error.to_string())
        }
        Err(End::HostLost(why)) => fail(EX_HOST_LOST, &why),
        Err(End::Session(error)) => fail(EX_PROTOCOL, &error.to_string()),
        Err(End::Unconfined(why)) => fail(EX_CONFIG, &why),
        Err(End::Fault(why)) => fail(EX_SOFTWARE, &format!("a fault in ukai: {why}")),
    }
}

enum End {
    Session(SessionError),
    /// Its commands, or it itself, cannot be confined, and its policy wants them to be.
    Unconfined(String),
    Fault(String),
    /// No command can be started in this process any more: one that is restarted has a host of its own.
    HostLost(String),
}

async fn carry(
    identity: Identity,
    host: Host,
    launcher: Option<Arc<Launcher>>,
    shells: &mut Option<Arc<Shells>>,
) -> Result<(), End> {
    let attempt = identity.attempt;
    let (mut session, outbox, welcome, state) = session::begin(identity).await.map_err(End::Session)?;
    let fault = |error: &dyn std::fmt::Display| End::Fault(error.to_string());
    let deps = Arc::new(Deps::new(&welcome, &state, host, launcher).map_err(|error| fault(&error))?);
    *shells = Some(deps.shells.clone());
    let permission = deps.permission();
    if deps.tools.starts_commands(|tool| permission.hides(tool)) {
        deps.shells.check().map_err(End::Unconfined)?;
    }
    let mut prompt =
        state.system.clone().unwrap_or_else(|| context::project::system_prompt(&welcome.spec, &permission));
    deps.mask.mask(&mut prompt);
    confine(&welcome, &deps, &mut session)?;
    let parts = Parts {
        context: context::strategy(welcome.spec.context),
        overhead_tokens: deps.tools_tokens + context::tokens::estimate_text(&prompt),
        flags: {
            let tools = deps.tools.clone();
            Box::new(move |tool: &str, input: &Json| tools.flags(tool, input))
        },
        spec: welcome.spec,
    };
    let system = Event::Injected { why: Why::System, text: prompt };
    let machine = Machine::new(parts, state, (deps.now)());
    let commands = deps.shells.clone();
    let arguments = Arguments { machine, system, attempt, outbox, deps };
    let (query, mut ended) = QueryLoop::spawn(None, QueryLoop, arguments).await.map_err(|error| fault(&error))?;
    let deliver = |message: ToWorker| {
        // A loop that has ended is told nothing more; the session sends what it left and closes.
        let _ = query.cast(Message::Told(message));
    };
    let session = session.run(deliver);
    let lost = commands.lost();
    tokio::pin!(session, lost);
    let mut host_lost = None;
    let said = loop {
        tokio::select! {
            biased;
            said = &mut session => break said,
            _ = &mut ended => {
                // Ended by itself: the outbox is closed and the session follows. Failed: it is not, and nothing will.
                tokio::select! {
                    said = &mut session => break said,
                    () = tokio::time::sleep(FAULT_GRACE) => {
                        return Err(End::Fault("the query loop failed; see above".to_owned()));
                    }
                }
            }
            why = &mut lost, if host_lost.is_none() => {
                tracing::error!(why, "no command can be started any more; this process leaves the job to a new one");
                host_lost = Some(why);
                // A loop that has ended needs no host.
                let _ = query.cast(Message::HostLost);
            }
        }
    };
    said.map_err(End::Session)?;
    host_lost.map_or(Ok(()), |why| Err(End::HostLost(why)))
}

/// When all has been read that is read once. Landlock holds for the thread that asks for it and for those that it starts:
/// so this is the only one yet.
fn confine(welcome: &Welcome, deps: &Deps, session: &mut Session) -> Result<(), End> {
    let cannot = |error: io::Error| {
        End::Unconfined(format!("this worker cannot confine itself: {error}. Set `sandbox: off` in the tool policy"))
    };
    let Some(reach) = reach::of(welcome, deps).map_err(cannot)? else { return Ok(()) };
    let threads = fork::threads().map_err(cannot)?;
    if threads != 1 {
        return Err(End::Fault(format!("a process of {threads} threads cannot confine them all")));
    }
    let missing = sandbox::confine_worker(&reach).map_err(cannot)?;
    session.reaches(reach.ports);
    if !missing.is_empty() {
        tracing::warn!(missing = missing.join("; "), "this worker goes on with less of a sandbox than it wants");
    }
    Ok(())
}

/// For the last records to be sent after the loop has ended.
const FAULT_GRACE: std::time::Duration = std::time::Duration::from_secs(5);

/// What stands on the command line.
struct Asked {
    socket: PathBuf,
    job: JobId,
    attempt: u32,
    /// The job names what is run outside of its confinement.
    launcher: bool,
}

fn asked(args: Vec<OsString>) -> Result<Asked, String> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(args);
    let (mut socket, mut id, mut attempt, mut launcher) = (None, None, None, false);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        let text = |error: lexopt::Error| error.to_string();
        match arg {
            Long("socket") => socket = Some(parser.value().map_err(text)?.into()),
            Long("id") => id = Some(parser.value().map_err(text)?.parse().map_err(text)?),
            Long("attempt") => attempt = Some(parser.value().map_err(text)?.parse().map_err(text)?),
            Long("launcher") => launcher = true,
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Asked {
        socket: socket.ok_or("--socket is missing")?,
        job: id.ok_or("--id is missing")?,
        attempt: attempt.ok_or("--attempt is missing")?,
        launcher,
    })
}

impl Asked {
    fn identity(self) -> Result<Identity, String> {
        let token = token().map_err(|error| format!("the token could not be read from stdin: {error}"))?;
        let Asked { socket, job, attempt, launcher: _ } = self;
        Ok(Identity { socket, job, attempt, token: Secret::new(token.trim().to_owned()) })
    }
}

/// Past `std::io::stdin`, which would keep a buffer of 8 kB for this one line.
fn token() -> io::Result<String> {
    let stdin = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut token = String::new();
    stdin.take(TOKEN_BYTES_MAX).read_to_string(&mut token)?;
    Ok(token)
}
