//! Whether the storm went as it is told: nobody came early, nothing was lost, all that ended can go on from disk.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

use ukai_protocol::control::{BreakerState, JobRow, ProviderRow};
use ukai_protocol::job::{CauseKind, JobStatus, Outcome};

use super::arrivals::{TOO_MANY, Visits, WELL};
use super::watch::Watched;
use crate::cli::table;

/// What was seen while it played, and what lay on disk afterwards.
#[derive(Debug)]
pub(super) struct Story {
    pub watched: Watched,
    /// In the order of the candidates.
    pub visits: Vec<Visits>,
    pub rows: Vec<JobRow>,
    pub providers: Vec<ProviderRow>,
}

impl Story {
    pub fn completed(&self) -> usize {
        self.rows.iter().filter(|row| row.status == JobStatus::Completed).count()
    }

    pub fn aborted(&self) -> usize {
        self.rows.iter().filter(|row| is_all_open(row)).count()
    }

    pub fn queued(&self) -> usize {
        self.rows.iter().filter(|row| row.status == JobStatus::Queued).count()
    }

    /// What did not go as told; empty if all did.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(limit) = self.watched.unfinished {
            wrong.push(format!(
                "it was not over after {} s: the folder is large, or the machine busy; name a smaller folder",
                limit.as_secs()
            ));
        }
        self.visits.iter().for_each(|visits| at_a_provider(visits, &mut wrong));
        for row in self.providers.iter().filter(|row| row.breaker != BreakerState::Open) {
            wrong.push(format!("the breaker of {} is not OPEN", row.id));
        }
        let known: HashSet<_> = self.rows.iter().map(|row| &row.id).collect();
        for id in self.watched.ids.iter().filter(|id| !known.contains(id)) {
            wrong.push(format!("{id} was submitted, and is lost"));
        }
        self.rows.iter().for_each(|row| self.at_a_job(row, &mut wrong));
        for (count, what) in [
            (self.completed(), "completed"),
            (self.aborted(), "was running at the end"),
            (self.queued(), "stayed queued"),
        ] {
            if count == 0 {
                wrong.push(format!("no job {what}"));
            }
        }
        wrong
    }

    fn at_a_job(&self, row: &JobRow, wrong: &mut Vec<String>) {
        let as_told = matches!(row.status, JobStatus::Completed | JobStatus::Queued) || is_all_open(row);
        if !as_told {
            wrong.push(format!("{} is {}: {}", row.name, row.status, table::why(row)));
        }
        // What its log holds is all that was answered to it: it can go on from there.
        let replies: usize = self.visits.iter().map(|visits| visits.replies_to(&row.name)).sum();
        if row.used.steps != replies as u64 {
            wrong.push(format!("{} was answered {replies} ×, and {} steps are in its log", row.name, row.used.steps));
        }
    }
}

fn at_a_provider(visits: &Visits, wrong: &mut Vec<String>) {
    let provider = &visits.provider;
    for visit in visits.early() {
        wrong.push(format!(
            "{} asked {provider} at {} ms, before the time that it had named",
            visit.job.as_deref().unwrap_or("somebody"),
            visits.ms(visit.at)
        ));
    }
    if visits.closed.is_none() {
        wrong.push(format!("{provider} never asked anybody to wait"));
    }
    let others = visits.all.len() - visits.count(TOO_MANY) - visits.count(WELL);
    if others > 0 {
        wrong.push(format!("{provider} answered {others} × with neither 200 nor 429; see {}", visits.record.display()));
    }
}

