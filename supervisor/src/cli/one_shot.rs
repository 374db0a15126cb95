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
    ask_of(worker_program()?, words, request, WITHIN).await
}

async fn ask_of<A: DeserializeOwned>(
    program: PathBuf,
    words: &[&str],
    request: &impl Serialize,
    within: Duration,
) -> Result<A, Failure> {
    let asking = format!("asking {} {}", program.display(), words.join(" "));
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("{asking}: {why}"));
    let request = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    if request.len() > REQUEST_BYTES_MAX {
        let why = format!("the question has {} bytes, at most {REQUEST_BYTES_MAX} are taken", request.len());
        return Err(failed(&format!("{why}; ask with fewer cases, or of a smaller policy")));
    }
    let mut child = start(worker(program, words)).map_err(|error| failed(&error))?;
    let heard = tokio::time::timeout(within, exchange(&mut child, &request)).await;
    if heard.is_err() {
        // It may just have ended: then there is nothing to kill.
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| failed(&error))?;
    let (answer, stderr) = match heard {
        Ok(heard) => heard.map_err(|error| failed(&error))?,
        Err(_) => return Err(failed(&format!("no answer within {} s; does a file system hang?", within.as_secs()))),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of asking a shell that does this.
    async fn asked(script: &str, request: &str, within: Duration) -> Result<String, String> {
        let answer = ask_of("/bin/sh".into(), &["-c", script], &request, within).await;
        answer.map_err(|failure| failure.text)
    }

    #[tokio::test]
    async fn an_answer_comes_whole_or_it_is_said_why_not() {
        let long = "x".repeat(200_000);
        assert_eq!(asked("cat", &long, WITHIN).await.as_deref(), Ok(&*long), "longer than a pipe");
        for (quirk, script, part) in [
            ("it fails", "echo why >&2; exit 3", "why"),
            ("it hears nothing", "exec <&-; exit 3", "exit status: 3"),
            ("it speaks no JSON", "echo hello", "its answer is none"),
            ("it says nothing", "exit 0", "its answer is none"),
            ("it never ends", "yes", "more than"),
            ("it is killed", "kill -9 $$", "signal: 9"),
        ] {
            let refused = asked(script, &long, WITHIN).await.expect_err(quirk);
            assert!(refused.contains(part) && refused.contains("/bin/sh -c"), "{quirk}: {refused}");
        }
        let refused = asked("exec sleep 60", "", Duration::from_millis(50)).await.expect_err("it hangs");
        assert!(refused.contains("no answer within"), "{refused}");
        let huge = "x".repeat(REQUEST_BYTES_MAX);
        let refused = asked("cat", &huge, WITHIN).await.expect_err("a question too long");
        assert!(refused.contains("at most"), "{refused}");
    }
}
