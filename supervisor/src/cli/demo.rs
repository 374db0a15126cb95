//! `ukai demo`: eight jobs in parallel on the files at hand, without a key; one worker killed and carried on. Or, with
//! `--storm`, twenty jobs and two providers that want to be left alone.
//!
//! Nothing is staged but the provider's replies, and those quote what the tools found. The supervisor, the workers, the
//! sockets, the kill and the log are the real ones. It asks nothing, reads no configuration, and keeps its own state
//! directory apart from the user's.

mod board;
mod cast;
mod provider;
mod storm;
mod summary;
mod survey;

use std::path::PathBuf;

use super::context::Context;
use super::failure::Failure;
use super::signals::Signals;
use super::{Global, print};
use crate::host;
use crate::settings::Settings;

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
}

/// Why a client of the supervisor that is hosted here finds none.
const GONE: &str = "the one started here has gone; see its words above";
const INTERRUPTED: u8 = 130;

pub(crate) async fn demo(global: Global, args: &Args) -> Result<u8, Failure> {
    let folder = args.folder.canonicalize().ok().filter(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| {
        Failure::usage(format!("surveying {}: it is no folder that can be read; name another", args.folder.display()))
    })?;
    let context = Context::apart(global, state_dir()?)?;
    if args.storm { storm::storm(context, &folder, args.resume).await } else { survey::survey(&context, &folder).await }
}

/// Beside the user's own, one per demo, so that each can be looked at afterwards.
fn state_dir() -> Result<PathBuf, Failure> {
    let base = crate::config::load::state_dir().ok_or_else(|| {
        Failure::usage("finding a place for the demo's state: neither XDG_STATE_HOME nor HOME is set")
    })?;
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
    Ok(base.join(format!("demo/{now}")))
}

/// Plays at a supervisor of this process, and stops it. None: a signal came first.
async fn hosted<T>(
    mut settings: Settings,
    play: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    settings.notify.demo = true;
    let mut signals = Signals::new()?;
    let host = host::host(settings).await.map_err(Failure::usage)?;
    let played = tokio::select! {
        played = play => played.map(Some),
        _ = signals.next() => Ok(None),
    };
    super::serve::drain(host, &mut signals).await;
    played
}

fn stopped(context: &Context) -> u8 {
    print::note(&format!("ukai: stopped; what was done is kept in {}", context.state.root().display()));
    INTERRUPTED
}
