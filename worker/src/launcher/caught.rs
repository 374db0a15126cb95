//! What a command says on one of its pipes: kept up to a bound, read and dropped beyond, so that it is never held up.

use std::io;
use std::os::fd::AsFd;

use super::CAUGHT_BYTES_MAX;

/// Read at a time.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// Bytes, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caught {
    pub bytes: Vec<u8>,
    /// It said more than is kept.
    pub cut: bool,
}

impl Caught {
    /// Takes what is in a pipe that does not block, at most so many bytes. False: nothing will ever come any more.
    pub(super) fn read(&mut self, pipe: impl AsFd, bytes_max: usize) -> io::Result<bool> {
        let mut buffer = vec![0; READ_BYTES];
        let mut taken = 0;
        while taken < bytes_max {
            match rustix::io::read(&pipe, &mut buffer) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    taken += bytes;
                    self.push(&buffer[..bytes]);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(CAUGHT_BYTES_MAX - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.cut |= kept < bytes.len();
    }
}
