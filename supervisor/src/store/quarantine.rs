//! Puts the files of a run aside that do not verify. They are moved, never changed and never deleted: a person may know
//! what to make of them. A run whose log lies here, and nowhere else, stays refused at every start, until a person
//! clears it.

pub mod clear;
pub mod kept;

use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_protocol::run_state::Progress;

use super::error::StoreError;
use super::loader::Opened;
use super::log_file::{self, ReadError};
use super::paths::StateDir;
use super::recovery::{self, Part, Replay};
use super::snapshot::{self, Loaded, Outline};

/// Files of one name that quarantine keeps of a run; one more would mean that something damages it again and again.
const KEPT_MAX: u32 = 99;

/// Refuses a run, and shows what can be believed of it.
pub fn refuse(
    state: &StateDir,
    id: &JobId,
    why: String,
    aside: &[Part],
    spec: Option<Box<JobSpec>>,
    replay: Replay,
) -> Result<Opened, StoreError> {
    let folder = state.quarantine_of(id);
    // Where nothing of its log verifies, what was put aside earlier still tells how it stood.
    let told = replay.state.progress;
    let progress = if told.seq == 0 { progress(state, id) } else { told };
    disk::create_dir(&folder).map_err(|error| StoreError::io("creating", &folder, &error))?;
    for part in aside {
        let kept = put_aside(state, id, *part)?;
        tracing::error!("{id} is quarantined: {why}; kept as {kept}");
    }
    let cause = recovery::quarantined(id, &why, &folder.display().to_string());
    let progress = Box::new(recovery::refused(progress, spec.as_deref(), cause));
    Ok(Opened::Refused { why, spec, progress })
}

/// The fold of a log up to the first record that does not verify.
fn believable(log: &Path) -> Result<Progress, StoreError> {
    let mut replay = Replay::default();
    match log_file::read(log, 0, None, |bytes| replay.feed(bytes)) {
        Ok(()) => {}
        Err(ReadError::Refused(corrupt)) => tracing::debug!("{}: {corrupt}", log.display()),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Err(ReadError::Io(error)) => return Err(StoreError::io("reading", log, &error)),
    }
    Ok(replay.state.progress)
}

/// What can be believed of a run that does not verify, whether its files lie in their place still or were put aside. Where
/// no log tells anything, how its snapshot left it: to be shown, not to go on from.
#[must_use]
pub fn progress(state: &StateDir, id: &JobId) -> Progress {
    let (run, folder) = (state.run(id), state.quarantine_of(id));
    let logs = [run.log(), folder.join("events.jsonl")];
    let of_log = logs.iter().filter_map(|log| believable(log).ok()).find(|progress| progress.seq > 0);
    let snapshots = [run.snapshot(), folder.join("run_state.json")];
    let of_snapshot = || snapshots.iter().find_map(|path| of_snapshot(path));
    of_log.or_else(of_snapshot).unwrap_or_default()
}

fn of_snapshot(path: &Path) -> Option<Progress> {
    match snapshot::load::<Outline>(path) {
        Ok(Loaded::Sound(snapshot)) => Some(snapshot.state.progress),
        Ok(Loaded::Missing) => None,
        Ok(Loaded::Bad(why)) => {
            tracing::debug!("{}: {why}", path.display());
            None
        }
        Err(error) => {
            tracing::debug!("reading {}: {error}", path.display());
            None
        }
    }
}

/// Moves a file to quarantine beside what was put there earlier, and says where it is.
pub fn put_aside(state: &StateDir, id: &JobId, part: Part) -> Result<String, StoreError> {
    let (run, folder) = (state.run(id), state.quarantine_of(id));
    let (from, name) = match part {
        Part::Spec => (run.spec(), "job.json"),
        Part::Log => (run.log(), "events.jsonl"),
        Part::Snapshot => (run.snapshot(), "run_state.json"),
    };
    let Some(to) = free(&folder, name)? else {
        let why = format!("{} holds {KEPT_MAX} files of it: look at the disk, then remove them", folder.display());
        return Err(StoreError::Quarantined { job: id.clone(), why });
    };
    disk::rename(&from, &to).map_err(|error| StoreError::io("moving to quarantine", &from, &error))?;
    Ok(to.display().to_string())
}

/// Moves a file that is of no run, and says where it is.
pub fn put_aside_file(state: &StateDir, from: &Path) -> Result<PathBuf, StoreError> {
    keep_file(state, from, disk::rename)
}

/// Keeps a file that is of no run as it is, and leaves its name to what will replace it. Says where it is.
pub fn copy_aside_file(state: &StateDir, from: &Path) -> Result<PathBuf, StoreError> {
    keep_file(state, from, disk::link)
}

fn keep_file(
    state: &StateDir,
    from: &Path,
    keep: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<PathBuf, StoreError> {
    let moving = |error: io::Error| StoreError::io("moving to quarantine", from, &error);
    let name = from.file_name().ok_or_else(|| moving(io::Error::other("it has no name")))?.to_string_lossy();
    let folder = state.quarantine();
    let full = || moving(io::Error::other(format!("{} holds {KEPT_MAX} files of that name", folder.display())));
    let to = free(&folder, &name)?.ok_or_else(full)?;
    keep(from, &to).map_err(moving)?;
    Ok(to)
}

/// A name beside those that are taken: `NAME`, `NAME.2`, …
fn free(folder: &Path, name: &str) -> Result<Option<PathBuf>, StoreError> {
    disk::create_dir(folder).map_err(|error| StoreError::io("creating", folder, &error))?;
    let names = std::iter::once(name.to_owned()).chain((2..=KEPT_MAX).map(|number| format!("{name}.{number}")));
    Ok(names.map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_err()))
}

/// Why there is no log to read.
#[must_use]
pub fn absent(state: &StateDir, id: &JobId) -> StoreError {
    let folder = state.quarantine_of(id);
    if folder.is_dir() {
        StoreError::Quarantined { job: id.clone(), why: format!("its files are kept in {}", folder.display()) }
    } else {
        StoreError::Unknown(id.clone())
    }
}
