//! The client's end of the control link: one connection per request, its answers in order.

use std::io;
use std::time::Duration;

use ukai_protocol::connection::{self, LinkError, Reader, Writer};
use ukai_protocol::control::{JobResult, JobRow, Request, Response};
use ukai_protocol::frame::Role;

use super::context::Context;
use super::failure::Failure;

/// The supervisor answers from memory; only a cancel waits for processes to end.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Far above any `term_grace` in use.
const CANCEL_DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct Client {
    reader: Reader,
    writer: Writer,
}

impl Client {
    /// Connects to the supervisor of the state directory. `Ok(None)`: none listens.
    pub async fn connect(context: &Context) -> Result<Option<Self>, Failure> {
        let Some(socket) = context.socket()? else { return Ok(None) };
        match connection::connect(&socket, Role::Client).await {
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

    pub async fn send(&mut self, request: &Request) -> Result<(), Failure> {
        self.writer.send(request).await.map_err(lost)
    }

    pub async fn next(&mut self) -> Result<Option<Response>, LinkError> {
        self.reader.next().await
    }

    /// One request, its one answer. A refusal is a failure in the server's words.
    pub async fn ask(mut self, request: &Request) -> Result<Response, Failure> {
        self.send(request).await?;
        let deadline = if matches!(request, Request::Cancel { .. }) { CANCEL_DEADLINE } else { ANSWER_DEADLINE };
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

    pub async fn rows(self) -> Result<Vec<JobRow>, Failure> {
        match self.ask(&Request::List).await? {
            Response::Jobs { rows } => Ok(rows),
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

fn lost(error: LinkError) -> Failure {
    Failure::failed(format!("the connection to the ukai server failed: {error}; see its log, then try again"))
}

pub(crate) fn unexpected(response: &Response) -> Failure {
    // Only its kind: what is in it may be long.
    let kind = format!("{response:?}");
    let kind = kind.split([' ', '(']).next().unwrap_or_default();
    Failure::failed(format!("the ukai server answered with {kind}, which is no answer to what was asked"))
}
