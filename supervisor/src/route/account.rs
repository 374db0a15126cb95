//! One provider account: its breaker, what it asked to wait for, its buckets, and how many are asking it now.
//!
//! Providers that share an account (`account = "x"`) share all of it. What a provider named binds from the first answer
//! that names it, whatever the breaker's state is and whatever else the answer was (spec §5).

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ukai_protocol::lease::{AnswerClass, Report, Wait};

use super::backoff;
use super::breaker::{self, Breaker, Failed, Probe, Until, Verdict, Why};
use super::bucket::Bucket;

/// A wait that was named and is longer than this is not sat out by anybody: it opens the breaker.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Two words that name the same instant differ by less.
const SAME_WORD: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Account {
    pub name: String,
    breaker: Breaker,
    not_before: Option<NotBefore>,
    /// After 429s that named no wait. Apart from it, since what was named is remembered, whatever we add to it.
    backoff: Option<NotBefore>,
    /// How often a provider has named a wait: what is on disk is compared by this.
    named: u64,
    /// 429s in a row that named no wait.
    nameless: u32,
    concurrency_max: usize,
    in_flight: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    last_failure: Option<LastFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBefore {
    pub at: Instant,
    /// The wait as it was named: the spread is a part of it.
    pub wait: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// Its id.
    pub provider: String,
    pub class: AnswerClass,
    /// Codes, no text of a conversation.
    pub signature: String,
    pub at: Instant,
}

/// What its configuration allows; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub requests_per_minute: u32,
    /// Requests at once after a pause; 0 = a second's worth, at least one.
    pub burst: u32,
    pub tokens_per_minute: u64,
}

/// Whether the account may be asked, and if not, what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Ready,
    /// Not earlier than this.
    NotBefore(Instant),
    /// A bucket is too low until then.
    Rate(Instant),
    /// As many as may are asking.
    Full,
    /// Only a probe may pass.
    HalfOpen,
    Open {
        until: Until,
        why: Why,
    },
}

/// What of it outlives the supervisor.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub not_before: Option<NotBefore>,
    pub breaker: Option<breaker::Memory>,
    pub tally: Option<breaker::Tally>,
    /// What was left in the buckets, so long ago.
    pub requests: Option<f64>,
    pub tokens: Option<f64>,
    pub age: Duration,
    pub last_failure: Option<LastFailure>,
}

impl Account {
    #[must_use]
    pub fn new(name: String, concurrency_max: usize) -> Self {
        Account {
            name,
            breaker: Breaker::default(),
            not_before: None,
            backoff: None,
            named: 0,
            nameless: 0,
            concurrency_max: concurrency_max.max(1),
            in_flight: 0,
            requests: None,
            tokens: None,
            last_failure: None,
        }
    }

    /// Providers that share an account share the narrowest of their bounds.
    pub fn narrow(&mut self, concurrency_max: usize, rates: Rates, now: Instant) {
        self.concurrency_max = self.concurrency_max.min(concurrency_max.max(1));
        let narrower = |bucket: &Option<Bucket>, per_minute: f64, capacity: f64| {
            let narrow = bucket.as_ref().is_none_or(|bucket| per_minute < bucket.per_minute());
            narrow.then(|| Bucket::new(per_minute, capacity, now))
        };
        if rates.requests_per_minute > 0 {
            let burst = if rates.burst > 0 { rates.burst } else { (rates.requests_per_minute / 60).max(1) };
            let new = narrower(&self.requests, f64::from(rates.requests_per_minute), f64::from(burst));
            self.requests = new.or(self.requests.take());
        }
        if rates.tokens_per_minute > 0 {
            let per_minute = rates.tokens_per_minute as f64;
            self.tokens = narrower(&self.tokens, per_minute, per_minute).or(self.tokens.take());
        }
    }

