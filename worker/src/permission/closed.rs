//! What deny rules close inside the workdir, as places on the disk: a command is judged by its words, and a script that
//! it runs is not. So where the kernel can, what a rule denies is read-only for commands, or out of their sight.

#![allow(clippy::disallowed_methods, reason = "looks at the workdir, once, before the first command")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::Permission;

impl Permission {
    /// Existing places below the workdir: those that may not be changed, and those that may not even be read. Folders are
    /// looked through breadth first, up to `entries_max` entries and `depth_max` levels.
    #[must_use]
    pub fn closed_to_commands(&self, entries_max: usize, depth_max: usize) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let workdir = self.places().real_workdir().to_owned();
        let (mut protect, mut hide) = (Vec::new(), Vec::new());
        let mut folders = VecDeque::from([(workdir.clone(), 0)]);
        let mut entries = 0;
        while let Some((folder, depth)) = folders.pop_front() {
            // What cannot be listed by us cannot be listed by what we start.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > entries_max {
                    tracing::warn!(
                        workdir = %workdir.display(), entries_max,
                        "not all of the workdir was looked through for what rules deny; commands are held to the rest by rules alone"
                    );
                    return (protect, hide);
                }
                let path = entry.path();
                let Ok(kind) = entry.file_type() else { continue };
                if self.closes("Read", &path, kind.is_dir()) {
                    hide.extend(behind(&path, kind.is_symlink(), &workdir));
                } else if entry.file_name().eq_ignore_ascii_case(".git") || self.closes("Edit", &path, kind.is_dir()) {
                    protect.extend(behind(&path, kind.is_symlink(), &workdir));
                } else if kind.is_dir() && depth < depth_max {
                    folders.push_back((path, depth + 1));
                }
            }
        }
        (protect, hide)
    }

    /// A folder is closed when whatever may come to lie in it is.
    fn closes(&self, tool: &str, path: &Path, is_dir: bool) -> bool {
        let any = path.join("\u{1}");
        self.forbids(tool, path, path) || is_dir && self.forbids(tool, &any, &any)
    }
}

/// Of a link, what it leads to, where that is inside.
fn behind(path: &Path, is_link: bool, workdir: &Path) -> Option<PathBuf> {
    if !is_link {
        return Some(path.to_owned());
    }
    path.canonicalize().ok().filter(|target| target.starts_with(workdir) && target != workdir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::permission::tests::shipped;

    #[test]
    fn what_rules_deny_is_found_where_it_lies() {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        for folder in [".git/hooks", "src/.git", "a/b", ".claude"] {
            std::fs::create_dir_all(top.join(folder)).expect("folders");
        }
        for file in [".env", "a/b/.env.local", "src/main.rs", "real_secret", "tool_policy.yaml"] {
            std::fs::write(top.join(file), "").expect("a file");
        }
        symlink("real_secret", top.join(".env.link")).expect("a link");
        symlink("/etc/passwd", top.join(".env.out")).expect("a link");
        let permission = Permission::new(&shipped(&top), &top, Path::new("/nohome"), Path::new("/noout"));
        let (mut protect, mut hide) = permission.closed_to_commands(1_000, 5);
        protect.sort();
        hide.sort();
        let all = |names: &[&str]| names.iter().map(|name| top.join(name)).collect::<Vec<_>>();
        assert_eq!(hide, all(&[".env", "a/b/.env.local", "real_secret"]));
        // Every `.git`, wherever; of the others, a rule with a slash in it is for the top.
        assert_eq!(protect, all(&[".claude", ".git", "src/.git", "tool_policy.yaml"]));
    }
}
