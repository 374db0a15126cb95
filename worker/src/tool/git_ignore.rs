//! What git ignores: the files that say so, and which of them has the last word.
//!
//! As git does it, and not as common crates do: no `.ignore`, a `.gitignore` that is a link does not count, and what is
//! tracked and ignored is ignored, since `git grep --untracked`, whose counts are ours, looks into no index.

use std::path::Path;

use super::git_repo::{Repo, Settings, read_small};
use super::wildmatch::Pattern;

/// The patterns that hold in one folder and below, the nearest last.
pub struct Ignores {
    levels: Vec<Level>,
    info: Vec<Pattern>,
    global: Vec<Pattern>,
    fold: bool,
}

/// One `.gitignore`. Its patterns are relative to its folder.
struct Level {
    /// How much of a path from the top of the repository is in front of what they are matched with.
    prefix: usize,
    patterns: Vec<Pattern>,
}

impl Ignores {
    #[must_use]
    pub fn new(repo: &Repo, settings: &Settings) -> Self {
        let fold = settings.ignore_case;
        let read = |path: &Path| patterns(&read_small(path, true).unwrap_or_default(), fold);
        Ignores {
            levels: Vec::new(),
            info: read(&repo.common.join("info/exclude")),
            global: settings.excludes_file.as_deref().map(read).unwrap_or_default(),
            fold,
        }
    }

    /// Goes into a folder: `path` is where it is, `from_top` its path from the top of the repository.
    pub fn enter(&mut self, path: &Path, from_top: &[u8]) {
        let bytes = read_small(&path.join(".gitignore"), false).unwrap_or_default();
        let prefix = if from_top.is_empty() { 0 } else { from_top.len() + 1 };
        self.levels.push(Level { prefix, patterns: patterns(&bytes, self.fold) });
    }

    /// Goes back out of the folder that was entered last.
    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// Whether git ignores what is at this path from the top, given that the folder it is in is not ignored.
    #[must_use]
    pub fn ignore(&self, from_top: &[u8], is_dir: bool) -> bool {
        let levels = self.levels.iter().rev().map(|level| (level.prefix, &level.patterns));
        for (prefix, patterns) in levels.chain([(0, &self.info), (0, &self.global)]) {
            let path = from_top.get(prefix..).unwrap_or_default();
            if let Some(pattern) = patterns.iter().rev().find(|pattern| pattern.matches(path, is_dir)) {
                return !pattern.negated;
            }
        }
        false
    }
}

fn patterns(bytes: &[u8], fold: bool) -> Vec<Pattern> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter_map(|line| Pattern::parse(line, fold)).collect()
}
