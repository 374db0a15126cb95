//! What a job did, call by call, as its log tells it.

use ukai_protocol::control::Happened;
use ukai_protocol::event::{Event, ToolStatus};
use ukai_protocol::id::JobId;
use ukai_protocol::json::Json;
use ukai_protocol::policy::Judgement;

use crate::cli::failure::Failure;
use crate::cli::offline;
use crate::store::StateDir;

/// One call. The numbers are those of records.
#[derive(Clone, Debug)]
pub(super) struct Act {
    call: String,
    pub tool: String,
    pub input: Json,
    /// It was put to somebody.
    pub asked: Option<u64>,
    pub judged: Option<(u64, Judgement)>,
    pub finished: Option<(u64, ToolStatus, String)>,
}

/// In the order in which they were decided on, and how many processes the job had.
pub(super) fn read(state: &StateDir, job: &JobId) -> Result<(Vec<Act>, u32), Failure> {
    let (mut acts, mut attempts) = (Vec::new(), 0);
    offline::records(state, job, |happened| {
        attempts += u32::from(matches!(happened.event, Event::Started { .. }));
        take(&mut acts, happened);
    })?;
    Ok((acts, attempts))
}

fn take(acts: &mut Vec<Act>, Happened { seq, event, .. }: Happened) {
    let new = |call, tool, input, asked, judged| Act { call, tool, input, asked, judged, finished: None };
    let known =
        |acts: &mut Vec<Act>, call: &str| acts.iter().rposition(|act| act.call == call && act.finished.is_none());
    match event {
        Event::Judged { call, tool, input, judgement, .. } => match known(acts, &call) {
            Some(at) => acts[at].judged = Some((seq, judgement)),
            None => acts.push(new(call, tool, input, None, Some((seq, judgement)))),
        },
        Event::AskOpened { call, tool, input, .. } => acts.push(new(call, tool, input, Some(seq), None)),
        Event::AskAnswered { call, judgement, .. } => {
            if let Some(at) = known(acts, &call) {
                acts[at].judged = Some((seq, judgement));
            }
        }
        Event::ToolFinished { call, status, output, .. } => {
            if let Some(at) = known(acts, &call) {
                acts[at].finished = Some((seq, status, output));
            }
        }
        _ => {}
    }
}
