//! A worktree for a job that starts: found again, or made.
//!
//! What has been open to a worker is never made anew: whatever is in it may be all that is left of its work. What was
//! only being made is taken away first; no worker has seen it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use super::branch;
use super::git::{Git, Here, Patience};
use super::place::Place;
use super::quiet;
use super::record::{self, Record, Stage};
use super::repository::{self, Repository};
use super::turns::Turns;
use crate::store::StateDir;

/// What differs from the commit; no repository within is entered.
const STATUS: [&str; 6] =
    ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all"];

/// What a worktree is made with.
pub struct Maker<'a> {
    pub state: &'a StateDir,
    pub git: &'a Git,
    pub turns: &'a Turns,
    pub patience: &'a Patience<'a>,
}

impl Maker<'_> {
    /// Where the job works from now on. An error is final: another try would fail the same way.
    pub fn ready(&self, job: &JobId, spec: &JobSpec) -> Result<Place, String> {
        let known = record::load(self.state, job).map_err(|error| error.to_string())?;
        match known {
            Some(record) if record.stage != Stage::Making && there(&record.path) => self.found(record),
            known => self.made(job, spec, known),
        }
    }

    fn found(&self, mut record: Record) -> Result<Place, String> {
        if !record.git_dir.is_dir() {
            let (path, git_dir) = (record.path.display(), record.git_dir.display());
            return Err(format!(
                "{path} is there, and git no longer knows it ({git_dir} is gone): the repository was moved, or it was pruned; what is in it is untouched: save that, then remove it"
            ));
        }
        within(&record.path, &record.workdir)?;
        if record.stage != Stage::Open {
            record.stage = Stage::Open;
            self.save(&record)?;
        }
        Ok(record.place())
    }

    fn made(&self, job: &JobId, spec: &JobSpec, known: Option<Record>) -> Result<Place, String> {
        let Repository { top, common, head, below } = repository::look(self.git, &spec.workdir, self.patience)?;
        let path = self.path_of(job)?;
        let earlier = known.filter(|record| record.common == common);
        let mut record = Record::new(job.clone(), path.clone());
        record.repository.clone_from(&top);
        record.common = common;
        record.base.clone_from(&head);
        record.workdir = if below.as_os_str().is_empty() { path.clone() } else { path.join(&below) };
        let here = self.here(&top);
        {
            let _turn = self.turns.take(&record.common, self.patience)?;
            if let Some(half) = earlier.as_ref().filter(|earlier| earlier.stage == Stage::Making) {
                take_away(&here, half)?;
            }
            if there(&path) {
                return Err(format!(
                    "{} is in the way, and nobody knows what it is; look at it, and move it",
                    path.display()
                ));
            }
            // One that a person took away, but not its branch: the work goes on there.
            let left = earlier.filter(|earlier| earlier.stage != Stage::Making);
            let left = match left {
                Some(earlier) if exists(&here, &earlier.branch)? => Some(earlier),
                _ => None,
            };
            let begin = match left {
                Some(earlier) => {
                    record.base = earlier.base;
                    record.branch = earlier.branch;
                    vec![record.branch.clone()]
                }
                None => {
                    record.branch = self.free_branch(&here, &spec.name, job)?;
                    vec!["-b".to_owned(), record.branch.clone(), head]
                }
            };
            // Before anything is there: whatever a crash leaves is known for half-made.
            self.save(&record)?;
            let shown = text(&path)?;
            let words = match &begin[..] {
                [branch] => vec!["worktree", "add", "--no-checkout", shown, branch],
                [flag, branch, head] => {
                    vec!["worktree", "add", "--no-checkout", "--no-track", flag, branch, shown, head]
                }
                _ => Vec::new(),
            };
            here.ask(&words)?;
            record.git_dir = folder_of(&record.common, &path)
                .ok_or_else(|| format!("git made {} and does not know it", path.display()))?;
        }
        self.check_out(&record)?;
        within(&record.path, &record.workdir)?;
        record.stage = Stage::Open;
        self.save(&record)?;
        Ok(record.place())
    }

    /// As git will name it: real.
    fn path_of(&self, job: &JobId) -> Result<PathBuf, String> {
        let all = self.state.worktrees();
        let fault = |error| format!("preparing {}: {error}", all.display());
        disk::create_dir(&all).map_err(fault)?;
        Ok(all.canonicalize().map_err(fault)?.join(job.as_str()))
    }

    /// Apart from the rest, so that others have their turn meanwhile, and with the filters of the worktree's own configuration off.
    fn check_out(&self, record: &Record) -> Result<(), String> {
        let inside =
            Here { folder: &record.path, of: Some((&*record.git_dir, &*record.path)), ..self.here(&record.repository) };
        let own = record.git_dir.join("config.worktree");
        if there(&own) {
            // Git copies there which part of the tree its owner has checked out. A job has all of it, also for its own git.
            inside.ask(&["config", "--file", text(&own)?, "core.sparseCheckout", "false"])?;
        }
        let settings = inside.without_filters()?;
        let inside = Here { settings: &settings, env: quiet::no_attributes(&record.base), ..inside };
        inside.ask(&["reset", "--hard", "--quiet"])?;
        as_committed(&inside)
    }

    fn free_branch(&self, here: &Here<'_>, name: &str, job: &JobId) -> Result<String, String> {
        let flat = exists(here, branch::IN_THE_WAY)?;
        for name in branch::candidates(name, job, flat) {
            let below = format!("{}/", branch::full(&name));
            // Nor can it be where another one lies below its name.
            if !exists(here, &name)? && here.ask(&["for-each-ref", "--count=1", &below])?.is_empty() {
                return Ok(name);
            }
        }
        Err(format!("all names for its branch are taken, from {}…; remove some", branch::PREFIX))
    }

    fn here<'a>(&'a self, folder: &'a Path) -> Here<'a> {
        let (git, patience) = (self.git, self.patience);
        Here { git, folder, of: None, settings: &[], env: &[], patience }
    }

    fn save(&self, record: &Record) -> Result<(), String> {
        record::save(self.state, record).map_err(|error| format!("noting its worktree: {error}"))
    }
}

