//! A job in a worktree of its own (spec §2): made when it first starts, committed and kept or removed when it ends.
//!
//! All of it blocks: it is called from threads that may. What a worktree is, and how it ended, stands in one file beside it
//! (`record`), for the next start and for whoever looks.

mod beyond;
mod branch;
mod close;
pub mod git;
mod make;
mod nested;
pub mod place;
mod quiet;
pub mod record;
mod repository;
mod turns;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use self::close::Closer;
use self::git::{Git, Patience};
use self::make::Maker;
use self::place::Place;
use self::record::Record;
use self::turns::Turns;
use crate::pool::reaper::Family;
use crate::store::StateDir;

/// For the checkout of a very large repository, and the turns of others before it.
const MAKE_MAX: Duration = Duration::from_secs(600);
/// For the commit of all that a job may have written.
pub const CLOSE_MAX: Duration = Duration::from_secs(300);
/// A look at a repository reads three small files.
const CHECK_MAX: Duration = Duration::from_secs(30);

/// Those of one state directory.
#[derive(Clone, Debug)]
pub struct Worktrees {
    state: StateDir,
    family: Family,
    turns: Turns,
}

impl Worktrees {
    #[must_use]
    pub fn new(state: StateDir, family: Family) -> Self {
        Worktrees { state, family, turns: Turns::default() }
    }

    /// Where a job that starts works: found again, or made. `unwanted` breaks it off.
    pub fn ready(&self, job: &JobId, spec: &JobSpec, unwanted: &AtomicBool) -> Result<Place, String> {
        let patience = Patience { until: Instant::now() + MAKE_MAX, unwanted };
        let git = Git::find(Some(self.family));
        let made = git.and_then(|git| {
            Maker { state: &self.state, git: &git, turns: &self.turns, patience: &patience }.ready(job, spec)
        });
        made.map_err(|why| format!("making a worktree of {}: {why}", spec.workdir.display()))
    }

    /// Where a job whose worker has been started works.
    pub fn place(&self, job: &JobId) -> Result<Place, String> {
        match record::load(&self.state, job) {
            Ok(Some(record)) => Ok(record.place()),
            Ok(None) => Err("nothing tells where its worktree is".to_owned()),
            Err(error) => Err(format!("nothing tells where its worktree is: {error}")),
        }
    }

    /// At the job's end, when none of its processes is left: how its worktree ended, not yet noted. None: there is none, or
    /// that is known.
    pub fn close(&self, job: &JobId, name: &str) -> Result<Option<Record>, String> {
        let patience = Patience { until: Instant::now() + CLOSE_MAX, unwanted: &AtomicBool::new(false) };
        let git = Git::find(Some(self.family))?;
        Closer { state: &self.state, git: &git, turns: &self.turns, patience: &patience }.close(job, name)
    }

    /// From now on that is known.
    pub fn ended(&self, record: &Record) -> Result<(), String> {
        close::save(&self.state, record)
    }

    /// Those whose end is not known.
    pub fn open_ones(&self) -> std::io::Result<Vec<JobId>> {
        record::open_ones(&self.state)
    }
}

/// Whether a job can have a worktree of the repository around this folder, which is real: before it is submitted.
pub fn check(folder: &Path) -> Result<(), String> {
    let patience = Patience { until: Instant::now() + CHECK_MAX, unwanted: &AtomicBool::new(false) };
    repository::look(&Git::find(None)?, folder, &patience).map(drop)
}

#[cfg(test)]
mod tests;
