//! What the commands of one job may read and write, from its policy and the places it works in.

use std::path::{Path, PathBuf};

use super::About;
use super::guard::Closed;
use crate::sandbox::Confine;

/// Below the home folder, what compilers and interpreters are made of.
const TOOLCHAINS: [&str; 9] =
    [".cargo", ".rustup", ".nvm", ".pyenv", ".local/bin", ".local/lib", "go", ".cache/pip", ".gitconfig"];
/// In those, what would let a command be its owner elsewhere.
const CREDENTIALS: [&str; 6] = ["credentials", "credentials.toml", ".git-credentials", ".netrc", ".npmrc", ".pypirc"];

/// `closed` is what lies in the workdir and is not for commands.
pub(super) fn of(about: &About, temp: &Path, closed: Closed) -> Confine {
    let sandbox = &about.spec.policy.sandbox;
    let places = about.permission.places();
    let workdir = places.real_workdir();
    let mut read = vec![about.outputs.clone()];
    for name in TOOLCHAINS {
        read.extend(without_credentials(&places.home().join(name)));
    }
    read.extend(git_folders(workdir));
    read.extend(sandbox.read.iter().cloned());
    let mut write = vec![workdir.to_owned(), temp.to_owned()];
    write.extend(sandbox.write.iter().cloned());
    let Closed { mut protect, mut hide, .. } = closed;
    hide.extend(own(about));
    protect.retain(|path| !hide.contains(path));
    Confine { network: sandbox.network, read, write, protect, hide }
}

/// What ukai itself keeps is nobody's to read or write, wherever the job works: of the way to the job's own folder the first
/// folder in the workdir, if it is in there. One further down could be carried away with its parent.
pub(super) fn own(about: &About) -> Option<PathBuf> {
    let workdir = about.permission.places().real_workdir();
    let state = about.run().parent().and_then(Path::parent).and_then(|state| state.strip_prefix(workdir).ok());
    state.and_then(|below| below.components().next()).map(|first| workdir.join(first))
}

/// A folder, or where credentials lie in it, all else that does.
fn without_credentials(folder: &Path) -> Vec<PathBuf> {
    let is_secret = |path: &Path| path.file_name().is_some_and(|name| CREDENTIALS.iter().any(|secret| name == *secret));
    if !CREDENTIALS.iter().any(|secret| folder.join(secret).exists()) {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| !is_secret(path)).collect()
}

/// Of a worktree, the repository that it belongs to: to read.
fn git_folders(workdir: &Path) -> Vec<PathBuf> {
    let read = |path: &Path| ukai_protocol::disk::read_bounded(path, 4096).ok().and_then(|b| String::from_utf8(b).ok());
    let mut folders = Vec::new();
    for folder in workdir.ancestors() {
        let git = folder.join(".git");
        if git.is_dir() {
            if folder != workdir {
                folders.push(git);
            }
            break;
        }
        if let Some(text) = read(&git) {
            let Some(named) = text.trim().strip_prefix("gitdir: ") else { break };
            let own = folder.join(named);
            if let Some(common) = read(&own.join("commondir")) {
                folders.push(own.join(common.trim()));
            }
            folders.push(own);
            break;
        }
    }
    folders
}
