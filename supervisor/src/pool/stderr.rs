//! What a worker wrote to stderr last: read to its end, so that it never blocks on a full pipe, and mostly forgotten.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::task::JoinHandle;

/// A panic message with its backtrace's head, or the last words of a killed one.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

pub struct Stderr {
    tail: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Stderr {
    pub fn follow(pipe: std::process::ChildStderr) -> std::io::Result<Self> {
        let mut pipe = tokio::process::ChildStderr::from_std(pipe)?;
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = tail.clone();
        let reading = tokio::spawn(async move {
            let mut buffer = [0; STDERR_TAIL_BYTES];
            // An error of a pipe is its end: the exit says what became of the process.
            while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..read]);
                let surplus = kept.len().saturating_sub(STDERR_TAIL_BYTES);
                kept.drain(..surplus);
            }
        });
        Ok(Stderr { tail, reading })
    }

    /// The last whole lines. Waits for the end of the pipe no longer than `patience`: somebody else may hold it.
    pub async fn finish(mut self, patience: std::time::Duration) -> String {
        if tokio::time::timeout(patience, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        let bytes = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}")
    }
}