/// What is there is the commit that is checked out, to git's eye: else its end would commit what the job did not do.
pub fn as_committed(inside: &Here<'_>) -> Result<(), String> {
    let other = inside.list(&STATUS)?;
    if other.is_empty() {
        return Ok(());
    }
    let first = String::from_utf8_lossy(other.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    Err(format!(
        "what git checked out is not what is committed (`{}`), so a job's changes could not be told from that; look at `git status` in a worktree of your own",
        first.escape_debug()
    ))
}

/// The worktree, git's folder of it, and the branch where it still is what it was when it was made.
pub fn take_away(here: &Here<'_>, half: &Record) -> Result<(), String> {
    remove(&half.common, &half.path)?;
    if exists(here, &half.branch)? {
        let full = branch::full(&half.branch);
        if here.ask(&["rev-parse", "--verify", "--quiet", &full])? == half.base {
            here.ask(&["update-ref", "-d", &full, &half.base])?;
        }
    }
    Ok(())
}

/// What is in it is gone. Git's own `worktree remove` looks into repositories within it first, and starts programs there.
pub fn remove(common: &Path, path: &Path) -> Result<(), String> {
    let gone = |path: &Path| match disk::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("removing {}: {error}", path.display())),
        _ => Ok(()),
    };
    let git_dir = folder_of(common, path);
    gone(path)?;
    if let Some(git_dir) = git_dir {
        gone(&git_dir)?;
        if let Some(all) = git_dir.parent() {
            // As git does; where others are left it stays.
            let _ = fs::remove_dir(all);
        }
    }
    Ok(())
}

fn exists(here: &Here<'_>, branch: &str) -> Result<bool, String> {
    here.holds(&["show-ref", "--verify", "--quiet", &branch::full(branch)])
}

/// Below the common folder each worktree has one, which names it in `gitdir`.
fn folder_of(common: &Path, path: &Path) -> Option<PathBuf> {
    const GITDIR_BYTES_MAX: u64 = 64 * 1024;
    let dot_git = path.join(".git");
    let folders = fs::read_dir(common.join("worktrees")).ok()?.flatten().map(|entry| entry.path());
    folders.into_iter().find(|folder| {
        let named = disk::read_bounded(&folder.join("gitdir"), GITDIR_BYTES_MAX).ok();
        named.is_some_and(|named| named.trim_ascii_end() == dot_git.as_os_str().as_encoded_bytes())
    })
}

/// The folder in which the job works. The commit may have none there, which is made, or a link to somewhere else.
fn within(path: &Path, workdir: &Path) -> Result<(), String> {
    let below =
        workdir.strip_prefix(path).map_err(|_| format!("{} is not in {}", workdir.display(), path.display()))?;
    let mut folder = path.to_owned();
    for name in below.components() {
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let shown = folder.display();
                return Err(format!(
                    "the job is to work in {shown}, which is no folder in that commit; name another workdir"
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir(&folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
            }
            Err(error) => return Err(format!("looking at {}: {error}", folder.display())),
        }
    }
    Ok(())
}

/// A link that leads nowhere counts.
fn there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

pub fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is no text; choose another state directory", path.display()))
}
