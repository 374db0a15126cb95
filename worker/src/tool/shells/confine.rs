//! What the commands of one job may read and write, from its policy and the places it works in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ukai_protocol::declared::{Declared, Run};

use super::About;
use super::guard::Closed;
use crate::sandbox::Confine;

/// Below the home folder, what compilers and interpreters are made of.
const TOOLCHAINS: [&str; 9] =
    [".cargo", ".rustup", ".nvm", ".pyenv", ".local/bin", ".local/lib", "go", ".cache/pip", ".gitconfig"];
/// In those, what would let a command be its owner elsewhere.
const CREDENTIALS: [&str; 6] = ["credentials", "credentials.toml", ".git-credentials", ".netrc", ".npmrc", ".pypirc"];

/// `closed` is what lies in the workdir and is not for commands.
pub(super) fn of(about: &About, temp: &Path, opened: &[PathBuf], closed: Closed) -> Confine {
    let sandbox = &about.spec.policy.sandbox;
    let workdir = about.permission.places().real_workdir();
    let read = [about.outputs.clone()].into_iter().chain(opened.iter().cloned()).collect();
    let mut write = vec![workdir.to_owned(), temp.to_owned()];
    write.extend(sandbox.write.iter().cloned());
    let Closed { mut protect, mut hide } = closed;
    hide.extend(own(about));
    // In the workdir it was looked for, but elsewhere the policy may open more.
    let opened = [workdir].into_iter().chain(sandbox.read.iter().chain(&sandbox.write).map(PathBuf::as_path));
    let mut pin = BTreeSet::new();
    for root in opened {
        for path in about.permission.places().private_in(root) {
            let is_in = |own: &PathBuf| path.starts_with(own);
            // The state directory holds what is the job's, too; in the workdir it is seen to above.
            if temp.starts_with(path) || own(about).as_ref().is_some_and(is_in) || path.symlink_metadata().is_err() {
                continue;
            }
            // With a parent it could be carried away, and another be put in its place.
            let parents = path.ancestors().skip(1).take_while(|folder| *folder != root && folder.starts_with(root));
            pin.extend(parents.map(Path::to_owned));
            if !hide.iter().any(is_in) {
                hide.push(path.to_owned());
            }
        }
    }
    protect.retain(|path| !hide.contains(path));
    Confine { network: sandbox.network, read, write, protect, hide, pin: pin.into_iter().collect() }
}

/// What ukai itself keeps is nobody's to read or write, wherever the job works: of the way to the job's own folder the first
/// folder in the workdir, if it is in there. One further down could be carried away with its parent.
pub(super) fn own(about: &About) -> Option<PathBuf> {
    let workdir = about.permission.places().real_workdir();
    let state = about.run().parent().and_then(Path::parent).and_then(|state| state.strip_prefix(workdir).ok());
    state.and_then(|below| below.components().next()).map(|first| workdir.join(first))
}

/// What they may read besides workdir and outputs.
pub(super) fn opened(about: &About) -> Vec<PathBuf> {
    let places = about.permission.places();
    let mut read: Vec<PathBuf> =
        TOOLCHAINS.iter().flat_map(|name| without_credentials(&places.home().join(name))).collect();
    read.extend(git_folders(places.real_workdir()));
    read.extend(about.spec.policy.sandbox.read.iter().cloned());
    read.extend(about.spec.tools.iter().flat_map(of_tool));
    read
}

/// Of a declared tool its program, and what lies beside the file that declares it.
fn of_tool(tool: &Declared) -> Vec<PathBuf> {
    let Run::Command(command) = &tool.run else { return Vec::new() };
    let program = command.first().map(PathBuf::from).filter(|program| program.is_absolute());
    program.into_iter().chain(tool.file.parent().map(Path::to_owned)).collect()
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
            // By itself, where the job works further down: git begins there.
            folders.push(git);
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
