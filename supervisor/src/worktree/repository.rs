//! The repository that a folder lies in, as git sees it.

use std::path::{Path, PathBuf};

use super::git::{Git, Here, Patience};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The work tree around the folder; real.
    pub top: PathBuf,
    /// What all its work trees share; real.
    pub common: PathBuf,
    /// The commit that is checked out.
    pub head: String,
    /// From `top` to the folder; empty where they are one.
    pub below: PathBuf,
}

/// `folder` is real. An error says what is missing, and what to do.
pub fn look(git: &Git, folder: &Path, patience: &Patience<'_>) -> Result<Repository, String> {
    let here = Here { git, folder, of: None, settings: &[], env: &[], patience };
    let shown = folder.display();
    let found = here.ask(&["rev-parse", "--show-toplevel", "--git-common-dir"]);
    let found = found.map_err(|why| {
        format!("{shown} lies in no work tree of git ({why}); name a folder of a repository, or do without a worktree")
    })?;
    // A path may hold a line's end: then they are more than two lines, and which is which nobody knows.
    let [top, common] = found.lines().collect::<Vec<_>>()[..] else {
        return Err(format!("the path of the repository around {shown} has a line's end in it; rename that folder"));
    };
    let real = |path: PathBuf| path.canonicalize().map_err(|error| format!("looking at {}: {error}", path.display()));
    let (top, common) = (real(PathBuf::from(top))?, real(folder.join(common))?);
    let below = folder
        .strip_prefix(&top)
        .map_err(|_| format!("git says that {shown} lies in {}, and it does not", top.display()))?;
    let head = here.ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).map_err(|_| {
        format!(
            "the repository {} has no commit yet, and a worktree begins at one; commit something there",
            top.display()
        )
    })?;
    Ok(Repository { below: below.to_owned(), top, common, head })
}
