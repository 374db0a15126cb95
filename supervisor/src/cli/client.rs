//! The client's end of the control link: one connection per request, its answers in order.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ukai_protocol::connection::{self, LinkError, Reader, Writer};
use ukai_protocol::control::{JobResult, JobRow, Request, Response, Selection};
use ukai_protocol::frame::Role;

use super::context::Context;
use super::failure::Failure;
use super::print;
use crate::config::load::Origin;
use crate::host::StartError;
use crate::store::lock::LockError;

/// The supervisor answers from memory.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Ten thousand jobs become durable on a slow disk.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(600);
/// For what waits for processes to end, or for as many syncs as there are jobs: far above any `term_grace` in use.
const DONE_DEADLINE: Duration = Duration::from_secs(300);

/// How long a supervisor may hold the state directory without listening: it reads its runs first, and stops its workers last.
const BETWEEN_MAX: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct Client {
    reader: Reader,
    writer: Writer,
}

impl Client {
    /// Connects to the supervisor of the state directory. `Ok(None)`: none listens.
    pub async fn connect(context: &Context) -> Result<Option<Self>, Failure> {
        let Some(socket) = context.socket()? else { return Ok(None) };
        let noted = context.noted_socket().filter(|noted| *noted != socket);
        match Client::at(context, &socket).await? {
            Some(client) => Ok(Some(client)),
            None => match noted {
                Some(noted) => Client::at(context, &noted).await,
                None => Ok(None),
            },
        }
    }

    async fn at(context: &Context, socket: &Path) -> Result<Option<Self>, Failure> {
        match connection::connect(socket, Role::Client).await {
            Ok((reader, writer)) => Ok(Some(Client { reader, writer })),
            Err(LinkError::Io(error))
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::usage(format!(
                "talking to the ukai server of {}: {error}; stop that server, or use its own `ukai`",
                context.state.root().display()
            ))),
        }
    }

    /// The same, where a verb cannot do without one.
    pub async fn connect_or_say(context: &Context, what_to_type: &str) -> Result<Self, Failure> {
        Client::connect(context).await?.ok_or_else(|| {
            Failure::usage(format!("no ukai server listens for {}; {what_to_type}", context.state.root().display()))
        })
    }

    /// A server has the configuration that it was started with: whoever names another one is told so.
    pub async fn warn_of_another_configuration(context: &Context) -> Result<(), Failure> {
        if !matches!(context.loaded.origin, Origin::Flag | Origin::Variable) {
            return Ok(());
        }
        let Some(client) = Client::connect(context).await? else { return Ok(()) };
        let Response::Status(status) = client.ask(&Request::Status).await? else { return Ok(()) };
        if status.config != context.loaded.config.file {
            let theirs = status.config.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
            print::note(&format!(
                "ukai: a server runs already (process {}), and its providers are those of {theirs}: stop it to use others",
                status.pid
            ));
        }
        Ok(())
    }

    pub async fn send(&mut self, request: &Request) -> Result<(), Failure> {
        self.writer.send(request).await.map_err(lost)
    }

    pub async fn next(&mut self) -> Result<Option<Response>, LinkError> {
        self.reader.next().await
    }

    /// One request, its one answer. A refusal is a failure in the server's words.
    pub async fn ask(mut self, request: &Request) -> Result<Response, Failure> {
        self.put(request).await
    }

    /// The same, where more is to be asked on this connection.
    pub async fn put(&mut self, request: &Request) -> Result<Response, Failure> {
        self.send(request).await?;
        let deadline = match request {
            Request::Cancel { .. }
            | Request::Pause { .. }
            | Request::Unpause { .. }
            | Request::ProbeProviders { .. } => DONE_DEADLINE,
            Request::Submit { .. } => SUBMIT_DEADLINE,
            _ => ANSWER_DEADLINE,
        };
        self.answer(deadline).await
    }

    /// The next answer to a request that has several.
    pub async fn more(&mut self) -> Result<Response, Failure> {
        self.answer(ANSWER_DEADLINE).await
    }

    async fn answer(&mut self, deadline: Duration) -> Result<Response, Failure> {
        match tokio::time::timeout(deadline, self.next()).await {
            Ok(Ok(Some(Response::Refused { why, usage: true }))) => Err(Failure::usage(why)),
            Ok(Ok(Some(Response::Refused { why, usage: false }))) => Err(Failure::failed(why)),
            Ok(Ok(Some(response))) => Ok(response),
            Ok(Ok(None)) => Err(Failure::failed("the ukai server closed the connection; see its log, then try again")),
            Ok(Err(error)) => Err(lost(error)),
            Err(_) => Err(Failure::failed(format!(
                "the ukai server did not answer within {} s; see its log, or end it",
                deadline.as_secs()
            ))),
        }
    }

    /// In the order of submission, and how many older ones did not fit.
    pub async fn rows(self, jobs: Selection) -> Result<(Vec<JobRow>, u64), Failure> {
        match self.ask(&Request::List { jobs }).await? {
            Response::Jobs { rows, left_out } => Ok((rows, left_out)),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn shown(self, job: &str) -> Result<(JobRow, JobResult), Failure> {
        match self.ask(&Request::Show { job: job.to_owned() }).await? {
            Response::Shown { row, result } => Ok((*row, *result)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Who does the work of a state directory.
pub(crate) enum Who<T> {
    /// The supervisor that listens.
    Server(Box<Client>),
    /// Nobody else: what was taken to do it here.
    Here(T),
}

/// The supervisor of the state directory, or, where there is none, what `take` takes. Somebody who holds the directory
/// and does not listen is starting or stopping: two `run`s at once are no error.
pub(crate) async fn server_or<T>(
    context: &Context,
    mut take: impl AsyncFnMut() -> Result<T, StartError>,
) -> Result<Who<T>, Failure> {
    let since = Instant::now();
    loop {
        if let Some(client) = Client::connect(context).await? {
            return Ok(Who::Server(Box::new(client)));
        }
        match take().await {
            Ok(taken) => return Ok(Who::Here(taken)),
            Err(StartError::Locked(LockError::InUse { .. })) if since.elapsed() < BETWEEN_MAX => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => return Err(Failure::usage(error)),
        }
    }
}

fn lost(error: LinkError) -> Failure {
    Failure::failed(format!("the connection to the ukai server failed: {error}; see its log, then try again"))
}

pub(crate) fn unexpected(response: &Response) -> Failure {
    // Only its kind: what is in it may be long.
    let kind = format!("{response:?}");
    let kind = kind.split([' ', '(']).next().unwrap_or_default();
    Failure::failed(format!("the ukai server answered with {kind}, which is no answer to what was asked"))
}
