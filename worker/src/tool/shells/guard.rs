//! Keeps commands from what deny rules close inside the workdir: before the first, and after each.
//!
//! What is there before the first command is closed by mounts, where there are namespaces. What is not there cannot be: a
//! mount needs a place to stand on, and to make one would leave empty files in the owner's project, which mean something
//! (an empty `tool_policy.yaml` denies everything). To put an overlay in between would show commands other files than the
//! tools see; to have every open judged by seccomp costs each of them a round trip. So a script that a command runs can
//! make `.claude/` or `.env.local`, and it is there until the command ends. Then it is taken away, as it is, to `refused/` in
//! the job's own folder, and the model and who watches are told. What the owner makes there at the same time is taken for
//! the command's, since nothing tells them apart; nothing is destroyed.
//!
//! What is known is known by its inode, so that a folder may be moved with the `.git` in it. It is put down in the job's own
//! folder, so that what a killed worker's command made is found by the next one; it goes when all commands have ended, and
//! holds no longer when a person resumes the job, who may have made things meanwhile.

#![allow(clippy::disallowed_methods, reason = "the IO of what commands leave in the workdir")]

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use ukai_protocol::disk;

use super::look::{Found, Look, Node};
use crate::permission::Permission;
use crate::permission::closed::Closing;
use crate::tool::open::{OpenError, open_folder};

/// Beside what was taken away, whose names begin with a number.
const RECORD: &str = "known.json";
/// Names that a text tells; the rest is counted.
const NAMES_TOLD_MAX: usize = 5;
/// Things with one name that are kept beside each other.
const SAME_NAMES_MAX: u32 = 1_000;
/// A number has 20 digits, and a workdir fewer closed places than folders.
const KNOWN_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub struct Guard {
    look: Look,
    known: HashSet<Node>,
    /// Nothing that is older was made by a command of this job.
    since: SystemTime,
    /// Not all of it could be looked through at first: what is found later may have been there.
    is_partial: bool,
    /// Where things are taken to.
    refused: PathBuf,
    /// Where it is put down what was there.
    record: PathBuf,
}

/// What was there before the first command of a job.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    since_ms: u64,
    /// How often the job had been resumed.
    resumes: u32,
    /// Without their devices, whose numbers change with a reboot.
    inodes: HashSet<u64>,
}

/// What is closed before anything is started.
#[derive(Debug, Default)]
pub struct Closed {
    pub protect: Vec<PathBuf>,
    pub hide: Vec<PathBuf>,
    /// What of it could not be had, for who watches.
    pub missing: Option<String>,
    pub refused: Option<String>,
}

impl Guard {
    /// Looks the workdir through. `run` is the job's own folder, `besides` what is ukai's in the workdir. Blocks.
    pub fn begin(
        permission: &Permission,
        run: &Path,
        resumes: u32,
        besides: Vec<PathBuf>,
    ) -> Result<(Self, Closed), String> {
        let workdir = permission.places().real_workdir();
        let refused = run.join("refused");
        let record = refused.join(RECORD);
        let before = read(&record).map_err(|error| format!("{}: {error}; remove it", record.display()))?;
        let before = before.filter(|known| known.resumes == resumes);
        let since = before
            .as_ref()
            .map_or_else(SystemTime::now, |known| SystemTime::UNIX_EPOCH + Duration::from_millis(known.since_ms));
        let mut guard = Guard {
            look: Look::new(workdir, besides),
            known: HashSet::new(),
            since,
            is_partial: false,
            refused,
            record,
        };
        let seen = guard.look.again(permission);
        guard.is_partial = seen.left_out.is_some();
        let was_there = |found: &Found| match &before {
            None => true,
            Some(known) => known.inodes.contains(&found.node.1) || !guard.may_be_new(found),
        };
        let (there, came): (Vec<_>, Vec<_>) = seen.found.into_iter().partition(was_there);
        guard.known = there.iter().map(|found| found.node).collect();
        if before.is_none() {
            guard.put_down(resumes).map_err(|error| format!("writing {}: {error}", guard.record.display()))?;
        }
        let mut closed = Closed { refused: guard.take_away(&came, workdir), ..Closed::default() };
        for found in there {
            let to = if found.closing == Closing::Hidden { &mut closed.hide } else { &mut closed.protect };
            to.extend(behind(&found, workdir));
        }
        closed.missing = seen.left_out.map(|what| {
            format!("not all of the workdir was looked through for what rules deny ({what}): there, scripts are held by nothing")
        });
        Ok((guard, closed))
    }

