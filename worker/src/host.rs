//! The tool host: a small process beside the worker that starts what a model asks for, confined, and ends it whole.
//!
//! Why not start commands from the worker? Its memory holds a key and a conversation, and a fork of it costs the more the
//! larger they are. What confines a command must be entered by whoever starts it, and the worker itself needs the network.
//! And somebody must be left who ends what a dead worker started. So the host is forked off first, before the worker has
//! threads, keys or memory. It sleeps until the first command; a job that runs none pays for one fork.
//!
//! There is no handler here that waits: a call of a command blocks its own thread, on its own socket.

pub mod fork;
mod launch;
mod packet;
mod serve;
mod spawn;
pub mod tree;
pub mod words;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sandbox::{self, Confine, Held};
use words::{Exit, Kill, Order, Start, Word};

/// The host, as the worker has it.
pub struct Host {
    line: OwnedFd,
    pid: u32,
    entered: Mutex<Entered>,
}

/// What this process is after [`begin`].
pub enum Begun {
    Worker(Host),
    Host(Serving),
}

/// The host, before its life begins: what it has of the worker's is to be dropped first.
pub struct Serving(OwnedFd);

enum Entered {
    Not,
    /// What holds, or why nothing will ever be started.
    Asked(Result<Held, String>),
}

/// A command under way.
pub struct Running {
    /// What it says: stdout and stderr in their order, or stdout alone. Does not block.
    pub output: OwnedFd,
    /// Its stderr, where that is kept apart. Does not block either.
    pub errors: Option<OwnedFd>,
    answers: Answers,
}

/// Where what becomes of something that was started is told. Whoever drops it has all of that ended.
pub struct Answers(OwnedFd);

/// Forks the host off. Must come before the first thread.
pub fn begin() -> io::Result<Begun> {
    let (ours, theirs) = packet::line()?;
    match fork::fork()? {
        fork::Fork::Parent(pid) => {
            drop(theirs);
            Ok(Begun::Worker(Host { line: ours, pid, entered: Mutex::new(Entered::Not) }))
        }
        fork::Fork::Child => Ok(Begun::Host(Serving(theirs))),
    }
}

impl Serving {
    /// The whole life of a host.
    #[must_use]
    pub fn serve(self) -> ExitCode {
        // The token of the job is on stdin: it is not for this process.
        match close_stdin().and_then(|()| sandbox::no_core()).and_then(|()| serve::serve(self.0)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "what starts the commands of this job gives up");
                ExitCode::FAILURE
            }
        }
    }
}

fn close_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&null)?)
}

impl Host {
    /// Has the host confine itself, once; what it has entered it never leaves. Blocks for a few milliseconds the first time.
    pub fn enter(&self, confine: impl FnOnce() -> Option<Confine>) -> Result<Held, String> {
        let mut entered = self.entered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Entered::Asked(known) = &*entered {
            return known.clone();
        }
        let named = packet::in_memory(&confine());
        let said = named.and_then(|named| self.ask_with(&Order::Enter, &[named.as_fd()]));
        let held = match said {
            Ok(Some(Word::Entered(held))) => Ok(held),
            Ok(Some(Word::Refused { why })) => Err(why),
            Ok(_) => Err("the tool host ended without a word".to_owned()),
            Err(error) => Err(format!("the tool host cannot be reached: {error}")),
        };
        *entered = Entered::Asked(held.clone());
        held
    }

    fn ask(&self, order: &Order) -> io::Result<Option<Word>> {
        self.ask_with(order, &[])
    }

