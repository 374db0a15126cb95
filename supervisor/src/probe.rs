//! Runs one probe: a worker process that is started for one question to one provider, and is gone after it.
//!
//! The supervisor never speaks to a provider itself. Whatever happens, nobody is left behind: the process ends with the
//! answer, at its deadline, or when the caller stops waiting (the future is dropped); it is reaped, and is known to the
//! family meanwhile, so that no sweep takes it for an orphan.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};
use ukai_protocol::event::ProcessMark;
use ukai_protocol::frame::Role;
use ukai_protocol::pipe::{self, PipeError};
use ukai_protocol::probe::{ANSWER_BYTES_MAX, ProbeAnswer, ProbeRequest, REQUEST_BYTES_MAX};
use ukai_protocol::{process, process_tree};

use crate::pool::reaper::Family;
use crate::pool::stderr::Stderr;
use crate::pool::{exit, spawn};
use crate::restart::Exit;

/// Starting one takes milliseconds; a file system that hangs must not keep whoever asks.
const START_MAX: Duration = Duration::from_secs(10);
/// The worker answers at its deadline by itself; one that does not within this is stuck.
const LATE_GRACE: Duration = Duration::from_secs(1);
/// It has nothing to do after its answer; then it is ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// For the end of stderr after the process has gone: somebody else may hold the pipe.
const STDERR_GRACE: Duration = Duration::from_millis(50);

/// Why there is no answer. About the probe alone: of the provider nothing is known.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("starting {} for a probe: {error}; is it there, and of this build?", program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("the request to probe with could not be handed over: {0}")]
    Request(PipeError),
    #[error("the probing process ended without an answer ({how}){}", said(stderr_tail))]
    Died { how: String, stderr_tail: String },
    #[error("the probing process answered what is no answer: {why}; run binaries of one build")]
    Garbage { why: String },
    #[error("the probing process did not answer within {} ms", within.as_millis())]
    Late { within: Duration },
    #[error("a thread of the probe failed: {0}")]
    Thread(#[from] JoinError),
}

fn said(stderr_tail: &str) -> String {
    let last = stderr_tail.lines().rev().find(|line| !line.trim().is_empty());
    last.map(|line| format!(": {line}")).unwrap_or_default()
}

/// Asks, and waits for the answer, at most the request's deadline and a second from the process's start. Dropping the future ends the process.
pub async fn run(worker_program: &Path, family: Family, request: ProbeRequest) -> Result<ProbeAnswer, ProbeError> {
    let within = Duration::from_millis(request.deadline_ms).saturating_add(LATE_GRACE);
    let started = timeout(START_MAX, start(worker_program, family)).await;
    let Started { mut running, stdin, stdout, stderr } = started.unwrap_or_else(|_| {
        Err(ProbeError::Start { program: worker_program.to_owned(), error: io::ErrorKind::TimedOut.into() })
    })?;
    // From its start on, as the process counts: it is given its time even where starting took long.
    let deadline = Instant::now() + within;
    let told = timeout_at(deadline, exchange(stdin, stdout, &request)).await;
    let how = match &told {
        // Its pipes have ended or it has said all: it is about to go by itself.
        Ok(_) => running.exited(EXIT_GRACE).await?,
        Err(_) => None,
    };
    let how = match how {
        Some(how) => how,
        None => running.end().await?,
    };
    let stderr_tail = match stderr {
        Some(stderr) => without_key(&stderr.finish(STDERR_GRACE).await, &request),
        None => String::new(),
    };
    if !stderr_tail.trim().is_empty() {
        tracing::debug!(provider = request.grant.provider, stderr_tail, "a probe wrote to stderr");
    }
    match told {
        Ok(Ok(answer)) if answer.report.lease == request.grant.lease => Ok(answer),
        Ok(Ok(answer)) => {
            let why = format!("it is about lease {}, asked was about {}", answer.report.lease, request.grant.lease);
            Err(ProbeError::Garbage { why })
        }
        Ok(Err(Unheard::Request(error))) => Err(ProbeError::Request(error)),
        Ok(Err(Unheard::Died)) => Err(ProbeError::Died { how: how.to_string(), stderr_tail }),
        Ok(Err(Unheard::Garbage(error))) => Err(ProbeError::Garbage { why: error.to_string() }),
        Err(_) => Err(ProbeError::Late { within }),
    }
}

enum Unheard {
    Request(PipeError),
    Died,
    Garbage(PipeError),
}

