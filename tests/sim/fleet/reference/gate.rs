//! When an account may be asked, by the words of spec §5 alone: the last answers, what the provider named, the probes.

use std::time::{Duration, Instant};

use ukai_protocol::lease::{AnswerClass, Wait};
use ukai_supervisor::route::breaker::{Standing, Until, Why};

const MINUTE: Duration = Duration::from_secs(60);
const OPEN_MAX: Duration = Duration::from_secs(15 * 60);
/// With its spread.
const BACKOFF_MAX: Duration = Duration::from_secs(330);
const PROBE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub enum State {
    /// The 429s of the last minute; failures and timeouts in a row.
    Closed {
        limited: Vec<Instant>,
        unavailable: u32,
        timeouts: u32,
    },
    /// Not for a request, and not for a probe before `until`, nor before a person comes.
    Open {
        until: Instant,
        person: bool,
    },
    HalfOpen {
        successes: u32,
        failures: u32,
        neither: u32,
    },
}

#[derive(Clone, Debug)]
pub struct Gate {
    pub state: State,
    /// The latest that was named, and the wait as it was.
    pub not_before: Option<(Instant, Duration)>,
    /// Until when a 429 that named nothing may have put everybody off, each to an instant that only the router knows.
    nameless_until: Option<Instant>,
    /// Answers to requests of an earlier one change nothing.
    pub era: u64,
    /// How often it has opened since it was wholly well.
    opened: u32,
    /// After a trial: so many at a time, and how many have succeeded.
    ramp: Option<(usize, usize)>,
    concurrency: usize,
    /// Until when 429s from before the start may count.
    doubt: Option<Instant>,
    /// The lease of the one in flight, and since when.
    probe: Option<(u64, Instant)>,
}

fn closed() -> State {
    State::Closed { limited: Vec::new(), unavailable: 0, timeouts: 0 }
}

impl Gate {
    pub fn new(concurrency: usize) -> Self {
        Gate {
            state: closed(),
            not_before: None,
            nameless_until: None,
            era: 0,
            opened: 0,
            ramp: None,
            concurrency,
            doubt: None,
            probe: None,
        }
    }

    /// Why a request may not leave. `roll`: its place in the spread.
    pub fn forbids(&self, out: usize, roll: f64, now: Instant) -> Option<String> {
        let spread = self.not_before.map(|(at, wait)| at + wait.mul_f64(0.1 * roll));
        let spread = spread.filter(|_| !self.is_backing_off(now));
        let most = self.ramp.map_or(self.concurrency, |(most, _)| most.min(self.concurrency));
        match &self.state {
            State::Closed { .. } if self.not_before.is_some_and(|(at, _)| at > now) => Some("not before".to_owned()),
            State::Closed { .. } if spread.is_some_and(|at| at > now) => Some("not in its place".to_owned()),
            State::Closed { .. } if out >= most => Some(format!("{out} are asking it, {most} may")),
            State::Closed { .. } => None,
            not_closed => Some(format!("{not_closed:?}")),
        }
    }

    /// A request of `era`, or a probe of this lease, was answered so.
    pub fn answered(&mut self, asked: Asked, class: AnswerClass, wait: Option<Wait>, now: Instant) {
        let named = match wait {
            Some(Wait::For(ms)) => Some(Duration::from_millis(ms)),
            _ => None,
        };
        if let Some(wait) = named
            && self.not_before.is_none_or(|(at, _)| at < now + wait)
        {
            self.not_before = Some((now + wait, wait));
        }
        if class == AnswerClass::RateLimited && wait.is_none() {
            self.nameless_until = Some(now + BACKOFF_MAX);
        }
        let long = named.is_some_and(|wait| wait > MINUTE);
        let shuts = class == AnswerClass::Closed || long;
        let person = class == AnswerClass::Closed && named.is_none();
        match asked {
            Asked::Request { era } if era == self.era => self.requested(class, shuts, person, now),
            Asked::Probe { lease } => self.probed(lease, class, shuts, person, now),
            Asked::Request { .. } => {}
        }
        self.bind(now);
    }

    /// What was named binds whoever heard it.
    fn bind(&mut self, now: Instant) {
        let Some((at, _)) = self.not_before else { return };
        match &mut self.state {
            State::Open { until, .. } => *until = at.max(*until),
            _ if at.saturating_duration_since(now) > MINUTE => self.open(false, now),
            _ => {}
        }
    }

    fn requested(&mut self, class: AnswerClass, shuts: bool, person: bool, now: Instant) {
        let State::Closed { limited, unavailable, timeouts } = &mut self.state else { return };
        let opens = match class {
            _ if shuts => true,
            AnswerClass::RateLimited => {
                limited.push(now);
                limited.retain(|at| now - *at < MINUTE);
                limited.len() >= 3
            }
            AnswerClass::Unavailable => {
                *unavailable += 1;
                *unavailable >= 5
            }
            AnswerClass::Timeout => {
                *timeouts += 1;
                *timeouts >= 3
            }
            AnswerClass::Success => {
                (*unavailable, *timeouts) = (0, 0);
                self.ramp_up();
                false
            }
            _ => false,
        };
        if opens {
            self.open(person, now);
        }
    }

    fn ramp_up(&mut self) {
        let Some((most, successes)) = &mut self.ramp else { return };
        *successes += 1;
        if *successes >= *most {
            (*most, *successes) = (*most * 2, 0);
            if *most >= self.concurrency {
                (self.ramp, self.opened) = (None, 0);
            }
        }
    }

