//! What one sink has told and what it still owes, record by record.
//!
//! A cursor is one number for each log, and sinks settle out of order: the number on disk is the lowest record that is
//! outstanding, less one; what is settled beyond it stands beside it. After a crash something may be told twice; nothing
//! is lost. Moves of breakers are handed in again from the cursor on even so: one of them alone says nothing.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use ukai_protocol::id::JobId;

use crate::alert::{Alert, Kind, Source};
use crate::filter::memory::{Memory, ms};

/// What is older is no news: it never goes out (spec §12).
pub const OWED_FOR_MS: u64 = 24 * 60 * 60 * 1_000;
/// More is never outstanding unless a sink has stopped; then its cursors stand still, which costs a second telling.
const OUTSTANDING_MAX: usize = 65_536;
/// Settled beyond the cursor: a key that is told too often holds it up for an hour. Those beyond this are told twice.
const BEYOND_MAX: usize = 4_096;
/// Jobs whose cursors are kept: a busy day has fewer. Beyond it, what was told of the oldest tenth may be told twice.
const JOBS_MAX: usize = 100_000;

/// One sink as it stands on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkCursors {
    /// When it was first seen: it owes nothing older.
    #[serde(default)]
    pub born_ms: u64,
    /// All records of `supervisor/events.jsonl` up to this are settled.
    #[serde(default)]
    pub server: u64,
    /// And these after it.
    #[serde(default)]
    pub beyond: BTreeSet<u64>,
    /// The same for the log of each job of which it has told lately.
    #[serde(default)]
    pub jobs: BTreeMap<JobId, JobCursor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<DeadSink>,
    /// It asked to be left alone; 0: it did not.
    #[serde(default)]
    pub wait_until_ms: u64,
    /// How long that was when it was written down: a clock that is set back makes no wait longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_left_ms: Option<u64>,
    /// A hash of what it was configured with when it asked: another address did not. None: it cannot say, or an earlier
    /// ukai did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_of: Option<String>,
    #[serde(default)]
    pub filter: Memory,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCursor {
    #[serde(default)]
    pub seq: u64,
    /// When it last moved; after a day nothing before it would go out anyway.
    #[serde(default)]
    pub at_ms: u64,
}

/// It takes nothing until it is configured otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadSink {
    /// A hash of what it was configured with.
    #[serde(default)]
    pub identity: String,
    #[serde(default)]
    pub why: String,
}

#[derive(Debug, Default)]
pub struct Ledger {
    /// With the highest records that were settled, whatever is outstanding below them.
    pub kept: SinkCursors,
    /// As loaded: nothing at or before these is told again.
    begun: Begun,
    /// When each happened.
    server: BTreeMap<u64, u64>,
    jobs: BTreeMap<(JobId, u64), u64>,
    stopped: bool,
}

#[derive(Debug, Default)]
struct Begun {
    server: u64,
    beyond: BTreeSet<u64>,
    jobs: BTreeMap<JobId, JobCursor>,
}

impl Ledger {
    #[must_use]
    pub fn recall(mut kept: SinkCursors, now_ms: u64) -> Self {
        // A clock that was set back since: better told twice than never.
        if kept.born_ms > now_ms {
            kept.born_ms = now_ms.saturating_sub(OWED_FOR_MS);
        }
        for cursor in kept.jobs.values_mut() {
            cursor.at_ms = cursor.at_ms.min(now_ms);
        }
        if let Some(left_ms) = kept.wait_left_ms {
            kept.wait_until_ms = kept.wait_until_ms.min(now_ms.saturating_add(left_ms));
        }
        let jobs = kept.jobs.clone();
        let begun = Begun { server: kept.server, beyond: kept.beyond.clone(), jobs };
        kept.server = kept.beyond.last().map_or(kept.server, |last| kept.server.max(*last));
        Ledger { begun, kept, ..Ledger::default() }
    }

    /// Whether it is to be handed to the sink. Then its record is outstanding until it is settled.
    pub fn take_in(&mut self, alert: &Alert, now_ms: u64) -> bool {
        // What an earlier process left; a live one happens now, whatever the clock says.
        let at_ms = ms(alert.at).min(now_ms);
        if self.stopped || (alert.late && (at_ms < self.kept.born_ms || now_ms - at_ms > OWED_FOR_MS)) {
            return false;
        }
        let Some(source) = &alert.source else { return true };
        let begun = match source {
            Source::Server { seq } => {
                let alone = alert.what.key().kind != Kind::Breaker;
                *seq <= self.begun.server || (alone && self.begun.beyond.contains(seq))
            }
            // A log that was cleared counts its records anew: one that is later by the clock is another.
            Source::Job { job, seq } => {
                self.begun.jobs.get(job).is_some_and(|begun| *seq <= begun.seq && at_ms <= begun.at_ms)
            }
        };
        // What happens now cannot have been told before.
        if begun && alert.late {
            return false;
        }
        match source.clone() {
            Source::Server { seq } => {
                self.kept.beyond.remove(&seq);
                self.server.insert(seq, at_ms);
            }
            Source::Job { job, seq } => drop(self.jobs.insert((job, seq), at_ms)),
        }
        self.prune(now_ms);
        self.stopped = self.server.len() + self.jobs.len() > OUTSTANDING_MAX;
        true
    }

