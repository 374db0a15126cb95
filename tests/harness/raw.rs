//! A provider of raw bytes, for what no script may say: counts beyond reason, connections that end when it hurts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Answers each request with what `answer` makes of its body and the number of requests before it on the connection;
/// `None` closes the connection. Its threads end with the test.
pub struct Raw {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    requests: Arc<AtomicUsize>,
}

impl Raw {
    #[must_use]
    pub fn serve(answer: impl Fn(&str, usize) -> Option<String> + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::new(answer), requests.clone());
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (answer, count) = (answer.clone(), count.clone());
                thread::spawn(move || converse(socket, &*answer, &count));
            }
        });
        Raw { url, requests }
    }

    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn converse(socket: TcpStream, answer: &dyn Fn(&str, usize) -> Option<String>, count: &AtomicUsize) {
    let mut reader = BufReader::new(socket);
    for before in 0.. {
        let Some(body) = request(&mut reader) else { return };
        count.fetch_add(1, Ordering::SeqCst);
        let Some(answer) = answer(&body, before) else { return };
        let length = answer.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
