//! `ukai cancel JOB…` and `ukai cancel --all`, the emergency stop: it works without a server too.

use std::collections::BTreeSet;
use std::time::Duration;

use ukai_protocol::control::{Request, Response, Selection};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind, Outcome};
use ukai_protocol::{process, process_tree};

use super::client::{Client, Who, server_or, unexpected};
use super::context::Context;
use super::failure::{FAILED, Failure};
use super::which::Which;
use super::{Output, offline, print};
use crate::store::lock::LockError;
use crate::store::writer::{Append, Writer};
use crate::store::{Lock, Recovered, StoreError, loader};

/// A server answers this from memory. One that does not is stopped or stuck, and no emergency stop waits for it.
const STUCK_AFTER: Duration = Duration::from_secs(2);

pub(crate) async fn cancel(context: &Context, which: Which) -> Result<u8, Failure> {
    if which.all {
        end_if_stuck(context).await?;
    }
    let selection = which.selection();
    let state = &context.state;
    let take = async || match state.root().exists() {
        true => Ok(Some(Lock::take(state)?)),
        false => Ok(None),
    };
    let (ids, code) = match server_or(context, take).await? {
        Who::Server(client) => match client.ask(&Request::Cancel { jobs: selection }).await? {
            Response::Cancelled { ids } => (ids, 0),
            other => return Err(unexpected(&other)),
        },
        Who::Here(Some(lock)) => alone(context, selection, &lock)?,
        Who::Here(None) => nowhere(context, selection)?,
    };
    if ids.is_empty() && context.output == Output::Text {
        print::note("ukai: nothing was left to cancel");
    }
    let line = |id: &JobId| match context.output {
        Output::Text => format!("{id}\n"),
        Output::Json | Output::StreamJson => format!("{}\n", serde_json::json!({ "job_id": id })),
    };
    print::out(&ids.iter().map(line).collect::<String>());
    Ok(code)
}

/// The emergency stop needs no server, and so it needs no willing one: who holds the state directory, listens and does
/// not answer is killed, workers and all. What is durable is safe, and the jobs are ended here.
async fn end_if_stuck(context: &Context) -> Result<(), Failure> {
    let status = async {
        match Client::connect(context).await? {
            Some(client) => client.ask(&Request::Status).await.map(drop),
            None => Ok(()),
        }
    };
    if !context.state.root().exists() || tokio::time::timeout(STUCK_AFTER, status).await.is_ok() {
        return Ok(());
    }
    let holder = match Lock::take(&context.state) {
        Err(LockError::InUse { holder, .. }) => holder,
        Ok(_) | Err(LockError::Io { .. }) => return Ok(()),
    };
    let stuck = format!("the ukai server ({holder}) does not answer");
    let Some(pid) = holder.0 else { return Err(Failure::failed(format!("{stuck}; try again in a moment"))) };
    let mark = process::mark(pid).filter(|mark| process::is_same_program(mark.pid));
    let Some(mark) = mark else {
        return Err(Failure::failed(format!("{stuck}, and is not known for certain; type: kill -9 {pid}")));
    };
    print::note(&format!("ukai: {stuck}; it is killed, and its jobs are ended here"));
    let ended = tokio::task::spawn_blocking(move || process_tree::end(&mark, Duration::ZERO)).await;
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            Err(Failure::failed(format!("{stuck}, and could not be killed: {error}; type: kill -9 {pid}")))
        }
        Err(error) => Err(Failure::failed(format!("killing process {pid}: {error}"))),
    }
}

/// Without a state directory there is no job.
fn nowhere(context: &Context, selection: Selection) -> Result<(Vec<JobId>, u8), Failure> {
    match selection {
        Selection::All => Ok((Vec::new(), 0)),
        Selection::These(typed) => offline::select(&context.state, Vec::new(), &typed).map(|_| (Vec::new(), 0)),
    }
}

/// Without a server: under its lock, so that none starts meanwhile. First the processes, then the terminal event.
fn alone(context: &Context, selection: Selection, _lock: &Lock) -> Result<(Vec<JobId>, u8), Failure> {
    let state = &context.state;
    state.create()?;
    let recovered = loader::recover_all(state)?;
    let wanted = match selection {
        Selection::All => None,
        Selection::These(typed) => {
            let rows = recovered.iter().map(|run| offline::row(run.id.clone(), &run.progress)).collect();
            Some(offline::select(state, rows, &typed)?.into_iter().map(|row| row.id).collect::<BTreeSet<_>>())
        }
    };
    let grace = Duration::from_millis(context.loaded.config.supervision.term_grace_ms);
    let (mut ended, mut code) = (Vec::new(), 0);
    for run in &recovered {
        if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&run.id)) {
            continue;
        }
        match end(context, run, grace) {
            Ok(true) => ended.push(run.id.clone()),
            Ok(false) => {}
            Err(failure) => {
                // The emergency stop stops the others all the same.
                print::note(&format!("ukai: {}", failure.text));
                code = FAILED;
            }
        }
    }
    Ok((ended, code))
}

/// `false`: it had ended before.
fn end(context: &Context, run: &Recovered, grace: Duration) -> Result<bool, Failure> {
    let id = &run.id;
    if let Some(process) = &run.progress.process {
        process_tree::end(process, grace).map_err(|error| {
            Failure::failed(format!("ending the processes of {id}: {error}; type: kill -9 {}", process.pid))
        })?;
    }
    if run.problem.is_some() || run.progress.status.is_ended() {
        return Ok(false);
    }
    let cause = Cause::new(CauseKind::Cancel, "cancelled by a person while no server ran");
    let finished = Event::Finished { outcome: Outcome::Ended(cause), text: run.progress.text.clone() };
    let mut writer = Writer::open(&context.state, id)?;
    let mut answers = writer.flush(vec![Append { from: None, events: vec![finished] }], loader::now);
    answers.pop().unwrap_or(Err(StoreError::Stopped))?;
    Ok(true)
}
