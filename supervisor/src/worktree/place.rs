//! The job as its worker is told it: in the worktree, and no longer in the repository that was named.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use ukai_protocol::job::JobSpec;
use ukai_protocol::policy::Rule;

/// Where a job works instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The work tree that was named.
    pub repository: PathBuf,
    /// The one of the job's own.
    pub path: PathBuf,
    pub workdir: PathBuf,
}

/// Rules that start at a folder of the repository start at the same of the worktree. What is denied or asked there stays so
/// in both places.
#[must_use]
pub fn placed(spec: &JobSpec, place: &Place) -> JobSpec {
    let mut spec = spec.clone();
    spec.workdir.clone_from(&place.workdir);
    let policy = &mut spec.policy;
    for rule in &mut policy.allow {
        if let Some(base) = moved(&rule.base, place) {
            rule.base = base;
        }
    }
    for list in [&mut policy.ask, &mut policy.deny] {
        let also: Vec<Rule> =
            list.iter().filter_map(|rule| Some(Rule { base: moved(&rule.base, place)?, ..rule.clone() })).collect();
        list.extend(also);
    }
    spec
}

fn moved(base: &Path, place: &Place) -> Option<PathBuf> {
    let below = base.strip_prefix(&place.repository).ok()?;
    // Joined with nothing, a path would end in a slash.
    Some(if below.as_os_str().is_empty() { place.path.clone() } else { place.path.join(below) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::spec;

    #[test]
    fn rules_of_the_repository_hold_in_the_worktree() {
        let place = Place { repository: "/work".into(), path: "/s/wt".into(), workdir: "/s/wt/src".into() };
        let mut job = spec();
        job.policy.allow = vec![Rule::new("Edit(/a)", "/work"), Rule::new("Edit(/b)", "/home")];
        job.policy.deny = vec![Rule::new("Edit(/c)", "/work/src")];
        job.policy.ask = Vec::new();
        let placed = placed(&job, &place);
        assert_eq!(placed.workdir, Path::new("/s/wt/src"));
        assert_eq!(placed.policy.allow, [Rule::new("Edit(/a)", "/s/wt"), Rule::new("Edit(/b)", "/home")]);
        assert_eq!(placed.policy.deny, [Rule::new("Edit(/c)", "/work/src"), Rule::new("Edit(/c)", "/s/wt/src")]);
    }
}
