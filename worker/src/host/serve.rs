//! The host's side: starts what it is ordered to, tells when it ended, ends whole trees.
//!
//! One thread and one loop; it waits for orders, for the end of children, and while something is being ended for the
//! next look at it. It outlives its worker by no more than it takes to kill what is left.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitOptions, wait, waitpid};
use ukai_protocol::process_tree;

use super::fork::{self, Fork};
use super::launch::Launch;
use super::packet;
use super::spawn::Stdio;
use super::tree::{self, MARK};
use super::words::{Exit, Kill, Order, Start, Word};
use crate::sandbox::{self, Confine, Held, Namespaces};

/// Between two looks at a tree that is being ended.
const ROUND: Duration = Duration::from_millis(5);

struct Host {
    line: OwnedFd,
    children: SignalFd,
    launch: Launch,
    me: u32,
    calls: Vec<Call>,
    /// Who waits for the end of everything.
    ending_all: Vec<(Ending, OwnedFd)>,
    buffer: Vec<u8>,
}

struct Call {
    shell: u32,
    mark: String,
    /// Where whoever waits for it is told; None: nobody does any more, and what is left of it is being ended.
    answers: Option<OwnedFd>,
    has_exited: bool,
    ending: Option<Ending>,
}

#[derive(Clone, Copy)]
struct Ending {
    kill_at: Instant,
}

