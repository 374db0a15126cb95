//! `ukai pause JOB…`: the call under way ends, nothing new begins, the process goes; until `ukai unpause`.

use ukai_protocol::command::quoted;
use ukai_protocol::control::{JobRow, Request, Response, Selection};

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::which::Which;
use super::{Output, print};

pub(crate) async fn pause(context: &Context, which: Which) -> Result<u8, Failure> {
    let rows = match ask(context, |jobs| Request::Pause { jobs }, which).await? {
        Response::Paused { rows } => rows,
        other => return Err(unexpected(&other)),
    };
    print_rows(context, &rows);
    if rows.is_empty() {
        print::note("ukai: there was nothing to pause");
    }
    for JobRow { id, status, note, .. } in &rows {
        if status.is_ended() {
            print::note(&format!("ukai: {id} was {status} before it could pause"));
        } else if !note.is_empty() {
            print::note(&format!("ukai: {id} {note}"));
        }
    }
    Ok(0)
}

/// Sends what both verbs ask, about the jobs that were typed.
pub(super) async fn ask(
    context: &Context,
    request: impl FnOnce(Selection) -> Request,
    which: Which,
) -> Result<Response, Failure> {
    let no_server =
        format!("start one with {}: nothing runs meanwhile, and who is paused stays so", quoted(&["serve"]));
    Client::connect_or_say(context, &no_server).await?.ask(&request(which.selection())).await
}

pub(super) fn print_rows(context: &Context, rows: &[JobRow]) {
    let line = |row: &JobRow| match context.output {
        Output::Text => format!("{}\n", row.id),
        Output::Json | Output::StreamJson => {
            format!("{}\n", serde_json::json!({ "job_id": row.id, "status": row.status.to_string() }))
        }
    };
    print::out(&rows.iter().map(line).collect::<String>());
}
