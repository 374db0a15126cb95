//! What a worker will need when it has read all that is read once: the roots of its job, what git says of them, the ports
//! of its providers. The rest of what its owner may do it gives up before it hears the first word of a model.
//!
//! Landlock opens folders as they are now, with all below them. So a rule that lets a single file be written opens the
//! folder around it, since the file is replaced and not changed; and what only a rule for reading names and is not there
//! yet stays closed to this process. What the model may see of it, the rules alone decide.

use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::job::Mode;
use ukai_protocol::session::Welcome;

use crate::deps::Deps;
use crate::sandbox::Reach;
use crate::tool::git_repo;

/// None: the policy says `sandbox: off`.
pub(super) fn of(welcome: &Welcome, deps: &Deps) -> io::Result<Option<Reach>> {
    let sandbox = &welcome.spec.policy.sandbox;
    if !sandbox.on {
        return Ok(None);
    }
    let mut reach = Reach { ports: welcome.ports.clone(), ..Reach::default() };
    if welcome.spec.mode == Mode::Once {
        return Ok(Some(reach));
    }
    // Jobs of before there was such a folder have none.
    ukai_protocol::disk::create_dir(&welcome.outputs)?;
    let permission = deps.permission();
    let places = permission.places();
    reach.write.extend([places.real_workdir().to_owned(), welcome.outputs.clone()]);
    for (root, writes) in places.named_roots() {
        match writes {
            true => reach.write.extend(folder_of(root)),
            false => reach.read.push(root.to_owned()),
        }
    }
    let of_git = reach.write.iter().chain(&reach.read).flat_map(|root| git_repo::files_outside(root, places.home()));
    let of_git: Vec<PathBuf> = of_git.collect();
    reach.read.extend(of_git);
    // Backtraces name lines.
    reach.read.extend(std::env::current_exe());
    if !permission.hides("Bash") {
        // What a command may come upon, its judge must be able to look at.
        reach.read.extend(deps.shells.opened().iter().chain(&sandbox.write).cloned());
        reach.write.extend(deps.shells.make_temp()?);
        reach.remove_folders_in = welcome.outputs.parent().map(Path::to_owned);
    }
    Ok(Some(reach))
}

fn folder_of(root: &Path) -> Option<PathBuf> {
    [Some(root), root.parent()].into_iter().flatten().find(|path| path.is_dir()).map(Path::to_owned)
}