    /// `tokens`: what the request would reserve. `roll`: the asker's place in the spread after a named wait.
    #[must_use]
    pub fn standing(&self, tokens: f64, now: Instant, roll: f64) -> Standing {
        match self.breaker.standing() {
            breaker::Standing::Open { until, why } => return Standing::Open { until, why },
            breaker::Standing::HalfOpen => return Standing::HalfOpen,
            breaker::Standing::Closed => {}
        }
        let spread = |NotBefore { at, wait }: &NotBefore| *at + backoff::spread(*wait, roll);
        if let Some(at) = self.waits().map(spread).max().filter(|at| *at > now) {
            return Standing::NotBefore(at);
        }
        if self.in_flight >= self.in_flight_max() {
            return Standing::Full;
        }
        let requests = self.requests.as_ref().map_or(now, |bucket| bucket.ready_at(1.0, now));
        let tokens = self.tokens.as_ref().map_or(now, |bucket| bucket.ready_at(tokens, now));
        let ready = requests.max(tokens);
        if ready > now { Standing::Rate(ready) } else { Standing::Ready }
    }

    fn in_flight_max(&self) -> usize {
        self.breaker.in_flight_max().map_or(self.concurrency_max, |ramp| ramp.min(self.concurrency_max))
    }

    /// How full the scarcer bucket is, from 0 to 1.
    #[must_use]
    pub fn fraction(&self, now: Instant) -> f64 {
        self.buckets().map(|bucket| bucket.fraction(now)).fold(1.0, f64::min)
    }

