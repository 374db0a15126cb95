//! The provider by itself: what of a step's time is not ours to save.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::patience::{self, PATIENCE};
use crate::stats::Sample;

/// The same request again and again on one connection, by a client that does nothing but wait for the answer's end.
#[must_use]
pub fn alone(url: &str, body: &[u8], repeats: usize) -> Sample {
    let host = url.trim_start_matches("http://");
    let stream = TcpStream::connect(host).expect("the provider listens");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let mut reader = BufReader::new(stream);
    let mut request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    let mut sample = Sample::default();
    for _ in 0..repeats {
        patience::go_on();
        let begun = Instant::now();
        reader.get_mut().write_all(&request).expect("the request is sent");
        read_chunked(&mut reader);
        sample.add_time(begun.elapsed());
    }
    sample
}

fn read_chunked(reader: &mut BufReader<TcpStream>) {
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("a line") > 0, "the provider closed the connection");
        line.trim_end().to_owned()
    };
    assert!(line(reader).contains(" 200 "), "the provider refuses what the floor was answered");
    while !line(reader).is_empty() {}
    loop {
        let length = usize::from_str_radix(&line(reader), 16).expect("the length of a chunk");
        // And the line's end behind it.
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).expect("a chunk");
        if length == 0 {
            return;
        }
    }
}
