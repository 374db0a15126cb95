//! What to type after a list that did not all complete.
//!
//! What can go on where it stopped is not begun anew: its finished steps would be paid for twice, and a limit that ended
//! it would end its successor too.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use ukai_protocol::command::command;
use ukai_protocol::control::JobRow;
use ukai_protocol::id::BatchId;
use ukai_protocol::job::{CauseKind, JobStatus, Limits, Outcome};

use crate::resume;

/// A line each; `ended`: its jobs, with the limits that they ran with, where those are known.
#[must_use]
pub fn lines<'a>(batch: &BatchId, ended: impl IntoIterator<Item = (&'a JobRow, Option<Limits>)>) -> Vec<String> {
    let (mut go_on, mut anew) = (false, false);
    let mut raises = BTreeMap::new();
    for (row, limits) in ended {
        let Some(Outcome::Ended(cause)) = &row.outcome else {
            anew |= row.status.is_ended() && row.status != JobStatus::Completed;
            continue;
        };
        if row.status != JobStatus::Aborted || cause.kind == CauseKind::Quarantined {
            anew = true;
            continue;
        }
        go_on = true;
        let raise = limits.map(|limits| resume::to_raise(row.outcome.as_ref(), &row.used, &limits)).unwrap_or_default();
        raise.into_iter().for_each(|typed| enter(&mut raises, typed));
    }
    let mut lines = Vec::new();
    if go_on {
        let raises = raises.values().flat_map(|(_, typed)| ["--limit", typed.as_str()]);
        let words: Vec<_> = ["resume", batch.as_str()].into_iter().chain(raises).collect();
        lines.push(format!("what was aborted can go on where it stopped; type: {}", command(&words)));
    }
    if anew {
        lines.push("what was cancelled, or cannot go on, begins anew: type the same with --retry".to_owned());
    }
    lines
}

/// Of each limit the highest: it is enough for all.
fn enter(raises: &mut BTreeMap<String, (f64, String)>, typed: String) {
    let Some((key, value)) = typed.split_once('=') else { return };
    let number = value.trim_end_matches(|unit: char| unit.is_ascii_alphabetic()).parse().unwrap_or(f64::MAX);
    if raises.get(key).is_none_or(|(highest, _)| number > *highest) {
        raises.insert(key.to_owned(), (number, typed));
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, Limit, Used};
    use ukai_protocol::run_state::Progress;

    use super::*;

    #[test]
    fn what_can_go_on_is_resumed_with_the_highest_raise_and_only_the_rest_begins_anew() {
        let batch = BatchId::from_random([0; 5]);
        let of = |outcome: Option<Outcome>, steps| {
            let status = outcome.as_ref().map_or(JobStatus::Queued, Outcome::status);
            let used = Used { steps, ..Used::default() };
            let row = JobRow::of(JobId::from_random([0; 5]), &Progress::default(), String::new());
            JobRow { status, outcome, used, ..row }
        };
        let ended = |kind, steps| of(Some(Outcome::Ended(Cause::new(kind, ""))), steps);
        let steps = CauseKind::Limit(Limit::Steps);
        let resume = format!("what was aborted can go on where it stopped; type: ukai resume {batch}");
        let anew = "what was cancelled, or cannot go on, begins anew: type the same with --retry".to_owned();
        let raised = format!("{resume} --limit steps=8");
        for (rows, expected) in [
            (vec![], vec![]),
            (vec![of(Some(Outcome::Completed { attention: false }), 1), of(None, 0)], vec![]),
            (vec![ended(steps, 2), ended(steps, 4)], vec![&raised]),
            (vec![ended(CauseKind::AllOpen, 1)], vec![&resume]),
            (vec![ended(CauseKind::Cancel, 1)], vec![&anew]),
            (vec![ended(CauseKind::Quarantined, 1), ended(steps, 4)], vec![&raised, &anew]),
        ] {
            let limits = |row: &JobRow| Limits { steps: row.used.steps.max(2), ..Limits::default() };
            let rows: Vec<_> = rows.iter().map(|row| (row, Some(limits(row)))).collect();
            assert_eq!(lines(&batch, rows.iter().copied()).iter().collect::<Vec<_>>(), expected, "{rows:?}");
        }
    }
}
