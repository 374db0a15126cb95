//! How one ask sees each provider now, and which of them it is to go to. The table of spec §5 once more, from the side
//! of the call: two attempts at a provider while another may be asked, else five; two fallbacks; then the end.
//!
//! A survey is kept for `ukai providers why`: what was decided is explained by what was seen, not by what would be seen
//! when somebody asks.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ukai_protocol::lease::WaitWhy;

use super::account::PATIENCE;
use super::breaker::{Until, Why};
use super::fit::Unfit;

/// At a provider, for one call, while another may be asked.
pub const ATTEMPTS_WITH_ALTERNATIVE_MAX: u32 = 2;
/// At a provider, for one call, when no other may be asked.
pub const ATTEMPTS_ALONE_MAX: u32 = 5;
/// Changes of provider in one call.
pub const FALLBACKS_MAX: u32 = 2;
/// An OPEN breaker that has no more than this to go is waited for: its probe is near. One that has just opened has twice
/// as long, so that who finds every candidate OPEN is told so at once.
const OPEN_SOON: Duration = Duration::from_secs(30);

/// One candidate, as one ask sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Its place among the providers.
    pub provider: usize,
    pub view: View,
    /// Attempts at it for this call.
    pub attempts: u32,
    /// Left for another one during this call.
    pub left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    Unfit(Unfit),
    Open {
        until: Until,
        why: Why,
    },
    HalfOpen,
    NotBefore(Instant),
    Backoff(Instant),
    Rate(Instant),
    /// A call that changes over to it waits until its buckets have filled up somewhat; `far`: not within a minute.
    Thin {
        until: Instant,
        far: bool,
    },
    Full,
    Ready,
}

/// What the call has behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Where its last attempt was.
    pub current: Option<usize>,
    pub switches: u32,
}

/// Where an ask can go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    Grant(usize),
    Wait {
        provider: usize,
        why: WaitWhy,
        until: Option<Instant>,
    },
    /// Nobody could answer it, whatever the time.
    Unfit,
    /// Every one that could is OPEN.
    AllOpen,
    /// All that may be tried has been.
    Attempts,
}

impl View {
    fn is_fit(self) -> bool {
        !matches!(self, View::Unfit(_))
    }

    /// Asked by nobody, and not soon.
    fn is_away(self, now: Instant) -> bool {
        match self {
            View::Open { until: Until::At(at), .. } => at.saturating_duration_since(now) > OPEN_SOON,
            View::Open { until: Until::Reset, .. } => true,
            _ => false,
        }
    }

    /// A verdict of its breaker is waited for, and no request may pass until then.
    #[must_use]
    pub fn awaits_verdict(self) -> bool {
        matches!(self, View::Open { .. } | View::HalfOpen)
    }

    /// Longer than anybody should wait while another one may be asked.
    fn is_far(self, now: Instant) -> bool {
        match self {
            View::Rate(at) => at.saturating_duration_since(now) > PATIENCE,
            View::Thin { far, .. } => far,
            _ => false,
        }
    }

    fn choice(self, provider: usize) -> Choice {
        let wait = |why, until| Choice::Wait { provider, why, until };
        match self {
            // Thin for longer than anybody should wait, and no other to go to.
            View::Ready | View::Thin { far: true, .. } => Choice::Grant(provider),
            View::NotBefore(at) => wait(WaitWhy::NotBefore, Some(at)),
            View::Backoff(at) => wait(WaitWhy::Backoff, Some(at)),
            View::Rate(at) | View::Thin { until: at, .. } => wait(WaitWhy::Rate, Some(at)),
            View::Full => wait(WaitWhy::Concurrency, None),
            View::HalfOpen | View::Open { until: Until::Reset, .. } => wait(WaitWhy::Breaker, None),
            View::Open { until: Until::At(at), .. } => wait(WaitWhy::Breaker, Some(at)),
            View::Unfit(_) => Choice::Unfit,
        }
    }
}

/// `seen` in the order of the candidates.
#[must_use]
pub fn choose(seen: &[Seen], behind: Behind, now: Instant) -> Choice {
    let fit = || seen.iter().filter(|seen| seen.view.is_fit());
    if fit().next().is_none() {
        return Choice::Unfit;
    }
    let near = || fit().filter(|seen| !seen.view.is_away(now));
    if near().next().is_none() {
        return Choice::AllOpen;
    }
    let is_current = |seen: &Seen| behind.current == Some(seen.provider);
    let allowed = |seen: &&Seen| is_allowed(seen, behind);
    let fresh = |seen: &&Seen| !seen.left && seen.attempts < ATTEMPTS_WITH_ALTERNATIVE_MAX;
    // Back to one that was left only if the current one cannot be asked: no flipping between two.
    let may_ask = |seen: &&Seen| !seen.view.awaits_verdict();
    let current_away = behind.current.is_some()
        && !near().filter(may_ask).any(is_current)
        && !seen.iter().any(|seen| is_current(seen) && is_spent(seen));
    let worn = |seen: &&Seen| {
        let back = !is_current(seen) && seen.left;
        !is_spent(seen) && (!back || current_away)
    };
    let here = |seen: &&Seen| !seen.view.is_far(now);
    let askable = || near().filter(may_ask).filter(allowed);
    let found = first(askable().filter(fresh).filter(here), is_current)
        .or_else(|| first(askable().filter(worn).filter(here), is_current))
        .or_else(|| first(askable().filter(worn), is_current))
        .or_else(|| first(near().filter(allowed).filter(worn), is_current));
    found.map_or(Choice::Attempts, |seen| seen.view.choice(seen.provider))
}

/// Whether no candidate may be tried again for this call, whatever the time.
#[must_use]
pub fn is_exhausted(seen: &[Seen], behind: Behind) -> bool {
    seen.iter().filter(|seen| seen.view.is_fit() && is_allowed(seen, behind)).all(is_spent)
}

fn is_spent(seen: &Seen) -> bool {
    seen.attempts >= ATTEMPTS_ALONE_MAX
}

fn is_allowed(seen: &Seen, behind: Behind) -> bool {
    behind.current.is_none_or(|current| current == seen.provider) || behind.switches < FALLBACKS_MAX
}

/// The current one before the others, those in their order.
fn first<'a>(seen: impl Iterator<Item = &'a Seen>, is_current: impl Fn(&Seen) -> bool) -> Option<&'a Seen> {
    let mut first = None;
    for seen in seen {
        if is_current(seen) {
            return Some(seen);
        }
        first = first.or(Some(seen));
    }
    first
}
