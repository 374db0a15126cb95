//! `ukai ack JOB…`, also `ukai --ack-run-state JOB…`: a person has seen why a job, or something that is no job's, wanted
//! to be looked at. Nothing else ends an attention; not a resumption, and not time.

use ukai_protocol::control::{Request, Response, ToSee};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::server_event::ServerEvent;

use super::client::{Who, server_or, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{Output, attention, offline, print};
use crate::store::writer::{Append, Writer};
use crate::store::{Lock, StoreError, loader, server_log};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs or batches by id, name or unique beginning of an id; or what else a banner named
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub what: Vec<String>,
    /// Everything that wants to be seen; each is printed
    #[arg(long, conflicts_with = "what")]
    pub all: bool,
}

pub(crate) async fn ack(context: &Context, args: Args) -> Result<u8, Failure> {
    let Args { what, all } = args;
    let state = &context.state;
    let take = async || match state.root().exists() {
        true => Ok(Some(Lock::take(state)?)),
        false => Ok(None),
    };
    let seen = match server_or(context, take).await? {
        Who::Server(client) => match client.ask(&Request::Ack { what, all }).await? {
            Response::Acked { seen } => seen,
            other => return Err(unexpected(&other)),
        },
        Who::Here(Some(lock)) => alone(context, &what, all, &lock)?,
        // Without a state directory there is no job, and a name that was typed is one of nobody.
        Who::Here(None) => offline::select(state, Vec::new(), &what).map(|_| Vec::new())?,
    };
    if seen.is_empty() {
        print::note("ukai: nothing of that wanted to be seen");
    }
    let line = |ToSee { subject, why }: &ToSee| match context.output {
        Output::Text => format!("{subject}  {}\n", print::brief(why, usize::MAX)),
        Output::Json | Output::StreamJson => format!("{}\n", serde_json::json!({ "subject": subject, "why": why })),
    };
    print::out(&seen.iter().map(line).collect::<String>());
    Ok(0)
}

/// Without a server: under its lock, so that none starts meanwhile.
fn alone(context: &Context, what: &[String], all: bool, _lock: &Lock) -> Result<Vec<ToSee>, Failure> {
    let state = &context.state;
    let to_see = attention::offline(context)?;
    let wanted = match all {
        true => to_see,
        false => meant(context, what, to_see)?,
    };
    let mut server = server_log::open(state, std::time::SystemTime::now(), loader::now)?;
    let mut events = Vec::new();
    for ToSee { subject, .. } in &wanted {
        if server.state.attention().iter().any(|(name, _)| name == subject) {
            events.push(ServerEvent::Acked { subject: subject.clone() });
        }
        let Ok(id) = subject.parse::<JobId>() else { continue };
        // One that is refused has no log that could be written to; the server's own has it.
        if server.state.refuses(subject).is_some() || !state.run(&id).root().is_dir() {
            continue;
        }
        let mut writer = Writer::open(state, &id)?;
        if writer.progress().attention.is_some() {
            let append = Append { from: None, events: vec![Event::Acked {}] };
            writer.flush(vec![append], loader::now).pop().unwrap_or(Err(StoreError::Stopped))?;
        }
    }
    if !events.is_empty() {
        server.log.append(events, loader::now)?;
    }
    Ok(wanted)
}

fn meant(context: &Context, what: &[String], to_see: Vec<ToSee>) -> Result<Vec<ToSee>, Failure> {
    let is_named = |name: &&String| to_see.iter().any(|to_see| to_see.subject == **name);
    let (named, jobs): (Vec<_>, Vec<_>) = what.iter().partition(is_named);
    let jobs: Vec<String> = jobs.into_iter().cloned().collect();
    let rows = if jobs.is_empty() {
        Vec::new()
    } else {
        offline::select(&context.state, offline::rows(&context.state)?, &jobs)?
    };
    let is_meant =
        |to_see: &&ToSee| named.contains(&&to_see.subject) || rows.iter().any(|row| row.id.as_str() == to_see.subject);
    Ok(to_see.iter().filter(is_meant).cloned().collect())
}