    fn probed(&mut self, lease: u64, class: AnswerClass, shuts: bool, person: bool, now: Instant) {
        self.overdue(now);
        if self.probe.is_none_or(|(of, _)| of != lease) {
            return;
        }
        self.probe = None;
        let State::HalfOpen { successes, failures, neither } = &mut self.state else { return };
        match class {
            _ if shuts => return self.open(person, now),
            AnswerClass::Success => (*successes, *neither) = (*successes + 1, 0),
            AnswerClass::RateLimited | AnswerClass::Unavailable | AnswerClass::Timeout => {
                (*failures, *neither) = (*failures + 1, 0);
            }
            _ => *neither += 1,
        }
        let (successes, failed) = (*successes, *failures >= 2 || *neither >= 5);
        if successes >= 2 {
            self.state = closed();
            self.era += 1;
            self.ramp = Some((1, 0));
        } else if failed {
            self.open(false, now);
        }
    }

    /// A probe that has had its time has failed; it shows when somebody looks.
    fn overdue(&mut self, now: Instant) {
        if self.probe.take_if(|(_, since)| now - *since >= PROBE).is_none() {
            return;
        }
        let State::HalfOpen { failures, neither, .. } = &mut self.state else { return };
        (*failures, *neither) = (*failures + 1, 0);
        if *failures >= 2 {
            self.open(false, now);
        }
    }

    fn open(&mut self, person: bool, now: Instant) {
        let least = now + MINUTE.saturating_mul(1 << self.opened.min(8)).min(OPEN_MAX);
        let until = self.not_before.map_or(least, |(at, _)| at.max(least));
        self.state = State::Open { until, person };
        self.era += 1;
        self.opened += 1;
        self.ramp = None;
        self.probe = None;
    }

    /// A probe leaves.
    pub fn probes(&mut self, lease: u64, now: Instant) {
        self.overdue(now);
        assert!(matches!(self.state, State::HalfOpen { .. }), "a probe while {:?}", self.state);
        assert!(self.probe.is_none(), "two probes in flight");
        let early = self.not_before.filter(|(at, _)| *at > now).map(|(at, wait)| (at - now, wait));
        assert!(early.is_none(), "a probe {early:?} too early");
        self.probe = Some((lease, now));
    }

    /// It stands as the router says.
    pub fn compare(&mut self, standing: Standing, now: Instant) {
        if !matches!(standing, Standing::HalfOpen) && matches!(self.state, State::HalfOpen { .. }) {
            self.overdue(now);
        }
        let limited = matches!(standing, Standing::Open { why: Why::Limited, .. });
        if limited && matches!(self.state, State::Closed { .. }) && self.doubt.is_some_and(|until| now <= until) {
            self.open(false, now);
        }
        match (&self.state, standing) {
            (State::Closed { .. }, Standing::Closed) | (State::HalfOpen { .. }, Standing::HalfOpen) => {}
            (State::Open { person: true, .. }, Standing::Open { until: Until::Reset, .. }) => {}
            (State::Open { until, person: false }, Standing::Open { until: Until::At(at), .. }) => {
                assert!(at >= *until, "it is OPEN too shortly, by {:?}", *until - at);
            }
            (State::Open { until, person: false }, Standing::HalfOpen) => {
                assert!(*until <= now, "HALF_OPEN too early, by {:?}", *until - now);
                self.state = State::HalfOpen { successes: 0, failures: 0, neither: 0 };
                self.era += 1;
            }
            (state, standing) => panic!("it is {standing:?}, and should be {state:?}"),
        }
    }

    /// A person says that it is well.
    pub fn reset(&mut self, forget_wait: bool, now: Instant) {
        self.not_before = self.not_before.filter(|_| !forget_wait);
        (self.state, self.era, self.opened, self.ramp, self.probe) = (closed(), self.era + 1, 0, None, None);
        self.bind(now);
    }

    /// What the next supervisor knows of it; meanwhile the clock was set forward by so much.
    pub fn remembered(&self, forward: Duration, now: Instant) -> Self {
        let earlier = |at: Instant| at.checked_sub(forward).unwrap_or(at);
        let (state, opened) = match &self.state {
            State::Closed { limited, unavailable, timeouts } => {
                let limited = limited.iter().copied().map(earlier).collect();
                (State::Closed { limited, unavailable: *unavailable, timeouts: *timeouts }, self.opened)
            }
            State::Open { until, person } => {
                (State::Open { until: earlier(*until), person: *person }, self.opened.max(1))
            }
            State::HalfOpen { .. } => (State::Open { until: now, person: false }, self.opened.max(1)),
        };
        let ramp = self.ramp.map(|(most, _)| (most, 0));
        let not_before = self.not_before.map(|(at, wait)| (earlier(at), wait)).filter(|(at, _)| *at > now);
        // Behind a clock that was set back, 429s count for longer than they are old.
        let doubt = Some(now + MINUTE);
        Gate { state, not_before, doubt, era: self.era + 1, opened, ramp, probe: None, ..self.clone() }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    pub fn is_backing_off(&self, now: Instant) -> bool {
        self.nameless_until.is_some_and(|until| until >= now)
    }

    pub fn awaits_person(&self) -> bool {
        matches!(self.state, State::Open { person: true, .. })
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Asked {
    Request { era: u64 },
    Probe { lease: u64 },
}
