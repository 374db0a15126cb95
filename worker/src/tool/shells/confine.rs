//! What the commands of one job may read and write, from its policy and the places it works in.

use std::path::{Path, PathBuf};

use ukai_protocol::declared::{Declared, Run};

use super::About;
use crate::sandbox::Confine;

/// Below the home folder, what compilers and interpreters are made of.
const TOOLCHAINS: [&str; 9] =
    [".cargo", ".rustup", ".nvm", ".pyenv", ".local/bin", ".local/lib", "go", ".cache/pip", ".gitconfig"];
/// In those, what would let a command be its owner elsewhere.
const CREDENTIALS: [&str; 6] = ["credentials", "credentials.toml", ".git-credentials", ".netrc", ".npmrc", ".pypirc"];

/// Folders of the workdir whose files are looked through for what a rule denies: at so many entries the look ends, and
/// what lies deeper is held by the rules alone.
const LOOK_ENTRIES_MAX: usize = 20_000;
const LOOK_DEPTH_MAX: usize = 6;

/// None: the policy says `sandbox: off`.
pub(super) fn of(about: &About, temp: &Path, opened: &[PathBuf]) -> Option<Confine> {
    let sandbox = &about.spec.policy.sandbox;
    if !sandbox.on {
        return None;
    }
    let workdir = about.permission.places().real_workdir();
    let read = [about.outputs.clone()].into_iter().chain(opened.iter().cloned()).collect();
    let mut write = vec![workdir.to_owned(), temp.to_owned()];
    write.extend(sandbox.write.iter().cloned());
    let (mut protect, mut hide) = about.permission.closed_to_commands(LOOK_ENTRIES_MAX, LOOK_DEPTH_MAX);
    // What ukai itself keeps is nobody's to read or write, wherever the job works.
    let run = about.outputs.parent().unwrap_or(&about.outputs);
    // Of the way there the first folder: one further down could be carried away with its parent.
    let state = run.parent().and_then(Path::parent).and_then(|state| state.strip_prefix(workdir).ok());
    hide.extend(state.and_then(|below| below.components().next()).map(|first| workdir.join(first)));
    protect.retain(|path| !hide.contains(path));
    Some(Confine { network: sandbox.network, read, write, protect, hide })
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
