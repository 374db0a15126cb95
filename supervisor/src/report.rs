//! Six figures of a period, and whether they speak for building more (seed 002, §5 "dogfooding").
//!
//! Each is counted from the logs alone. Periods are half-open: what happened at their beginning is theirs, what happened
//! at their end is the next one's.

#![deny(clippy::disallowed_methods)]

pub mod page;
pub mod period;

use std::collections::BTreeMap;

use ukai_protocol::control::BreakerState;
use ukai_protocol::event::Event;
use ukai_protocol::job::{JobStatus, Outcome, Reason};
use ukai_protocol::lease::AnswerClass;
use ukai_protocol::server_event::ServerEvent;

/// What happened in one period. No text of a conversation, and no key, is among it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Attempts that reached a provider.
    pub requests: u64,
    /// Of these, answered 429.
    pub limited: u64,
    /// Moves of breakers, by where they went.
    pub opened: u64,
    pub half_opened: u64,
    pub closed: u64,
    /// Jobs whose last state in the period is an end, whichever way: one that was resumed and ended again is one.
    pub ended: u64,
    pub completed: u64,
    /// Ends because a checkpoint could not be written.
    pub checkpoints_failed: u64,
    /// Files that did not verify: no end stands in a log of theirs.
    pub quarantined: u64,
    /// Aborts by `reason(cause)`.
    pub aborts: BTreeMap<String, u64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl Figures {
    /// Of any job; its ends are counted by [`Ends`].
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Replied { usage, .. } => {
                self.requests += 1;
                self.spend(usage.input, usage.output);
            }
            Event::AttemptFailed { class, usage, .. } => {
                self.requests += u64::from(*class != AnswerClass::Withdrawn);
                self.limited += u64::from(*class == AnswerClass::RateLimited);
                let usage = usage.unwrap_or_default();
                self.spend(usage.input, usage.output);
            }
            _ => {}
        }
    }

    fn end(&mut self, outcome: &Outcome) {
        self.ended += 1;
        self.completed += u64::from(outcome.status() == JobStatus::Completed);
        if let Outcome::Ended(cause) = outcome
            && outcome.status() == JobStatus::Aborted
        {
            let reason = cause.kind.reason();
            self.checkpoints_failed += u64::from(reason == Reason::CheckpointFailed);
            *self.aborts.entry(format!("{reason}({})", cause.kind)).or_default() += 1;
        }
    }

    pub fn add_server(&mut self, event: &ServerEvent) {
        match event {
            ServerEvent::BreakerMoved { to: BreakerState::Open, .. } => self.opened += 1,
            ServerEvent::BreakerMoved { to: BreakerState::HalfOpen, .. } => self.half_opened += 1,
            ServerEvent::BreakerMoved { to: BreakerState::Closed, .. } => self.closed += 1,
            ServerEvent::Quarantined { .. } => self.quarantined += 1,
            _ => {}
        }
    }

    fn spend(&mut self, input: u64, output: u64) {
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
    }

    #[must_use]
    pub fn aborted(&self) -> u64 {
        self.aborts.values().sum()
    }

    /// The six, in the order of the seed. None: nothing happened of which it could be said.
    #[must_use]
    pub fn values(&self) -> [Option<f64>; 6] {
        let of = |part: u64, all: u64| (all > 0).then(|| part as f64 * 100.0 / all as f64);
        let tokens = self.input_tokens.saturating_add(self.output_tokens);
        [
            of(self.limited, self.requests),
            Some((self.opened + self.half_opened + self.closed) as f64),
            // Nobody is asked anything in this version.
            None,
            of(self.checkpoints_failed + self.quarantined, self.ended + self.quarantined),
            of(self.aborted(), self.ended),
            (self.completed > 0).then(|| tokens as f64 / self.completed as f64),
        ]
    }
}

/// How one job stands at the end of one period, as far as its records of that period say.
#[derive(Clone, Debug, Default)]
pub struct Ends(Option<Outcome>);

impl Ends {
    /// The records of the job in their order.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Finished { outcome, .. } => self.0 = Some(outcome.clone()),
            Event::Resumed { .. } => self.0 = None,
            _ => {}
        }
    }

    /// The period is over.
    pub fn count(self, figures: &mut Figures) {
        self.0.iter().for_each(|outcome| figures.end(outcome));
    }
}

