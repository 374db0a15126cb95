//! `ukai demo`: eight jobs in parallel on the files at hand, without a key; one worker killed and carried on. Or, with
//! `--storm`, twenty jobs and two providers that want to be left alone. Or, with `--hands`, four jobs that correct a small
//! project, and one that tries what it may not.
//!
//! Nothing is staged but the provider's replies, and those quote what the tools found. The supervisor, the workers, the
//! sockets, the kill and the log are the real ones. It asks nothing, reads no configuration, and keeps its own state
//! directory apart from the user's.

mod board;
mod cast;
mod hands;
mod provider;
mod storm;
mod summary;
mod survey;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ukai_notifier::Untold;
use ukai_protocol::command::quoted_apart;
use ukai_protocol::disk;

use super::context::Context;
use super::failure::Failure;
use super::signals::Signals;
use super::{Global, print};
use crate::host;
use crate::settings::Settings;
use crate::store::StateDir;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to survey
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Twenty jobs instead, and two providers that answer 429: who is asked when, and what becomes of the jobs
    #[arg(long)]
    storm: bool,
    /// After the storm the providers get well, and every job that was aborted is resumed
    #[arg(long, requires = "storm")]
    resume: bool,
    /// Four jobs instead that each correct a small project in a worktree, and one that tries what it may not
    #[arg(long, conflicts_with_all = ["storm", "folder"])]
    hands: bool,
    /// Have a provider of your configuration correct it
    #[arg(long, value_name = "ID", requires = "hands")]
    provider: Option<String>,
}

/// Why a client of the supervisor that is hosted here finds none.
const GONE: &str = "the one started here has gone; see its words above";
const INTERRUPTED: u8 = 130;
/// Demos that begin in the same millisecond.
const AT_ONCE_MAX: usize = 100;

pub(crate) async fn demo(global: Global, args: &Args) -> Result<u8, Failure> {
    let folder = args.folder.canonicalize().ok().filter(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| {
        Failure::usage(format!("surveying {}: it is no folder that can be read; name another", args.folder.display()))
    })?;
    let place = match &global.state_dir {
        Some(named) => named.clone(),
        None => state_dir()?,
    };
    let config = global.config.clone();
    let context = Context::apart(global, place)?;
    mark(&context.state)?;
    match args {
        Args { hands: true, provider, .. } => hands::hands(context, config.as_deref(), provider.as_deref()).await,
        Args { storm: true, resume, .. } => storm::storm(context, &folder, *resume).await,
        _ => survey::survey(&context, &folder).await,
    }
}

/// Beside the user's own, one per demo, so that each can be looked at afterwards.
fn state_dir() -> Result<PathBuf, Failure> {
    let base = crate::config::load::state_dir().ok_or_else(|| {
        Failure::usage("finding a place for the demo's state: neither XDG_STATE_HOME nor HOME is set")
    })?;
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ").to_string();
    own_folder(&base.join("demo"), &now)
}

/// Makes a folder that nobody else has made: two demos may begin in the same millisecond.
fn own_folder(base: &Path, name: &str) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| {
        let base = base.display();
        Failure::usage(format!(
            "making a folder for the demo's state in {base}: {error}; name another with --state-dir"
        ))
    };
    disk::create_dir(base).map_err(failed)?;
    for number in 1..=AT_ONCE_MAX {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let folder = base.join(name);
        match disk::create_dir_within(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(io::Error::other(format!("{AT_ONCE_MAX} began at once"))))
}

/// What was there before would be counted too.
fn begins_empty(context: &Context, what: &str) -> Result<(), Failure> {
    let root = context.state.root();
    let is_mark = |path: PathBuf| path == context.state.demo_mark();
    if fs::read_dir(root).is_ok_and(|entries| entries.flatten().any(|entry| !is_mark(entry.path()))) {
        return Err(Failure::usage(format!(
            "playing {what} in {}: something is there already, and would be counted too; name another --state-dir",
            root.display()
        )));
    }
    Ok(())
}

/// Whoever looks at it later must not be told to type what only works while the demo's providers play.
fn mark(state: &StateDir) -> Result<(), Failure> {
    let path = state.demo_mark();
    // What is there already is somebody's, and stays what it is.
    if state.root().is_dir() && fs::read_dir(state.root()).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(());
    }
    let failed =
        |error: io::Error| Failure::usage(format!("writing {}: {error}; name another --state-dir", path.display()));
    disk::create_dir(state.root()).map_err(failed)?;
    disk::write_atomic(&path, b"The jobs here are those of a demo, whose providers have ended.\n").map_err(failed)
}

/// Whether the jobs there are a demo's.
pub(super) fn is_of_one(state: &StateDir) -> bool {
    state.demo_mark().is_file()
}

/// Typed as it stands: in a folder of its own.
pub(super) fn goes_on() -> String {
    let plays = quoted_apart(&["demo", "--storm", "--resume"]);
    format!("this is a demo's, whose providers have ended; {plays} plays how such jobs go on")
}

/// Plays at a supervisor of this process, and stops it. With it, the sinks of alerts whose last message did not arrive.
/// None: a signal came first.
async fn hosted<T>(
    mut settings: Settings,
    play: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<(T, Untold)>, Failure> {
    settings.notify.demo = true;
    let mut signals = Signals::new()?;
    let host = host::host(settings).await.map_err(Failure::usage)?;
    let played = tokio::select! {
        played = play => played.map(Some),
        _ = signals.next() => Ok(None),
    };
    let untold = super::serve::drain(host, &mut signals).await;
    Ok(played?.map(|played| (played, untold)))
}

fn stopped(context: &Context) -> u8 {
    print::note(&format!("ukai: stopped; what was done is kept in {}", context.state.root().display()));
    INTERRUPTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demos_of_one_moment_have_a_folder_each() {
        let temp = tempfile::tempdir().expect("temp");
        let base = temp.path().join("ukai/demo");
        let made: Vec<_> = (0..3).map(|_| own_folder(&base, "now").expect("made")).collect();
        assert_eq!(made, ["now", "now-2", "now-3"].map(|name| base.join(name)));
        assert!(made.iter().all(|folder| folder.is_dir()));
    }

    #[test]
    fn a_folder_that_holds_something_is_not_taken_for_a_demo_s() {
        let temp = tempfile::tempdir().expect("temp");
        let [new, own] = ["new", "own"].map(|name| StateDir::new(temp.path().join(name)));
        own.create().expect("made");
        for (state, expected) in [(&new, true), (&own, false)] {
            mark(state).expect("marked");
            assert_eq!(is_of_one(state), expected);
        }
    }
}
