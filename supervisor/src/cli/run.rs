//! `ukai run`: jobs now, in this terminal. At the running server, or hosting one for as long as something runs.

use std::path::PathBuf;

use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::follow::{Follow, Wish};
use super::serve::drain;
use super::signals::{Heard, Signals};
use super::{job, print, submit};
use crate::host::{self, Host};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is to be done; `-` reads it from stdin
    #[arg(required_unless_present = "files")]
    prompt: Option<String>,
    /// Job files (.toml, .yaml, .json) instead
    #[arg(long = "file", value_name = "JOB", num_args = 1.., conflicts_with = "prompt")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    flags: job::Flags,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let mut notes = Vec::new();
    let jobs = match &args.prompt {
        Some(prompt) => job::from_prompt(context, prompt, &args.flags, &mut notes).map(|job| vec![job]),
        None => job::from_files(context, &args.files, &args.flags, &mut notes),
    };
    for note in notes {
        print::note(&format!("ukai: {note}"));
    }
    let jobs = jobs?;
    let mut signals = Signals::new()?;
    let Some(client) = Client::connect(context).await? else {
        let host = host::host(context.settings()?).await.map_err(Failure::usage)?;
        let followed = here(context, jobs, &mut signals).await;
        return leave(&host, &mut signals, followed).await;
    };
    let ids = submit::send(client, jobs).await?;
    let mut asked = false;
    let wish = async || match signals.next().await {
        // The server is another process: its other jobs are not ours to end.
        Heard::Interrupt if !std::mem::replace(&mut asked, true) => Wish::Cancel,
        Heard::Interrupt | Heard::Terminate => Wish::Leave,
    };
    Ok(Follow::new(context, ids).to_the_end(wish).await?.code)
}

/// The jobs at the supervisor that this process hosts.
async fn here(
    context: &Context,
    jobs: Vec<ukai_protocol::job::JobSpec>,
    signals: &mut Signals,
) -> Result<super::follow::End, Failure> {
    let client = Client::connect_or_say(context, "try again").await?;
    let ids = submit::send(client, jobs).await?;
    let mut asked = false;
    let wish = async || match signals.next().await {
        Heard::Interrupt if !std::mem::replace(&mut asked, true) => Wish::Cancel,
        Heard::Interrupt | Heard::Terminate => Wish::Leave,
    };
    Follow::new(context, ids).to_the_end(wish).await
}

/// The host stays until nothing runs and nothing can start soon (spec §1), unless it was told to stop.
async fn leave(
    host: &Host,
    signals: &mut Signals,
    followed: Result<super::follow::End, Failure>,
) -> Result<u8, Failure> {
    if followed.as_ref().is_ok_and(|end| !end.left) {
        tokio::select! {
            idle = host.idle() => {
                for (id, why) in idle.queued {
                    print::note(&format!("ukai: {id} stays queued ({why}); type: ukai serve"));
                }
            }
            _ = signals.next() => {}
        }
    }
    drain(host, signals).await;
    Ok(followed?.code)
}
