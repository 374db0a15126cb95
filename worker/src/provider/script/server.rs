//! The script on a socket: one thread, the loopback only, connections and bodies bounded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::answer::{Answer, Asked, Moment, answer};
use super::arrivals::{Arrival, Arrivals, RecordError, Ticket};
use super::conversation::Wire;
use super::file::Script;
use super::place::Place;
use super::play::Plan;
use super::rate::Limits;
use super::refusal::Refusal;
use super::reply::estimated_tokens;
use super::send::{Body, send};
use super::tally::Tally;

/// As Anthropic bounds a request; the larger of the two real bounds.
const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Further connections wait in the kernel's queue until one ends.
const CONNECTIONS_MAX: usize = 1_024;
/// When no descriptor is left: short, since one is freed soon, but no busy loop.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// A script, ready to be served.
pub struct Server {
    script: Script,
    /// Which wire is served; without, the path decides.
    wire: Option<Wire>,
    started: Instant,
    /// Accepted so far.
    connections: AtomicU64,
    state: Mutex<State>,
}

struct State {
    tally: Tally,
    arrivals: Arrivals,
    limits: Option<Limits>,
}

impl Server {
    pub fn new(script: Script, wire: Option<Wire>, record: Option<&Path>) -> Result<Server, RecordError> {
        let started = Instant::now();
        let limits = script.rate.map(|rate| Limits::new(&rate, started));
        let state = State { tally: Tally::default(), arrivals: Arrivals::recording_to(record)?, limits };
        Ok(Server { script, wire, started, connections: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// Serves until the caller drops the future; the connections then end with the runtime.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // The semaphore is never closed, so an error cannot be; ending is the honest answer if it were.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let (socket, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    tracing::warn!(%why, "the script server could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let server = Arc::clone(&self);
            let connection = 1 + self.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let service = hyper::service::service_fn(|request| server.respond(request, connection));
                let io = hyper_util::rt::TokioIo::new(socket);
                // Without it, a small chunk waits for the acknowledgement of the one before.
                if let Err(why) = io.inner().set_nodelay(true) {
                    tracing::debug!(%peer, %why, "no TCP_NODELAY");
                }
                if let Err(why) = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await {
                    tracing::debug!(%peer, %why, "a connection to the script server ended early");
                }
                drop(slot);
            });
        }
    }

    async fn respond(&self, request: Request<Incoming>, connection: u64) -> Result<Response<Body>, Infallible> {
        let moment = now();
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        if path == "/_arrivals" && head.method == Method::GET {
            let lines = self.state().arrivals.lines();
            return Ok(send(Plan::of_body(200, "application/jsonl", lines)).await);
        }
        let place = Place::of(&path, head.uri.query()).filter(|place| self.wire.is_none_or(|only| only == place.wire));
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let headers: Vec<_> = headers.collect();
        let answer = match &place {
            Some(place) if head.method != Method::POST => {
                let refusal =
                    Refusal { status: 405, ..Refusal::invalid("Method Not Allowed: only POST is served here") };
                Answer::refused(place, &refusal)
            }
            Some(place) => match Limited::new(body, REQUEST_BYTES_MAX).collect().await {
                Ok(body) => self.answer(&Asked { place, headers: &headers, body: &body.to_bytes() }, moment),
                Err(why) if why.is::<http_body_util::LengthLimitError>() => {
                    Answer::refused(place, &Refusal::of_status(place.wire, 413))
                }
                Err(why) => Answer::refused(place, &Refusal::invalid(format!("the body could not be read: {why}"))),
            },
            None => Answer::refused(
                &Place { wire: self.wire.unwrap_or(Wire::Openai), model: None, form: None, key: None },
                &Refusal { status: 404, ..Refusal::invalid(format!("Unknown request URL: {} {path}", head.method)) },
            ),
        };
        let (plan, ticket) = self.record(path, place.map(|place| place.wire), connection, answer, moment);
        let response = send(plan).await;
        if let Some(ticket) = ticket
            && let Err(why) = self.state().arrivals.answered(ticket, self.since_start(Instant::now()))
        {
            tracing::error!(%why, "when a request was answered could not be recorded");
        }
        Ok(response)
    }

    fn answer(&self, asked: &Asked<'_>, moment: Moment) -> Answer {
        let state = &mut *self.state();
        let Some(limits) = &mut state.limits else { return answer(&self.script, &mut state.tally, asked, moment) };
        let wire = asked.place.wire;
        let input = estimated_tokens(asked.body.len());
        let (mut answer, wait) = match limits.admit(input, moment.instant) {
            Ok(()) => {
                let answer = answer(&self.script, &mut state.tally, asked, moment);
                limits.charge(answer.tokens);
                (answer, None)
            }
            Err(exhausted) => {
                let model = asked.place.model.as_deref().unwrap_or_default();
                let refused = Answer::refused(asked.place, &exhausted.refusal(wire, model));
                (Answer { tokens: input, ..refused }, exhausted.header(wire))
            }
        };
        // A rule's own headers win: it may play a limit of its own.
        for (name, value) in limits.headers(wire, moment.unix_seconds).into_iter().chain(wait) {
            if !answer.plan.headers.iter().any(|(of, _)| *of == name) {
                answer.plan.headers.push((name, value));
            }
        }
        answer
    }

    fn record(
        &self,
        path: String,
        wire: Option<Wire>,
        connection: u64,
        answer: Answer,
        moment: Moment,
    ) -> (Plan, Option<Ticket>) {
        let at = jiff::Timestamp::from_millisecond((moment.unix_seconds * 1_000.0) as i64);
        let arrival = Arrival {
            at: at.map(|at| format!("{at:.3}")).unwrap_or_default(),
            wire,
            path,
            rule: answer.rule,
            status: answer.plan.latency.map(|_| answer.plan.status),
            step: answer.step,
            prompt: answer.prompt,
            refused: answer.refused,
            at_ms: self.since_start(moment.instant),
            answered_ms: None,
            tokens: answer.tokens,
            connection,
        };
        match self.state().arrivals.add(arrival) {
            Ok(ticket) => (answer.plan, Some(ticket)),
            Err(why) => {
                tracing::error!(%why, "a request could not be recorded");
                (Plan::of_body(500, "text/plain", format!("{why}\n")), None)
            }
        }
    }

    /// Milliseconds, to the microsecond.
    fn since_start(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.started).as_micros() as f64 / 1_000.0
    }

    /// Nothing panics while it is held, and each change is whole, so a poisoned lock still guards a good state.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Binds, to a loopback address only: what a script says is for this machine.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let why = format!("{address} is not on the loopback; use 127.0.0.1:PORT or [::1]:PORT");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    }
    TcpListener::bind(address).await
}

fn now() -> Moment {
    let unix_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Moment { instant: Instant::now(), unix_seconds }
}
