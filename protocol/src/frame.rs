//! Frames: a little-endian u32 length, then that many bytes. Before the first frame each side sends a preamble of
//! fixed shape, so that ends of different builds can tell before they decode anything.

#![deny(clippy::disallowed_methods)]

use tokio_util::codec::LengthDelimitedCodec;

/// The largest message: a reply at its bound (see the worker's `REPLY_BYTES_MAX`) with room for its record.
pub const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Raised by any change of what travels; the golden bytes in the tests hold us to it.
pub const PROTOCOL_VERSION: u16 = 8;

pub const PREAMBLE_BYTES: usize = 8;
const MAGIC: &[u8; 4] = b"ukai";

/// Which conversation follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Supervisor,
    Worker,
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPreamble {
    #[error("the other end does not speak ukai's protocol")]
    NotUkai,
    #[error("the other end speaks protocol version {theirs}, this one {PROTOCOL_VERSION}: run binaries of one build")]
    Version { theirs: u16 },
    #[error("the other end names a role ({0}) that this one does not know")]
    Role(u8),
}

#[must_use]
pub fn preamble(role: Role) -> [u8; PREAMBLE_BYTES] {
    let [low, high] = PROTOCOL_VERSION.to_le_bytes();
    let role = match role {
        Role::Supervisor => 0,
        Role::Worker => 1,
        Role::Client => 2,
    };
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], low, high, role, 0]
}

pub fn read_preamble(bytes: [u8; PREAMBLE_BYTES]) -> Result<Role, BadPreamble> {
    let [m0, m1, m2, m3, low, high, role, _] = bytes;
    if [m0, m1, m2, m3] != *MAGIC {
        return Err(BadPreamble::NotUkai);
    }
    let theirs = u16::from_le_bytes([low, high]);
    if theirs != PROTOCOL_VERSION {
        return Err(BadPreamble::Version { theirs });
    }
    match role {
        0 => Ok(Role::Supervisor),
        1 => Ok(Role::Worker),
        2 => Ok(Role::Client),
        other => Err(BadPreamble::Role(other)),
    }
}

/// Splits a byte stream into frames; a length above the bound is an error before anything is allocated.
#[must_use]
pub fn frames() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().little_endian().max_frame_length(FRAME_BYTES_MAX).new_codec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preamble_is_these_bytes_for_ever() {
        assert_eq!(preamble(Role::Worker), *b"ukai\x08\x00\x01\x00");
        for role in [Role::Supervisor, Role::Worker, Role::Client] {
            assert_eq!(read_preamble(preamble(role)), Ok(role));
        }
    }

    #[test]
    fn another_version_another_program_another_role_are_told_apart() {
        assert_eq!(read_preamble(*b"GET / HT"), Err(BadPreamble::NotUkai));
        assert_eq!(read_preamble(*b"ukai\x01\x00\x01\x00"), Err(BadPreamble::Version { theirs: 1 }));
        assert_eq!(read_preamble(*b"ukai\x08\x00\x09\x00"), Err(BadPreamble::Role(9)));
    }
}
