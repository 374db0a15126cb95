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

/// All that is told of a job from its log.
#[derive(Default)]
pub(super) struct Log {
    pub prompt: String,
    /// Processes that it had.
    pub attempts: u32,
    /// In the order in which they were decided on.
    pub acts: Vec<Act>,
}

pub(super) fn read(state: &StateDir, job: &JobId) -> Result<Log, Failure> {
    let mut log = Log::default();
    offline::records(state, job, |happened| match happened.event {
        Event::Submitted { prompt, .. } => log.prompt = prompt,
        Event::Started { .. } => log.attempts += 1,
        _ => take(&mut log.acts, happened),
    })?;
    Ok(log)
}

fn take(acts: &mut Vec<Act>, Happened { seq, event, .. }: Happened) {
    let new = |call, tool, input, asked, judged| Act { call, tool, input, asked, judged, finished: None };
    match event {
        Event::Judged { call, tool, input, judgement, .. } => match open(acts, &call) {
            Some(at) => acts[at].judged = Some((seq, judgement)),
            None => acts.push(new(call, tool, input, None, Some((seq, judgement)))),
        },
        Event::AskOpened { call, tool, input, .. } => acts.push(new(call, tool, input, Some(seq), None)),
        Event::AskAnswered { call, judgement, .. } => {
            if let Some(at) = open(acts, &call) {
                acts[at].judged = Some((seq, judgement));
            }
        }
        Event::ToolFinished { call, status, output, .. } => {
            if let Some(at) = open(acts, &call) {
                acts[at].finished = Some((seq, status, output));
            }
        }
        _ => {}
    }
}

/// The latest of this id that has not ended.
fn open(acts: &[Act], call: &str) -> Option<usize> {
    acts.iter().rposition(|act| act.call == call && act.finished.is_none())
}