    fn ask_with(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<Option<Word>> {
        let (ours, theirs) = packet::line()?;
        let all: Vec<_> = descriptors.iter().copied().chain([theirs.as_fd()]).collect();
        packet::send(&self.line, order, &all)?;
        drop(theirs);
        word(&ours)
    }

    /// Starts a command. [`Host::enter`] has succeeded before.
    pub fn start(&self, start: Start) -> io::Result<Running> {
        let (output, write) = ear()?;
        let answers = self.start_on(start, &[write.as_fd()])?;
        Ok(Running { output, errors: None, answers })
    }

    /// Starts a command that finds this on its stdin, and whose stderr is heard apart.
    pub fn start_apart(&self, start: Start, stdin: BorrowedFd<'_>) -> io::Result<Running> {
        let ((output, stdout), (errors, stderr)) = (ear()?, ear()?);
        let answers = self.start_on(start, &[stdin, stdout.as_fd(), stderr.as_fd()])?;
        Ok(Running { output, errors: Some(errors), answers })
    }

    /// The same, on one pipe for all that it says, or on those for stdin, stdout and stderr.
    pub fn start_on(&self, start: Start, pipes: &[BorrowedFd<'_>]) -> io::Result<Answers> {
        let (ours, theirs) = packet::line()?;
        let descriptors: Vec<BorrowedFd<'_>> = pipes.iter().copied().chain([theirs.as_fd()]).collect();
        packet::send(&self.line, &Order::Start(start), &descriptors)?;
        Ok(Answers(ours))
    }

    /// Comes back when the host is gone, which none of its commands is waited for by any more. For a runtime.
    pub async fn gone(&self) -> io::Result<()> {
        // The host says nothing on this line, so all there will ever be to read is its end.
        // Its successor is unsafe for the sake of types that could change their descriptor; an OwnedFd cannot.
        #[allow(deprecated)]
        let line = AsyncFd::with_interest(self.line.try_clone()?, Interest::READABLE)?;
        line.readable().await.map(drop)
    }

    /// Ends all that was ever started and still lives. Blocks until nothing does.
    pub fn end_all(&self, grace: Duration) -> io::Result<()> {
        let entered = self.entered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !matches!(&*entered, Entered::Asked(Ok(_))) {
            return Ok(());
        }
        match self.ask(&Order::EndAll(Kill::within(grace)))? {
            Some(Word::Ended) => Ok(()),
            other => Err(io::Error::other(format!("the tool host said {other:?}"))),
        }
    }

    /// The end of the host itself, waited for: nobody is to find an orphan. Whoever still hears a command out hears that
    /// the host is lost.
    pub fn close(&self) {
        if let Err(error) = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Both) {
            tracing::warn!(%error, "the line to the tool host could not be closed");
        }
        let pid = rustix::process::Pid::from_raw(self.pid.cast_signed());
        // It has no other reason to fail than that it is gone already.
        let _ = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
    }
}

/// The host's next word on this socket. None: it is gone.
fn word(answers: &OwnedFd) -> io::Result<Option<Word>> {
    Ok(packet::receive(answers, &mut [0; packet::WORD_BYTES_MAX])?.map(|(word, _)| word))
}

/// A pipe whose reading end does not block.
fn ear() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// What a look at a running command brought.
pub enum Look {
    /// There is something to read.
    Output,
    Exited(Exit),
    Refused(String),
    /// All of it is gone.
    Ended,
    /// The host is gone, and everything with it.
    Lost,
    /// Nothing within the time.
    Nothing,
}

impl Running {
    /// Waits for output (where it is wanted) or for news, at most so long.
    pub fn look(&self, wants_output: bool, within: Duration) -> io::Result<Look> {
        let output: &[&OwnedFd] = if wants_output { &[&self.output] } else { &[] };
        self.look_at(output, within)
    }

    /// Waits until one of these pipes has something, or its end, or for news, at most so long.
    pub fn look_at(&self, pipes: &[&OwnedFd], within: Duration) -> io::Result<Look> {
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.answers.0, PollFlags::IN)];
        fds.extend(pipes.iter().map(|pipe| PollFd::new(*pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Look::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[1..].iter().any(|fd| !fd.revents().is_empty()) {
            return Ok(Look::Output);
        }
        self.answers.next()
    }

    /// TERM to all of it, KILL after the grace. [`Look::Ended`] follows when nothing of it lives.
    pub fn kill(&self, grace: Duration) -> io::Result<()> {
        self.answers.kill(grace)
    }
}

impl Answers {
    /// The next word. Blocks until there is one.
    pub fn next(&self) -> io::Result<Look> {
        Ok(match word(&self.0)? {
            Some(Word::Exited(exit)) => Look::Exited(exit),
            Some(Word::Refused { why }) => Look::Refused(why),
            Some(Word::Ended) => Look::Ended,
            Some(Word::Entered(_)) | None => Look::Lost,
        })
    }

    /// TERM to all of it, KILL after the grace. [`Look::Ended`] follows when nothing of it lives.
    pub fn kill(&self, grace: Duration) -> io::Result<()> {
        packet::send(&self.0, &Kill::within(grace), &[])
    }
}

impl AsFd for Answers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
