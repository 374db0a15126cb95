//! `ukai ack JOB…`, also `ukai --ack-run-state JOB`, which another verb may follow: a person has seen why a job, or something that is no job's, wanted
//! to be looked at. Nothing else ends an attention but `--retry` in its place; not a resumption, and not time.

use ukai_protocol::command::quoted;
use ukai_protocol::control::{Request, Response, ToSee};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::server_event::{ServerEvent, ServerState};

use super::client::{Who, server_or, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{Output, attention, offline, print};
use crate::store::writer::{Append, Writer};
use crate::store::{Lock, StateDir, StoreError, loader, server_log};

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
    let Seen { seen, failed } = said(context, args).await?;
    if seen.is_empty() && failed.is_empty() {
        print::note(NOTHING);
    }
    let line = |ToSee { subject, why }: &ToSee| match context.output {
        Output::Text => format!("{subject}  {}\n", print::brief(why, usize::MAX)),
        Output::Json | Output::StreamJson => format!("{}\n", serde_json::json!({ "subject": subject, "why": why })),
    };
    print::out(&seen.iter().map(line).collect::<String>());
    unless_failed(&failed).map(|()| 0)
}

/// The same before another verb, whose stdout it leaves alone.
pub(crate) async fn ack_before(context: &Context, args: Args) -> Result<(), Failure> {
    let Seen { seen, failed } = said(context, args).await?;
    if seen.is_empty() && failed.is_empty() {
        print::note(NOTHING);
    }
    for ToSee { subject, why } in &seen {
        print::note(&format!("ukai: seen: {subject}  {}", print::brief(why, usize::MAX)));
    }
    unless_failed(&failed)
}

const NOTHING: &str = "ukai: nothing of that wanted to be seen";

/// What came of a person's word.
#[derive(Default)]
struct Seen {
    seen: Vec<ToSee>,
    /// Of what it could not be written down, and why.
    failed: Vec<(String, String)>,
}

fn unless_failed(failed: &[(String, String)]) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    let each: Vec<_> = failed.iter().map(|(subject, why)| format!("{subject}: {why}")).collect();
    Err(Failure::failed(format!(
        "{} could not be marked as seen, and will be shown again: {}; look with {}; what does not verify can be acked \
         at a server ({}), which refuses it",
        if failed.len() == 1 { "one".to_owned() } else { failed.len().to_string() },
        each.join("; "),
        quoted(&["show", &failed[0].0]),
        quoted(&["serve"])
    )))
}

async fn said(context: &Context, args: Args) -> Result<Seen, Failure> {
    let Args { what, all } = args;
    let state = &context.state;
    let take = async || match state.root().exists() {
        true => Ok(Some(Lock::take(state)?)),
        false => Ok(None),
    };
    match server_or(context, take).await? {
        Who::Server(client) => match client.ask(&Request::Ack { what, all }).await? {
            Response::Acked { seen } => Ok(Seen { seen, failed: Vec::new() }),
            other => Err(unexpected(&other)),
        },
        Who::Here(Some(lock)) => alone(context, &what, all, &lock),
        // Without a state directory there is no job, and a name that was typed is one of nobody.
        Who::Here(None) => offline::select(state, Vec::new(), &what).map(|_| Seen::default()),
    }
}

/// Without a server: under its lock, so that none starts meanwhile. One run that cannot be written to keeps the word from no
/// other.
fn alone(context: &Context, what: &[String], all: bool, _lock: &Lock) -> Result<Seen, Failure> {
    let state = &context.state;
    let to_see = attention::offline(context)?;
    let wanted = match all {
        true => to_see,
        false => meant(context, what, to_see)?,
    };
    let mut server = server_log::open(state, std::time::SystemTime::now(), loader::now)?;
    let (mut events, mut found) = (Vec::new(), Seen::default());
    for to_see in wanted {
        let subject = &to_see.subject;
        if server.state.attention().iter().any(|(name, _)| name == subject) {
            events.push(ServerEvent::Acked { subject: subject.clone() });
        }
        // One that is refused has no log that could be written to; the server's own has it.
        let written = match subject.parse::<JobId>() {
            Ok(id) if !is_refused(state, &server.state, &id) && state.run(&id).root().is_dir() => write(state, &id),
            Ok(_) | Err(_) => Ok(()),
        };
        match written {
            Ok(()) => found.seen.push(to_see),
            Err(error) => found.failed.push((to_see.subject, error.to_string())),
        }
    }
    if !events.is_empty() {
        server.log.append(events, loader::now)?;
    }
    Ok(found)
}

/// By the server's own log and by its files as they are now: one that was cleared since is whole, and takes the word.
fn is_refused(state: &StateDir, server: &ServerState, id: &JobId) -> bool {
    let is_whole = || {
        let loaded = loader::load(state, id, None).is_ok_and(|replay| replay.state.progress.seq > 0);
        loaded && matches!(loader::refusal(state, id), Ok(None))
    };
    server.refuses(id.as_str()).is_some() && !is_whole()
}

fn write(state: &StateDir, id: &JobId) -> Result<(), StoreError> {
    let mut writer = Writer::open(state, id)?;
    if writer.progress().attention.is_some() {
        let append = Append { from: None, events: vec![Event::Acked {}] };
        writer.flush(vec![append], loader::now).pop().unwrap_or(Err(StoreError::Stopped))?;
    }
    Ok(())
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