/// Serves until the worker is gone. For a process of one thread that does nothing else.
pub fn serve(line: OwnedFd) -> io::Result<()> {
    // Fresh from the kernel and zero as it is: what no order has filled takes no memory.
    let mut buffer = vec![0; packet::PACKET_BYTES_MAX];
    let Some((order, mut with)) = packet::receive(&line, &mut buffer)? else { return Ok(()) };
    let (Order::Enter, Some(answers), Some(named)) = (order, with.pop(), with.pop()) else {
        return Err(io::Error::other("the first order was not to enter"));
    };
    let confine: Option<Confine> = packet::from_memory(named)?;
    let namespaces = confine.as_ref().map(|confine| Namespaces { network: confine.network }.leave());
    if let Some(Ok(())) = namespaces {
        // The next one forked is the init of the new namespaces; this one only waits for it.
        match fork::fork()? {
            Fork::Parent(init) => {
                drop((line, answers));
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
                return wait_for(init);
            }
            Fork::Child => rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?,
        }
    }
    let (held, launch) = match confine.map(|confine| enter(confine, namespaces.unwrap_or(Ok(())))).transpose() {
        Ok(entered) => entered.unwrap_or((Held::default(), Launch::Inherited)),
        Err(error) => return packet::send(&answers, &Word::Refused { why: error.to_string() }, &[]),
    };
    let mut only_children = SigSet::empty();
    only_children.add(Signal::SIGCHLD);
    only_children.thread_block()?;
    let children = SignalFd::with_flags(&only_children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    process_tree::adopt_orphans()?;
    packet::send(&answers, &Word::Entered(held), &[])?;
    drop(answers);
    let me = std::process::id();
    let mut host = Host { line, children, launch, me, calls: Vec::new(), ending_all: Vec::new(), buffer };
    let served = host.run();
    host.end_of_line();
    served
}

fn enter(confine: Confine, namespaces: Result<(), String>) -> io::Result<(Held, Launch)> {
    let mut held = sandbox::check(&confine, &namespaces)?;
    if !held.namespaces {
        return Ok((held, Launch::Each(confine)));
    }
    sandbox::arrange(&confine, &mut held.missing)?;
    sandbox::confine(&confine, true, &mut held.missing)?;
    Ok((held, Launch::Inherited))
}

fn wait_for(init: u32) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(init.cast_signed());
    loop {
        match waitpid(pid, WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Host {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let is_ending = !self.ending_all.is_empty() || self.calls.iter().any(|call| call.ending.is_some());
            let timeout = is_ending.then(|| rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: i64::try_from(ROUND.as_nanos()).unwrap_or(i64::MAX),
            });
            let (from_line, from_children, from_calls) = self.wait(timeout.as_ref())?;
            if from_children {
                self.reap()?;
            }
            for (at, has_word) in from_calls.into_iter().enumerate().rev() {
                if has_word {
                    self.hear(at);
                }
            }
            if from_line && !self.obey()? {
                return Ok(());
            }
            self.pursue();
        }
    }

    fn wait(&mut self, timeout: Option<&rustix::event::Timespec>) -> io::Result<(bool, bool, Vec<bool>)> {
        let mut fds = vec![PollFd::new(&self.line, PollFlags::IN), PollFd::new(&self.children, PollFlags::IN)];
        // Of whom nobody hears, this is asked instead, and for nothing: the places in the list stay those of the calls.
        let silent = (&self.line, PollFlags::empty());
        fds.extend(self.calls.iter().map(|call| {
            let (fd, wanted) = call.answers.as_ref().map_or(silent, |answers| (answers, PollFlags::IN));
            PollFd::new(fd, wanted)
        }));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_word: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok((has_word[0], has_word[1], has_word[2..].to_vec()))
    }

    /// Carries out the next order. False: the worker is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let Some((order, mut with)) = packet::receive::<Order>(&self.line, &mut self.buffer)? else { return Ok(false) };
        let Some(answers) = with.pop() else {
            return Err(io::Error::other("an order without a socket for its answer"));
        };
        match order {
            Order::Enter => tell(&answers, &Word::Refused { why: "this host has entered already".to_owned() }),
            Order::EndAll(kill) => self.end_all(kill.grace(), answers),
            Order::Start(start) => match &with[..] {
                [both] => {
                    self.start(&start, Stdio { stdin: None, stdout: both.as_fd(), stderr: both.as_fd() }, answers)
                }
                [stdin, stdout, stderr] => {
                    let stdio = Stdio { stdin: Some(stdin.as_fd()), stdout: stdout.as_fd(), stderr: stderr.as_fd() };
                    self.start(&start, stdio, answers);
                }
                _ => tell(&answers, &Word::Refused { why: "a command without a pipe for what it says".to_owned() }),
            },
        }
        Ok(true)
    }

    fn start(&mut self, start: &Start, stdio: Stdio<'_>, answers: OwnedFd) {
        let mark = start.env.iter().find(|(name, _)| name == MARK).map(|(_, value)| value.clone()).unwrap_or_default();
        match self.launch.start(start, stdio) {
            Ok(shell) => self.calls.push(Call { shell, mark, answers: Some(answers), has_exited: false, ending: None }),
            Err(error) => {
                let why = format!("{} in {}: {error}", start.program.display(), start.workdir.display());
                tell(&answers, &Word::Refused { why });
            }
        }
    }

    /// Something came from who waits for a call: the wish that it end, or silence because nobody waits any more.
    fn hear(&mut self, at: usize) {
        let call = &mut self.calls[at];
        let Some(answers) = &call.answers else { return };
        match packet::receive::<Kill>(answers, &mut self.buffer) {
            Ok(Some((kill, _))) => self.end(at, kill.grace()),
            Ok(None) | Err(_) if call.ending.is_some() => call.answers = None,
            Ok(None) | Err(_) if call.has_exited => drop(self.calls.swap_remove(at)),
            // Whoever asked for it is gone: nobody will ever want it.
            Ok(None) | Err(_) => {
                call.answers = None;
                self.end(at, Duration::ZERO);
            }
        }
    }

    fn end(&mut self, at: usize, grace: Duration) {
        let members = self.members(at);
        let call = &mut self.calls[at];
        if call.ending.is_none() {
            call.ending = Some(Ending { kill_at: Instant::now() + grace });
            if !grace.is_zero() {
                signal(&members, Signal::SIGTERM);
            }
        }
    }

    fn end_all(&mut self, grace: Duration, answers: OwnedFd) {
        if !grace.is_zero() {
            signal(&tree::everybody(self.me), Signal::SIGTERM);
        }
        self.ending_all.push((Ending { kill_at: Instant::now() + grace }, answers));
    }

    fn members(&self, at: usize) -> Vec<u32> {
        let call = &self.calls[at];
        let others =
            self.calls.iter().map(|call| call.shell).filter(|shell| *shell != call.shell).collect::<BTreeSet<_>>();
        tree::members(self.me, call.shell, &call.mark, &others)
    }

    fn reap(&mut self) -> io::Result<()> {
        // Emptied first: whoever ends after the last look below is heard of again.
        while self.children.read_signal()?.is_some() {}
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let pid = pid.as_raw_pid().cast_unsigned();
                    let exit = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Exit::Code(code),
                        (None, Some(signal)) => Exit::Signal(signal),
                        (None, None) => continue,
                    };
                    if let Some(call) = self.calls.iter_mut().find(|call| call.shell == pid && !call.has_exited) {
                        call.has_exited = true;
                        tell_if(call.answers.as_ref(), &Word::Exited(exit));
                    }
                }
                Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next round against whatever is being ended.
    fn pursue(&mut self) {
        for at in (0..self.calls.len()).rev() {
            let Some(Ending { kill_at }) = self.calls[at].ending else { continue };
            let members = self.members(at);
            if members.is_empty() && self.calls[at].has_exited {
                let call = self.calls.swap_remove(at);
                tell_if(call.answers.as_ref(), &Word::Ended);
            } else if Instant::now() >= kill_at {
                signal(&members, Signal::SIGKILL);
            }
        }
        if !self.ending_all.is_empty() {
            let everybody = tree::everybody(self.me);
            if everybody.is_empty() && self.calls.iter().all(|call| call.has_exited) {
                for (_, answers) in self.ending_all.drain(..) {
                    tell(&answers, &Word::Ended);
                }
            } else if self.ending_all.iter().any(|(ending, _)| Instant::now() >= ending.kill_at) {
                signal(&everybody, Signal::SIGKILL);
            }
        }
    }

    /// The worker is gone, and so is the wish for anything that runs here.
    fn end_of_line(&mut self) {
        loop {
            let everybody = tree::everybody(self.me);
            if everybody.is_empty() {
                return;
            }
            signal(&everybody, Signal::SIGKILL);
            std::thread::sleep(ROUND);
            // What it reaps, nobody waits for.
            let _ = self.reap();
        }
    }
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids {
        // Its pid is not given to another before its parent, in the end this process, has reaped it.
        let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
    }
}

fn tell_if(answers: Option<&OwnedFd>, word: &Word) {
    if let Some(answers) = answers {
        tell(answers, word);
    }
}

fn tell(answers: &OwnedFd, word: &Word) {
    // Whoever is gone wants no answer; the end of the socket is seen by the next look at it.
    let _ = packet::send(answers, word, &[]);
}
