//! Words to bytes and back: the only file that names bincode.

#![deny(clippy::disallowed_methods)]

use serde::{Serialize, de::DeserializeOwned};

use crate::frame::FRAME_BYTES_MAX;

#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("a message could not be encoded: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    #[error("a message could not be decoded: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    #[error("a message of {length} bytes holds only {used}: the two ends are not of one build")]
    Leftover { length: usize, used: usize },
}

/// Little-endian, variable-length integers; a length inside a message can ask for no more than a frame may hold.
fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<FRAME_BYTES_MAX>()
}

pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, CodecError> {
    Ok(bincode::serde::encode_to_vec(message, bincode::config::standard())?)
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (message, used) = bincode::serde::decode_from_slice(bytes, config())?;
    if used != bytes.len() {
        return Err(CodecError::Leftover { length: bytes.len(), used });
    }
    Ok(message)
}

/// For a state that was streamed in chunks: the bound is the caller's, who knows how many bytes were announced.
pub fn decode_unbounded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (message, used) = bincode::serde::decode_from_slice(bytes, bincode::config::standard())?;
    if used != bytes.len() {
        return Err(CodecError::Leftover { length: bytes.len(), used });
    }
    Ok(message)
}
