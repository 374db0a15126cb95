//! The launcher: a small process beside the worker that starts what its owner has written down, outside of every
//! confinement.
//!
//! A hook is the owner's program, and guards or reports what the model does: it runs as the owner would run it. The
//! worker cannot start it, since it has confined itself and may execute nothing; what a confined process starts is
//! confined, too. So the launcher is forked before that, and like the tool host before there are threads and keys. It is
//! the tool host's code, never told to confine itself: own sessions, parentage and mark, whole trees ended.
//!
//! Not the tool host itself, though one process would be less than two: without namespaces it is the ancestor and the
//! judge of all that a model started, and must never be asked to spare some. So a job that names nothing to launch has no
//! launcher, and the supervisor says which does (`--launcher`); it costs a fork, and sleeps until it is first used.

mod caught;

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio_util::sync::CancellationToken;
use ukai_protocol::id::JobId;

use crate::host::words::{Exit, Start};
use crate::host::{Answers, Host, Look, tree};
pub use caught::Caught;

/// Kept of stdout, and of stderr. The rest is read and dropped.
pub const CAUGHT_BYTES_MAX: usize = 1024 * 1024;
/// From the deadline, or the exit, until all that was started has been killed; who has not ended by then is pursued on.
pub const SETTLED_WITHIN: Duration = Duration::from_millis(200);
/// Of that, what is waited for the last of them: the rest is for getting there.
const END_PATIENCE: Duration = Duration::from_millis(150);
/// Between two looks at whether it was cancelled.
const PATIENCE: Duration = Duration::from_millis(50);
/// The variable by which a later start knows what a job has left behind (the supervisor's `pool/stray`).
const JOB: &str = "UKAI_JOB";

/// What starts the owner's commands of one job. Used from any number of threads at once.
pub struct Launcher {
    host: Host,
    job: JobId,
    started: AtomicU64,
}

/// One command of the owner's.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Absolute, or a name that is looked for in the `PATH` of `env`.
    pub program: PathBuf,
    /// Without the program's own name.
    pub args: Vec<String>,
    /// All of it; nothing is inherited, and what holds a key does not belong in here.
    pub env: Vec<(String, String)>,
    /// Absolute.
    pub workdir: PathBuf,
    /// Given on stdin, then its end. Who does not read it loses it.
    pub stdin: Vec<u8>,
    /// From now on.
    pub deadline: Duration,
    /// It has not ended while anybody holds its stdout, who may yet say more: what it says decides something.
    pub hear_out: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub ended: Ended,
    pub stdout: Caught,
    pub stderr: Caught,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    /// There is no such program, or none that can be run; the text says which, where and why.
    NotStarted(String),
}

impl Launch {
    /// A line for `sh -c`, as hooks are written.
    #[must_use]
    pub fn line(line: &str, workdir: &Path, deadline: Duration) -> Self {
        Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: Vec::new(),
            workdir: workdir.to_owned(),
            stdin: Vec::new(),
            deadline,
            hear_out: false,
        }
    }

    /// Where the program is; the error is for a person.
    fn find(&self) -> Result<PathBuf, String> {
        let shown = self.program.display();
        if self.program.is_absolute() {
            return Ok(self.program.clone());
        }
        if self.program.components().count() != 1 {
            return Err(format!("{shown} is neither a name nor an absolute path: write one of them"));
        }
        let path = self.env.iter().rev().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
        let mut places = path.split(':').filter(|folder| folder.starts_with('/')).map(Path::new);
        places
            .find_map(|folder| Some(folder.join(&self.program)).filter(|place| place.is_file()))
            .ok_or_else(|| format!("there is no {shown} in {path:?}: install it, or write its absolute path"))
    }
}

impl Launcher {
    /// `host` was forked before there were threads and keys, and is asked for nothing but this.
    #[must_use]
    pub fn new(host: Host, job: JobId) -> Self {
        Launcher { host, job, started: AtomicU64::new(0) }
    }

