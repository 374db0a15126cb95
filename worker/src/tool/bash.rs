//! Bash: one command line, confined, with its output as it came and a status that is never better than the truth.
//!
//! It ends when the shell ends, whatever the shell left behind with an end of the pipe in its hand. It is ended as a
//! whole, with all that detached itself, when its time is over or nobody wants it any more.

use std::time::{Duration, Instant};

use ukai_protocol::json::Json;

use super::said::Said;
use super::{Context, Stopped, text};
use crate::host::words::Exit;
use crate::host::{Look, Running};

/// Spec §7, in milliseconds.
pub const TIMEOUT_MS: u64 = 120_000;
pub const TIMEOUT_MS_MAX: u64 = 600_000;
/// A policy, a parser and a packet have to take it.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Output and ends wake whoever waits; this is for the wish that it should stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// A command that ends within this is listened to once, when it has: until then a pipe holds what it says, and each piece
/// would wake us. One that says more waits so long, once.
const QUICK: Duration = Duration::from_millis(5);
/// At a time; a pipe holds as much.
const READ_BYTES: usize = 64 * 1024;
/// Of what stands in the pipe when the shell has ended: others may go on filling it.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;
/// After KILL a tree is gone within a few rounds.
const END_PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let command = text(input, "command").unwrap_or_default();
    if command.len() > COMMAND_BYTES_MAX || command.contains('\0') {
        let why = if command.contains('\0') {
            "it holds a NUL".to_owned()
        } else {
            format!("it has {} bytes", command.len())
        };
        return Err(Stopped::Invalid(format!(
            "The command was not run: {why}; at most {COMMAND_BYTES_MAX} bytes of text are. Write a script with Write and run that."
        )));
    }
    let timeout_ms = input.0.get("timeout").and_then(serde_json::Value::as_u64).unwrap_or(TIMEOUT_MS);
    let shells = &context.shells;
    let running = shells.start(command).map_err(Stopped::Failed)?;
    if input.0.get("run_in_background").and_then(serde_json::Value::as_bool) == Some(true) {
        let id = shells.keep(running, &context.outputs).map_err(Stopped::Failed)?;
        return Ok(format!(
            "It runs in the background as {id}. See what it says with BashOutput, end it with KillShell.\n"
        ));
    }
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    let mut said = Said::new(context.sink("Bash"));
    match hear_out(&running, &mut said, deadline, context) {
        Ok(Exit::Code(0)) => Ok(shown(said)),
        Ok(Exit::Code(code)) => Err(Stopped::Failed(format!("{}[exit code {code}]\n", lines(said)))),
        Ok(Exit::Signal(signal)) => Err(Stopped::Failed(format!("{}[ended by {}]\n", lines(said), named(signal)))),
        Err(Cut::Cancelled) => Err(Stopped::Cancelled),
        Err(Cut::TimedOut) => Err(Stopped::Failed(format!(
            "{}[it was ended, with all that it had started, after {timeout_ms} ms: its time was over. Give it a longer \
             timeout (up to {TIMEOUT_MS_MAX}) or run it in the background]\n",
            lines(said)
        ))),
        Err(Cut::Refused(why)) => Err(Stopped::Failed(format!("The command could not be started: {why}\n"))),
        Err(Cut::Lost(why)) => Err(Stopped::Unknown(format!("{}[outcome unknown: {why}]\n", lines(said)))),
    }
}

enum Cut {
    Cancelled,
    TimedOut,
    Refused(String),
    Lost(String),
}

fn hear_out(running: &Running, said: &mut Said<'_>, deadline: Instant, context: &Context) -> Result<Exit, Cut> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut open, mut listens) = (true, false);
    let lost = |error: std::io::Error| Cut::Lost(error.to_string());
    loop {
        let now = Instant::now();
        let cut = if context.cancel.is_cancelled() {
            Some(Cut::Cancelled)
        } else {
            (now >= deadline).then_some(Cut::TimedOut)
        };
        if let Some(cut) = cut {
            end(running, said, &mut buffer, context.shells.grace())?;
            return Err(cut);
        }
        let patience = if listens { PATIENCE } else { QUICK };
        match running.look(open && listens, patience.min(deadline - now)).map_err(lost)? {
            Look::Output => open = said.read(&running.output, READ_BYTES, &mut buffer).map_err(lost)?,
            Look::Exited(exit) => {
                said.read(&running.output, DRAIN_BYTES_MAX, &mut buffer).map_err(lost)?;
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
fn end(running: &Running, said: &mut Said<'_>, buffer: &mut [u8], grace: Duration) -> Result<(), Cut> {
    let lost = |error: std::io::Error| Cut::Lost(error.to_string());
    running.kill(grace).map_err(lost)?;
    let deadline = Instant::now() + grace + END_PATIENCE;
    let mut open = true;
    while Instant::now() < deadline {
        match running.look(open, PATIENCE).map_err(lost)? {
            Look::Output => open = said.read(&running.output, READ_BYTES, buffer).map_err(lost)?,
            Look::Ended | Look::Lost => return Ok(()),
            Look::Refused(why) => return Err(Cut::Refused(why)),
            Look::Exited(_) | Look::Nothing => {}
        }
    }
    Err(Cut::Lost("it was told to end, and something of it still lives".to_owned()))
}

fn shown(said: Said<'_>) -> String {
    let text = said.finish();
    if text.is_empty() { "(no output)\n".to_owned() } else { text }
}

/// With a line of its own for what follows.
fn lines(said: Said<'_>) -> String {
    let mut text = said.finish();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(super) fn named(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => format!("signal {signal}, {known}"),
        Err(_) => format!("signal {signal}"),
    }
}
