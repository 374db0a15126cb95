//! The two halves of a connected Unix socket, of which the sending one asks to be woken for room only when it found none.
//!
//! Why not tokio's own? They watch for room from the beginning, and the kernel tells of it whenever the other end has read:
//! each message woke whoever had sent it once more, for nothing.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The receiving half.
pub struct ReadHalf {
    socket: Arc<AsyncFd<UnixStream>>,
}

/// The sending half. Dropping it ends that direction.
pub struct WriteHalf {
    socket: Arc<AsyncFd<UnixStream>>,
    /// While there was no room: a descriptor of its own, since one is watched for one thing from its beginning to its end.
    room: Option<AsyncFd<OwnedFd>>,
}

/// Must be called within a runtime.
pub fn halves(socket: UnixStream) -> io::Result<(ReadHalf, WriteHalf)> {
    socket.set_nonblocking(true)?;
    let socket = Arc::new(watched(socket, Interest::READABLE)?);
    Ok((ReadHalf { socket: socket.clone() }, WriteHalf { socket, room: None }))
}

// Its successor is unsafe for the sake of types that could change their descriptor; these cannot.
#[allow(deprecated)]
fn watched<T: std::os::fd::AsRawFd>(of: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(of, interest)
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            let (size, read) = (room.len(), ready.try_io(|socket| socket.get_ref().read(room)));
            match read {
                Ok(Ok(count)) => {
                    // Less than there was room for: it is empty, and whatever comes is told anew.
                    if count > 0 && count < size {
                        ready.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                // It was not ready after all, and is no longer taken to be.
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.get_ref().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_room(cx))?,
                written => {
                    self.room = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    /// What is written is with the kernel.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.get_ref().shutdown(Shutdown::Write))
    }
}

impl WriteHalf {
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match &mut self.room {
            Some(room) => room,
            none => {
                let again = OwnedFd::from(self.socket.get_ref().try_clone()?);
                none.insert(watched(again, Interest::WRITABLE)?)
            }
        };
        // Whether there really is, the next attempt finds out.
        ready!(room.poll_write_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // What fails here is that the other end is gone, or that it was ended already.
        let _ = self.socket.get_ref().shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{sleep, timeout};

    use super::*;

    /// A hang would be the failure.
    const SOON: Duration = Duration::from_secs(20);
    /// Many times what a socket holds.
    const MUCH: usize = 8 * 1024 * 1024;

    #[tokio::test]
    async fn what_does_not_fit_at_once_arrives_whole_by_and_by_and_then_the_end() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (_, mut send) = halves(ours).expect("halves");
        let (mut receive, _back) = halves(theirs).expect("halves");
        let sent: Vec<u8> = (0..MUCH).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            send.write_all(&sent).await.expect("sent");
            assert!(send.room.is_none(), "it goes on without asking for room");
            send.write_all(b"end").await.expect("sent");
        });
        // It has to wait first.
        sleep(Duration::from_millis(20)).await;
        let mut got = Vec::new();
        timeout(SOON, receive.read_to_end(&mut got)).await.expect("in time").expect("read");
        sending.await.expect("it sends");
        assert!(got.len() == MUCH + 3 && got.starts_with(&expected) && got.ends_with(b"end"), "{}", got.len());
    }

    #[tokio::test]
    async fn each_message_wakes_whoever_waits_and_a_dropped_half_ends_its_direction_alone() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut back, mut send) = halves(ours).expect("halves");
        let (mut receive, mut answer) = halves(theirs).expect("halves");
        let echo = tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(count @ 1..) = receive.read(&mut buffer).await {
                answer.write_all(&buffer[..count]).await.expect("answered");
            }
            answer.write_all(b"bye").await.expect("answered");
        });
        let mut buffer = [0; 64];
        for round in 0..100_u8 {
            send.write_all(&[round; 3]).await.expect("sent");
            let count = timeout(SOON, back.read(&mut buffer)).await.expect("in time").expect("read");
            assert_eq!(&buffer[..count], &[round; 3]);
        }
        drop(send);
        let mut rest = Vec::new();
        timeout(SOON, back.read_to_end(&mut rest)).await.expect("in time").expect("read");
        echo.await.expect("it ends");
        assert_eq!(rest, b"bye");
    }

    #[tokio::test]
    async fn who_writes_to_nobody_is_told() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (_, mut send) = halves(ours).expect("halves");
        drop(theirs);
        assert_eq!(send.write_all(b"x").await.expect_err("nobody").kind(), io::ErrorKind::BrokenPipe);
    }
}