    /// Runs one command to its end, its deadline or `cancel`, whichever is first, and returns within [`SETTLED_WITHIN`] of
    /// that: all that came of the command is killed then, whoever holds its stdout or does not read its stdin. Blocks, so
    /// it belongs on a thread of its own. The error is a fault: the launcher is gone, or there are no descriptors left.
    pub fn run(&self, launch: &Launch, cancel: &CancellationToken) -> io::Result<Ran> {
        let deadline = Instant::now() + launch.deadline;
        self.host.enter(|| None).map_err(io::Error::other)?;
        let program = match launch.find() {
            Ok(program) => program,
            Err(why) => return Ok(Ran::not_started(why)),
        };
        let ((theirs_in, stdin), (stdout, theirs_out), (stderr, theirs_err)) = (pipe()?, pipe()?, pipe()?);
        for ours in [&stdin, &stdout, &stderr] {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        let pipes = [theirs_in.as_fd(), theirs_out.as_fd(), theirs_err.as_fd()];
        let answers = self.host.start_on(self.order(launch, program), &pipes)?;
        drop((theirs_in, theirs_out, theirs_err));
        let mut under_way = UnderWay {
            answers,
            stdin: Some((stdin.into(), 0)).filter(|_| !launch.stdin.is_empty()),
            stdout: Some(stdout),
            stderr: Some(stderr),
            ran: Ran::not_started(String::new()),
        };
        under_way.see_through(launch, deadline, cancel)?;
        Ok(under_way.ran)
    }

    fn order(&self, launch: &Launch, program: PathBuf) -> Start {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let marks = [(JOB, self.job.to_string()), (tree::MARK, format!("{}/launch-{number}", self.job))];
        let mut env = launch.env.clone();
        env.retain(|(name, _)| marks.iter().all(|(mark, _)| name != mark));
        env.extend(marks.map(|(name, value)| (name.to_owned(), value)));
        let name = launch.program.display().to_string();
        let args = [name].into_iter().chain(launch.args.iter().cloned()).collect();
        Start { program, args, env, workdir: launch.workdir.clone() }
    }

    /// The end of the launcher, and of everything that still runs by it. Blocks until it is gone.
    pub fn close(&self) {
        self.host.close();
    }
}

impl Ran {
    fn not_started(why: String) -> Self {
        Ran { ended: Ended::NotStarted(why), stdout: Caught::default(), stderr: Caught::default() }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// A command that has been ordered. What is None is over.
struct UnderWay {
    answers: Answers,
    /// With how much of it has been given.
    stdin: Option<(std::fs::File, usize)>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    ran: Ran,
}

impl UnderWay {
    /// Fills in what it says and how it ends, and ends what is left.
    fn see_through(&mut self, launch: &Launch, deadline: Instant, cancel: &CancellationToken) -> io::Result<()> {
        let mut exited = None;
        self.ran.ended = loop {
            let now = Instant::now();
            if cancel.is_cancelled() {
                break Ended::Cancelled;
            }
            if now >= deadline {
                break Ended::TimedOut;
            }
            let has_word = self.wait(PATIENCE.min(deadline - now))?;
            self.give(&launch.stdin);
            self.catch(caught::READ_BYTES)?;
            if has_word {
                match self.answers.next()? {
                    Look::Exited(Exit::Code(code)) => exited = Some(Ended::Code(code)),
                    Look::Exited(Exit::Signal(signal)) => exited = Some(Ended::Signal(signal)),
                    Look::Refused(why) => {
                        self.ran.ended = Ended::NotStarted(why);
                        return Ok(());
                    }
                    Look::Lost => return Err(io::Error::other("the launcher is gone, and all that it had started")),
                    Look::Ended | Look::Output | Look::Nothing => {}
                }
            }
            if let Some(ended) = exited.take_if(|_| !launch.hear_out || self.stdout.is_none()) {
                break ended;
            }
        };
        // What it said is in the pipes by now; whoever else holds them may say more, and is not waited for.
        self.catch(CAUGHT_BYTES_MAX)?;
        self.end()
    }

    /// Waits for anything to do, at most so long. True: there is a word on what became of it.
    fn wait(&self, within: Duration) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.answers, PollFlags::IN)];
        fds.extend(self.stdin.as_ref().map(|(stdin, _)| PollFd::new(stdin, PollFlags::OUT)));
        fds.extend([&self.stdout, &self.stderr].into_iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// As much of its stdin as the pipe takes now.
    fn give(&mut self, given: &[u8]) {
        let Some((stdin, at)) = &mut self.stdin else { return };
        match stdin.write(&given[*at..]) {
            Ok(bytes) if *at + bytes < given.len() => *at += bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // All of it, or nobody reads it any more.
            Ok(_) | Err(_) => self.stdin = None,
        }
    }

    /// What it has said by now, at most so many bytes of each.
    fn catch(&mut self, bytes_max: usize) -> io::Result<()> {
        for (pipe, caught) in [(&mut self.stdout, &mut self.ran.stdout), (&mut self.stderr, &mut self.ran.stderr)] {
            if let Some(open) = pipe
                && !caught.read(open, bytes_max)?
            {
                *pipe = None;
            }
        }
        Ok(())
    }

    /// KILL to whatever of it still lives.
    fn end(&mut self) -> io::Result<()> {
        // Whoever still writes is to meet an end, and not a full pipe.
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
        self.answers.kill(Duration::ZERO)?;
        let until = Instant::now() + END_PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!("something of a command that was launched outlives its KILL; it is pursued");
                return Ok(());
            }
            if self.wait(left)? && matches!(self.answers.next()?, Look::Ended | Look::Lost) {
                return Ok(());
            }
        }
    }
}
