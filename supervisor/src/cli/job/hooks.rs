//! Which hooks a job runs with: those of `ukai.toml`, then those of the file that the job or a flag names.

use std::path::{Path, PathBuf};

use ukai_protocol::hook::Hook;

use super::{Asked, expand_home};
use crate::cli::failure::Failure;
use crate::config::load;
use crate::hooks_file;
use crate::trust::{Standing, guard_fault};

pub(super) struct Hooks {
    hooks: Vec<Hook>,
    /// The file that is named, links followed.
    file: Option<PathBuf>,
}

impl Hooks {
    /// A file that cannot be used refuses the job: its guard would be missing.
    pub(super) fn of(configured: &[Hook], asked: &Asked, notes: &mut Vec<String>) -> Result<Self, Failure> {
        let mut hooks = configured.to_vec();
        let Some(named) = &asked.job.hooks else { return Ok(Hooks { hooks, file: None }) };
        let path = asked.folder.join(expand_home(named));
        let unreadable = |error| {
            Failure::usage(format!("reading the hooks {}: {error}; name a settings.json that exists", path.display()))
        };
        let text = load::read_text(&path).map_err(unreadable)?;
        let (more, ignored) = hooks_file::of_settings(&text, &path)
            .map_err(|fault| Failure::usage(format!("the hooks could not be used: {fault}")))?;
        if !ignored.is_empty() {
            notes.push(format!("{}: {} ignored; its hooks count", path.display(), ignored.join(", ")));
        }
        hooks.extend(more);
        Ok(Hooks { hooks, file: Some(path.canonicalize().map_err(unreadable)?) })
    }

    /// For a job that works in this folder, links followed.
    pub(super) fn at(&self, workdir: &Path, standing: &Standing) -> Result<Vec<Hook>, Failure> {
        match self.file.as_deref().and_then(|file| guard_fault(file, workdir, standing)) {
            None => Ok(self.hooks.clone()),
            Some(why) => Err(Failure::usage(format!("the hooks could not be used: {why}"))),
        }
    }
}
