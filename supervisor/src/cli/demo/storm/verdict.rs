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
