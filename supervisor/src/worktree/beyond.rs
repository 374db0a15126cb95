//! What lies in a worktree and is neither in git's index as it is nor in a repository within: who removes it loses that.
//!
//! Git's own answers leave out what it was told not to look at: a submodule's folder, a part that is not checked out, what is
//! ignored by whichever of its files. So the folder itself is looked through, and held against the list of the index.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the index is asked for: a letter for how git looks at the file, its mode, its path.
pub const LIST: [&str; 4] = ["ls-files", "-v", "-z", "--stage"];

/// As for repositories within.
const ENTRIES_MAX: usize = 3_000_000;
/// Of those, as many as a sentence names.
pub const NAMED_MAX: usize = 3;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// The first in folders of submodules, or where git was told not to look: it never tells of them.
    pub unseen: Vec<PathBuf>,
    /// Whether anything else is there that the index does not hold: what is ignored, what could not be added.
    pub others: bool,
}

/// `listed` is what [`LIST`] printed; `within` are repositories of their own. An error: it cannot all be known.
pub fn look(top: &Path, listed: &[u8], within: &[PathBuf]) -> Result<Beyond, String> {
    let index = index(listed)?;
    let mut beyond = Beyond::default();
    // Each with whether it lies in a submodule's folder.
    let mut folders = vec![(PathBuf::new(), false)];
    let mut entries = 0;
    while let Some((folder, in_submodule)) = folders.pop() {
        let fault = |error: std::io::Error| format!("looking at what is left in {}: {error}", folder.display());
        for entry in fs::read_dir(top.join(&folder)).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            entries += 1;
            if entries > ENTRIES_MAX {
                return Err(format!("{} holds more than {ENTRIES_MAX} files", top.display()));
            }
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(fault)?;
            let known = index.get(path.as_os_str().as_bytes());
            if path == Path::new(".git") || within.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                folders.push((path, in_submodule || known == Some(&Known::Submodule)));
            } else if !(kind.is_file() || kind.is_symlink()) || known == Some(&Known::Seen) {
                // A socket or a pipe holds nothing.
            } else if in_submodule || known.is_some() {
                if beyond.unseen.len() < NAMED_MAX {
                    beyond.unseen.push(path);
                }
            } else {
                beyond.others = true;
            }
        }
    }
    beyond.unseen.sort();
    Ok(beyond)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Seen,
    /// Git was told to take it for unchanged, or for not checked out.
    Unseen,
    Submodule,
}

fn index(listed: &[u8]) -> Result<HashMap<&[u8], Known>, String> {
    let mut index = HashMap::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or("git listed its index in an unknown way")?;
        let (how, path) = (&line[..tab], &line[tab + 1..]);
        let known = match how {
            [_, b' ', rest @ ..] if rest.starts_with(b"160000 ") => Known::Submodule,
            [b'H', b' ', ..] => Known::Seen,
            _ => Known::Unseen,
        };
        index.insert(path, known);
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_git_would_not_tell_of_is_found() {
        let temp = tempfile::tempdir().expect("temp");
        for folder in ["a", "subm/deep", "within"] {
            fs::create_dir_all(temp.path().join(folder)).expect("folders");
        }
        let listed = b"H 100644 x 0\ta/1\0S 100644 x 0\ta/2\0h 100644 x 0\ta/3\0H 160000 x 0\tsubm\0";
        let look = |within: &[PathBuf]| look(temp.path(), listed, within).expect("known");
        for name in [".git", "a/1", "within/x"] {
            fs::write(temp.path().join(name), "").expect("a file");
        }
        assert_eq!(look(&["within".into()]), Beyond::default());
        assert_eq!(look(&[]), Beyond { others: true, ..Beyond::default() });
        for name in ["a/2", "a/3", "subm/deep/g"] {
            fs::write(temp.path().join(name), "").expect("a file");
        }
        let unseen = ["a/2", "a/3", "subm/deep/g"].map(PathBuf::from).to_vec();
        assert_eq!(look(&["within".into()]), Beyond { unseen, others: false });
    }
}
