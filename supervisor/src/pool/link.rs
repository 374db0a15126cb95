//! One connection of a worker: a task that reads and one that writes, so that the job actor awaits neither.
//!
//! The reader stops reading while too much of what it brought is unanswered: an actor's mailbox has no bound, the
//! socket's buffer has. A record is answered when it is on disk, so a slow disk slows the worker and fills no memory.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use ukai_protocol::codec;
use ukai_protocol::connection::{LinkError, Reader, Writer};
use ukai_protocol::run_state::RunState;
use ukai_protocol::session::{STATE_CHUNK_BYTES, ToSupervisor, ToWorker, Welcome};

use super::actor::Msg;

/// Messages of one worker that are read and not yet dealt with; for a record that means on disk. A worker has a few
/// under way at a time (one turn's records, an ask, heartbeats); each is at most a frame.
pub const UNANSWERED_MAX: usize = 16;
/// Messages on their way to one worker. It is sent about one per message of its own, so a worker with this many
/// waiting has stopped reading.
const OUTGOING_MAX: usize = 256;
/// A rejected peer may take this long to read why.
const REJECT_DEADLINE: Duration = Duration::from_secs(1);

/// All that a dead peer wrote lies in the socket: a read that finds nothing for this long has found it all. The end of
/// the stream cannot be waited for, since somebody outside of its tree may hold the other side.
const LAST_READ: Duration = Duration::from_millis(50);

/// A connection whose peer has said `Hello`. `slot` is its place among all connections.
pub struct Incoming {
    pub reader: Reader,
    pub writer: Writer,
    pub slot: OwnedSemaphorePermit,
}

/// What the worker is told first.
pub struct Opening {
    pub welcome: Welcome,
    pub state: Option<Box<RunState>>,
}

/// Dropping it lets the writer finish what is queued and close.
pub struct Link {
    pub id: u64,
    outgoing: mpsc::Sender<ToWorker>,
}

impl Link {
    /// Whether there was room.
    #[must_use]
    pub fn send(&self, message: ToWorker) -> bool {
        self.outgoing.try_send(message).is_ok()
    }
}

/// Tells the peer to go away, in a task of its own.
pub fn reject(incoming: Incoming, why: String) {
    tokio::spawn(async move {
        let Incoming { mut writer, reader: _reader, slot: _slot } = incoming;
        let told = async {
            writer.send(&ToWorker::Reject { why }).await?;
            writer.close().await
        };
        // It is turned away whether it listens or not.
        let _ = tokio::time::timeout(REJECT_DEADLINE, told).await;
    });
}

/// `gone` turns true when the worker and its tree are dead.
pub fn open(incoming: Incoming, id: u64, opening: Opening, actor: ActorRef<Msg>, gone: watch::Receiver<bool>) -> Link {
    let Incoming { reader, writer, slot } = incoming;
    let (outgoing, queued) = mpsc::channel(OUTGOING_MAX);
    let job = opening.welcome.job.clone();
    tokio::spawn(async move {
        if let Err(error) = write(writer, opening, queued).await {
            tracing::warn!(%job, %error, "a worker's connection cannot be written to");
        }
    });
    tokio::spawn(async move {
        let _slot = slot;
        let why = read(reader, id, &actor, gone).await.err().map(|error| error.to_string());
        // Without the actor nobody waits for this end.
        let _ = actor.cast(Msg::LinkEnded { link: id, why });
    });
    Link { id, outgoing }
}

async fn write(mut writer: Writer, opening: Opening, mut queued: mpsc::Receiver<ToWorker>) -> Result<(), LinkError> {
    let Opening { mut welcome, state } = opening;
    let bytes = state.map(|state| codec::encode(&*state)).transpose()?.unwrap_or_default();
    welcome.state_bytes = bytes.len() as u64;
    writer.send(&ToWorker::Welcome(Box::new(welcome))).await?;
    for chunk in bytes.chunks(STATE_CHUNK_BYTES) {
        writer.send(&ToWorker::State { chunk: chunk.to_vec() }).await?;
    }
    drop(bytes);
    while let Some(message) = queued.recv().await {
        writer.send(&message).await?;
    }
    writer.close().await
}

async fn read(
    mut reader: Reader,
    link: u64,
    actor: &ActorRef<Msg>,
    mut gone: watch::Receiver<bool>,
) -> Result<(), LinkError> {
    let unanswered = Arc::new(Semaphore::new(UNANSWERED_MAX));
    loop {
        // Never closed: the semaphore is ours.
        let Ok(permit) = unanswered.clone().acquire_owned().await else { return Ok(()) };
        let message = tokio::select! {
            biased;
            message = reader.next::<ToSupervisor>() => message?,
            () = last_read(&mut gone) => None,
        };
        let Some(message) = message else { return Ok(()) };
        if actor.cast(Msg::FromWorker { link, message: Box::new(message), permit }).is_err() {
            return Ok(());
        }
    }
}

async fn last_read(gone: &mut watch::Receiver<bool>) {
    // An actor that has ended reads nothing more either.
    let _ = gone.wait_for(|gone| *gone).await;
    tokio::time::sleep(LAST_READ).await;
}
