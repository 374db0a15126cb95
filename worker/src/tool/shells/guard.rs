//! What deny rules close inside the workdir: closed by mounts before the first command, and looked for after each.
//!
//! What is there before the first command is read-only or hidden, where there are namespaces. What is not there cannot be: a
//! mount needs a place to stand on, and to make one would leave empty files in the owner's project, which mean something
//! (an empty `tool_policy.yaml` denies everything). To put an overlay in between would show commands other files than the
//! tools see; to have every open judged by seccomp costs each of them a round trip. So a script that a command runs can
//! make `.claude/` or `.env.local`.
//!
//! That is found when the command has ended, and told: to the model, to who watches, and as something that a person must
//! look at. It is **not taken away**: files do not say who made them, and while a job runs its owner's editor saves `.env` by
//! a rename, another tool writes `.claude/`, a clone brings a `.git`. To move one of those would be worse than the hole.
//! No look and no failure of one keeps a command from running; what was not looked at is told in the same way.

#![allow(clippy::disallowed_methods, reason = "asks the disk where links lead, and when something was made")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ukai_protocol::event::{Event, Why};

use super::look::{Found, Look, Node};
use crate::permission::Permission;
use crate::permission::closed::Closing;

/// Each is a mount, of which the kernel grants 100,000, and a fraction of a millisecond before the first command.
const CLOSED_MAX: usize = 10_000;
/// Their names go to the host in one message.
const CLOSED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Names that a text tells; the rest is counted.
const NAMES_TOLD_MAX: usize = 5;
/// Of a name that a text tells.
const NAME_CHARS_MAX: usize = 120;

#[derive(Debug)]
pub struct Guard {
    look: Look,
    /// What was there, or has been told. By its inode, so that a folder may be moved with the `.git` in it.
    known: HashSet<Node>,
    /// Not all of it could be looked through at first: what is found later may have been there.
    is_partial: bool,
    /// What has been told is not told again.
    left_out: Option<String>,
}

/// What was there before anything was started.
#[derive(Debug, Default)]
pub struct Closed {
    pub protect: Vec<PathBuf>,
    pub hide: Vec<PathBuf>,
}

/// Something for who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    /// A person must look at it.
    pub is_alarm: bool,
}

impl Notice {
    #[must_use]
    pub fn note(text: String) -> Self {
        Notice { text, is_alarm: false }
    }

    /// As the job's log tells it.
    #[must_use]
    pub fn event(self) -> Event {
        let why = if self.is_alarm { Why::Alarm } else { Why::Notice };
        Event::Injected { why, text: self.text }
    }
}

impl Guard {
    /// Looks the workdir through. `besides` is what is ukai's in the workdir. What was made after `since` is told: an earlier
    /// process of this job, which was killed, may have had a command that did it. Blocks.
    pub fn begin(
        permission: &Permission,
        besides: Option<PathBuf>,
        since: Option<SystemTime>,
    ) -> (Self, Closed, Vec<Notice>) {
        let workdir = permission.places().real_workdir();
        let mut look = Look::new(workdir, besides.into_iter().collect());
        let seen = look.again(permission);
        let mut said = Vec::new();
        let is_newer = |found: &&Found| since.zip(found.born).is_some_and(|(since, born)| born >= since);
        said.extend(alarm(seen.found.iter().filter(is_newer), workdir));
        said.extend(seen.left_out.as_ref().map(|what| {
            Notice::note(format!(
                "not all of the workdir was looked through for what rules deny ({what}): there, scripts are held by nothing"
            ))
        }));
        let guard = Guard {
            look,
            known: seen.found.iter().map(|found| found.node).collect(),
            is_partial: seen.left_out.is_some(),
            left_out: None,
        };
        let mut closed = Closed::default();
        let (mut count, mut bytes) = (0, 0);
        for found in &seen.found {
            let Some(path) = behind(found, workdir) else { continue };
            (count, bytes) = (count + 1, bytes + path.as_os_str().len());
            if count <= CLOSED_MAX && bytes <= CLOSED_BYTES_MAX {
                let to = if found.closing == Closing::Hidden { &mut closed.hide } else { &mut closed.protect };
                to.push(path);
            }
        }
        let left_open = count - closed.hide.len() - closed.protect.len();
        if left_open > 0 {
            said.push(Notice::note(format!(
                "{left_open} of {count} places in the workdir that rules deny are open to scripts: no more are closed"
            )));
        }
        (guard, closed, said)
    }

    /// What came to be where a rule denies it, and what could not be looked through. Blocks.
    pub fn check(&mut self, permission: &Permission) -> Vec<Notice> {
        let seen = self.look.again(permission);
        let came: Vec<Found> = seen.found.into_iter().filter(|found| self.known.insert(found.node)).collect();
        // Of the first look, that it was not whole is told already.
        let left_out = seen.left_out.filter(|what| !self.is_partial && self.left_out.as_ref() != Some(what));
        let mut said = Vec::from_iter(alarm(came.iter(), permission.places().real_workdir()));
        if let Some(what) = left_out {
            said.push(Notice::note(format!(
                "what came to be in the workdir was not all looked through for what rules deny ({what})"
            )));
            self.left_out = Some(what);
        }
        said
    }
}

fn alarm<'a>(came: impl Iterator<Item = &'a Found>, workdir: &Path) -> Option<Notice> {
    let mut names: Vec<String> = came.map(|found| shown(&found.path, workdir)).collect();
    if names.is_empty() {
        return None;
    }
    names.sort();
    let text = format!(
        "where a rule denies it, something came to be while commands ran: {}. Who made it cannot be told: if it was not \
         you, look at it before anything acts on it, and remove it",
        listed(&names)
    );
    Some(Notice { text, is_alarm: true })
}

/// A name may hold anything, and is for a line.
fn shown(path: &Path, workdir: &Path) -> String {
    let name = path.strip_prefix(workdir).unwrap_or(path).display().to_string();
    name.chars().take(NAME_CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_TOLD_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Of a link, what it leads to, where that is inside.
fn behind(found: &Found, workdir: &Path) -> Option<PathBuf> {
    if !found.is_link {
        return Some(found.path.clone());
    }
    found.path.canonicalize().ok().filter(|target| target.starts_with(workdir) && target != workdir)
}

#[cfg(test)]
mod tests;