fn is_all_open(row: &JobRow) -> bool {
    row.status == JobStatus::Aborted
        && matches!(&row.outcome, Some(Outcome::Ended(cause)) if cause.kind == CauseKind::AllOpen)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use ukai_protocol::control::ProviderRow;
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, Used};
    use ukai_protocol::lease::Wire;
    use ukai_protocol::run_state::Progress;

    use super::super::arrivals::{Closed, Visit};
    use super::*;

    fn job(number: u8, status: JobStatus, steps: u64) -> JobRow {
        let progress = Progress { name: format!("j{number}"), ..Progress::default() };
        let outcome = match status {
            JobStatus::Completed => Some(Outcome::Completed { attention: false }),
            JobStatus::Aborted => Some(Outcome::Ended(Cause::new(CauseKind::AllOpen, String::new()))),
            _ => None,
        };
        let used = Used { steps, ..Used::default() };
        JobRow { status, outcome, used, ..JobRow::of(JobId::from_random([number; 5]), &progress, String::new()) }
    }

    fn visit(job: u8, status: u16) -> Visit {
        Visit { at: Timestamp::UNIX_EPOCH, job: Some(format!("j{job}")), step: 1, status: Some(status), early: false }
    }

    /// One job completed, one ended since nobody could be asked, one is queued.
    fn story() -> Story {
        let rows = vec![job(1, JobStatus::Completed, 1), job(2, JobStatus::Aborted, 1), job(3, JobStatus::Queued, 0)];
        let closed = Closed { from: Timestamp::UNIX_EPOCH, until: Timestamp::UNIX_EPOCH };
        let visits = |provider: &str, all| Visits {
            provider: provider.to_owned(),
            record: Path::new("r").to_owned(),
            all,
            closed: Some(closed),
        };
        let row = |id: &str| ProviderRow {
            id: id.to_owned(),
            account: id.to_owned(),
            wire: Wire::Openai,
            model: String::new(),
            breaker: BreakerState::Open,
            why: None,
            open_ms: None,
            not_before_ms: None,
            in_flight: 0,
            in_flight_max: 8,
            requests: None,
            tokens: None,
            tools: None,
            last_failure: None,
        };
        Story {
            watched: Watched {
                ids: rows.iter().map(|row| row.id.clone()).collect(),
                moves: Vec::new(),
                unfinished: None,
            },
            visits: vec![
                visits("first", vec![visit(1, 429), visit(2, 429)]),
                visits("second", vec![visit(1, 200), visit(2, 200), visit(2, 429)]),
            ],
            rows,
            providers: ["first", "second"].map(row).into(),
        }
    }

    fn check(change: impl Fn(&mut Story), expected: &[&str]) {
        let mut story = story();
        change(&mut story);
        let wrong = story.wrong();
        let all = wrong.len() == expected.len() && wrong.iter().zip(expected).all(|(why, part)| why.contains(part));
        assert!(all, "{wrong:?} / {expected:?}");
    }

    #[test]
    fn what_did_not_go_as_told_is_said() {
        check(|_| {}, &[]);
        check(|story| story.visits[0].all[1].early = true, &["j2 asked first at 0 ms, before the time"]);
        check(|story| story.visits[1].closed = None, &["second never asked anybody to wait"]);
        check(|story| story.visits[1].all.push(visit(2, 400)), &["second answered 1 × with neither"]);
        check(|story| story.providers[0].breaker = BreakerState::HalfOpen, &["the breaker of first is not OPEN"]);
        check(|story| drop(story.rows.remove(2)), &["j-amb", "no job stayed queued"]);
        check(|story| story.rows[2].status = JobStatus::Running, &["j3 is running", "no job stayed queued"]);
        check(|story| story.rows[1].used.steps = 0, &["j2 was answered 1 ×, and 0 steps"]);
        check(|story| story.rows[1] = job(2, JobStatus::Completed, 1), &["no job was running at the end"]);
        check(
            |story| story.rows[1].outcome = Some(Outcome::Ended(Cause::new(CauseKind::Quarantined, "torn"))),
            &["j2 is aborted: checkpoint_failed(quarantined): torn", "no job was running at the end"],
        );
        check(
            |story| story.watched.unfinished = Some(std::time::Duration::from_secs(30)),
            &["it was not over after 30 s"],
        );
    }
}
