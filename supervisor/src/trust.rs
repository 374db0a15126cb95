//! What a folder ships that would widen what a job may do, and whether its owner has said yes to it (spec §8).
//!
//! A folder that somebody checked out is not its reader's word. What lies in it may narrow a job; for more a person says
//! `ukai trust DIR`, which is kept by path and by content: a folder that moved or changed is one that nobody has seen. What
//! was hashed is what is read, from one look: nothing can be changed in between.

pub mod kept;
pub mod look;
pub mod shipped;

use std::path::{Path, PathBuf};

use ukai_protocol::command::quoted;

use crate::store::paths::StateDir;
use kept::Kept;
use look::{Look, LookError};

/// Where declared tools lie in a folder.
pub const TOOLS: &str = ".ukai/tools";
/// Where hooks may stand beside those of `ukai.toml`.
pub const SETTINGS: &str = ".claude/settings.json";
pub const CONFIG: &str = "ukai.toml";
pub const POLICY: &str = "tool_policy.yaml";

/// The words of all owners of this state directory.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    kept: Vec<Kept>,
    /// It does not verify: nothing is trusted.
    broken: Option<String>,
}

/// How a folder stands.
#[derive(Debug)]
pub enum Standing {
    /// Nobody has said yes to it.
    Unknown,
    /// It is no longer what somebody said yes to, or that can no longer be seen.
    Changed(String),
    Trusted(Look),
}

impl Trust {
    #[must_use]
    pub fn of(state: &StateDir) -> Self {
        match kept::read(state) {
            Ok(kept) => Trust { kept, broken: None },
            Err(error) => Trust { kept: Vec::new(), broken: Some(error.to_string()) },
        }
    }

    #[must_use]
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Why nothing is trusted, if the words themselves cannot be believed.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// `folder` may be named by any road; its real place counts.
    #[must_use]
    pub fn standing(&self, folder: &Path) -> Standing {
        let Ok(real) = folder.canonicalize() else { return Standing::Unknown };
        let Some(kept) = self.kept.iter().find(|kept| kept.folder == real) else { return Standing::Unknown };
        match Look::at(&real) {
            Ok(look) if look.hash() == kept.hash => Standing::Trusted(look),
            Ok(_) => Standing::Changed("it has changed since it was trusted".to_owned()),
            Err(error) => Standing::Changed(error.to_string()),
        }
    }
}

/// The folders whose files a job comes upon, each with how it stands.
#[derive(Debug)]
pub struct Folders(Vec<(PathBuf, Standing)>);

impl Folders {
    /// One that is named twice counts once.
    #[must_use]
    pub fn of(trust: &Trust, folders: &[&Path]) -> Self {
        let mut all: Vec<(PathBuf, Standing)> = Vec::new();
        for folder in folders {
            if all.iter().all(|(known, _)| known != folder) {
                all.push(((*folder).to_owned(), trust.standing(folder)));
            }
        }
        Folders(all)
    }

    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        self.0.iter().map(|(folder, _)| folder.as_path()).collect()
    }

    #[must_use]
    pub fn standing(&self, folder: &Path) -> &Standing {
        self.0.iter().find(|(known, _)| known == folder).map_or(&Standing::Unknown, |(_, standing)| standing)
    }

    /// What stands in a file right in one of them, as far as somebody has said yes to it.
    #[must_use]
    pub fn trusted(&self, file: &Path) -> Option<&str> {
        match self.standing(file.parent()?) {
            Standing::Trusted(look) => look.text(Path::new(file.file_name()?)),
            Standing::Unknown | Standing::Changed(_) => None,
        }
    }

    /// The line for what is ignored in a file right in one of them.
    #[must_use]
    pub fn ignored(&self, file: &Path, what: &str) -> String {
        let folder = file.parent().unwrap_or(file);
        ignored(file, what, folder, self.standing(folder))
    }
}

/// Why a file that is to guard a job may not: it lies where the job works, in a folder that nobody trusts or beyond what
/// trust is about, so whoever wrote the folder, or the job itself, could turn it into another. Not ignored but refused:
/// a job without its guard may do more.
#[must_use]
pub fn guard_fault(file: &Path, folder: &Path, standing: &Standing) -> Option<String> {
    let (Ok(real), Ok(folder)) = (file.canonicalize(), folder.canonicalize()) else {
        return file.starts_with(folder).then(|| format!("{} cannot be found", file.display()));
    };
    let below = real.strip_prefix(&folder).ok()?;
    let trust = quoted(&["trust", &folder.to_string_lossy()]);
    match standing {
        Standing::Trusted(look) if look.text(below).is_some() => None,
        Standing::Trusted(_) => Some(format!(
            "{} is none of the files that trust in {} is about; put it into .ukai/, or outside of where the job works",
            file.display(),
            folder.display()
        )),
        Standing::Unknown | Standing::Changed(_) => Some(format!(
            "{} lies in {}, which is not trusted; look at it and say so with {trust}",
            file.display(),
            folder.display()
        )),
    }
}

/// For one line: what is ignored, and what to type.
#[must_use]
pub fn ignored(file: &Path, what: &str, folder: &Path, standing: &Standing) -> String {
    let why = match standing {
        Standing::Changed(why) => format!("{why}; "),
        Standing::Unknown | Standing::Trusted(_) => String::new(),
    };
    let trust = quoted(&["trust", &folder.to_string_lossy()]);
    format!("{}: {what} ignored there; {why}look, and let it count, with {trust}", file.display())
}

/// A folder by its real place, for who types it.
pub fn real(folder: &Path) -> Result<PathBuf, LookError> {
    let fault = |error| LookError::Unreadable { path: folder.to_owned(), error };
    let real = folder.canonicalize().map_err(fault)?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(fault(std::io::Error::other("it is no folder"))),
    }
}

#[cfg(test)]
mod tests;
