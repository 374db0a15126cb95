//! A connection over a real socket: what it carries, and what ends it.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use ukai_protocol::connection::{self, LinkError, Listener, Reader, Writer};
use ukai_protocol::control::Request;
use ukai_protocol::frame::{FRAME_BYTES_MAX, Role, preamble};
use ukai_protocol::session::ToWorker;

async fn accept(listener: &Listener) -> Result<(Role, Reader, Writer), LinkError> {
    listener.accept().await.expect("a connection").open().await
}

fn in_folder(check: impl AsyncFnOnce(&Path, Listener)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = Listener::bind(&path).expect("a listener");
        check(&path, listener).await;
    });
}

#[test]
fn messages_arrive_in_order_and_the_end_is_seen() {
    in_folder(async |path, listener| {
        assert_eq!(path.metadata().expect("a socket").permissions().mode() & 0o777, 0o600);
        let (client, server) = tokio::join!(connection::connect(path, Role::Client), accept(&listener));
        let ((_, mut to_server), (role, mut from_client, _)) = (client.expect("in"), server.expect("let in"));
        assert_eq!(role, Role::Client);
        to_server.send(&Request::Status).await.expect("sent");
        to_server.feed(&Request::Status).await.expect("fed");
        to_server.feed(&Request::Status).await.expect("fed");
        to_server.flush().await.expect("flushed");
        to_server.feed(&Request::Status).await.expect("fed, and sent by the end");
        to_server.close().await.expect("closed");
        for _ in 0..4 {
            assert_eq!(from_client.next().await.expect("whole"), Some(Request::Status));
        }
        assert_eq!(from_client.next::<Request>().await.expect("the end"), None);
    });
}

/// Speaks raw bytes after a right preamble.
async fn raw(path: &Path, first: &[u8], then: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.expect("a socket");
    stream.write_all(first).await.expect("written");
    // The other end may have left already, which is what is tested.
    let _ = stream.write_all(then).await;
    stream
}

#[test]
fn another_version_is_told_apart_before_anything_is_decoded() {
    in_folder(async |path, listener| {
        let (_stream, server) = tokio::join!(raw(path, b"ukai\xff\x00\x01\x00", b""), accept(&listener));
        assert!(matches!(server, Err(LinkError::Preamble(_))));
        let (_stream, server) = tokio::join!(raw(path, b"GET / HTTP/1.1\r\n", b""), accept(&listener));
        assert!(matches!(server, Err(LinkError::Preamble(_))));
    });
}

#[test]
fn a_frame_too_long_cut_or_undecodable_ends_the_connection_with_a_reason() {
    let too_long = u32::try_from(FRAME_BYTES_MAX + 1).expect("fits").to_le_bytes();
    for (bytes, why) in [
        (&too_long[..], "too long"),
        (&[3, 0, 0, 0, 255, 255, 255], "no message"),
        (&[2, 0, 0, 0, 8, 0], "a byte too many"),
        (&[9, 0, 0, 0, 1], "cut"),
    ] {
        in_folder(async |path, listener| {
            let hello = preamble(Role::Client);
            let (stream, server) = tokio::join!(raw(path, &hello, bytes), accept(&listener));
            let (_, mut reader, _) = server.expect("let in");
            drop(stream);
            assert!(reader.next::<Request>().await.is_err(), "{why}");
        });
    }
}

#[test]
fn a_message_above_the_bound_is_not_sent() {
    in_folder(async |path, listener| {
        let (client, server) = tokio::join!(connection::connect(path, Role::Client), accept(&listener));
        let ((_, mut to_server), _server) = (client.expect("in"), server.expect("let in"));
        let chunk = vec![0; FRAME_BYTES_MAX + 1];
        assert!(to_server.send(&ToWorker::State { chunk }).await.is_err());
    });
}

#[test]
fn the_preamble_is_what_goes_over_the_wire_first() {
    in_folder(async |path, listener| {
        let peer = async {
            let mut stream = UnixStream::connect(path).await.expect("a socket");
            stream.write_all(&preamble(Role::Worker)).await.expect("written");
            let mut theirs = [0; 8];
            stream.read_exact(&mut theirs).await.expect("read");
            theirs
        };
        let (theirs, server) = tokio::join!(peer, accept(&listener));
        assert_eq!(theirs, preamble(Role::Supervisor));
        assert_eq!(server.expect("let in").0, Role::Worker);
    });
}
