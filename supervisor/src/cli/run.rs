//! `ukai run`: jobs now, in this terminal. At the running server, or hosting one for as long as something runs.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::Joined;
use ukai_protocol::id::JobId;

use super::client::{Client, Who, server_or};
use super::context::Context;
use super::failure::Failure;
use super::follow::question::is_at_terminal;
use super::follow::{Batch, End, Follow, Wish};
use super::serve::drain;
use super::signals::{Heard, Signals};
use super::submit::Queued;
use super::{job, print, submit};
use crate::actor::Idle;
use crate::host::{self, Host};
use crate::settings::Settings;

pub(crate) const EXIT_CODES: &str = "\
Exit codes (of several jobs, the worst):
    0  completed
    1  fatal error
    2  wrong usage or configuration: nothing was done
    3  permission denied, could not go on
    4  a limit, no provider that could be asked, or a pause
    5  retries exhausted
    6  a checkpoint could not be written
    7  completed, but what it asked for was denied
  130  cancelled";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is to be done; `-` reads it from stdin
    prompt: Option<String>,
    /// Job files (.toml, .yaml, .json) instead
    #[arg(long = "file", value_name = "JOB", num_args = 1.., conflicts_with = "prompt")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    each: submit::Each,
    #[command(flatten)]
    flags: job::Flags,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    if args.prompt.is_none() && args.files.is_empty() {
        return Err(Failure::usage(format!(
            "there is nothing to run: give a PROMPT ({}, `-` reads it from stdin) or job files ({})",
            quoted(&["run", "what is to be done"]),
            quoted(&["run", "--file", "JOB"])
        )));
    }
    let jobs = submit::read(context, args.prompt.as_deref(), &args.files, &args.each, &args.flags).await?;
    played(context, async |client| {
        let Queued { ids, batch } = jobs.send(client).await?;
        let added = ids.len();
        if let Some(joined) = &batch {
            print::note(&format!("ukai: {}", submit::said(joined, added)));
        }
        Ok(match batch {
            Some(Joined { id, name, jobs }) => {
                Begun { jobs, batch: Some(Batch { id, name, added: added as u64 }), ..Begun::default() }
            }
            None => Begun { jobs: ids, ..Begun::default() },
        })
    })
    .await
}

/// Jobs that go on now, and how they are looked at.
#[derive(Default)]
pub(super) struct Begun {
    pub jobs: Vec<JobId>,
    pub batch: Option<Batch>,
    /// Of those that a person lets go on: how often that had been before.
    pub resumes: HashMap<JobId, u32>,
}

/// At the running server, or hosting one: `begin` queues the jobs, and they are followed to their ends.
pub(super) async fn played(
    context: &Context,
    begin: impl AsyncFnOnce(Client) -> Result<Begun, Failure>,
) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    if let Some(client) = Client::connect(context).await? {
        return Ok(follow(context, begin(client).await?, &mut signals, None).await?.code);
    }
    let settings = Settings { asks: is_at_terminal(), ..context.settings()? };
    let host = match server_or(context, async || host::host(settings.clone()).await).await? {
        Who::Server(client) => return Ok(follow(context, begin(*client).await?, &mut signals, None).await?.code),
        Who::Here(host) => host,
    };
    let followed = match Client::connect_or_say(context, "the one started here has gone; see its words above").await {
        Ok(client) => match begin(client).await {
            Ok(begun) => follow(context, begun, &mut signals, Some(&host)).await,
            Err(failure) => Err(failure),
        },
        Err(failure) => Err(failure),
    };
    if followed.as_ref().is_ok_and(|end| !end.left) {
        stay(&host, &mut signals).await;
    }
    drain(host, &mut signals).await;
    Ok(followed?.code)
}

/// Nobody may be asked for the jobs that were to run, or a person paused them: as `breaker_open` (spec §14), but that
/// none of it is an end.
const NOBODY_TO_ASK: u8 = 4;

/// Ctrl-C cancels these jobs and no others; a second one, or SIGTERM, leaves. So does a host that cannot start them.
async fn follow(
    context: &Context,
    Begun { jobs: ids, batch, resumes }: Begun,
    signals: &mut Signals,
    host: Option<&Host>,
) -> Result<End, Failure> {
    let mut asked = false;
    let wish = async || match signals.next().await {
        Heard::Interrupt if !std::mem::replace(&mut asked, true) => Wish::Cancel,
        Heard::Interrupt | Heard::Terminate => Wish::Leave,
    };
    let following = Follow::new(context, ids.clone(), batch).resumed(&resumes).until_ended(wish);
    let Some(host) = host else { return following.await };
    tokio::select! {
        biased;
        end = following => end,
        idle = cannot_start(host, &ids) => {
            say_queued(idle);
            Ok(End { code: NOBODY_TO_ASK, left: true })
        }
    }
}

/// Returns once nothing runs here, and some of these jobs cannot start soon.
async fn cannot_start(host: &Host, ids: &[JobId]) -> Idle {
    let ids: BTreeSet<_> = ids.iter().collect();
    match host.idle().await {
        Some(idle) if idle.queued.iter().map(|(id, _)| id).chain(&idle.paused).any(|id| ids.contains(id)) => idle,
        // They have ended, and whoever follows them says so.
        _ => std::future::pending().await,
    }
}

fn say_queued(idle: Idle) {
    for (id, why) in idle.queued {
        print::note(&format!(
            "ukai: {id} stays queued ({why}); {} and the next {} go on with it, {} drops it",
            quoted(&["serve"]),
            quoted(&["run"]),
            quoted(&["cancel", id.as_str()])
        ));
    }
    for id in idle.paused {
        print::note(&format!("ukai: {id} stays paused; type: {}", command(&["unpause", id.as_str()])));
    }
}

/// A host stays until nothing runs and nothing can start soon (spec §1), or until it is told to go.
async fn stay(host: &Host, signals: &mut Signals) {
    let idle = tokio::select! {
        idle = host.idle() => idle,
        _ = signals.next() => None,
    };
    say_queued(idle.unwrap_or_default());
}
