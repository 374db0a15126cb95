//! The one door for the command line and the page: requests of a client, each answered before the next is read.
//!
//! A subscription lasts until its connection ends. It listens first and reads the logs then, so that nothing can fall
//! between the two; what arrives twice is told once, by its number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use ukai_protocol::connection::{LinkError, Reader, Writer};
use ukai_protocol::control::{Filter, Request, Response, Selection};
use ukai_protocol::id::JobId;
use ukai_protocol::job::CauseKind;

use crate::actor::{Answer, Msg, Refusal, Unpaused};
use crate::listener::LISTENERS_MAX;
use crate::publish::{Listener, Publisher, Told, Wanted};
use crate::store::message::BACKLOG_RECORDS_MAX;
use crate::store::{Piece, Position, Reply, StoreError, StoreMessage};

/// What a connection can reach.
#[derive(Clone)]
pub struct Doors {
    pub supervisor: ActorRef<Msg>,
    pub store: ActorRef<StoreMessage>,
    pub publisher: Publisher,
    /// Places of those who listen.
    pub listeners: Arc<Semaphore>,
}

/// A client asks at once, and again as soon as it has its answer; one that is silent holds a place that others need.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Serves one client until it closes.
pub async fn serve(doors: &Doors, mut reader: Reader, mut writer: Writer) -> Result<(), LinkError> {
    loop {
        let Ok(request) = tokio::time::timeout(REQUEST_DEADLINE, reader.next::<Request>()).await else {
            tracing::warn!("a client is disconnected: it asked nothing for {} s", REQUEST_DEADLINE.as_secs());
            return Ok(());
        };
        let Some(request) = request? else { return Ok(()) };
        let answered = match request {
            Request::Submit { jobs, .. } => {
                let jobs = jobs.into_iter().map(|job| job.spec).collect();
                let ids = doors.ask(|answer| Msg::Submit { jobs, answer }).await;
                ids.map(|ids| Response::Submitted { ids, batch: None })
            }
            Request::List { .. } => {
                doors.ask(|answer| Msg::List { answer }).await.map(|rows| Response::Jobs { rows, left_out: 0 })
            }
            Request::Pause { jobs } => {
                doors.ask(|answer| Msg::Pause { jobs, answer }).await.map(|rows| Response::Paused { rows })
            }
            Request::Unpause { jobs } => doors
                .ask(|answer| Msg::Unpause { jobs, answer })
                .await
                .map(|Unpaused { rows, starts }| Response::Unpaused { rows, starts }),
            Request::Results { .. } => Err(Refusal { why: "not known here yet".to_owned(), usage: true }),
            Request::Show { job } => doors
                .ask(|answer| Msg::Show { job, answer })
                .await
                .map(|(row, result)| Response::Shown { row: Box::new(row), result: Box::new(result) }),
            Request::Cancel { jobs } => doors
                .ask(|answer| Msg::Cancel { jobs, kind: CauseKind::Cancel, answer })
                .await
                .map(|ids| Response::Cancelled { ids }),
            Request::Status => {
                doors.ask(|answer| Msg::Status { answer }).await.map(|status| Response::Status(Box::new(status)))
            }
            Request::Subscribe { filter, seen } => match doors.subscribe(filter, seen.all).await {
                Ok(subscription) => return subscription.tell(doors, reader, writer).await,
                Err(refusal) => Err(refusal),
            },
        };
        writer.send(&answered.unwrap_or_else(refused)).await?;
    }
}

fn refused(Refusal { why, usage }: Refusal) -> Response {
    Response::Refused { why, usage }
}

struct Subscription {
    _place: OwnedSemaphorePermit,
    listener: Listener,
    /// In the order of submission.
    jobs: Vec<JobId>,
    /// The number of the last record that was told, per job; `after` for the others.
    told: HashMap<JobId, u64>,
    after: u64,
}

impl Doors {
    async fn ask<T>(&self, message: impl FnOnce(Answer<T>) -> Msg) -> Result<T, Refusal> {
        let stopping = || Refusal { why: "the server is stopping: ask again when it runs".to_owned(), usage: false };
        let (answer, answered) = oneshot::channel();
        if self.supervisor.cast(message(answer)).is_err() {
            return Err(stopping());
        }
        answered.await.unwrap_or_else(|_| Err(stopping()))
    }

    async fn subscribe(&self, filter: Filter, after: u64) -> Result<Subscription, Refusal> {
        let place = self.listeners.clone().try_acquire_owned().map_err(|_| Refusal {
            why: format!("{LISTENERS_MAX} clients listen already: end one of them"),
            usage: false,
        })?;
        let Filter { jobs, deltas } = filter;
        let resolve = |jobs| self.ask(|answer| Msg::Resolve { jobs, answer });
        let (listener, jobs) = match jobs {
            Selection::All => {
                let listener = self.publisher.listen(Wanted { jobs: None, deltas });
                (listener, resolve(Selection::All).await?)
            }
            these => {
                let ids = resolve(these).await?;
                let wanted = Wanted { jobs: Some(ids.iter().cloned().collect()), deltas };
                (self.publisher.listen(wanted), ids)
            }
        };
        Ok(Subscription { _place: place, listener, jobs, told: HashMap::new(), after })
    }

    async fn backlog(&self, job: &JobId, from: Position) -> Result<Piece, StoreError> {
        let (answer, answered) = oneshot::channel();
        // Who no longer listens needs no answer; a store that has ended answers by dropping the reply.
        let reply = Reply::new(move |piece| drop(answer.send(piece)));
        let message = StoreMessage::Backlog { job: job.clone(), from, limit: BACKLOG_RECORDS_MAX, reply };
        let _ = self.store.cast(message);
        answered.await.unwrap_or(Err(StoreError::Stopped))
    }
}

impl Subscription {
    async fn tell(mut self, doors: &Doors, mut reader: Reader, mut writer: Writer) -> Result<(), LinkError> {
        for job in std::mem::take(&mut self.jobs) {
            let mut from = Position::after(self.after);
            loop {
                let piece = match doors.backlog(&job, from).await {
                    Ok(piece) => piece,
                    Err(error) => {
                        let why = format!("reading what happened to {job}: {error}");
                        return writer.send(&Response::Refused { why, usage: false }).await;
                    }
                };
                for record in piece.records {
                    self.told.insert(job.clone(), record.seq);
                    writer.send(&Response::Happened(Box::new(record))).await?;
                }
                if !piece.more {
                    break;
                }
                from = piece.next;
            }
        }
        writer.send(&Response::Live).await?;
        loop {
            let told = tokio::select! {
                told = self.listener.next() => told,
                request = reader.next::<Request>() => match request? {
                    None => return Ok(()),
                    Some(_) => {
                        let why = "a subscription lasts as long as its connection: ask on another one".to_owned();
                        return writer.send(&Response::Refused { why, usage: true }).await;
                    }
                },
            };
            let response = match told {
                Told::Happened(record) => {
                    let last = self.told.entry(record.job.clone()).or_insert(self.after);
                    if record.seq <= *last {
                        continue;
                    }
                    *last = record.seq;
                    Response::Happened(Box::new((*record).clone()))
                }
                Told::Delta { job, step, text } => Response::Delta { job, step, text: text.to_string() },
                Told::Missed { count } => Response::Missed { count },
            };
            writer.send(&response).await?;
        }
    }
}
