//! What is said of a job's worktree: where it is, what stands there, and what to type.
//!
//! The link tells how jobs stand, not what lies on the disk; that is read from the record beside it.

use std::path::Path;

use serde::Serialize;
use ukai_protocol::command::word_of;
use ukai_protocol::id::JobId;

use crate::store::StateDir;
use crate::worktree::record::{self, End, Record, Stage};

const ONLY_IGNORED: &str = ", which holds nothing new but files that git ignores";

/// As `--output json` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    path: String,
    branch: String,
    /// What the branch points to; null while the job goes on, and where the branch is gone or holds nothing of the job's.
    commit: Option<String>,
    /// Path and branch are there.
    kept: bool,
    /// Why a person should look.
    trouble: Option<String>,
}

/// None: it has none. One that cannot be read is told where the job is shown.
pub(crate) fn of(state: &StateDir, job: &JobId) -> Option<Record> {
    record::load(state, job).unwrap_or_else(|error| {
        tracing::warn!(%job, %error, "what is known of its worktree cannot be read");
        None
    })
}

/// Its end is not settled yet.
pub(crate) fn is_open(state: &StateDir, job: &JobId) -> bool {
    of(state, job).is_some_and(|record| record.is_open())
}

pub(crate) fn shown(record: &Record) -> Shown {
    let (kept, commit, trouble) = match &record.stage {
        Stage::Making | Stage::Open => (true, None, None),
        Stage::Ended(End { kept, commit, trouble }) => (*kept, commit.clone(), trouble.clone()),
    };
    let (path, branch) = (record.path.display().to_string(), record.branch.clone());
    Shown { path, branch, commit, kept, trouble }
}

/// Pairs of what it is and how it stands; `ended`: its job.
pub(crate) fn lines(record: &Record, ended: bool) -> Vec<(&'static str, String)> {
    let Record { path, branch, .. } = record;
    let place = |how: &str| ("worktree", format!("{}{how}", path.display()));
    match &record.stage {
        Stage::Making => vec![place(", which is being made")],
        Stage::Open => {
            let how = if ended { ", where what it left is being committed" } else { "" };
            vec![place(how), ("branch", branch.clone())]
        }
        Stage::Ended(End { kept: true, commit, trouble }) => {
            let next = next(record);
            let how = if commit.is_none() && trouble.is_none() { ONLY_IGNORED } else { "" };
            let commit = commit.as_ref().map(|commit| ("commit", commit.clone()));
            let trouble = trouble.as_ref().map(|why| ("worktree", format!("look at it: {why}")));
            let lines = [place(how), ("branch", branch.clone())].into_iter().chain(commit).chain(trouble);
            lines.chain(next).collect()
        }
        Stage::Ended(End { commit: Some(commit), .. }) => {
            vec![place(", which is there no more"), ("branch", branch.clone()), ("commit", commit.clone())]
        }
        Stage::Ended(_) => vec![("worktree", "removed: nothing had changed there".to_owned())],
    }
}

/// For whoever has just seen the job end. None: nothing is left of it.
pub(crate) fn said(job: &JobId, record: &Record) -> Option<String> {
    let Stage::Ended(End { kept: true, commit, trouble }) = &record.stage else { return None };
    let (branch, path) = (&record.branch, record.path.display());
    let left = match (commit, trouble) {
        (Some(commit), _) => {
            format!("left its work on branch {branch} ({}) in {path}", commit.chars().take(12).collect::<String>())
        }
        (None, Some(_)) => format!("left {path}, and nothing of it was committed"),
        (None, None) => format!("left {path}{ONLY_IGNORED}"),
    };
    let trouble = trouble.as_ref().map(|why| format!("; look at it: {why}")).unwrap_or_default();
    let next: Vec<_> = next(record).into_iter().map(|(_, command)| command).collect();
    let next = if next.is_empty() { String::new() } else { format!("; type: {}", next.join(", and then: ")) };
    Some(format!("ukai: {job} {left}{trouble}{next}"))
}

/// What takes the work over, where the branch holds any, and what takes the worktree away, where nothing in it is to be saved first.
fn next(record: &Record) -> Vec<(&'static str, String)> {
    let Stage::Ended(End { kept: true, commit, trouble }) = &record.stage else { return Vec::new() };
    let git = |path: &Path| format!("git -C {}", word_of(&path.display().to_string()));
    let (git, branch, path) = (git(&record.repository), word_of(&record.branch), &record.path);
    let path = word_of(&path.display().to_string());
    let merge = commit.is_some().then(|| ("merge it", format!("{git} merge {branch}")));
    let remove = format!("{git} worktree remove {path} && {git} branch -d {branch}");
    merge.into_iter().chain(trouble.is_none().then_some(("remove it", remove))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(end: End) -> Record {
        let mut record = Record::new(JobId::from_random([0; 5]), "/s/worktrees/j-aaaaaaaa".into());
        record.repository = "/my work".into();
        record.branch = "ukai/fix-a".to_owned();
        record.stage = Stage::Ended(end);
        record
    }

    #[test]
    fn what_is_kept_is_named_with_what_to_type() {
        let record = ended(End { kept: true, commit: Some("0123456789abcdef".to_owned()), trouble: None });
        let said = said(&record.job, &record).expect("it is kept");
        for part in [
            "on branch ukai/fix-a (0123456789ab)",
            "type: git -C '/my work' merge ukai/fix-a,",
            "git -C '/my work' worktree remove /s/worktrees/j-aaaaaaaa && git -C '/my work' branch -d ukai/fix-a",
        ] {
            assert!(said.contains(part), "{said} lacks {part}");
        }
        let keys: Vec<_> = lines(&record, true).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["worktree", "branch", "commit", "merge it", "remove it"]);
        let shown = serde_json::to_string(&shown(&record)).expect("JSON");
        let expected = r#"{"path":"/s/worktrees/j-aaaaaaaa","branch":"ukai/fix-a","commit":"0123456789abcdef","kept":true,"trouble":null}"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn of_what_held_nothing_nothing_is_to_be_typed() {
        let record = ended(End::default());
        assert_eq!(said(&record.job, &record), None);
        assert_eq!(lines(&record, true).len(), 1);
    }

    #[test]
    fn what_is_not_on_the_branch_is_not_said_to_be_and_nothing_that_loses_it_is_to_be_typed() {
        let trouble = Some("git add failed".to_owned());
        let record = ended(End { kept: true, commit: None, trouble: trouble.clone() });
        let text = said(&record.job, &record).expect("it is kept");
        assert!(text.contains("nothing of it was committed; look at it: git add failed"), "{text}");
        assert!(!text.contains("merge") && !text.contains("remove") && !text.contains("on branch"), "{text}");
        let record = ended(End { kept: true, commit: Some("0123".to_owned()), trouble });
        let keys: Vec<_> = lines(&record, true).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["worktree", "branch", "commit", "worktree", "merge it"]);
        let record = ended(End { kept: true, commit: None, trouble: None });
        let text = said(&record.job, &record).expect("it is kept");
        assert!(
            text.contains("git ignores; type: git -C '/my work' worktree remove") && !text.contains("merge"),
            "{text}"
        );
    }

    #[test]
    fn what_is_being_committed_is_said_to_be() {
        let mut record = ended(End::default());
        record.stage = Stage::Open;
        assert!(lines(&record, true)[0].1.contains("is being committed"));
        assert!(!lines(&record, false)[0].1.contains("committed"));
    }
}
