//! The end of a job's worktree: what changed there is committed; what holds nothing is removed; all else is kept.
//!
//! By plumbing: `git commit` would look into repositories within, ask for words, and run what the owner has it run.

use std::path::PathBuf;

use ukai_protocol::id::JobId;

use super::beyond;
use super::branch;
use super::git::{Git, Here, Patience};
use super::make::{self, text};
use super::nested;
use super::quiet;
use super::record::{self, End, Record, Stage};
use super::turns::Turns;
use crate::store::StateDir;

/// What stands in for whoever has not told git who he is.
const NOBODY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ukai"),
    ("GIT_AUTHOR_EMAIL", "ukai@localhost"),
    ("GIT_COMMITTER_NAME", "ukai"),
    ("GIT_COMMITTER_EMAIL", "ukai@localhost"),
];
/// Of the nested repositories, those that a sentence names.
const NAMED_MAX: usize = 3;
/// Of a trouble: it stands in a log, in a message and on a terminal.
const TROUBLE_CHARS_MAX: usize = 500;

pub struct Closer<'a> {
    pub state: &'a StateDir,
    pub git: &'a Git,
    pub turns: &'a Turns,
    pub patience: &'a Patience<'a>,
}

impl Closer<'_> {
    /// How it ended, for [`record`] to keep. None: there is nothing to end. Whatever goes wrong, nothing is lost: it is kept as it is.
    pub fn close(&self, job: &JobId, name: &str) -> Result<Option<Record>, String> {
        let known = record::load(self.state, job).map_err(|error| error.to_string())?;
        let Some(mut record) = known.filter(Record::is_open) else { return Ok(None) };
        let end = match record.stage {
            Stage::Making => self.take_away(&record),
            _ => self.settle(&record, name),
        };
        let mut end = end.unwrap_or_else(|why| End { kept: true, commit: None, trouble: Some(why) });
        end.trouble = end.trouble.map(|why| bounded(&why));
        record.stage = Stage::Ended(end);
        Ok(Some(record))
    }

    /// No worker has run in it.
    fn take_away(&self, record: &Record) -> Result<End, String> {
        let _turn = self.turns.take(&record.common, self.patience)?;
        make::take_away(&self.outside(record), record)?;
        Ok(End::default())
    }

    fn settle(&self, record: &Record, name: &str) -> Result<End, String> {
        let outside = self.outside(record);
        let full = branch::full(&record.branch);
        if !record.path.exists() {
            // A person took it away. Its branch may be there.
            let tip = outside.ask(&["rev-parse", "--verify", "--quiet", &full]).ok();
            return Ok(End { kept: false, commit: tip, trouble: None });
        }
        let inside = Here { folder: &record.path, of: Some((&*record.git_dir, &*record.path)), ..outside };
        let settings = inside.without_filters()?;
        let inside = Here { settings: &settings, env: quiet::no_attributes(&record.base), ..inside };
        let on = inside.ask(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
        if on != full {
            let branch = &record.branch;
            return Err(format!(
                "it is no longer on the branch {branch}, so nothing was committed; look at it, and commit there what is of use"
            ));
        }
        let within = nested::repositories(&record.path)?;
        let failed = self.add(&inside, &within)?;
        let before = inside.ask(&["rev-parse", "--verify", "HEAD^{commit}"])?;
        let tree = inside.ask(&["write-tree"])?;
        let tip = match tree == inside.ask(&["rev-parse", "--verify", "HEAD^{tree}"])? {
            true => before,
            false => self.commit(&inside, record, name, &tree, &before)?,
        };
        let beyond = beyond::look(&record.path, &inside.list(&beyond::LIST)?, &within)?;
        let left_out = (!within.is_empty()).then(|| left_out(&within));
        let unseen = (!beyond.unseen.is_empty()).then(|| unseen(&beyond.unseen));
        let troubles: Vec<_> = [failed, left_out, unseen].into_iter().flatten().collect();
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; and "));
        let nothing = tip == record.base || self.is_merged(&outside, &tip)?;
        if nothing && trouble.is_none() && !beyond.others {
            let _turn = self.turns.take(&record.common, self.patience)?;
            make::remove(&record.common, &record.path)?;
            outside.ask(&["update-ref", "-d", &full, &tip])?;
            return Ok(End { kept: false, commit: None, trouble: None });
        }
        Ok(End { kept: true, commit: (tip != record.base).then_some(tip), trouble })
    }

    /// All that changed, but what is ignored. What could not be added is told, and the rest is.
    fn add(&self, inside: &Here<'_>, within: &[PathBuf]) -> Result<Option<String>, String> {
        let mut excluded = Vec::new();
        for folder in within {
            excluded.push(format!(":(top,exclude,literal){}", text(folder)?));
        }
        let mut words = vec!["add", "--all", "--ignore-errors"];
        if !excluded.is_empty() {
            words.extend(["--", ":(top)"].into_iter().chain(excluded.iter().map(String::as_str)));
        }
        let failed = inside.as_far_as_it_goes(&words)?;
        Ok(failed.map(|why| format!("not all that changed could be committed: {why}; commit the rest there yourself")))
    }

    fn commit(
        &self,
        inside: &Here<'_>,
        record: &Record,
        name: &str,
        tree: &str,
        before: &str,
    ) -> Result<String, String> {
        let known = |key: &str| inside.holds(&["config", "--get", key]);
        let env: &[_] = if known("user.name")? && known("user.email")? { &[] } else { &NOBODY };
        let inside = Here { env, ..*inside };
        let message =
            format!("{name}\n\nWhat the job {} left in its worktree.\n\nukai-job: {}\n", record.job, record.job);
        let commit = inside.ask(&["commit-tree", tree, "-p", before, "-m", &message])?;
        inside.ask(&["update-ref", "-m", "ukai: the job's end", "HEAD", &commit, before])?;
        Ok(commit)
    }

    /// Into what is checked out where it came from.
    fn is_merged(&self, outside: &Here<'_>, tip: &str) -> Result<bool, String> {
        outside.holds(&["merge-base", "--is-ancestor", tip, "HEAD"])
    }

    fn outside<'a>(&'a self, record: &'a Record) -> Here<'a> {
        let (git, patience) = (self.git, self.patience);
        // Also where the work tree that was named is gone: all that is asked there is the common folder's.
        let of = Some((&*record.common, &*record.repository));
        let folder = if record.repository.is_dir() { &record.repository } else { &record.common };
        Here { git, folder, of, settings: &[], env: &[], patience }
    }
}

fn left_out(within: &[PathBuf]) -> String {
    let shown: Vec<_> = within.iter().take(NAMED_MAX).map(|folder| folder.display().to_string()).collect();
    let more = if within.len() > NAMED_MAX { ", …" } else { "" };
    format!(
        "what lies in repositories within it was not committed ({}{more}): save what is of use there",
        shown.join(", ")
    )
}

fn unseen(files: &[PathBuf]) -> String {
    let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let more = if files.len() == beyond::NAMED_MAX { ", …" } else { "" };
    format!(
        "files in a submodule's folder, or where git does not look, were not committed ({}{more}): save what is of use there",
        shown.join(", ")
    )
}

fn bounded(why: &str) -> String {
    match why.char_indices().nth(TROUBLE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &why[..at]),
        None => why.to_owned(),
    }
}

/// Where nothing more is to be found out about it.
pub fn save(state: &StateDir, record: &Record) -> Result<(), String> {
    record::save(state, record).map_err(|error| format!("noting the end of its worktree: {error}"))
}
