//! The connection of a worker to its supervisor. Nothing overtakes on it; it breaks when the supervisor ends, and what
//! the next one must know is said again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use ukai_protocol::lease::{Ask, Report, Wait};

use super::Fleet;
use super::agenda::{Coming, Word};

/// What the session of a worker remembers.
#[derive(Default)]
pub struct Link {
    pub away: bool,
    pub open_ask: Option<Ask>,
    pub named: Option<(Report, Instant)>,
    /// Said while there was nobody to hear it.
    pub held: VecDeque<Word>,
    /// Nothing overtakes on it.
    pub last: Option<Instant>,
}

impl Fleet {
    /// What it said is heard before.
    pub fn tell_of_end(&mut self, job: u32) {
        let at = self.arrival(job);
        let (life, reign) = (self.worker(job).life, self.shell.reign);
        if let Some(stopped) = self.worker(job).leaving {
            self.agenda.push(at, Coming::Word { job, life, reign, word: Word::Gone { stopped } });
        }
    }

    /// When something that is sent now arrives at the supervisor's side.
    pub fn arrival(&mut self, job: u32) -> Instant {
        let at = self.agenda.now + Duration::from_micros(self.rng.random_range(100..3_000));
        let last = &mut self.worker(job).link.last;
        let at = last.map_or(at, |last| last.max(at));
        *last = Some(at);
        at
    }

    pub fn say(&mut self, job: u32, word: Word) {
        let now = self.agenda.now;
        let link = &mut self.worker(job).link;
        if link.away {
            return link.held.push_back(word);
        }
        match &word {
            Word::Ask(ask) => link.open_ask = Some(ask.clone()),
            Word::Withdraw(_) => link.open_ask = None,
            Word::Report(report) if report.wait.is_some() => link.named = Some((report.clone(), now)),
            Word::Report(_) | Word::Returned | Word::Gone { .. } => {}
        }
        self.send(job, word);
    }

    fn send(&mut self, job: u32, word: Word) {
        let at = self.arrival(job);
        let (life, reign) = (self.worker(job).life, self.shell.reign);
        self.agenda.push(at, Coming::Word { job, life, reign, word });
    }

    /// It has found the next supervisor, and says again what that must know.
    pub fn back(&mut self, job: u32) {
        let now = self.agenda.now;
        let link = &mut self.worker(job).link;
        link.away = false;
        let (named, open_ask, held) = (link.named.clone(), link.open_ask.clone(), std::mem::take(&mut link.held));
        if let Some(report) = named.and_then(|(report, at)| still_waits(report, now - at)) {
            self.send(job, Word::Report(report));
        }
        self.send(job, Word::Returned);
        if let Some(ask) = open_ask {
            self.send(job, Word::Ask(ask));
        }
        held.into_iter().for_each(|word| self.say(job, word));
    }
}

/// What is left of a named wait, if anything.
fn still_waits(report: Report, passed: Duration) -> Option<Report> {
    let Some(Wait::For(ms)) = report.wait else { return Some(report) };
    let left = ms.saturating_sub(passed.as_millis() as u64);
    (left > 0).then_some(Report { wait: Some(Wait::For(left)), ..report })
}
