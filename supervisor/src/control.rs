//! The one door for the command line and the page: requests of a client, each answered before the next is read.
//!
//! A subscription lasts until its connection ends. It listens first and reads the logs then, so that nothing can fall
//! between the two; what arrives twice is told once, by its number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use ukai_notifier::Notifier;
use ukai_protocol::connection::{LinkError, Reader, Writer};
use ukai_protocol::control::{Filter, NewJob, Request, Response, Seen, Selection};
use ukai_protocol::id::JobId;
use ukai_protocol::job::CauseKind;

use crate::actor::{Answer, AttentionWanted, Msg, QUEUED_MAX, Refusal, Submitted, Unpaused};
use crate::examine::Examined;
use crate::listener::LISTENERS_MAX;
use crate::publish::{Listener, Publisher, Told, Wanted};
use crate::store::message::BACKLOG_RECORDS_MAX;
use crate::store::{Piece, Position, Reply, StoreError, StoreMessage};

/// What a connection can reach.
#[derive(Clone)]
pub struct Doors {
    pub supervisor: ActorRef<Msg>,
    pub store: ActorRef<StoreMessage>,
    pub notifier: Notifier,
    pub publisher: Publisher,
    /// Places of those who listen.
    pub listeners: Arc<Semaphore>,
}

/// A client asks at once, and again as soon as it has its answer; one that is silent holds a place that others need.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Serves one client until it closes.
pub async fn serve(doors: &Doors, mut reader: Reader, mut writer: Writer) -> Result<(), LinkError> {
    let mut parts = Parts::default();
    loop {
        let Ok(request) = tokio::time::timeout(REQUEST_DEADLINE, reader.next::<Request>()).await else {
            tracing::warn!("a client is disconnected: it asked nothing for {} s", REQUEST_DEADLINE.as_secs());
            return Ok(());
        };
        let Some(request) = request? else { return Ok(()) };
        let answered = match request {
            Request::Submit { jobs, batch, more } => match parts.add(jobs) {
                Ok(()) if more => Ok(Response::Taken),
                Ok(()) => {
                    let jobs = std::mem::take(&mut parts).jobs;
                    let submitted = doors.ask(|answer| Msg::Submit { jobs, batch, answer }).await;
                    submitted.map(|Submitted { ids, batch, notes }| Response::Submitted { ids, batch, notes })
                }
                Err(refusal) => Err(refusal),
            },
            Request::List { jobs } => {
                let listed = doors.ask(|answer| Msg::List { jobs, answer }).await;
                listed.map(|(rows, left_out)| Response::Jobs { rows, left_out })
            }
            Request::Results { batch } => doors.results(batch, &mut writer).await?,
            Request::Pause { jobs } => {
                doors.ask(|answer| Msg::Pause { jobs, answer }).await.map(|rows| Response::Paused { rows })
            }
            Request::Unpause { jobs } => doors
                .ask(|answer| Msg::Unpause { jobs, answer })
                .await
                .map(|Unpaused { rows, starts }| Response::Unpaused { rows, starts }),
            Request::Show { job } => doors.show(job).await,
            Request::Cancel { jobs } => doors
                .ask(|answer| Msg::Cancel { jobs, kind: CauseKind::Cancel, answer })
                .await
                .map(|ids| Response::Cancelled { ids }),
            Request::Status => {
                doors.ask(|answer| Msg::Status { answer }).await.map(|status| Response::Status(Box::new(status)))
            }
            Request::Providers => {
                doors.ask(|answer| Msg::Providers { answer }).await.map(|rows| Response::Providers { rows })
            }
            Request::Why { job } => {
                doors.ask(|answer| Msg::Why { job, answer }).await.map(|(job, lines)| Response::Why { job, lines })
            }
            Request::ResetProviders { ids, forget_wait } => doors
                .ask(|answer| Msg::ResetProviders { ids, forget_wait, answer })
                .await
                .map(|rows| Response::Providers { rows }),
            Request::ProbeProviders { ids, refresh } => doors
                .ask(|answer| Msg::ProbeProviders { ids, refresh, answer })
                .await
                .map(|Examined { rows, evidence }| Response::Probed { rows, evidence }),
            Request::Resume { jobs } => {
                doors.ask(|answer| Msg::Resume { jobs, answer }).await.map(|ids| Response::Resumed { ids })
            }
            Request::Ack { what, all } => {
                doors.ask(|answer| Msg::Ack { what, all, answer }).await.map(|seen| Response::Acked { seen })
            }
            Request::Decide { what, decision } => {
                let decided = doors.ask(|answer| Msg::Decide { what, decision, answer }).await;
                decided.map(|answered| Response::Decided(Box::new(answered)))
            }
            Request::Attention => {
                let found = doors.ask(|answer| Msg::Attention { answer }).await;
                found.map(|AttentionWanted { first, count, asks }| Response::Attention { first, count, asks })
            }
            Request::TestNotify => Ok(Response::Notified { sinks: doors.notifier.test().await }),
            Request::Sinks => Ok(Response::Notified { sinks: doors.notifier.sinks().await }),
            Request::Subscribe { filter, seen } => match doors.subscribe(filter, seen).await {
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

/// A submission that comes in parts. It is nothing until its last is here, and goes with its connection.
#[derive(Default)]
struct Parts {
    jobs: Vec<NewJob>,
    text_bytes: usize,
}

/// The prompts of one submission: ten thousand long ones.
const SUBMISSION_TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;

impl Parts {
    fn add(&mut self, jobs: Vec<NewJob>) -> Result<(), Refusal> {
        self.text_bytes += jobs.iter().map(|job| job.spec.prompt.len()).sum::<usize>();
        self.jobs.extend(jobs);
        let too_much = if self.jobs.len() > QUEUED_MAX {
            format!("more than {QUEUED_MAX} jobs")
        } else if self.text_bytes > SUBMISSION_TEXT_BYTES_MAX {
            format!("prompts of more than {SUBMISSION_TEXT_BYTES_MAX} bytes")
        } else {
            return Ok(());
        };
        *self = Parts::default();
        Err(Refusal { why: format!("one submission holds {too_much}: submit it in several"), usage: true })
    }
}

struct Subscription {
    _place: OwnedSemaphorePermit,
    listener: Listener,
    /// In the order of submission, each with the number of a record that is in its log.
    jobs: Vec<(JobId, u64)>,
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

    async fn show(&self, job: String) -> Result<Response, Refusal> {
        let (row, result) = self.ask(|answer| Msg::Show { job, answer }).await?;
        Ok(Response::Shown { row: Box::new(row), result: Box::new(result) })
    }

    /// All but the last answer are written here, each when it has been asked for: a batch may hold more text than fits
    /// into memory.
    async fn results(&self, batch: String, writer: &mut Writer) -> Result<Result<Response, Refusal>, LinkError> {
        let (row, jobs) = match self.ask(|answer| Msg::Batch { batch, answer }).await {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut last = Ok(Response::Batch(Box::new(row)));
        for job in jobs {
            writer.send(&last.unwrap_or_else(refused)).await?;
            last = self.show(job.into()).await;
            if last.is_err() {
                break;
            }
        }
        Ok(last)
    }

    async fn subscribe(&self, filter: Filter, seen: Seen) -> Result<Subscription, Refusal> {
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
                let wanted = Wanted { jobs: Some(ids.iter().map(|(id, _)| id.clone()).collect()), deltas };
                (self.publisher.listen(wanted), ids)
            }
        };
        let Seen { all: after, of } = seen;
        Ok(Subscription { _place: place, listener, jobs, told: of.into_iter().collect(), after })
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
        let alone = self.jobs.len() == 1;
        for (job, seq) in std::mem::take(&mut self.jobs) {
            let seen = self.told.get(&job).copied().unwrap_or(self.after);
            if seen >= seq {
                // What came since we listen will be told.
                continue;
            }
            let mut from = Position::after(seen);
            loop {
                let piece = match doors.backlog(&job, from).await {
                    Ok(piece) => piece,
                    // One damaged log of many keeps nobody from the others: how its job stands, its row tells.
                    Err(error) if !alone => {
                        tracing::warn!(%job, %error, "a listener is not told what happened to it");
                        break;
                    }
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
