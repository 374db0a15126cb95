//! How the sinks of alerts stand, in the words of `notify test` and `doctor`.
//!
//! Who tells is the server where one runs, with the environment that it was started in: what this terminal has set says
//! nothing of it, and a difference between the two is named.

use ukai_notifier::{DISCORD, LOG};
use ukai_protocol::command::quoted;
use ukai_protocol::control::{Request, Response, SinkRow, SinkState};

use super::client::{Client, unexpected};
use super::context::{WEBHOOK_VARIABLE, webhook};
use super::failure::Failure;

/// Who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Server,
    /// This process, in this terminal.
    Here,
}

/// What was asked of the sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Test,
    Standing,
}

/// How the server's sinks stand, or how a test of them goes.
pub(crate) async fn asked(client: Client, of: Of) -> Result<Vec<SinkRow>, Failure> {
    let request = if of == Of::Test { Request::TestNotify } else { Request::Sinks };
    match client.ask(&request).await? {
        Response::Notified { sinks } => Ok(sinks),
        other => Err(unexpected(&other)),
    }
}

/// The row, with what only this terminal knows.
pub(crate) fn known(row: SinkRow, by: By) -> SinkRow {
    let SinkRow { sink, state } = row;
    let state = match state {
        SinkState::Off(_) if sink == DISCORD && by == By::Server => SinkState::Off(format!(
            "not configured: the server was started without {WEBHOOK_VARIABLE}{}; start it again with it",
            if webhook().is_some() { ", which this terminal has" } else { "" }
        )),
        state => state,
    };
    SinkRow { sink, state }
}

/// How it stands, in a line.
pub(crate) fn said(SinkRow { sink, state }: &SinkRow, by: By, of: Of) -> String {
    let well = if of == Of::Test { "arrived" } else { "on" };
    match state {
        SinkState::On if sink == LOG => match by {
            By::Server => format!("{well}: stderr of the server ({})", quoted(&["serve"])),
            By::Here => format!("{well}: stderr of this terminal"),
        },
        SinkState::On if sink == DISCORD && by == By::Server && webhook().is_none() => {
            format!("{well}: the server has {WEBHOOK_VARIABLE}, this terminal has not")
        }
        SinkState::On => well.to_owned(),
        SinkState::Failed(why) | SinkState::Dead(why) | SinkState::Off(why) => why.clone(),
    }
}
