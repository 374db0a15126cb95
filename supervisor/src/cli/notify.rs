//! `ukai notify test`: has each sink of alerts tell something now, and says how it went.

use ukai_protocol::control::{SinkRow, SinkState};

use super::client::Client;
use super::context::Context;
use super::failure::{FAILED, Failure};
use super::sinks::{self, By, Of};
use super::{Output, print, table};
use crate::host;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Send a test to the log, the desktop and Discord, as far as they are configured
    Test,
}

pub(crate) async fn notify(context: &Context, verb: &Verb) -> Result<u8, Failure> {
    let Verb::Test = verb;
    let (rows, by) = match Client::connect(context).await? {
        // It is the one that tells, with the environment that it was started in.
        Some(client) => (sinks::asked(client, Of::Test).await?, By::Server),
        None => (host::test_notify(&context.state, context.notify_setup()).await.map_err(Failure::usage)?, By::Here),
    };
    let rows: Vec<_> = rows.into_iter().map(|row| sinks::known(row, by)).collect();
    print::out(&shown(context.output, &rows, by));
    // What nobody has configured has not failed.
    let has_failed = |row: &SinkRow| matches!(row.state, SinkState::Failed(_) | SinkState::Dead(_));
    Ok(if rows.iter().any(has_failed) { FAILED } else { 0 })
}

/// JSON: `ok` is true, false, or null where the sink is not configured; `why` says the rest.
fn shown(output: Output, rows: &[SinkRow], by: By) -> String {
    let json = |row: &SinkRow| {
        let (ok, why) = match &row.state {
            SinkState::On => (Some(true), None),
            SinkState::Failed(why) | SinkState::Dead(why) => (Some(false), Some(why)),
            SinkState::Off(why) => (None, Some(why)),
        };
        serde_json::json!({ "sink": row.sink, "ok": ok, "why": why })
    };
    match output {
        Output::Json => format!("{}\n", serde_json::Value::from_iter(rows.iter().map(json))),
        Output::StreamJson => rows.iter().map(|row| format!("{}\n", json(row))).collect(),
        Output::Text => {
            let line = |row: &SinkRow| [row.sink.clone(), print::clean(&sinks::said(row, by, Of::Test))];
            table::columns(&rows.iter().map(line).collect::<Vec<_>>())
        }
    }
}
