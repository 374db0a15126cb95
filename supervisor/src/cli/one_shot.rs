//! One question to the worker's program, for a verb whose code lives there: JSON in, one JSON line out (spec §13).
//!
//! Started, asked, heard and waited for here; it holds no key and outlives nobody.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{io, process};

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use ukai_protocol::one_shot::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use ukai_protocol::process::{Start, Stdin, own_environment, start};

use super::context::worker_program;
use super::failure::Failure;

/// It looks at folders, which may be on a file system that hangs.
const WITHIN: Duration = Duration::from_secs(60);
/// What it says when it cannot answer is a line.
const STDERR_BYTES_MAX: usize = 16 * 1024;

/// Asks `ukai-worker` with these words.
pub(super) async fn ask<A: DeserializeOwned>(words: &[&str], request: &impl Serialize) -> Result<A, Failure> {
    let program = worker_program()?;
    let asking = format!("asking {} {}", program.display(), words.join(" "));
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("{asking}: {why}"));
    let request = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    if request.len() > REQUEST_BYTES_MAX {
        let why = format!("the question has {} bytes, at most {REQUEST_BYTES_MAX} are taken", request.len());
        return Err(failed(&format!("{why}; ask with fewer cases, or of a smaller policy")));
    }
    let mut child = start(worker(program, words)).map_err(|error| failed(&error))?;
    let heard = tokio::time::timeout(WITHIN, exchange(&mut child, &request)).await;
    if heard.is_err() {
        // It may just have ended: then there is nothing to kill.
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| failed(&error))?;
    let (answer, stderr) = match heard {
        Ok(heard) => heard.map_err(|error| failed(&error))?,
        Err(_) => return Err(failed(&format!("no answer within {} s; does a file system hang?", WITHIN.as_secs()))),
    };
    if !ended.success() {
        let stderr = String::from_utf8_lossy(&stderr);
        return Err(failed(&format!("it ended with {ended}: {}", stderr.trim())));
    }
    serde_json::from_slice(&answer)
        .map_err(|error| failed(&format!("its answer is none: {error}; run binaries of one build")))
}

fn worker(program: PathBuf, words: &[&str]) -> Start {
    Start {
        program,
        args: words.iter().map(Into::into).collect(),
        env: own_environment(),
        workdir: Some(Path::new("/").to_owned()),
        stdin: Stdin::Open,
        stdout: Stdio::piped(),
        stderr: Stdio::piped(),
    }
}

/// All that it says, on stdout and stderr.
async fn exchange(child: &mut process::Child, request: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("the process that was just started has no pipes"));
    };
    let mut stdin = ChildStdin::from_std(stdin)?;
    let (stdout, stderr) = (ChildStdout::from_std(stdout)?, ChildStderr::from_std(stderr)?);
    let asked = async move {
        match stdin.write_all(request).await {
            // It died before it had read all: its exit tells more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    };
    let (asked, answer, stderr) = tokio::join!(asked, all(stdout, ANSWER_BYTES_MAX), all(stderr, STDERR_BYTES_MAX));
    asked?;
    Ok((answer?, stderr?))
}

async fn all(from: impl AsyncRead + Unpin, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(bytes_max as u64 + 1).read_to_end(&mut bytes).await?;
    match bytes.len() > bytes_max {
        true => Err(io::Error::other(format!("it says more than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}
