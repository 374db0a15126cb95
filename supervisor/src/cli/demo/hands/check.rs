//! The tests, run once more on what the jobs left, with the project's own `test.sh`: by a job, since what a model has written
//! runs in the sandbox and nowhere else.

use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::event::ToolStatus;
use ukai_protocol::id::JobId;

use super::acts::Act;
use super::cast;
use super::project::{self, MODULES, TESTS};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::print::brief;
use crate::cli::worktree;

/// Of a module.
const FILE_BYTES_MAX: u64 = 64 * 1024;
const SAID_CHARS_MAX: usize = 100;

/// A folder for each module, with its file as its job left it. One that cannot be had stays as it was, and red.
pub(super) fn prepare(context: &Context, root: &Path, fixes: &[JobId]) -> Result<PathBuf, Failure> {
    let folder = root.join("check");
    for (module, job) in MODULES.iter().zip(fixes) {
        let left = worktree::of(&context.state, job).and_then(|record| left(&record.path.join(module.file)));
        let text = left.as_deref().unwrap_or(module.text);
        project::write(&folder.join(module.name), [(module.file, text), ("test.sh", TESTS)].into_iter())?;
    }
    Ok(folder)
}

/// No link is followed: where it leads is not the job's to tell.
fn left(path: &Path) -> Option<String> {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let bytes = is_file.then(|| disk::read_bounded(path, FILE_BYTES_MAX).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}

/// What the tests of a module said, whole; an error where they were not green.
pub(super) fn said(acts: &[Act], module: &str) -> Result<String, String> {
    let command = cast::test(module);
    let act = acts.iter().find(|act| act.input.0.get("command").is_some_and(|run| *run == *command));
    let Some((_, status, output)) = act.and_then(|act| act.finished.as_ref()) else {
        return Err("its tests were not run".to_owned());
    };
    let green = output.lines().any(|line| line.starts_with(&format!("green: {module}, ")));
    if *status == ToolStatus::Ok && green { Ok(output.clone()) } else { Err(brief(output, SAID_CHARS_MAX)) }
}