    pub fn settle(&mut self, source: Source, now_ms: u64) {
        if self.stopped {
            return;
        }
        match source {
            Source::Server { seq } => {
                self.server.remove(&seq);
                self.kept.server = self.kept.server.max(seq);
                self.kept.beyond.insert(seq);
                while self.kept.beyond.len() > BEYOND_MAX {
                    self.kept.beyond.pop_first();
                }
            }
            Source::Job { job, seq } => {
                self.jobs.remove(&(job.clone(), seq));
                let cursor = self.kept.jobs.entry(job).or_default();
                *cursor = JobCursor { seq: cursor.seq.max(seq), at_ms: now_ms };
                self.bound_jobs();
            }
        }
    }

    fn bound_jobs(&mut self) {
        if self.kept.jobs.len() <= JOBS_MAX {
            return;
        }
        let mut by_age: Vec<_> = self.kept.jobs.iter().map(|(job, cursor)| (cursor.at_ms, job.clone())).collect();
        by_age.sort_unstable();
        for (_, job) in by_age.drain(..JOBS_MAX / 10) {
            self.kept.jobs.remove(&job);
        }
    }

    /// It takes no more: its cursors stand still.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// It takes messages again. What it missed was counted when it did, and no cursor waits for it.
    pub fn revive(&mut self) {
        self.kept.dead = None;
        self.stopped = false;
        self.server.clear();
        self.jobs.clear();
    }

    /// What is too old to go out is owed no more.
    fn prune(&mut self, now_ms: u64) {
        let old = |at_ms: u64| now_ms.saturating_sub(at_ms) > OWED_FOR_MS;
        if self.server.values().next().is_some_and(|at_ms| old(*at_ms)) {
            self.server.retain(|_, at_ms| !old(*at_ms));
        }
        // All of them are looked at only when there are many.
        if self.jobs.len() > OUTSTANDING_MAX / 2 {
            self.jobs.retain(|_, at_ms| !old(*at_ms));
        }
    }