    /// When both are at least so full.
    #[must_use]
    pub fn fills_to(&self, fraction: f64, now: Instant) -> Instant {
        self.buckets().map(|bucket| bucket.fills_to(fraction, now)).fold(now, Instant::max)
    }

    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.requests.iter().chain(&self.tokens)
    }

    // --- a request -------------------------------------------------------------------------------------------------

    /// A request that reserves so many tokens leaves. The generation is that of its admission.
    pub fn take(&mut self, tokens: f64, now: Instant) -> u64 {
        self.in_flight += 1;
        self.charge(tokens, now);
        self.breaker.generation()
    }

    fn charge(&mut self, tokens: f64, now: Instant) {
        if let Some(bucket) = &mut self.requests {
            bucket.take(1.0, now);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens, now);
        }
    }

    /// The request is over, whatever came of it. It used so many of the tokens that it had reserved; that a request
    /// was sent is not taken back, since nobody knows whether it was.
    pub fn settle(&mut self, reserved: f64, used: f64, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(bucket) = &mut self.tokens {
            bucket.give_back(reserved - used, now);
        }
    }

    /// What came of a request that was admitted in `generation`, or of a probe.
    pub fn reported(&mut self, provider: &str, admission: Admission, report: &Report, now: Instant, roll: f64) {
        let seen = report.limits_seen;
        for (bucket, left) in [(&mut self.requests, seen.requests_left), (&mut self.tokens, seen.tokens_left)] {
            if let (Some(bucket), Some(left)) = (bucket, left) {
                bucket.lower_to(left as f64, now);
            }
        }
        let current = admission.generation() == self.breaker.generation();
        let before = self.not_before();
        let until = match report.wait {
            Some(Wait::For(ms)) => Some(self.told_to_wait(Duration::from_millis(ms), now)),
            Some(Wait::UntilReset) => Some(Until::Reset),
            None => {
                if report.class == AnswerClass::RateLimited && current {
                    self.throttled(roll, now);
                }
                None
            }
        };
        let verdict = verdict(report.class, until, now);
        if let Verdict::Failure(_) = verdict {
            let (provider, class, signature) = (provider.to_owned(), report.class, report.signature.clone());
            self.last_failure = Some(LastFailure { provider, class, signature, at: now });
        }
        let binds = self.binds();
        match (admission, verdict) {
            (Admission::Request { generation }, Verdict::Success) => {
                self.nameless = if current { 0 } else { self.nameless };
                self.breaker.succeeded(generation, self.concurrency_max);
            }
            (Admission::Request { generation }, Verdict::Failure(failed)) => {
                self.breaker.failed(generation, failed, binds, now);
            }
            (Admission::Request { .. }, Verdict::Neither) => {}
            (Admission::Probe { id, .. }, verdict) => self.breaker.probed(id, verdict, binds, now),
        }
        // After its own word: what was named binds also from an answer of an older generation.
        if let Some(until) = until {
            self.breaker.named(until, PATIENCE, now);
            // A worker tells of a wait when it reads the head, and again at the end: that is no news for the disk.
            let is_news = self.not_before().zip(before).is_none_or(|(at, before)| at > before + SAME_WORD);
            self.named += u64::from(is_news);
        }
    }

    /// The provider named a wait. It only ever moves later: a shorter word of another request does not unsay it.
    fn told_to_wait(&mut self, wait: Duration, now: Instant) -> Until {
        self.nameless = 0;
        // The clock of this machine ends before the heat death of the universe.
        let Some(at) = now.checked_add(wait) else { return Until::Reset };
        if self.not_before.is_none_or(|before| before.at < at) {
            self.not_before = Some(NotBefore { at, wait });
        }
        Until::At(at)
    }

    /// What an answer named that only the log of a job remembers.
    pub fn named(&mut self, wait: Duration, now: Instant) {
        let until = self.told_to_wait(wait, now);
        self.named += 1;
        self.breaker.named(until, PATIENCE, now);
    }

    #[must_use]
    pub fn has_rates(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some()
    }

    /// A 429 that named no wait binds all askers too, for as long as a backoff says.
    fn throttled(&mut self, roll: f64, now: Instant) {
        let wait = backoff::full_jitter(self.nameless, roll);
        self.nameless = self.nameless.saturating_add(1);
        if self.backoff.is_none_or(|before| before.at < now + wait) {
            self.backoff = Some(NotBefore { at: now + wait, wait });
        }
    }

    // --- probes and time -------------------------------------------------------------------------------------------

    /// The next probe, if one may leave now. It is a request like others to the buckets; so small a one waits for that of
    /// requests only.
    pub fn take_probe(&mut self, tokens: f64, now: Instant) -> Option<Probe> {
        let ready = self.requests.as_ref().map_or(now, |bucket| bucket.ready_at(1.0, now));
        if ready > now {
            self.breaker.delay_probe(ready);
        }
        let probe = self.breaker.take_probe(now)?;
        self.charge(tokens, now);
        Some(probe)
    }

    /// It could not be sent, or was ended before it had an answer.
    pub fn probe_lost(&mut self, id: u64, now: Instant) {
        self.breaker.probed(id, Verdict::Neither, self.binds(), now);
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.breaker.poll_timeout()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.breaker.handle_timeout(self.binds(), now);
    }

    /// A person says that it is well: its breaker closes. An instant that the provider named binds all the same, unless
    /// that is to be forgotten too.
    pub fn reset(&mut self, forget_wait: bool, now: Instant) {
        self.breaker.reset();
        self.last_failure = None;
        self.nameless = 0;
        for bucket in self.requests.iter_mut().chain(&mut self.tokens) {
            bucket.forgive(now);
        }
        if forget_wait {
            (self.not_before, self.backoff) = (None, None);
            self.named += 1;
        }
        // A backoff of our own is sat out; only a provider's word opens.
        if let Some(at) = self.not_before() {
            self.breaker.named(Until::At(at), PATIENCE, now);
        }
    }

    // --- what is shown and kept ------------------------------------------------------------------------------------

    #[must_use]
    pub fn breaker(&self) -> breaker::Standing {
        self.breaker.standing()
    }

    /// The instant that the provider named, without the spread.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before.map(|not_before| not_before.at)
    }

    /// The latest instant before which nobody asks, whoever said so.
    fn binds(&self) -> Option<Instant> {
        self.waits().map(|wait| wait.at).max()
    }

    fn waits(&self) -> impl Iterator<Item = &NotBefore> {
        self.not_before.iter().chain(&self.backoff)
    }

    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        (self.in_flight, self.in_flight_max())
    }

    /// Level and capacity of the bucket of requests, and of that of tokens.
    #[must_use]
    pub fn levels(&self, now: Instant) -> [Option<(f64, f64)>; 2] {
        [&self.requests, &self.tokens].map(|bucket| bucket.as_ref().map(|b| (b.level(now), b.capacity())))
    }

    #[must_use]
    pub fn last_failure(&self) -> Option<&LastFailure> {
        self.last_failure.as_ref()
    }

    /// Changes whenever something does that must be on disk before anybody acts on it.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.named + self.breaker.generation()
    }

    #[must_use]
    pub fn memory(&self, now: Instant) -> Memory {
        Memory {
            not_before: self.not_before.filter(|not_before| not_before.at > now),
            breaker: self.breaker.memory(now),
            tally: self.breaker.tally(),
            requests: self.requests.as_ref().map(|bucket| bucket.level(now)),
            tokens: self.tokens.as_ref().map(|bucket| bucket.level(now)),
            age: Duration::ZERO,
            last_failure: self.last_failure.clone(),
        }
    }

    /// What an earlier supervisor knew.
    pub fn recall(&mut self, memory: Memory, now: Instant) {
        let Memory { not_before, breaker, tally, requests, tokens, age, last_failure } = memory;
        self.not_before = not_before;
        self.last_failure = last_failure;
        match (breaker, tally) {
            (Some(breaker), _) => self.breaker.recall(breaker),
            (None, Some(tally)) => self.breaker.recall_tally(tally),
            (None, None) => {}
        }
        // One that was HALF_OPEN begins its trial anew, and what a probe was told binds the next one too.
        if let Some(at) = self.not_before() {
            self.breaker.named(Until::At(at), PATIENCE, now);
        }
        for (bucket, level) in [(&mut self.requests, requests), (&mut self.tokens, tokens)] {
            if let (Some(bucket), Some(level)) = (bucket, level) {
                bucket.lower_to(level + age.as_secs_f64() * bucket.per_minute() / 60.0, now);
            }
        }
    }
}

