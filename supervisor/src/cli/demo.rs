//! `ukai demo`: eight jobs in parallel on the files at hand, without a key; one worker killed and carried on.
//!
//! Nothing is staged but the provider's replies, and those quote what the tools found. The supervisor, the workers, the
//! sockets, the kill and the log are the real ones. It asks nothing, reads no configuration, and keeps its own state
//! directory apart from the user's.

mod board;
mod cast;
mod provider;
mod summary;

use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ukai_protocol::control::{Filter, Happened, JobResult, JobRow, Request, Response, Seen, Selection};
use ukai_protocol::event::{Event, ProcessMark};
use ukai_protocol::id::JobId;
use ukai_protocol::process;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::signals::Signals;
use super::submit::Submission;
use super::{Global, Output, json, print};
use crate::host;
use board::Board;
use provider::Provider;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to survey
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// The worker of this job is killed in the middle: when its first results are on disk.
const VICTIM: usize = 2;

pub(crate) async fn demo(global: Global, args: &Args) -> Result<u8, Failure> {
    let folder = args.folder.canonicalize().ok().filter(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| {
        Failure::usage(format!("surveying {}: it is no folder that can be read; name another", args.folder.display()))
    })?;
    let output = global.output;
    let context = Context::apart(global, state_dir()?)?;
    let mut signals = Signals::new()?;
    let provider = Provider::start(context.state.root()).await?;
    let host = host::host(cast::settings(&context, &provider)?).await.map_err(Failure::usage)?;
    let played = tokio::select! {
        played = play(&context, &folder) => played.map(Some),
        _ = signals.next() => Ok(None),
    };
    super::serve::drain(host, &mut signals).await;
    drop(provider);
    match played? {
        Some(ended) => Ok(summary::tell(output, &context, &folder, &ended)),
        None => {
            print::note(&format!("ukai: stopped; what was done is kept in {}", context.state.root().display()));
            Ok(INTERRUPTED)
        }
    }
}

const INTERRUPTED: u8 = 130;

/// Beside the user's own, one per demo, so that each can be looked at afterwards.
fn state_dir() -> Result<PathBuf, Failure> {
    let base = crate::config::load::state_dir().ok_or_else(|| {
        Failure::usage("finding a place for the demo's state: neither XDG_STATE_HOME nor HOME is set")
    })?;
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
    Ok(base.join(format!("demo/{now}")))
}

/// Submits the jobs, kills one, and watches until all have ended.
async fn play(context: &Context, folder: &Path) -> Result<Vec<(JobRow, JobResult)>, Failure> {
    let gone = "the one started here has gone; see its words above";
    print::note(&format!(
        "{} jobs, each a process of its own, survey {}; the worker of `{}` will be killed on the way",
        cast::WORDS.len(),
        folder.display(),
        cast::WORDS[VICTIM]
    ));
    let ids = Submission::of(cast::jobs(folder)).send(Client::connect_or_say(context, gone).await?).await?.ids;
    let mut link = Client::connect_or_say(context, gone).await?;
    let jobs = Selection::These(ids.iter().map(ToString::to_string).collect());
    link.send(&Request::Subscribe { filter: Filter { jobs, deltas: false }, seen: Seen::default() }).await?;
    let mut board = Board::new(ids.iter().cloned().zip(cast::WORDS));
    let mut victim = Victim::new(ids[VICTIM].clone());
    while !board.all_ended() {
        match link.next().await {
            Ok(Some(Response::Happened(happened))) => {
                if context.output == Output::StreamJson {
                    print::out(&format!("{}\n", json::event(&happened)));
                }
                board.happened(&happened);
                victim.happened(&happened, &mut board);
            }
            Ok(Some(Response::Live)) => {}
            Ok(Some(Response::Missed { count })) => {
                return Err(Failure::failed(format!("the demo was too slow to follow: {count} records were missed")));
            }
            Ok(Some(other)) => return Err(unexpected(&other)),
            Ok(None) => return Err(Failure::failed(gone)),
            Err(error) => return Err(Failure::failed(format!("following the demo's jobs: {error}"))),
        }
    }
    board.finish();
    let mut ended = Vec::with_capacity(ids.len());
    for id in &ids {
        ended.push(Client::connect_or_say(context, gone).await?.shown(id.as_str()).await?);
    }
    Ok(ended)
}

/// The worker that dies.
struct Victim {
    job: JobId,
    worker: Option<ProcessMark>,
}

impl Victim {
    fn new(job: JobId) -> Self {
        Victim { job, worker: None }
    }

    fn happened(&mut self, happened: &Happened, board: &mut Board) {
        if happened.job != self.job {
            return;
        }
        match &happened.event {
            Event::Started { attempt: 1, process, .. } => self.worker = Some(process.clone()),
            Event::ToolFinished { .. } => {
                let alive = self.worker.take().filter(process::is_alive);
                if let Some(ProcessMark { pid, .. }) = alive
                    && kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).is_ok()
                {
                    board.say(&self.job, &format!("SIGKILL to its worker, process {pid}"));
                }
            }
            _ => {}
        }
    }
}