async fn exchange(
    mut stdin: ChildStdin,
    mut stdout: ChildStdout,
    request: &ProbeRequest,
) -> Result<ProbeAnswer, Unheard> {
    match pipe::send(&mut stdin, Role::Supervisor, request, REQUEST_BYTES_MAX).await {
        // It died before it had read all: its exit tells more.
        Err(PipeError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Unheard::Died),
        other => other.map_err(Unheard::Request)?,
    }
    match pipe::receive(&mut stdout, ANSWER_BYTES_MAX).await {
        Err(PipeError::Ended | PipeError::Io(_)) => Err(Unheard::Died),
        other => other.map_err(Unheard::Garbage),
    }
    // Stdin was open until here: to the process, its end means that nobody waits.
}

fn without_key(text: &str, request: &ProbeRequest) -> String {
    match request.grant.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty()) {
        Some(key) => text.replace(key, "[key]"),
        None => text.to_owned(),
    }
}

struct Started {
    running: Running,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<Stderr>,
}

async fn start(program: &Path, family: Family) -> Result<Started, ProbeError> {
    let error = |error| ProbeError::Start { program: program.to_owned(), error };
    let path = program.to_owned();
    // Nobody may be waiting any more when it has started: the result is then dropped where it is, and ends it.
    let running = tokio::task::spawn_blocking(move || {
        let child = family.start(|| process::start(worker(path)), Child::id)?;
        let id = child.id();
        match spawn::identified(child) {
            Ok(spawned) => Ok(Running { process: Some((spawned.child, spawned.mark)), family, stderr: spawned.stderr }),
            Err(error) => {
                family.reaped(id);
                Err(error)
            }
        }
    });
    let mut running = running.await?.map_err(error)?;
    let stderr = running.stderr.take().map(Stderr::follow).transpose().map_err(error)?;
    let pipes = running.process.as_mut().map(|(child, _)| (child.stdin.take(), child.stdout.take()));
    let Some((Some(stdin), Some(stdout))) = pipes else {
        return Err(error(io::Error::other("the process that was just started has no pipes")));
    };
    let stdin = ChildStdin::from_std(stdin).map_err(error)?;
    let stdout = ChildStdout::from_std(stdout).map_err(error)?;
    Ok(Started { running, stdin, stdout, stderr })
}

/// Started as a job's worker is; only what it is asked comes on another way.
fn worker(program: PathBuf) -> process::Start {
    process::Start {
        program,
        args: vec!["probe".into()],
        env: process::own_environment(),
        workdir: Some(PathBuf::from("/")),
        stdin: process::Stdin::Open,
        stdout: Stdio::piped(),
        stderr: Stdio::piped(),
    }
}

/// A process that is ended and reaped, with all below it, whoever lets go of this and when.
struct Running {
    process: Option<(Child, ProcessMark)>,
    family: Family,
    stderr: Option<std::process::ChildStderr>,
}

impl Running {
    /// How it ended by itself, if it does within `patience`; then nobody of its tree is left either.
    async fn exited(&mut self, patience: Duration) -> Result<Option<Exit>, JoinError> {
        let Some((_, mark)) = &self.process else { return Ok(None) };
        match timeout(patience, exit::ended(mark)).await {
            Ok(Ok(())) => self.end().await.map(Some),
            Ok(Err(error)) => {
                tracing::error!(pid = mark.pid, %error, "a probing process cannot be watched, and is ended");
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// Ends it now, and says how it ended.
    async fn end(&mut self) -> Result<Exit, JoinError> {
        let Some(process) = self.process.take() else { return Ok(Exit::Unknown) };
        let family = self.family;
        tokio::task::spawn_blocking(move || end(process, family)).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        let family = self.family;
        // Not the runtime's threads: it may be what ends just now, and would not run it.
        let pid = process.1.pid;
        let thread = std::thread::Builder::new().name("probe-end".to_owned());
        if let Err(error) = thread.spawn(move || end(process, family)) {
            tracing::error!(pid, %error, "a probing process that nobody waits for could not be ended");
        }
    }
}

/// Blocks until nobody of the tree is left.
fn end((mut child, mark): (Child, ProcessMark), family: Family) -> Exit {
    if let Err(error) = process_tree::end(&mark, Duration::ZERO) {
        tracing::error!(pid = mark.pid, %error, "the tree of a probing process could not be ended");
    }
    let exit = exit::status(&mut child);
    family.reaped(mark.pid);
    exit
}
