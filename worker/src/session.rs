//! The worker's end of the link to its supervisor: hello, state, then messages both ways until the job is done.
//!
//! When the connection breaks, the supervisor may only be restarting: what was not acknowledged is kept, and sent again
//! to whoever answers on the same socket within the grace. The store drops what it has already, so nothing is repeated.

pub(crate) mod outbox;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use ukai_protocol::codec;
use ukai_protocol::connection::{self, LinkError, Reader, Writer};
use ukai_protocol::event::Event;
use ukai_protocol::frame::Role;
use ukai_protocol::id::JobId;
use ukai_protocol::lease::{Answer, Ask, Report};
use ukai_protocol::run_state::RunState;
use ukai_protocol::secret::Secret;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker, Welcome};

use crate::provider::retry_after;
pub use outbox::{Outbox, OutboxFull};
use outbox::{Outgoing, Waiting};

/// Messages that are written together at most: a heartbeat and what the supervisor says are looked at in between.
const SAID_TOGETHER_MAX: usize = 64;
/// Between two attempts to find a supervisor again.
const RECONNECT_EVERY: Duration = Duration::from_millis(50);
/// Room for a state of this size: 25 steps of the largest results are a few MB.
const STATE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Who this process is to its supervisor.
pub struct Identity {
    pub socket: PathBuf,
    pub job: JobId,
    pub attempt: u32,
    pub token: Secret,
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the supervisor turned this worker away: {0}")]
    Rejected(String),
    #[error("the supervisor broke the handshake: {0}")]
    Handshake(&'static str),
    #[error("no supervisor took this job back within {} s of losing the last one", .0.as_secs())]
    Orphaned(Duration),
    #[error("providers are asked at port {0} by now, to which this process has no way: it begins anew")]
    Outgrown(u16),
}

/// A session that has been welcomed.
pub struct Session {
    identity: Identity,
    reader: Reader,
    writer: Writer,
    waiting: Waiting,
    heartbeat: Duration,
    orphan_grace: Duration,
    /// Records sent and not acknowledged, in order.
    unacked: VecDeque<(u64, Vec<Event>)>,
    /// An ask whose last word has not come.
    open_ask: Option<Ask>,
    /// The last report in which a provider named a wait, and when it was made: who takes over may not know it.
    named: Option<(Report, Instant)>,
    /// The only ports that this process still connects to; None: any.
    ports: Option<Vec<u16>>,
}

/// Says hello and receives the job with its state.
pub async fn begin(identity: Identity) -> Result<(Session, Outbox, Welcome, RunState), SessionError> {
    let (mut reader, mut writer) = connection::connect(&identity.socket, Role::Worker).await?;
    writer.send(&hello(&identity, false)).await?;
    let welcome = welcomed(&mut reader).await?;
    let state = receive_state(&mut reader, welcome.state_bytes).await?;
    let (outbox, waiting) = outbox::outbox();
    let session = Session {
        identity,
        reader,
        writer,
        waiting,
        heartbeat: Duration::from_millis(welcome.heartbeat_ms.max(1)),
        orphan_grace: Duration::from_millis(welcome.orphan_grace_ms),
        unacked: VecDeque::new(),
        open_ask: None,
        named: None,
        ports: None,
    };
    Ok((session, outbox, welcome, state))
}

fn hello(identity: &Identity, reconnect: bool) -> Hello {
    Hello {
        job: identity.job.clone(),
        attempt: identity.attempt,
        token: identity.token.clone(),
        pid: std::process::id(),
        reconnect,
    }
}

async fn welcomed(reader: &mut Reader) -> Result<Welcome, SessionError> {
    match reader.next().await? {
        Some(ToWorker::Welcome(welcome)) => Ok(*welcome),
        Some(ToWorker::Reject { why }) => Err(SessionError::Rejected(why)),
        Some(_) => Err(SessionError::Handshake("something else came before Welcome")),
        None => Err(SessionError::Handshake("it closed before Welcome")),
    }
}

async fn receive_state(reader: &mut Reader, bytes: u64) -> Result<RunState, SessionError> {
    if bytes > STATE_BYTES_MAX {
        return Err(SessionError::Handshake("a state larger than this worker takes"));
    }
    let announced = usize::try_from(bytes).map_err(|_| SessionError::Handshake("a state larger than memory"))?;
    let mut state = Vec::new();
    while state.len() < announced {
        match reader.next().await? {
            Some(ToWorker::State { chunk }) => state.extend_from_slice(&chunk),
            _ => return Err(SessionError::Handshake("the state was not sent whole")),
        }
    }
    codec::decode_unbounded(&state).map_err(|error| SessionError::Link(error.into()))
}

/// How one connection ended.
enum Ended {
    /// All was said.
    Done,
    Lost(LinkError),
}

enum Said {
    /// There will be more.
    More,
    All,
}

impl Session {
    /// From now on this process connects to no other ports.
    pub fn reaches(&mut self, ports: Vec<u16>) {
        self.ports = Some(ports);
    }

    /// Carries messages until the outbox is closed and sent; `deliver` takes what the supervisor says.
    pub async fn run(mut self, mut deliver: impl FnMut(ToWorker)) -> Result<(), SessionError> {
        loop {
            match self.converse(&mut deliver).await {
                Ended::Done => return Ok(()),
                Ended::Lost(why) => {
                    tracing::warn!(%why, "the supervisor is gone; looking for it again");
                    self.reconnect(&mut deliver).await?;
                }
            }
        }
    }

