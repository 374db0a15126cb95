//! Repositories within a worktree: git is kept out of them.
//!
//! To tell whether one has changed, git runs another git in it, with the configuration that lies there: whoever wrote that
//! names the programs. Tools write to no `.git`, but where the kernel grants no namespaces a command can.

use std::fs;
use std::path::{Path, PathBuf};

/// A large checkout with all its dependencies; beyond that nobody knows what lies there.
const ENTRIES_MAX: usize = 3_000_000;
/// More than a person keeps within one.
const FOUND_MAX: usize = 100;

/// Folders, from `top`, that hold a `.git` of their own, in any case of letters. An error: they cannot all be known.
pub fn repositories(top: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    let mut entries = 0;
    while let Some(folder) = folders.pop() {
        let fault = |error: std::io::Error| format!("looking through {} for repositories: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            entries += 1;
            if entries > ENTRIES_MAX {
                return Err(format!("{} holds more than {ENTRIES_MAX} files", top.display()));
            }
            let is_git = entry.file_name().eq_ignore_ascii_case(".git");
            if is_git && folder != top {
                found.push(folder.strip_prefix(top).unwrap_or(&folder).to_owned());
                if found.len() > FOUND_MAX {
                    return Err(format!("{} holds more than {FOUND_MAX} repositories", top.display()));
                }
            } else if !is_git && entry.file_type().map_err(fault)?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_git_may_take_for_a_repository_is_found() {
        let temp = tempfile::tempdir().expect("temp");
        for folder in ["a/.git", "a/deep/er/.GIT", "b", ".git/modules/x"] {
            fs::create_dir_all(temp.path().join(folder)).expect("folders");
        }
        fs::write(temp.path().join("b/.git"), "gitdir: elsewhere").expect("a file");
        std::os::unix::fs::symlink(temp.path().join("a"), temp.path().join("link")).expect("a link");
        let found = repositories(temp.path()).expect("known");
        assert_eq!(found, ["a", "a/deep/er", "b"].map(PathBuf::from));
    }
}