    /// Takes away what came to be where a rule denies it. Returns what to say, if anything did. Blocks.
    pub fn check(&mut self, permission: &Permission) -> Option<String> {
        let seen = self.look.again(permission);
        let came: Vec<Found> = seen
            .found
            .into_iter()
            .filter(|found| !self.known.contains(&found.node) && self.may_be_new(found))
            .collect();
        let refused = self.take_away(&came, permission.places().real_workdir());
        let left_out = seen.left_out.filter(|_| !self.is_partial).map(|what| {
            format!("what came to be in the workdir was not all looked through for what rules deny ({what})")
        });
        let said: Vec<String> = refused.into_iter().chain(left_out).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// All commands have ended and the last check is done: what is made from now on is not theirs.
    pub fn end(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match std::fs::remove_dir(&self.refused) {
            // Something is kept in it.
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }

    fn may_be_new(&self, found: &Found) -> bool {
        match found.born {
            Some(born) => born >= self.since,
            None => !self.is_partial,
        }
    }

    fn put_down(&self, resumes: u32) -> io::Result<()> {
        let since = self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let known = Known { since_ms, resumes, inodes: self.known.iter().map(|(_, inode)| *inode).collect() };
        disk::create_dir(&self.refused)?;
        disk::write_atomic(&self.record, &serde_json::to_vec(&known)?)
    }

    fn take_away(&mut self, came: &[Found], workdir: &Path) -> Option<String> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for Found { path, .. } in came {
            let name = path.strip_prefix(workdir).unwrap_or(path).display().to_string();
            match put_aside(path, &self.refused) {
                Ok(()) => taken.push(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    // The next look tries it again.
                    path.parent().into_iter().for_each(|folder| self.look.forget(folder));
                    left.push(format!("{name} ({error})"));
                }
            }
        }
        let mut said = Vec::new();
        if !taken.is_empty() {
            said.push(format!(
                "a command made what a rule denies, and it was taken away to {}: {}",
                self.refused.display(),
                listed(&taken)
            ));
        }
        if !left.is_empty() {
            said.push(format!("a command made what a rule denies, and it could not be taken away: {}", listed(&left)));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}

fn read(record: &Path) -> io::Result<Option<Known>> {
    match disk::read_bounded(record, KNOWN_BYTES_MAX) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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

/// Moves what is there, whatever it is, out of the workdir; where that is on another file system, to a harmless name beside
/// it. No link is followed: a swap leads to nothing that is not the job's.
fn put_aside(path: &Path, refused: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it has no name"));
    };
    let folder = match open_folder(parent) {
        Err(OpenError::Missing) => return Err(io::ErrorKind::NotFound.into()),
        opened => opened.map_err(io::Error::other)?,
    };
    let away = open_folder(refused).map_err(io::Error::other)?;
    // Dots would hide it from who looks for it, and may be what a rule is about.
    let plain = name.to_string_lossy().trim_start_matches('.').to_owned();
    for number in 1..=SAME_NAMES_MAX {
        let free =
            |to: &str, at: rustix::fd::BorrowedFd<'_>| renameat_with(&folder, name, at, to, RenameFlags::NOREPLACE);
        let moved = match free(&format!("{number}-{plain}"), away.as_fd()) {
            Err(Errno::XDEV) => free(&format!("refused-by-ukai-{number}-{plain}"), folder.as_fd()),
            moved => moved,
        };
        match moved {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
            Ok(()) => return Ok(()),
        }
    }
    Err(io::Error::other(format!("{} holds {SAME_NAMES_MAX} of that name already", refused.display())))
}

#[cfg(test)]
mod tests;
