//! One message over a pipe: how a one-shot process is asked and answers.
//!
//! In front of it stands the preamble of the sockets, so that a program of another build is told apart before anything
//! is decoded. One message each way and no more: there is no stream to get out of step, and the end of a pipe is left
//! to mean what it always means, that the other side is gone.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::codec::{self, CodecError};
use crate::frame::{self, BadPreamble, PREAMBLE_BYTES, Role};

#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    #[error("the pipe failed: {0}")]
    Io(#[from] io::Error),
    /// Nothing was sent, or not all of it.
    #[error("the pipe ended before the message did")]
    Ended,
    #[error(transparent)]
    Preamble(#[from] BadPreamble),
    #[error("a message of {bytes} bytes is too large; {bytes_max} are allowed")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Sends one message of at most `bytes_max` bytes.
pub async fn send<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    role: Role,
    message: &T,
    bytes_max: usize,
) -> Result<(), PipeError> {
    let bytes = codec::encode(message)?;
    let too_large = || PipeError::TooLarge { bytes: bytes.len(), bytes_max };
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= bytes_max).ok_or_else(too_large)?;
    to.write_all(&frame::preamble(role)).await?;
    to.write_all(&length.to_le_bytes()).await?;
    to.write_all(&bytes).await?;
    Ok(to.flush().await?)
}

/// Receives one message; a length above `bytes_max` is an error before anything is allocated.
pub async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> Result<T, PipeError> {
    let mut preamble = [0; PREAMBLE_BYTES];
    read(from, &mut preamble).await?;
    frame::read_preamble(preamble)?;
    let mut length = [0; 4];
    read(from, &mut length).await?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > bytes_max {
        return Err(PipeError::TooLarge { bytes, bytes_max });
    }
    let mut message = vec![0; bytes];
    read(from, &mut message).await?;
    Ok(codec::decode(&message)?)
}

async fn read(from: &mut (impl AsyncRead + Unpin), bytes: &mut [u8]) -> Result<(), PipeError> {
    match from.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(PipeError::Ended),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 16;

    async fn check(quirk: &str, bytes: &[u8], expected: &str) {
        let received = receive::<String>(&mut &*bytes, BYTES_MAX).await;
        let shown = received.map_or_else(|error| error.to_string(), |text| format!("got {text}"));
        assert!(shown.contains(expected), "{quirk}: {shown}");
    }

    #[tokio::test]
    async fn a_message_comes_whole_or_not_at_all() {
        let mut sent = Vec::new();
        send(&mut sent, Role::Worker, &"hello".to_owned(), BYTES_MAX).await.expect("sent");
        check("as it was sent", &sent, "got hello").await;
        check("nothing", b"", "ended before").await;
        check("cut in its preamble", &sent[..4], "ended before").await;
        check("cut in its length", &sent[..10], "ended before").await;
        check("cut in itself", &sent[..sent.len() - 1], "ended before").await;
        check("another program's words", b"usage: cat [FILE]", "does not speak").await;
        let old = [b"ukai\x01\x00\x01\x00", &sent[PREAMBLE_BYTES..]].concat();
        check("another build's", &old, "version 1").await;
        let mut long = sent.clone();
        long[PREAMBLE_BYTES..PREAMBLE_BYTES + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        check("a length beyond the bound", &long, "too large").await;
        let mut other = sent.clone();
        other[PREAMBLE_BYTES + 4] = 9;
        check("no such message", &other, "could not be decoded").await;
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_begun() {
        let mut sent = Vec::new();
        let refused = send(&mut sent, Role::Supervisor, &"x".repeat(BYTES_MAX), BYTES_MAX).await;
        assert!(matches!(refused, Err(PipeError::TooLarge { .. })) && sent.is_empty(), "{refused:?}");
    }
}
