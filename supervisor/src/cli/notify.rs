//! `ukai notify test`: has each sink of alerts tell something now, and says how it went.

use ukai_protocol::control::{Request, Response, SinkRow};

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::{FAILED, Failure};
use super::{Output, print, table};
use crate::host;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Send a test to the log, the desktop and Discord, as far as they are configured
    Test,
}

pub(crate) async fn notify(context: &Context, verb: &Verb) -> Result<u8, Failure> {
    let Verb::Test = verb;
    let sinks = match Client::connect(context).await? {
        // It is the one that tells, with the environment that it was started in.
        Some(client) => match client.ask(&Request::TestNotify).await? {
            Response::Notified { sinks } => sinks,
            other => return Err(unexpected(&other)),
        },
        None => host::test_notify(&context.state, context.notify_setup()).await.map_err(Failure::usage)?,
    };
    print::out(&shown(context.output, &sinks));
    Ok(if sinks.iter().any(|sink| sink.failed.is_some()) { FAILED } else { 0 })
}

fn shown(output: Output, sinks: &[SinkRow]) -> String {
    let json =
        |SinkRow { sink, failed }: &SinkRow| serde_json::json!({ "sink": sink, "ok": failed.is_none(), "why": failed });
    match output {
        Output::Json => format!("{}\n", serde_json::Value::from_iter(sinks.iter().map(json))),
        Output::StreamJson => sinks.iter().map(|sink| format!("{}\n", json(sink))).collect(),
        Output::Text => {
            let how = |sink: &SinkRow| sink.failed.as_deref().map_or_else(|| "arrived".to_owned(), print::clean);
            table::columns(&sinks.iter().map(|sink| [sink.sink.clone(), how(sink)]).collect::<Vec<_>>())
        }
    }
}
