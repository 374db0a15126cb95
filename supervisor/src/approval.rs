//! Which questions are open, until when, and whose answer counts: the first that is claimed.
//!
//! A person, a hook and the clock may answer at the same time. All come here, and a question is claimed by one of them
//! until that verdict is on disk or could not be written; the others are late, and are told by whom they were beaten.
//! Deadlines run on the monotonic clock: a jump of the other one answers nothing.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::run_state::OpenAsk;

/// What was open when a supervisor started may be answered at least so long (spec §8).
pub const AFTER_START: Duration = Duration::from_secs(60);
/// A worker that waits for nothing but a person is kept so long: most who sit at a terminal answer at once.
pub const LINGER: Duration = Duration::from_secs(5);
/// Answered questions that are remembered, for who comes late.
const ANSWERED_MAX: usize = 1_000;

/// A call of a job.
pub type Ask = (JobId, String);

#[derive(Debug, Default)]
pub struct Approval {
    open: BTreeMap<Ask, Open>,
    /// Workers that wait for nothing but a person, and when they are told to go.
    lingering: BTreeMap<JobId, Instant>,
    /// The last to be answered is the last.
    answered: VecDeque<(Ask, String)>,
}

#[derive(Debug)]
struct Open {
    deadline: Instant,
    /// A verdict is on its way to the disk, in these words.
    claimed: Option<String>,
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Late {
    #[error("it was answered already: {0}")]
    Answered(String),
    #[error("it is not open")]
    Unknown,
}

impl Approval {
    /// The questions of a job are these now. `wall_ms`: milliseconds since 1970; `longest`: what its policy gives a question;
    /// `shortest`: what it has left at least.
    pub fn sync(
        &mut self,
        job: &JobId,
        asks: &[OpenAsk],
        wall_ms: u64,
        (shortest, longest): (Duration, Duration),
        now: Instant,
    ) {
        let gone = |(of, call): &Ask| of == job && asks.iter().all(|ask| ask.call != *call);
        let over: Vec<Ask> = self.open.keys().filter(|ask| gone(ask)).cloned().collect();
        over.iter().for_each(|ask| self.over(ask));
        for ask in asks {
            let left = Duration::from_millis(ask.deadline_ms.saturating_sub(wall_ms));
            let deadline = now + left.min(longest).max(shortest);
            self.open.entry((job.clone(), ask.call.clone())).or_insert(Open { deadline, claimed: None });
        }
        if asks.is_empty() {
            self.lingering.remove(job);
        }
    }

    /// Its worker waits for nothing else.
    pub fn linger(&mut self, job: &JobId, now: Instant) {
        self.lingering.entry(job.clone()).or_insert(now + LINGER);
    }

    /// From here on no other answer counts. `how`: for those who come later.
    pub fn claim(&mut self, ask: &Ask, how: &str) -> Result<(), Late> {
        match self.open.get_mut(ask) {
            Some(Open { claimed: Some(how), .. }) => Err(Late::Answered(how.clone())),
            Some(open) => {
                open.claimed = Some(how.to_owned());
                Ok(())
            }
            None => match self.answered.iter().rev().find(|(known, _)| known == ask) {
                Some((_, how)) => Err(Late::Answered(how.clone())),
                None => Err(Late::Unknown),
            },
        }
    }

    /// It is answered, and that is on disk; or its job has ended.
    fn over(&mut self, ask: &Ask) {
        let Some(how) = self.open.remove(ask).and_then(|open| open.claimed) else { return };
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back((ask.clone(), how));
    }

    /// It could not be written: the question is open again, and not due before `again`.
    pub fn unclaim(&mut self, ask: &Ask, again: Instant) {
        if let Some(open) = self.open.get_mut(ask) {
            open.claimed = None;
            open.deadline = open.deadline.max(again);
        }
    }

    /// The open questions of a job that nobody has answered.
    pub fn of<'a>(&'a self, job: &'a JobId) -> impl Iterator<Item = &'a str> {
        let open = self.open.iter().filter(move |((of, _), open)| of == job && open.claimed.is_none());
        open.map(|((_, call), _)| call.as_str())
    }

    /// The call of a job that was answered last, and how.
    #[must_use]
    pub fn last_of(&self, job: &JobId) -> Option<(&str, &str)> {
        let ((_, call), how) = self.answered.iter().rev().find(|((of, _), _)| of == job)?;
        Some((call, how))
    }

    /// Those that nobody answered in time.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<Ask> {
        let due = self.open.iter().filter(|(_, open)| open.claimed.is_none() && open.deadline <= now);
        due.map(|(ask, _)| ask.clone()).collect()
    }

