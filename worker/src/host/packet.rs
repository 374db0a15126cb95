//! One message, whole or not at all, with the descriptors that belong to it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ukai_protocol::codec;

/// A command of 64 KiB with its environment. A packet above it is refused by who sends it.
pub const PACKET_BYTES_MAX: usize = 192 * 1024;
/// A word of the host: of what it may name, two paths are the longest.
pub const WORD_BYTES_MAX: usize = 16 * 1024;
/// Three pipes and a socket.
const DESCRIPTORS_MAX: usize = 4;

/// Two ends of a line that keeps messages apart.
pub fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub fn send(line: impl AsFd, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = codec::encode(message).map_err(io::Error::other)?;
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(io::Error::other(format!("{} bytes do not fit one packet of {PACKET_BYTES_MAX}", bytes.len())));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one packet"));
    }
    loop {
        match sendmsg(&line, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(|_| ())?),
        }
    }
}

/// The next message, by way of a buffer that holds the largest which may come. None: the other end is gone. Blocks unless
/// the line does not.
pub fn receive<T: DeserializeOwned>(line: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&line, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a packet larger than any that is sent"));
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let message = codec::decode(&buffer[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some((message, descriptors)))
}

/// A message that may be larger than a packet (up to a frame), to be sent along with one.
pub fn in_memory(message: &impl Serialize) -> io::Result<OwnedFd> {
    let bytes = codec::encode(message).map_err(io::Error::other)?;
    let mut file = File::from(memfd_create("ukai", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(file.into())
}

pub fn from_memory<T: DeserializeOwned>(descriptor: OwnedFd) -> io::Result<T> {
    let mut file = File::from(descriptor);
    // Where who wrote it stopped, we would begin.
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    codec::decode(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors_and_an_end_is_heard() {
        let (ours, theirs) = line().expect("a line");
        let (mut read, write) = std::io::pipe().expect("a pipe");
        send(&ours, &"first".to_owned(), &[write.as_fd()]).expect("sent");
        send(&ours, &"second".to_owned(), &[]).expect("sent");
        drop((ours, write));
        let mut buffer = [0; 64];
        let (text, mut with): (String, _) = receive(&theirs, &mut buffer).expect("read").expect("a message");
        assert_eq!((text.as_str(), with.len()), ("first", 1));
        std::fs::File::from(with.remove(0)).write_all(b"through").expect("written");
        let mut said = String::new();
        read.read_to_string(&mut said).expect("read");
        assert_eq!(said, "through");
        let (text, with): (String, _) = receive(&theirs, &mut buffer).expect("read").expect("a message");
        assert_eq!((text.as_str(), with.len()), ("second", 0));
        assert!(receive::<String>(&theirs, &mut buffer).expect("an end").is_none());
    }

    #[test]
    fn a_message_in_memory_may_be_larger_than_a_packet() {
        let long = "x".repeat(2 * PACKET_BYTES_MAX);
        let file = in_memory(&long).expect("written");
        assert_eq!(from_memory::<String>(file).expect("read"), long);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_who_sends_it_and_by_who_gets_it() {
        let (ours, theirs) = line().expect("a line");
        let error = send(&ours, &"x".repeat(PACKET_BYTES_MAX + 1), &[]).expect_err("too large");
        assert!(error.to_string().contains("do not fit"), "{error}");
        send(&ours, &"x".repeat(64), &[]).expect("sent");
        let error = receive::<String>(&theirs, &mut [0; 64]).expect_err("longer than the buffer");
        assert!(error.to_string().contains("larger"), "{error}");
    }
}
