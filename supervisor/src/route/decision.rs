//! What was decided about a job last, for `ukai providers why`: what was seen of each candidate, and what was made of it.

#![deny(clippy::disallowed_methods)]

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use ukai_protocol::command::quoted;
use ukai_protocol::id::JobId;

use super::breaker::{Until, Why};
use super::fit::Unfit;
use super::survey::{ATTEMPTS_ALONE_MAX, ATTEMPTS_WITH_ALTERNATIVE_MAX, Choice, Seen, View};
use crate::settings::Provider;

/// Jobs of which the last decision is kept: a night's batch.
const DECISIONS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub call: u64,
    pub at: Instant,
    /// In the order of the candidates.
    pub seen: Vec<Seen>,
    pub choice: Choice,
}

#[derive(Debug, Default)]
pub struct Decisions {
    last: HashMap<JobId, Decision>,
    /// The longest known first.
    order: VecDeque<JobId>,
}

impl Decisions {
    pub fn note(&mut self, job: &JobId, decision: Decision) {
        if self.last.insert(job.clone(), decision).is_some() {
            return;
        }
        self.order.push_back(job.clone());
        if self.order.len() > DECISIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
    }

    #[must_use]
    pub fn of(&self, job: &JobId) -> Option<&Decision> {
        self.last.get(job)
    }
}

impl Decision {
    /// What was decided, then each candidate.
    #[must_use]
    pub fn lines(&self, providers: &[Provider], now: Instant) -> Vec<String> {
        let ago = seconds(now, self.at);
        let name = |provider: usize| providers[provider].id.as_str();
        let made = match self.choice {
            Choice::Grant(provider) => format!("was sent to {}", name(provider)),
            Choice::Wait { provider, .. } => format!("waits for {}", name(provider)),
            Choice::Unfit => "no candidate could answer it".to_owned(),
            Choice::AllOpen => "every candidate was OPEN".to_owned(),
            Choice::Attempts => "all that may be tried had been tried".to_owned(),
        };
        let mut lines = vec![format!("call {}, {ago} s ago: {made}", self.call)];
        lines.extend(self.seen.iter().map(|seen| line(seen, name(seen.provider), self.at)));
        lines
    }
}

/// All candidates, in one line; `last`: the signature of the last failure of each.
#[must_use]
pub fn words<'a>(
    seen: &[Seen],
    providers: &[Provider],
    last: impl Fn(usize) -> Option<&'a str>,
    now: Instant,
) -> String {
    let words = seen.iter().map(|seen| {
        let last = last(seen.provider).map(|last| format!(" ({last})")).unwrap_or_default();
        view(seen.view, &providers[seen.provider].id, now) + &last
    });
    words.collect::<Vec<_>>().join("; ")
}

fn line(seen: &Seen, name: &str, at: Instant) -> String {
    let mut line = view(seen.view, name, at);
    if seen.attempts > 0 {
        let left = if seen.left { ", and left" } else { "" };
        line.push_str(&format!(
            " (asked {} × for this call{left}; at most {ATTEMPTS_WITH_ALTERNATIVE_MAX} × while another may be asked, \
             else {ATTEMPTS_ALONE_MAX} ×)",
            seen.attempts
        ));
    }
    line
}

fn view(view: View, name: &str, at: Instant) -> String {
    let seen = match view {
        View::Unfit(Unfit::NoTools) => "it does not support tools".to_owned(),
        View::Unfit(Unfit::TooSmall { window, holds }) => {
            format!("the window of about {window} tokens does not fit into its {holds} with room for a reply")
        }
        View::Open { until: Until::At(until), why } => {
            format!("OPEN for another {} s: {}", seconds(until, at), opened(why))
        }
        View::Open { until: Until::Reset, why } => {
            let said = quoted(&["providers", "reset", name]);
            format!("OPEN until a person says {said}: {}", opened(why))
        }
        View::HalfOpen => "HALF_OPEN: a probe is to say whether it is well".to_owned(),
        View::NotBefore(until) => format!("it asked to wait for another {} s", seconds(until, at)),
        View::Backoff(until) => format!("this call backs off for another {} s", seconds(until, at)),
        View::Rate(until) => format!("its bucket is too low for another {} s", seconds(until, at)),
        View::Thin { until, .. } => {
            format!("its bucket is too low to change over to it for another {} s", seconds(until, at))
        }
        View::Full => "as many as may are asking it".to_owned(),
        View::Ready => "may be asked".to_owned(),
    };
    format!("{name}: {seen}")
}

/// Why a breaker opened, for a person.
#[must_use]
pub fn opened(why: Why) -> &'static str {
    match why {
        Why::Limited => "three 429s within a minute",
        Why::Unavailable => "five failures in a row",
        Why::Timeouts => "three timeouts in a row",
        Why::LongWait => "it asked for a long wait",
        Why::Closed => "it refused the key, the account or its quota",
        Why::UntilReset => "it asked to wait beyond all clocks",
        Why::Probes => "its probes did not succeed",
    }
}

/// Rounded up: nobody is told less than it takes.
fn seconds(later: Instant, earlier: Instant) -> u64 {
    let millis = later.saturating_duration_since(earlier).as_millis();
    u64::try_from(millis.div_ceil(1_000)).unwrap_or(u64::MAX)
}
