//! The demo while it plays: the jobs by their events, each question answered as it comes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ukai_protocol::control::{Decision, Filter, Happened, Request, Response, Seen, Selection};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use super::Stage;
use super::approver::{self, May};
use super::check;
use super::project::MODULES;
use crate::cli::client::{Client, unexpected};
use crate::cli::context::Context;
use crate::cli::demo::GONE;
use crate::cli::demo::board::Board;
use crate::cli::failure::Failure;
use crate::cli::submit::Submission;
use crate::cli::{Output, json, print, worktree};
use crate::worktree::CLOSE_MAX;

/// Between two looks at whether the worktrees are settled.
const LOOK_EVERY: Duration = Duration::from_millis(30);

/// The jobs as they were submitted.
pub(super) struct Played {
    /// In the order of the modules.
    pub fixes: Vec<JobId>,
    pub luck: JobId,
    pub check: JobId,
}

pub(super) async fn play(context: &Context, stage: &Stage<'_>) -> Result<Played, Failure> {
    print::note(&format!(
        "{} jobs correct a module each of {}, in worktrees; one tries what it may not",
        MODULES.len(),
        stage.project.display()
    ));
    let fixes = super::cast::fixes(stage.project, stage.provider);
    let jobs: Vec<JobSpec> = fixes.into_iter().chain([super::cast::luck(&stage.luck.workdir)]).collect();
    let mut ids =
        watched(context, stage, jobs, &[MODULES.map(|module| module.name).as_slice(), &["luck"]].concat()).await?;
    let Some(luck) = ids.pop() else { return Err(Failure::failed("the demo's server took none of its jobs")) };
    settled(context, &ids).await;
    let workdir = check::prepare(context, stage.root, &ids)?;
    let check = watched(context, stage, vec![super::cast::check(&workdir)], &["check"]).await?;
    match check.into_iter().next() {
        Some(check) => Ok(Played { fixes: ids, luck, check }),
        None => Err(Failure::failed("the demo's server took no job that runs the tests")),
    }
}

/// Submits them and watches until all have ended.
async fn watched(
    context: &Context,
    stage: &Stage<'_>,
    jobs: Vec<JobSpec>,
    names: &[&'static str],
) -> Result<Vec<JobId>, Failure> {
    let ids = Submission::of(jobs).send(Client::connect_or_say(context, GONE).await?).await?.ids;
    let mut link = Client::connect_or_say(context, GONE).await?;
    let jobs = Selection::These(ids.iter().map(ToString::to_string).collect());
    link.send(&Request::Subscribe { filter: Filter { jobs, deltas: false }, seen: Seen::default() }).await?;
    let names: HashMap<JobId, &'static str> = ids.iter().cloned().zip(names.iter().copied()).collect();
    let mut board = Board::new("JOB", ids.iter().map(|id| (id.clone(), names.get(id).copied().unwrap_or_default())));
    while !board.all_ended() {
        match link.next().await {
            Ok(Some(Response::Happened(happened))) => {
                if context.output == Output::StreamJson {
                    print::out(&format!("{}\n", json::event(&happened)));
                }
                board.happened(&happened);
                answered(context, stage, names.get(&happened.job).copied().unwrap_or_default(), &happened, &mut board)
                    .await?;
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
    Ok(ids)
}

/// What the demo does about a record: it answers a question, or tells the job that tries its luck who its worker is.
async fn answered(
    context: &Context,
    stage: &Stage<'_>,
    name: &str,
    happened: &Happened,
    board: &mut Board,
) -> Result<(), Failure> {
    match &happened.event {
        Event::Started { process, .. } if name == "luck" => stage.luck.worker_is(process.pid),
        Event::AskOpened { call, tool, input, .. } => {
            let workdir = worktree::of(&context.state, &happened.job).map(|record| record.workdir).unwrap_or_default();
            let decision = approver::answer(may(stage, name), tool, input, &workdir);
            let said = match &decision {
                Decision::Approve { .. } => "the demo's approver: yes, as it stands".to_owned(),
                Decision::Deny { because } => format!("the demo's approver: no, {}", because.as_deref().unwrap_or("")),
            };
            board.say(&happened.job, &said);
            let what = format!("{}/{call}", happened.job);
            let client = Client::connect_or_say(context, GONE).await?;
            match client.ask(&Request::Decide { what, decision }).await? {
                Response::Decided(_) => Ok(()),
                other => Err(unexpected(&other)),
            }
        }
        _ => Ok(()),
    }
}

/// What the models of a real provider write is theirs, as long as it stays where the faults are.
fn may(stage: &Stage<'_>, name: &str) -> May {
    match MODULES.iter().find(|module| module.name == name) {
        Some(_) if stage.provider.is_some() => May::EditBelow("lib"),
        Some(module) => May::OneLineOf(module.file),
        None => May::Nothing,
    }
}

/// What they left is committed a moment after their end.
async fn settled(context: &Context, ids: &[JobId]) {
    let since = Instant::now();
    while ids.iter().any(|id| worktree::is_open(&context.state, id)) && since.elapsed() < CLOSE_MAX {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
