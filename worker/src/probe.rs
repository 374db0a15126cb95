//! `ukai-worker probe`: one question to one provider, for a supervisor that never speaks to providers itself.
//!
//! The question comes in on stdin, the answer goes out on stdout, and the process is gone: it has no socket, no job and
//! no log. Nothing is tried again here either. It lives no longer than its deadline, nor than whoever started it: stdin
//! stays open meanwhile, and its end says that nobody waits any more.

mod ask;
mod named;
mod observe;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;
use ukai_protocol::frame::Role;
use ukai_protocol::lease::AnswerClass;
use ukai_protocol::pipe::{self, PipeError};
use ukai_protocol::probe::{ANSWER_BYTES_MAX, ProbeAnswer, ProbeKind, ProbeRequest, REQUEST_BYTES_MAX};
use ukai_protocol::secret::fingerprint::Mask;

use self::ask::Outcome;
use self::named::Named;
use self::observe::Evidence;
use crate::provider::classify::{Clock, Failure};
use crate::provider::retry_after;
use crate::{EX_USAGE, USAGE, fail};

/// Nobody waits for the answer any more, or it cannot be given.
const EX_UNHEARD: u8 = 1;
/// `sysexits.h`: the request is none.
const EX_PROTOCOL: u8 = 76;
/// Whoever starts a probe has its question ready.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    if !args.is_empty() {
        return fail(EX_USAGE, &format!("probe takes no arguments\n{USAGE}"));
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EX_UNHEARD, &format!("the runtime did not start: {error}")),
    };
    let ended = runtime.block_on(serve());
    // A name server that hangs must not keep the process.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Usage(why)) => fail(EX_USAGE, &format!("{why}\n{USAGE}")),
        Err(End::Request(error)) => fail(EX_PROTOCOL, &format!("reading the request from stdin: {error}")),
        Err(End::Unheard(why)) => fail(EX_UNHEARD, &why),
    }
}

enum End {
    Usage(String),
    Request(PipeError),
    Unheard(String),
}

async fn serve() -> Result<(), End> {
    let no_pipe = |name: &str, error| End::Usage(format!("{name} must be a pipe of ukai's: {error}"));
    let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(Into::into).and_then(Receiver::from_owned_fd);
    let mut stdin = stdin.map_err(|error| no_pipe("stdin", error))?;
    let stdout = rustix::io::dup(rustix::stdio::stdout()).map_err(Into::into).and_then(Sender::from_owned_fd);
    let mut stdout = stdout.map_err(|error| no_pipe("stdout", error))?;
    let request = match timeout(REQUEST_DEADLINE, pipe::receive(&mut stdin, REQUEST_BYTES_MAX)).await {
        Ok(request) => request.map_err(End::Request)?,
        Err(_) => {
            return Err(End::Usage(format!("no request came on stdin within {} s", REQUEST_DEADLINE.as_secs())));
        }
    };
    let told = async {
        let answer = answer(&request).await;
        let sent = pipe::send(&mut stdout, Role::Worker, &answer, ANSWER_BYTES_MAX).await;
        sent.map_err(|error| End::Unheard(format!("writing the answer to stdout: {error}")))
    };
    tokio::select! {
        // Who has the answer closes stdin at once.
        biased;
        told = told => told,
        () = gone(&mut stdin) => Err(End::Unheard("whoever asked has gone".to_owned())),
    }
}

/// Returns when the other end of stdin is closed.
async fn gone(stdin: &mut Receiver) {
    let mut surplus = [0; 64];
    while let Ok(1..) = stdin.read(&mut surplus).await {}
}

/// What came of a probe. Never fails: that nothing came is an answer too.
async fn answer(request: &ProbeRequest) -> ProbeAnswer {
    let ProbeRequest { grant, kind, deadline_ms, secrets } = request;
    let deadline = Duration::from_millis(*deadline_ms);
    let mut evidence = Evidence::new(grant.key.as_ref(), Mask::new(secrets.clone()));
    let mut named = Named::default();
    let probed = match kind {
        ProbeKind::Health(shape) => timeout(deadline, ask::health(grant, *shape, &mut evidence, &mut named)).await,
        ProbeKind::Capability => timeout(deadline, ask::capability(grant, &mut evidence, &mut named)).await,
    };
    let outcome = probed.unwrap_or_else(|_| {
        let failure = Failure::timed_out(Clock::Probe, deadline);
        evidence.failed(&failure);
        Outcome::failed(grant, failure)
    });
    let Outcome { mut report, detail, tools } = outcome;
    report.wait = retry_after::latest(report.wait.into_iter().chain(named.left(Instant::now())));
    // A refusal of tools says so whatever it was that was asked.
    let tools = tools.or((report.class == AnswerClass::NoTools).then_some(false));
    ProbeAnswer { report, detail, tools, observations: evidence.into_observations() }
}
