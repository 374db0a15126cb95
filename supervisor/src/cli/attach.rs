//! `ukai attach JOB|BATCH`: what happened so far, then what happens, to the end. Watching slows nobody.

use ukai_protocol::command::command;
use ukai_protocol::control::{JobRow, Selection};

use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::follow::{Batch, Follow, Wish};
use super::signals::Signals;
use super::{offline, print};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids, names or unique beginnings of ids, of jobs or batches
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
}

/// Ends as the jobs end. Ctrl-C leaves them to go on.
pub(crate) async fn attach(context: &Context, args: &Args) -> Result<u8, Failure> {
    let rows = select(context, &args.jobs).await?;
    let batch = batch(&rows, &args.jobs);
    let follow = Follow::new(context, rows.into_iter().map(|row| row.id).collect(), batch);
    if Client::connect(context).await?.is_none() {
        return match follow.replay()? {
            Some(end) => Ok(end.code),
            None => {
                let serve = command(&["serve"]);
                Err(Failure::usage(format!("nothing of this goes on while no ukai server runs; type: {serve}")))
            }
        };
    }
    let mut signals = Signals::new()?;
    let wish = async || {
        let _either = signals.next().await;
        Wish::Leave
    };
    let end = follow.until_ended(wish).await?;
    if end.left {
        print::note("ukai: no longer watching; what was not done goes on");
    }
    Ok(end.code)
}

/// The jobs that are meant.
pub(crate) async fn select(context: &Context, typed: &[String]) -> Result<Vec<JobRow>, Failure> {
    match Client::connect(context).await? {
        Some(client) => Ok(client.rows(Selection::These(typed.to_vec())).await?.0),
        None => offline::select(&context.state, offline::rows(&context.state)?, typed),
    }
}

/// One batch and nothing else was typed: it is looked at as a whole.
fn batch(rows: &[JobRow], typed: &[String]) -> Option<Batch> {
    let [typed] = typed else { return None };
    let place = rows.first()?.batch.as_ref()?;
    let all = rows.iter().all(|row| row.batch.as_ref().is_some_and(|other| other.id == place.id));
    let by_itself = rows.len() == 1 && !place.id.as_str().starts_with(&**typed) && place.name != *typed;
    (all && !by_itself).then(|| Batch { id: place.id.clone(), name: place.name.clone(), added: 0 })
}