    /// As it is to stand on disk.
    #[must_use]
    pub fn cursors(&mut self, now_ms: u64) -> SinkCursors {
        let old = |at_ms: u64| now_ms.saturating_sub(at_ms) > OWED_FOR_MS;
        self.server.retain(|_, at_ms| !old(*at_ms));
        self.jobs.retain(|_, at_ms| !old(*at_ms));
        self.kept.jobs.retain(|_, cursor| !old(cursor.at_ms));
        let highest = self.kept.server;
        let lowest = self.server.first_key_value().map(|(lowest, _)| lowest.saturating_sub(1));
        let server = lowest.map_or(highest, |lowest| lowest.min(highest));
        self.kept.beyond = self.kept.beyond.split_off(&server.saturating_add(1));
        let mut cursors = SinkCursors { server, ..self.kept.clone() };
        for (job, seq) in self.jobs.keys() {
            if let Some(cursor) = cursors.jobs.get_mut(job) {
                cursor.seq = cursor.seq.min(seq.saturating_sub(1));
            }
        }
        cursors
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::alert::What;

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: u64 = 60 * 60 * 1_000;

    fn server(seq: u64) -> Source {
        Source::Server { seq }
    }

    fn job(seq: u64) -> Source {
        Source::Job { job: JobId::from_random([1; 5]), seq }
    }

    fn alert(source: Source, at_ms: u64, late: bool) -> Alert {
        Alert { what: What::Test, source: Some(source), at: UNIX_EPOCH + Duration::from_millis(at_ms), late }
    }

    fn shown(ledger: &mut Ledger) -> (u64, Option<u64>) {
        let cursors = ledger.cursors(NOW);
        (cursors.server, cursors.jobs.values().next().map(|cursor| cursor.seq))
    }

    #[test]
    fn the_cursor_stays_below_what_is_outstanding() {
        let mut ledger = Ledger::default();
        for source in [server(3), server(5), server(9), job(2), job(4)] {
            assert!(ledger.take_in(&alert(source, NOW, false), NOW));
        }
        for (source, expected) in [
            (server(5), (2, None)),
            (job(4), (2, Some(1))),
            (server(3), (5, Some(1))),
            (server(9), (9, Some(1))),
            (job(2), (9, Some(4))),
        ] {
            ledger.settle(source, NOW);
            assert_eq!(shown(&mut ledger), expected);
        }
    }

    #[test]
    fn what_was_settled_before_is_not_taken_in_again_and_what_comes_out_of_order_is() {
        let mut before = Ledger::default();
        for source in [server(3), job(2)] {
            before.take_in(&alert(source.clone(), NOW, false), NOW);
            before.settle(source, NOW);
        }
        let mut ledger = Ledger::recall(before.cursors(NOW), NOW);
        assert!(!ledger.take_in(&alert(server(3), NOW, true), NOW));
        assert!(!ledger.take_in(&alert(job(1), NOW, true), NOW));
        for source in [server(6), job(3)] {
            assert!(ledger.take_in(&alert(source.clone(), NOW, false), NOW));
            ledger.settle(source, NOW);
        }
        assert!(ledger.take_in(&alert(server(5), NOW, false), NOW), "it came after its successor");
        assert_eq!(shown(&mut ledger), (4, Some(3)));
    }

    #[test]
    fn what_was_settled_out_of_order_is_known_after_a_restart_but_for_breakers() {
        let mut before = Ledger::default();
        for source in [server(3), server(5), server(6)] {
            before.take_in(&alert(source, NOW, false), NOW);
        }
        before.settle(server(5), NOW);
        before.settle(server(6), NOW);
        let kept = before.cursors(NOW);
        assert_eq!((kept.server, kept.beyond.iter().copied().collect()), (2, vec![5, 6]));
        let mut ledger = Ledger::recall(kept, NOW);
        let opened = What::BreakerOpened { account: "lab".to_owned(), why: String::new(), until: None };
        assert!(ledger.take_in(&alert(server(3), NOW, true), NOW));
        assert!(!ledger.take_in(&alert(server(5), NOW, true), NOW));
        assert!(ledger.take_in(&Alert { what: opened, ..alert(server(6), NOW, true) }, NOW));
        ledger.settle(server(3), NOW);
        assert_eq!(ledger.cursors(NOW).server, 5);
        ledger.settle(server(6), NOW);
        assert_eq!(shown(&mut ledger), (6, None));
    }

    #[test]
    fn what_is_older_than_a_day_or_than_the_sink_is_not_owed() {
        let kept = SinkCursors { born_ms: NOW - 30 * HOUR, ..SinkCursors::default() };
        let mut ledger = Ledger::recall(kept, NOW);
        for (hours, late, owed) in [(25, true, false), (23, true, true), (25, false, true)] {
            assert_eq!(ledger.take_in(&alert(server(hours), NOW - hours * HOUR, late), NOW), owed, "{hours} h");
        }
        let mut young = Ledger::recall(SinkCursors { born_ms: NOW - HOUR, ..SinkCursors::default() }, NOW);
        assert!(!young.take_in(&alert(server(1), NOW - 2 * HOUR, true), NOW));
        let mut set_back = Ledger::recall(SinkCursors { born_ms: NOW + 9 * HOUR, ..SinkCursors::default() }, NOW);
        assert!(set_back.take_in(&alert(server(1), NOW - HOUR, true), NOW));
        assert!(set_back.take_in(&alert(server(2), NOW + 9 * HOUR, true), NOW));
    }

    #[test]
    fn a_day_later_what_never_arrived_holds_nothing_up_and_jobs_are_forgotten() {
        let mut ledger = Ledger::default();
        for source in [server(3), server(5), job(2)] {
            ledger.take_in(&alert(source, NOW, false), NOW);
        }
        ledger.settle(server(5), NOW);
        ledger.settle(job(2), NOW);
        assert_eq!(shown(&mut ledger), (2, Some(2)));
        let later = ledger.cursors(NOW + 25 * HOUR);
        assert_eq!((later.server, later.jobs.len()), (5, 0));
    }

    #[test]
    fn only_so_many_jobs_are_kept_and_the_oldest_go_first() {
        let mut ledger = Ledger::default();
        let of = |number: u64| {
            let [.., a, b, c, d, e] = number.to_be_bytes();
            Source::Job { job: JobId::from_random([a, b, c, d, e]), seq: 1 }
        };
        // The last by name are the oldest.
        for number in (0..=JOBS_MAX as u64).rev() {
            ledger.settle(of(number), NOW - number);
        }
        assert_eq!(ledger.kept.jobs.len(), JOBS_MAX - JOBS_MAX / 10 + 1);
        let Source::Job { job: newest, .. } = of(0) else { unreachable!("it is of a job") };
        assert!(ledger.kept.jobs.contains_key(&newest));
    }

    #[test]
    fn more_than_can_be_remembered_stops_the_cursor_and_loses_nothing() {
        let mut ledger = Ledger::default();
        let max = OUTSTANDING_MAX as u64;
        for seq in 1..=max + 1 {
            assert!(ledger.take_in(&alert(server(seq), NOW, false), NOW));
        }
        assert!(!ledger.take_in(&alert(server(max + 2), NOW, false), NOW));
        ledger.settle(server(1), NOW);
        assert_eq!(ledger.cursors(NOW).server, 0);
    }
}
