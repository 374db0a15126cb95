//! A command heard out: to its exit, to its deadline, or until nobody wants it any more.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::Context;
use super::output::clean;
use super::said::Said;
use super::spill::Sink;
use crate::host::words::Exit;
use crate::host::{Look, Running};

/// Output and ends wake whoever waits; this is for the wish that it should stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// A command that ends within this is listened to once, when it has: until then a pipe holds what it says, and each piece
/// would wake us. One that says more waits so long, once.
const QUICK: Duration = Duration::from_millis(5);
/// At a time; a pipe holds as much.
const READ_BYTES: usize = 64 * 1024;
/// Of what stands in the pipe when the command has ended: others may go on filling it.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;
/// After KILL a tree is gone within a few rounds.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Of a stderr that is heard apart the end is kept: what went wrong stands there.
const ERRORS_BYTES_MAX: usize = 8 * 1024;

/// Why it was not heard out.
pub(super) enum Cut {
    Cancelled,
    TimedOut,
    Refused(String),
    Lost(String),
}

/// What is heard of one command.
pub(super) struct Ears<'a> {
    running: &'a Running,
    pub said: Said<'a>,
    /// None: closed, or none of its own.
    output: Option<&'a OwnedFd>,
    errors: Option<&'a OwnedFd>,
    complained: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a> Ears<'a> {
    pub(super) fn new(running: &'a Running, sink: Sink<'a>) -> Self {
        Ears {
            running,
            said: Said::new(sink),
            output: Some(&running.output),
            errors: running.errors.as_ref(),
            complained: Vec::new(),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// The end of what it said on a stderr of its own.
    pub(super) fn complaint(&self) -> String {
        clean(&self.complained)
    }

    pub(super) fn hear_out(&mut self, deadline: Instant, context: &Context) -> Result<Exit, Cut> {
        let mut listens = false;
        loop {
            let now = Instant::now();
            let cut = if context.cancel.is_cancelled() {
                Some(Cut::Cancelled)
            } else {
                (now >= deadline).then_some(Cut::TimedOut)
            };
            if let Some(cut) = cut {
                self.end(context.shells.grace())?;
                return Err(cut);
            }
            let patience = if listens { PATIENCE } else { QUICK };
            match self.look(listens, patience.min(deadline - now))? {
                Look::Output => self.read(READ_BYTES)?,
                Look::Exited(exit) => {
                    self.read(DRAIN_BYTES_MAX)?;
                    return Ok(exit);
                }
                Look::Refused(why) => return Err(Cut::Refused(why)),
                Look::Lost => return Err(Cut::Lost("the tool host is gone, and all that it had started".to_owned())),
                Look::Ended | Look::Nothing => {}
            }
            listens = true;
        }
    }

    /// Has all of it ended, and goes on listening: whoever waits for a reader could not end.
    fn end(&mut self, grace: Duration) -> Result<(), Cut> {
        self.running.kill(grace).map_err(lost)?;
        let deadline = Instant::now() + grace + END_PATIENCE;
        while Instant::now() < deadline {
            match self.look(true, PATIENCE)? {
                Look::Output => self.read(READ_BYTES)?,
                Look::Ended | Look::Lost => return Ok(()),
                Look::Refused(why) => return Err(Cut::Refused(why)),
                Look::Exited(_) | Look::Nothing => {}
            }
        }
        Err(Cut::Lost("it was told to end, and something of it still lives".to_owned()))
    }

    fn look(&self, listens: bool, within: Duration) -> Result<Look, Cut> {
        let pipes: Vec<&OwnedFd> = self.output.into_iter().chain(self.errors).filter(|_| listens).collect();
        self.running.look_at(&pipes, within).map_err(lost)
    }

    /// What is there, at most so many bytes of each.
    fn read(&mut self, bytes_max: usize) -> Result<(), Cut> {
        if let Some(output) = self.output
            && !self.said.read(output, bytes_max, &mut self.buffer).map_err(lost)?
        {
            self.output = None;
        }
        let mut read = 0;
        while let Some(errors) = self.errors.filter(|_| read < bytes_max) {
            match rustix::io::read(errors, &mut self.buffer[..]) {
                Ok(0) => self.errors = None,
                Ok(count) => {
                    read += count;
                    self.complained.extend_from_slice(&self.buffer[..count]);
                    let gone = self.complained.len().saturating_sub(ERRORS_BYTES_MAX);
                    self.complained.drain(..gone);
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lost(error.into())),
            }
        }
        Ok(())
    }
}

fn lost(error: io::Error) -> Cut {
    Cut::Lost(error.to_string())
}
