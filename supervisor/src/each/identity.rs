//! Which job a line is, for ever: a list that is sent again adds only what is new (spec §2).
//!
//! The key is a hash of the job file's name and of the job as filled in: whatever its keys say, flags included. Not of
//! what others say about it: the configuration, the text of its policy, rules of flags. A job without a name is hashed
//! without one, since its label holds the line's number, and a line put in above would make all below it new. Lines that
//! make the same job are told apart by how many there were before, so that each is a job and none is one twice.
//!
//! Why not a hash of its JSON: order, escapes, the form of numbers and what is left out are a library's to decide, and
//! they change with its version and with ours. Here a key that is present is its name and its value, each behind its
//! length. What a file does not say is not there at all, so that a key of a later version changes nothing for the jobs
//! that do without it.

#![deny(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use ukai_protocol::job::{ContextStrategy, Mode};

use crate::config::limits::LimitSet;
use crate::job_file::JobFile;

/// Another version makes every line of every list new.
const VERSION: u8 = 1;
/// 128 bits: among all lines that a person ever writes, no two clash.
pub const KEY_DIGITS: usize = 32;

/// Gives the keys of one submission, and counts the lines that repeat an earlier one.
#[derive(Debug, Default)]
pub struct Keys {
    seen: HashMap<blake3::Hash, u64>,
    pub repeats: u64,
}

impl Keys {
    /// `file_name` without its folder; `job` filled in, its name only if it has one of its own; `workdir` absolute.
    pub fn key(&mut self, file_name: &OsStr, job: &JobFile, workdir: &Path) -> String {
        let mut bytes = canonical(file_name, job, workdir);
        let before = self.seen.entry(blake3::hash(&bytes)).or_default();
        put(&mut bytes, "occurrence", &before.to_le_bytes());
        self.repeats += u64::from(*before > 0);
        *before += 1;
        blake3::hash(&bytes).to_hex().chars().take(KEY_DIGITS).collect()
    }
}

fn canonical(file_name: &OsStr, job: &JobFile, workdir: &Path) -> Vec<u8> {
    // Taken apart whole: a new key of a job file has to be given its place here.
    let JobFile {
        name,
        prompt,
        workdir: _,
        env,
        mode,
        provider,
        model,
        needs_tools,
        policy,
        context,
        window,
        priority,
        worktree,
        hooks,
        limits,
    } = job;
    let LimitSet { steps, tool_calls, tokens, run_time, max_wall, max_cost_usd } = limits;
    let mut bytes = vec![VERSION];
    let mut say = |key: &str, value: Option<&[u8]>| value.map_or((), |value| put(&mut bytes, key, value));
    say("file", Some(file_name.as_encoded_bytes()));
    say("prompt", prompt.as_deref().map(str::as_bytes));
    say("name", name.as_deref().map(str::as_bytes));
    say("workdir", Some(workdir.as_os_str().as_encoded_bytes()));
    for entry in env {
        say("env", Some(entry.as_bytes()));
    }
    say("mode", mode.map(mode_word).map(str::as_bytes));
    say("provider", provider.as_deref().map(str::as_bytes));
    say("model", model.as_deref().map(str::as_bytes));
    say("needs_tools", needs_tools.map(|needs| [u8::from(needs)]).as_ref().map(|byte| &byte[..]));
    say("policy", policy.as_deref().map(|path| path.as_os_str().as_encoded_bytes()));
    // `false` has always been allowed, and changed no key.
    say("worktree", worktree.filter(|own| *own).map(|_| &[1][..]));
    say("hooks", hooks.as_deref().map(|path| path.as_os_str().as_encoded_bytes()));
    say("context", context.map(context_word).map(str::as_bytes));
    for (key, number) in [
        ("window", *window),
        ("priority", priority.map(u64::from)),
        ("limits.steps", *steps),
        ("limits.tool_calls", *tool_calls),
        ("limits.tokens", *tokens),
        ("limits.run_time_ms", run_time.map(|time| time.0)),
        ("limits.max_wall_ms", max_wall.map(|time| time.0)),
        // + 0.0 makes one of the two zeros.
        ("limits.max_cost_usd", max_cost_usd.map(|usd| (usd.0 + 0.0).to_bits())),
    ] {
        say(key, number.map(u64::to_le_bytes).as_ref().map(|bytes| &bytes[..]));
    }
    bytes
}

/// The key and its value, each behind its length (u64, little endian): no byte can move from one to the other.
fn put(bytes: &mut Vec<u8>, key: &str, value: &[u8]) {
    for part in [key.as_bytes(), value] {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Once => "once",
        Mode::Loop => "loop",
    }
}

fn context_word(context: ContextStrategy) -> &'static str {
    match context {
        ContextStrategy::KeepAll => "keep_all",
    }
}

#[cfg(test)]
mod tests;
