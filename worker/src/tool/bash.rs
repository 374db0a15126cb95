//! Bash: one command line, confined, with its output as it came and a status that is never better than the truth.
//!
//! It ends when the shell ends, whatever the shell left behind with an end of the pipe in its hand. It is ended as a
//! whole, with all that detached itself, when its time is over or nobody wants it any more.

use std::time::{Duration, Instant};

use ukai_protocol::json::Json;

use super::hear::{Cut, Ears};
use super::said::Said;
use super::{Context, Stopped, text};
use crate::host::words::Exit;

/// Spec §7, in milliseconds.
pub const TIMEOUT_MS: u64 = 120_000;
pub const TIMEOUT_MS_MAX: u64 = 600_000;
/// A policy, a parser and a packet have to take it.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

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
    let mut ears = Ears::new(&running, context.sink("Bash"));
    let ended = ears.hear_out(deadline, context);
    let said = ears.said;
    match ended {
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

pub(super) fn shown(said: Said<'_>) -> String {
    let text = said.finish();
    if text.is_empty() { "(no output)\n".to_owned() } else { text }
}

/// With a line of its own for what follows.
pub(super) fn lines(said: Said<'_>) -> String {
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
