//! One socket for workers and clients. Each connection is checked and served in a task of its own, so that one which
//! says nothing keeps nobody waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use ukai_protocol::connection::{Accepted, LinkError, Listener, Reader, Writer};
use ukai_protocol::control::{Request, Response};
use ukai_protocol::frame::Role;
use ukai_protocol::session::Hello;

use crate::actor::Msg;
use crate::control::{self, Doors};
use crate::pool::link::Incoming;

/// Connections at a time, workers and clients together; further ones wait in the kernel's backlog. Well below the
/// usual 1,024 descriptors of a process, which logs and pipes need too.
pub const CONNECTIONS_MAX: usize = 512;
/// Clients at a time, so that they cannot take the workers' places.
pub const CLIENTS_MAX: usize = 256;
/// Clients that listen at a time: those stay, and must leave places to those who ask something, above all `cancel`.
pub const LISTENERS_MAX: usize = 192;
/// A client waits this long for a place: longer than one that asks nothing may keep it.
const PLACE_DEADLINE: Duration = Duration::from_secs(15);
/// A refused client may take this long to read why. The socket closed under its request would reset the connection, and
/// the reason would be lost.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(1);
/// A worker says `Hello` in its first message.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// After an accept that failed, most likely for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is aborted.
pub async fn serve(listener: Listener, doors: Doors) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    // Never closed: the semaphore is ours.
    while let Ok(slot) = connections.clone().acquire_owned().await {
        match listener.accept().await {
            Ok(accepted) => {
                let (doors, clients) = (doors.clone(), clients.clone());
                tokio::spawn(async move {
                    if let Err(error) = open(accepted, doors, clients, slot).await {
                        tracing::warn!(%error, "a connection is closed");
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn open(
    accepted: Accepted,
    doors: Doors,
    clients: Arc<Semaphore>,
    slot: OwnedSemaphorePermit,
) -> Result<(), LinkError> {
    let (role, reader, writer) = accepted.open().await?;
    match role {
        Role::Worker => worker(doors, reader, writer, slot).await,
        Role::Client => client(doors, reader, writer, clients).await,
        Role::Supervisor => {
            tracing::warn!("a connection is closed: one supervisor does not talk to another");
            Ok(())
        }
    }
}

async fn worker(doors: Doors, mut reader: Reader, writer: Writer, slot: OwnedSemaphorePermit) -> Result<(), LinkError> {
    let hello = tokio::time::timeout(HELLO_DEADLINE, reader.next::<Hello>()).await.map_err(|_| LinkError::Silent)??;
    let Some(hello) = hello else { return Ok(()) };
    let incoming = Box::new(Incoming { reader, writer, slot });
    if doors.supervisor.cast(Msg::Hello { hello: Box::new(hello), incoming }).is_err() {
        tracing::debug!("a worker came while the server ended");
    }
    Ok(())
}

async fn client(
    doors: Doors,
    mut reader: Reader,
    mut writer: Writer,
    clients: Arc<Semaphore>,
) -> Result<(), LinkError> {
    if let Ok(Ok(_place)) = tokio::time::timeout(PLACE_DEADLINE, clients.acquire_owned()).await {
        return control::serve(&doors, reader, writer).await;
    }
    let why = format!("{CLIENTS_MAX} clients are connected already: end one of them");
    writer.send(&Response::Refused { why, usage: false }).await?;
    let read = async {
        while reader.next::<Request>().await?.is_some() {}
        Ok(())
    };
    tokio::time::timeout(REFUSAL_DEADLINE, read).await.unwrap_or(Ok(()))
}