    async fn converse(&mut self, deliver: &mut impl FnMut(ToWorker)) -> Ended {
        let mut heartbeat = tokio::time::interval(self.heartbeat);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                incoming = self.reader.next() => match incoming {
                    Ok(Some(message)) => self.receive(message, deliver),
                    Ok(None) => return Ended::Lost(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                    Err(error) => return Ended::Lost(error),
                },
                outgoing = self.waiting.next() => match self.say(outgoing).await {
                    Ok(Said::More) => {}
                    Ok(Said::All) => return Ended::Done,
                    Err(error) => return Ended::Lost(error),
                },
                _ = heartbeat.tick() => {
                    let progress = self.waiting.progress();
                    if let Err(error) = self.writer.send(&ToSupervisor::Heartbeat { progress }).await {
                        return Ended::Lost(error);
                    }
                }
            }
        }
    }

    /// Writes this and what else waits: each write is a wake of the supervisor.
    async fn say(&mut self, first: Outgoing) -> Result<Said, LinkError> {
        let mut next = Some(first);
        let mut room = SAID_TOGETHER_MAX;
        while let Some(outgoing) = next {
            match outgoing {
                Outgoing::Message(message) => {
                    self.remember(&message);
                    self.writer.feed(&message).await?;
                }
                Outgoing::Close => {
                    self.writer.flush().await?;
                    // What is said is said; whether the other end still hears it is for it to judge.
                    if let Err(error) = self.writer.close().await {
                        tracing::debug!(%error, "the supervisor left first");
                    }
                    return Ok(Said::All);
                }
            }
            room -= 1;
            next = if room > 0 { self.waiting.next_now(Instant::now()) } else { None };
        }
        self.writer.flush().await?;
        Ok(Said::More)
    }

    fn receive(&mut self, message: ToWorker, deliver: &mut impl FnMut(ToWorker)) {
        match &message {
            ToWorker::Ack { n } => self.forget_acked(*n),
            ToWorker::Answer { call, answer } => {
                let last_word = !matches!(answer, Answer::Wait { .. });
                if last_word && self.open_ask.as_ref().is_some_and(|ask| ask.call == *call) {
                    self.open_ask = None;
                }
            }
            _ => {}
        }
        deliver(message);
    }

    fn remember(&mut self, message: &ToSupervisor) {
        match message {
            ToSupervisor::Record { n, events, .. } => self.unacked.push_back((*n, events.clone())),
            ToSupervisor::Ask(ask) => self.open_ask = Some(ask.clone()),
            ToSupervisor::Withdraw { .. } => self.open_ask = None,
            ToSupervisor::Report(report) if report.wait.is_some() => {
                self.named = Some((report.clone(), Instant::now()));
            }
            _ => {}
        }
    }

    fn forget_acked(&mut self, acked: u64) {
        while self.unacked.front().is_some_and(|(n, events)| n + events.len() as u64 <= acked) {
            self.unacked.pop_front();
        }
    }

    async fn reconnect(&mut self, deliver: &mut impl FnMut(ToWorker)) -> Result<(), SessionError> {
        let deadline = Instant::now() + self.orphan_grace;
        loop {
            match self.try_again().await {
                Ok(welcome) => {
                    self.receive(ToWorker::Ack { n: welcome.acked }, deliver);
                    return Ok(());
                }
                Err(error @ (SessionError::Rejected(_) | SessionError::Outgrown(_))) => return Err(error),
                Err(error) => tracing::debug!(%error, "no supervisor yet"),
            }
            if Instant::now() >= deadline {
                return Err(SessionError::Orphaned(self.orphan_grace));
            }
            tokio::time::sleep(RECONNECT_EVERY).await;
        }
    }

    async fn try_again(&mut self) -> Result<Welcome, SessionError> {
        let (mut reader, mut writer) = connection::connect(&self.identity.socket, Role::Worker).await?;
        writer.send(&hello(&self.identity, true)).await?;
        let welcome = welcomed(&mut reader).await?;
        // Found out before a lease is spent: a connection that is refused here would speak against the provider.
        if let Some(port) =
            self.ports.as_ref().and_then(|ports| welcome.ports.iter().find(|port| !ports.contains(port)))
        {
            return Err(SessionError::Outgrown(*port));
        }
        self.forget_acked(welcome.acked);
        for (n, events) in &self.unacked {
            let attempt = self.identity.attempt;
            writer.send(&ToSupervisor::Record { attempt, n: *n, events: events.clone() }).await?;
        }
        if let Some(report) = self.named.as_ref().and_then(|(report, at)| still_waits(report, at.elapsed())) {
            writer.send(&ToSupervisor::Report(report)).await?;
        }
        writer.send(&ToSupervisor::Returned).await?;
        if let Some(ask) = &self.open_ask {
            writer.send(&ToSupervisor::Ask(ask.clone())).await?;
        }
        (self.reader, self.writer) = (reader, writer);
        Ok(welcome)
    }
}

/// What is left of a named wait, if anything.
fn still_waits(report: &Report, elapsed: Duration) -> Option<Report> {
    let wait = retry_after::left(report.wait?, elapsed)?;
    Some(Report { wait: Some(wait), ..report.clone() })
}
