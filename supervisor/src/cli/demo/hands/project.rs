//! The project of the demo: a small text toolkit for the shell, with a fault of one line in each of its four modules.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ukai_protocol::disk;

use crate::cli::failure::Failure;
use crate::worktree::git::{Git, Here, Patience};

/// The modules, each with its file and what that holds.
pub(super) const MODULES: [Module; 4] = [
    Module { name: "roman", file: "lib/roman.sh", text: include_str!("project/lib/roman.sh") },
    Module { name: "slug", file: "lib/slug.sh", text: include_str!("project/lib/slug.sh") },
    Module { name: "duration", file: "lib/duration.sh", text: include_str!("project/lib/duration.sh") },
    Module { name: "csv", file: "lib/csv.sh", text: include_str!("project/lib/csv.sh") },
];
pub(super) const TESTS: &str = include_str!("project/test.sh");
const README: &str = include_str!("project/README.md");

/// Whoever plays it may have told git nobody's name.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ukai demo"),
    ("GIT_AUTHOR_EMAIL", "ukai@localhost"),
    ("GIT_COMMITTER_NAME", "ukai demo"),
    ("GIT_COMMITTER_EMAIL", "ukai@localhost"),
];
/// For a repository of six files.
const GIT_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    pub name: &'static str,
    pub file: &'static str,
    /// With its fault.
    pub text: &'static str,
}

/// Writes it there and commits it.
pub(super) fn make(folder: &Path) -> Result<PathBuf, Failure> {
    let files =
        MODULES.iter().map(|module| (module.file, module.text)).chain([("test.sh", TESTS), ("README.md", README)]);
    write(folder, files)?;
    init(folder)?;
    for args in [&["add", "--all", "--force"][..], &["commit", "--quiet", "-m", "A little text toolkit"]] {
        git(folder, args).map_err(|why| making(folder, &why))?;
    }
    folder.canonicalize().map_err(|error| making(folder, &error.to_string()))
}

/// Files by their places below a folder, which is made.
pub(super) fn write<'a>(folder: &Path, files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), Failure> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        let written = disk::create_dir(parent).and_then(|()| disk::write_atomic(&path, text.as_bytes()));
        written.map_err(|error| making(&path, &error.to_string()))?;
    }
    Ok(())
}

/// An empty repository, with nothing of its owner's templates in it.
pub(super) fn init(folder: &Path) -> Result<(), Failure> {
    let failed = |why: String| Failure::usage(format!("making the demo's repository {}: {why}", folder.display()));
    disk::create_dir(folder).map_err(|error| failed(error.to_string()))?;
    git(folder, &["init", "--quiet", "--template=", "--initial-branch=main"]).map(drop).map_err(failed)
}

/// What stands between two commits, as git shows it without any program of its owner's.
pub(super) fn diff(repository: &Path, from: &str, to: &str) -> Result<String, String> {
    git(repository, &["diff", "--no-ext-diff", "--no-textconv", "--no-color", from, to])
}

/// Blocks; while no supervisor is hosted here, which would take its end for that of a stray.
fn git(folder: &Path, args: &[&str]) -> Result<String, String> {
    let patience = Patience { until: Instant::now() + GIT_MAX, unwanted: &AtomicBool::new(false) };
    let git = Git::find(None)?;
    Here { git: &git, folder, of: None, settings: &[], env: &AUTHOR, patience: &patience }.ask(args)
}

fn making(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("making the demo's project, {}: {why}; name another place with --state-dir", path.display()))
}