/// How a request got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Request { generation: u64 },
    Probe { id: u64, generation: u64 },
}

impl Admission {
    fn generation(self) -> u64 {
        match self {
            Admission::Request { generation } | Admission::Probe { generation, .. } => generation,
        }
    }
}

/// The table of spec §5: what an answer counts as. `until`: what it named.
fn verdict(class: AnswerClass, until: Option<Until>, now: Instant) -> Verdict {
    let beyond = match until {
        Some(Until::At(at)) => at.saturating_duration_since(now) > PATIENCE,
        Some(Until::Reset) => true,
        None => false,
    };
    Verdict::Failure(match (class, until) {
        // Where "in 13 s" is said of a quota that is spent for the day, a probe finds that out, at most every quarter hour.
        (AnswerClass::Closed, Some(until)) => Failed::Shut(Why::Closed, until),
        (AnswerClass::Closed, None) => Failed::Shut(Why::Closed, Until::Reset),
        (_, Some(Until::Reset)) => Failed::Shut(Why::UntilReset, Until::Reset),
        (_, Some(until)) if beyond => Failed::Shut(Why::LongWait, until),
        (AnswerClass::RateLimited, _) => Failed::Limited,
        (AnswerClass::Unavailable, _) => Failed::Unavailable,
        (AnswerClass::Timeout, _) => Failed::Timeout,
        (AnswerClass::Success, _) => return Verdict::Success,
        (AnswerClass::ContextOverflow | AnswerClass::Rejected | AnswerClass::Withdrawn | AnswerClass::NoTools, _) => {
            return Verdict::Neither;
        }
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;