    /// Workers that are to go now, each told once.
    pub fn to_park(&mut self, now: Instant) -> Vec<JobId> {
        let due: Vec<_> = self.lingering.iter().filter(|(_, at)| **at <= now).map(|(job, _)| job.clone()).collect();
        for job in &due {
            self.lingering.remove(job);
        }
        due
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let open = self.open.values().filter(|open| open.claimed.is_none()).map(|open| open.deadline);
        open.chain(self.lingering.values().copied()).min()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(600);

    fn job(number: u8) -> JobId {
        JobId::from_random([0, 0, 0, 0, number])
    }

    fn ask(call: &str, deadline_ms: u64) -> OpenAsk {
        OpenAsk {
            call: call.to_owned(),
            tool: "Bash".to_owned(),
            input: ukai_protocol::json::Json::default(),
            rule: None,
            why: String::new(),
            missing: Vec::new(),
            deadline_ms,
        }
    }

    #[test]
    fn the_first_verdict_wins_and_the_others_are_told_by_whom() {
        let (mut approval, now) = (Approval::default(), Instant::now());
        approval.sync(&job(1), &[ask("c", 600_000)], 0, (Duration::ZERO, LONGEST), now);
        let question = (job(1), "c".to_owned());
        assert_eq!(approval.claim(&question, "allowed by a person"), Ok(()));
        let beaten = Err(Late::Answered("allowed by a person".to_owned()));
        assert_eq!(approval.claim(&question, "denied by a hook"), beaten);
        assert_eq!(approval.due(now + LONGEST), [], "nor does the clock answer it");
        approval.sync(&job(1), &[], 0, (Duration::ZERO, LONGEST), now);
        assert_eq!(approval.claim(&question, "denied by a hook"), beaten);
        assert_eq!(approval.claim(&(job(2), "c".to_owned()), ""), Err(Late::Unknown));
    }

    #[test]
    fn what_could_not_be_written_is_open_again() {
        let (mut approval, now) = (Approval::default(), Instant::now());
        approval.sync(&job(1), &[ask("c", 1_000)], 0, (Duration::ZERO, LONGEST), now);
        let (question, later) = ((job(1), "c".to_owned()), now + Duration::from_secs(2));
        assert_eq!(approval.claim(&question, "nobody answered in time"), Ok(()));
        approval.unclaim(&question, later);
        assert_eq!(approval.due(now + Duration::from_secs(1)), [], "not in a hot loop");
        assert_eq!(approval.due(later), [question]);
    }

    #[test]
    fn a_question_has_what_is_left_of_its_time_and_a_minute_after_a_start() {
        let second = Duration::from_secs(1);
        for (quirk, deadline_ms, wall_ms, shortest, expected) in [
            ("just asked", 600_000, 0, Duration::ZERO, LONGEST),
            ("half of it is over", 600_000, 300_000, Duration::ZERO, LONGEST / 2),
            ("the clock was set back", 900_000_000, 0, Duration::ZERO, LONGEST),
            ("overdue at a start", 1_000, 500_000, AFTER_START, AFTER_START),
            ("nearly due at a start", 600_000, 590_000, AFTER_START, AFTER_START),
            ("far off at a start", 600_000, 0, AFTER_START, LONGEST),
        ] {
            let (mut approval, now) = (Approval::default(), Instant::now());
            approval.sync(&job(1), &[ask("c", deadline_ms)], wall_ms, (shortest, LONGEST), now);
            assert_eq!(approval.poll_timeout(), Some(now + expected), "{quirk}");
            assert_eq!(approval.due(now + expected - second).len(), 0, "{quirk}");
            assert_eq!(approval.due(now + expected).len(), 1, "{quirk}");
            // Heard of again, it gets no more time.
            approval.sync(&job(1), &[ask("c", deadline_ms)], 0, (LONGEST * 9, LONGEST * 9), now);
            assert_eq!(approval.poll_timeout(), Some(now + expected), "{quirk}");
        }
    }

    #[test]
    fn a_worker_lingers_once_and_not_past_the_answer() {
        let (mut approval, now) = (Approval::default(), Instant::now());
        for number in [1, 2] {
            approval.sync(&job(number), &[ask("c", 600_000)], 0, (Duration::ZERO, LONGEST), now);
            approval.linger(&job(number), now);
        }
        approval.sync(&job(2), &[], 0, (Duration::ZERO, LONGEST), now);
        assert_eq!(approval.to_park(now), []);
        assert_eq!(approval.to_park(now + LINGER), [job(1)]);
        assert_eq!(approval.to_park(now + LINGER), []);
    }
}