/// What a figure is called, its unit, and the reference value above which it speaks for building more. They are a
/// proposal (seed 002): the final ones are set when ukai is used on its own work.
pub const MEASURES: [(&str, &str, f64); 6] = [
    ("429 frequency", "% of requests", 5.0),
    ("breaker transitions", "in the period", 20.0),
    ("ask response time", "s, median", 300.0),
    ("checkpoint failure rate", "% of ended jobs", 1.0),
    ("aborts", "% of ended jobs", 10.0),
    ("tokens", "per completed job", 250_000.0),
];

/// In the order of [`MEASURES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is above its reference value: more is worth building.
    Go,
    NoGo,
    NoData,
}

impl Verdict {
    #[must_use]
    pub fn of(value: Option<f64>, reference: f64) -> Self {
        match value {
            None => Verdict::NoData,
            Some(value) if value > reference => Verdict::Go,
            Some(_) => Verdict::NoGo,
        }
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Go => "Go",
            Verdict::NoGo => "No-Go",
            Verdict::NoData => "no data",
        }
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::job::{Cause, CauseKind, Limits};
    use ukai_protocol::message::{Stop, Usage};

    use super::*;

    fn replied(input: u64, output: u64) -> Event {
        Event::Replied {
            step: 1,
            text: String::new(),
            calls: Vec::new(),
            opaque: Vec::new(),
            stop: Stop::End,
            usage: Usage { input, cached: 0, output, estimated: false },
            cost_usd: 0.0,
            run_time_ms: 0,
            wall_ms: 0,
        }
    }

    fn failed(class: AnswerClass) -> Event {
        let (provider, detail) = ("lab".to_owned(), String::new());
        Event::AttemptFailed {
            step: 1,
            provider,
            class,
            detail,
            wait_ms: None,
            usage: None,
            cost_usd: 0.0,
            run_time_ms: 0,
            wall_ms: 0,
        }
    }

    fn finished(outcome: Outcome) -> Event {
        Event::Finished { outcome, text: String::new() }
    }

    #[test]
    fn each_figure_counts_what_it_says() {
        let mut figures = Figures::default();
        assert_eq!(figures.values(), [None, Some(0.0), None, None, None, None], "nothing is divided by nothing");
        let ended = |kind| finished(Outcome::Ended(Cause::new(kind, "why")));
        for event in [
            replied(100, 20),
            replied(70, 10),
            failed(AnswerClass::RateLimited),
            failed(AnswerClass::Unavailable),
            failed(AnswerClass::Withdrawn),
        ] {
            figures.add(&event);
        }
        let completed = || finished(Outcome::Completed { attention: false });
        let resumed = || Event::Resumed { limits: Limits::default() };
        for job in [
            vec![completed()],
            vec![ended(CauseKind::AllOpen)],
            vec![ended(CauseKind::Io(28))],
            vec![ended(CauseKind::Cancel)],
            // It goes on, and ends once more or not at all: it is one job, and as it stands last.
            vec![ended(CauseKind::Cancel), resumed(), ended(CauseKind::AllOpen), resumed()],
        ] {
            let mut ends = Ends::default();
            job.iter().for_each(|event| ends.add(event));
            ends.count(&mut figures);
        }
        let mut twice = Ends::default();
        [ended(CauseKind::AllOpen), resumed(), ended(CauseKind::Cancel)].iter().for_each(|event| twice.add(event));
        let mut alone = Figures::default();
        twice.count(&mut alone);
        assert_eq!((alone.ended, alone.aborted()), (1, 0), "one job, by its last end");
        let moved = |to| ServerEvent::BreakerMoved {
            account: "lab".to_owned(),
            to,
            why: String::new(),
            open_ms: None,
            by_person: false,
        };
        figures.add_server(&moved(BreakerState::Open));
        figures.add_server(&moved(BreakerState::Closed));
        figures.add_server(&ServerEvent::Quarantined { subject: "j-aaaaaaaa".to_owned(), why: String::new() });
        assert_eq!(figures.values(), [Some(25.0), Some(2.0), None, Some(40.0), Some(50.0), Some(200.0)]);
        let aborts: Vec<_> = figures.aborts.iter().map(|(cause, count)| (cause.as_str(), *count)).collect();
        assert_eq!(aborts, [("breaker_open(all_open)", 1), ("checkpoint_failed(io(28))", 1)]);
    }

    #[test]
    fn above_its_reference_it_is_a_go() {
        for (value, expected) in
            [(None, Verdict::NoData), (Some(4.9), Verdict::NoGo), (Some(5.0), Verdict::NoGo), (Some(5.1), Verdict::Go)]
        {
            assert_eq!(Verdict::of(value, 5.0), expected, "{value:?}");
        }
    }
}
