//! A local socket that carries frames between processes of one user.
//!
//! The peer's uid is checked on both ends. A frame above its bound, of another version, or undecodable ends that one
//! connection with a reason; nothing is skipped or guessed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt as _};
use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::StreamCommon as _;
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::traits::tokio::Stream as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName as _};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::codec::{self, CodecError};
use crate::frame::{self, BadPreamble, PREAMBLE_BYTES, Role};
use crate::socket::{self, ReadHalf, WriteHalf};

/// How long a peer may take for its preamble: it is one small write.
const PREAMBLE_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Preamble(#[from] BadPreamble),
    #[error("the other end said nothing for {} s", PREAMBLE_DEADLINE.as_secs())]
    Silent,
    #[error("the other end runs as uid {theirs}, this one as {ours}")]
    Stranger { theirs: u32, ours: u32 },
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The receiving side of a connection.
pub struct Reader {
    frames: FramedRead<ReadHalf, LengthDelimitedCodec>,
}

/// The sending side. Dropping it ends that direction: the peer reads what was sent, then the end.
pub struct Writer {
    frames: FramedWrite<WriteHalf, LengthDelimitedCodec>,
}

pub struct Listener {
    inner: interprocess::local_socket::tokio::Listener,
}

impl Listener {
    /// Binds `path` (mode 0600), replacing what a dead process left there.
    ///
    /// The caller holds the lock that says no live process listens there: a socket file alone cannot tell.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let name = path.to_fs_name::<GenericFilePath>()?;
        let options = ListenerOptions::new().name(name).try_overwrite(true).mode(0o600);
        Ok(Listener { inner: options.create_tokio()? })
    }

    /// The next connection, as yet unchecked: [`Accepted::open`] does that, in a task of its own.
    pub async fn accept(&self) -> io::Result<Accepted> {
        Ok(Accepted { stream: self.inner.accept().await? })
    }
}

/// A connection whose peer has not been checked.
pub struct Accepted {
    stream: Stream,
}

impl Accepted {
    /// Checks uid and version, and learns which conversation the peer wants.
    pub async fn open(self) -> Result<(Role, Reader, Writer), LinkError> {
        open(self.stream, Role::Supervisor).await
    }
}

/// Connects as `role`.
pub async fn connect(path: &Path, role: Role) -> Result<(Reader, Writer), LinkError> {
    let stream = Stream::connect(path.to_fs_name::<GenericFilePath>()?).await?;
    let (_, reader, writer) = open(stream, role).await?;
    Ok((reader, writer))
}

async fn open(stream: Stream, role: Role) -> Result<(Role, Reader, Writer), LinkError> {
    check_peer(&stream)?;
    // interprocess's own stream says yes to a shutdown and does none; what is under it does.
    let Stream::UdSocket(stream) = stream;
    let (mut receive, mut send) = socket::halves(OwnedFd::try_from(stream)?.into())?;
    let exchange = async {
        send.write_all(&frame::preamble(role)).await?;
        let mut theirs = [0; PREAMBLE_BYTES];
        receive.read_exact(&mut theirs).await?;
        Ok::<_, LinkError>(frame::read_preamble(theirs)?)
    };
    let theirs = tokio::time::timeout(PREAMBLE_DEADLINE, exchange).await.map_err(|_| LinkError::Silent)??;
    let reader = Reader { frames: FramedRead::new(receive, frame::frames()) };
    Ok((theirs, reader, Writer { frames: FramedWrite::new(send, frame::frames()) }))
}

fn check_peer(stream: &Stream) -> Result<(), LinkError> {
    let ours = nix::unistd::geteuid().as_raw();
    match stream.peer_creds()?.euid() {
        Some(theirs) if theirs == ours => Ok(()),
        theirs => Err(LinkError::Stranger { theirs: theirs.unwrap_or(u32::MAX), ours }),
    }
}

impl Reader {
    /// The next message; `None` once the peer has closed.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        match self.frames.next().await {
            Some(frame) => Ok(Some(codec::decode(&frame?)?)),
            None => Ok(None),
        }
    }
}

impl Writer {
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        self.feed(message).await?;
        self.flush().await
    }

    /// As [`Writer::send`], but it may wait here for more to come: what is fed together travels in one write, and
    /// wakes the other end once. [`Writer::flush`] sends it.
    pub async fn feed<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        let bytes = codec::encode(message)?;
        Ok(self.frames.feed(Bytes::from(bytes)).await?)
    }

    pub async fn flush(&mut self) -> Result<(), LinkError> {
        Ok(SinkExt::<Bytes>::flush(&mut self.frames).await?)
    }

    /// Ends the sending direction; the peer reads to the end and sees it.
    pub async fn close(&mut self) -> Result<(), LinkError> {
        Ok(SinkExt::<Bytes>::close(&mut self.frames).await?)
    }
}
