//! The demo as it is without a flag: eight jobs survey the files at hand; one worker is killed, and carried on.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ukai_protocol::control::{Filter, Happened, JobResult, JobRow, Request, Response, Seen, Selection};
use ukai_protocol::event::{Event, ProcessMark};
use ukai_protocol::id::JobId;
use ukai_protocol::process;

use super::board::Board;
use super::provider::Provider;
use super::{GONE, cast, hosted, stopped, summary};
use crate::cli::client::{Client, unexpected};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::submit::Submission;
use crate::cli::{Output, json, print};

/// The worker of this job is killed in the middle: when its first results are on disk.
const VICTIM: usize = 2;

pub(super) async fn survey(context: &Context, folder: &Path) -> Result<u8, Failure> {
    let provider = Provider::start(context.state.root(), "script", include_str!("script.toml")).await?;
    let ended = hosted(cast::settings(context, &provider)?, play(context, folder)).await?;
    Ok(match ended {
        Some((ended, _)) => summary::tell(context.output, context, folder, &ended),
        None => stopped(context),
    })
}

/// Submits the jobs, kills one, and watches until all have ended.
async fn play(context: &Context, folder: &Path) -> Result<Vec<(JobRow, JobResult)>, Failure> {
    print::note(&format!(
        "{} jobs, each a process of its own, survey {}; the worker of `{}` will be killed on the way",
        cast::WORDS.len(),
        folder.display(),
        cast::WORDS[VICTIM]
    ));
    let ids = Submission::of(cast::jobs(folder)).send(Client::connect_or_say(context, GONE).await?).await?.ids;
    let mut link = Client::connect_or_say(context, GONE).await?;
    let jobs = Selection::These(ids.iter().map(ToString::to_string).collect());
    link.send(&Request::Subscribe { filter: Filter { jobs, deltas: false }, seen: Seen::default() }).await?;
    let mut board = Board::new("WORD", ids.iter().cloned().zip(cast::WORDS));
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
            Ok(None) => return Err(Failure::failed(GONE)),
            Err(error) => return Err(Failure::failed(format!("following the demo's jobs: {error}"))),
        }
    }
    board.finish();
    let mut ended = Vec::with_capacity(ids.len());
    for id in &ids {
        ended.push(Client::connect_or_say(context, GONE).await?.shown(id.as_str()).await?);
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
