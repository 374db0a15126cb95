//! How a one-shot of the worker's program hears its question and gives its answer: JSON in, one JSON line out.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::ExitCode;

use serde::{Serialize, de::DeserializeOwned};
use ukai_protocol::one_shot::REQUEST_BYTES_MAX;

use crate::{fail, say};

/// `sysexits.h`: the request is none.
const EX_PROTOCOL: u8 = 76;
/// `sysexits.h`: a fault in ukai itself.
const EX_SOFTWARE: u8 = 70;

/// Answers what stands on stdin.
pub(crate) fn serve<Q: DeserializeOwned, A: Serialize>(answer: impl FnOnce(Q) -> A) -> ExitCode {
    let request = match request() {
        Ok(request) => request,
        Err(error) => return fail(EX_PROTOCOL, &format!("reading the request from stdin: {error}; ask with `ukai`")),
    };
    match serde_json::to_string(&answer(request)) {
        Ok(line) => {
            say(&line);
            ExitCode::SUCCESS
        }
        Err(error) => fail(EX_SOFTWARE, &format!("a fault in ukai: the answer cannot be written as JSON: {error}")),
    }
}

fn request<Q: DeserializeOwned>() -> io::Result<Q> {
    let stdin = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut bytes = Vec::new();
    stdin.take(REQUEST_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {REQUEST_BYTES_MAX} bytes")));
    }
    Ok(serde_json::from_slice(&bytes)?)
}
