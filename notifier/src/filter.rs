//! What one sink tells together, when, and what it does not tell.
//!
//! The sink's reader is a person with a phone. A provider that dies is one matter to them, though it opens two breakers and
//! ends eight jobs; a breaker that flaps all night is one matter too. So alerts wait a little for what belongs to them
//! ([`HOLD`]), messages slow down while alerts keep coming (`pace`), one key is told twice an hour at most (`told`), what
//! an OPEN breaker explains is a number beside it, and its closing is told to those only who were told of the opening
//! (`accounts`).
//!
//! Why not a grouping key, an interval and templates, as in alert managers: there a person tunes them. Here nobody does, so
//! every rule has to hold for every storm.
//!
//! What the sink failed to take waits again (`failed`), and goes along with what it takes next: a sink that is well again
//! owes nothing until the next start.
//!
//! A source that was handed in is in exactly one place: with what waits, in the message under way, or handed out by
//! [`Filter::poll_settled`]. One that is forgotten (the process ended before its message arrived, or there was no room to
//! remember it) is never settled: the next process is handed it again.

#![deny(clippy::disallowed_methods)]

mod accounts;
mod class;
mod compose;
mod failed;
pub mod memory;
mod notice;
mod pace;
mod told;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use ukai_protocol::job::CauseKind;

use crate::alert::{Alert, Key, Kind, Source, What};
use crate::message::{Message, Outcome};
use accounts::{Accounts, Closing, Standing};
use class::Class;
use memory::Memory;
use pace::Pace;
use told::Told;
use waiting::{Bundle, Bundles, Due, Queue, Waiting};

/// What waits for a person is held so long: breakers and jobs of one provider fall within seconds.
const HOLD: Duration = Duration::from_secs(5);
/// What only informs may be a minute old, and mostly finds a message to ride along with.
const NOTICE_HOLD: Duration = Duration::from_secs(60);
/// A breaker that closes for less than this has not closed: probes succeed, and the next request fails.
const CLOSED_FOR: Duration = Duration::from_secs(60);
/// Records that it can settle: more than a day has of them. Those beyond it stay owed.
pub const SOURCES_MAX: usize = 16_384;

#[derive(Debug)]
pub struct Filter {
    queue: Queue,
    accounts: Accounts,
    told: Told,
    pace: Pace,
    under_way: Option<UnderWay>,
    settled: VecDeque<Source>,
    /// In all that waits, is under way, or is settled and not yet polled.
    remembered: usize,
    flushing: bool,
    dead: bool,
    /// Something waits that the sink failed to take.
    failed: bool,
    /// One instant by both clocks.
    begun: (Instant, SystemTime),
}

/// What the message under way would have told.
#[derive(Debug, Default)]
struct UnderWay {
    message_keys: Vec<Key>,
    /// What is in it, by name or as a number.
    waiting: Vec<Waiting>,
    crowd: Bundles,
    /// By account: what its opening inhibited.
    meanwhile: Vec<(String, Bundles)>,
    /// Accounts of whose breaker it tells by name that it opened, …
    openings: BTreeSet<String>,
    /// … and of which a person has said meanwhile that they are well.
    ended: BTreeSet<String>,
    /// Accounts of whose breaker it tells that it closed.
    closings: BTreeSet<String>,
    test: bool,
}

impl UnderWay {
    fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.meanwhile.iter().map(|(_, bundles)| bundles).chain([&self.crowd]).flat_map(BTreeMap::values)
    }

    /// Alerts in it of which the owner has not been told that they were lost.
    fn unsaid(&self) -> u64 {
        let named = self.waiting.iter().map(Waiting::unsaid);
        named.chain(self.bundles().map(Bundle::unsaid)).fold(0, u64::saturating_add)
    }

    fn into_sources(self) -> Vec<Source> {
        let bundles = self.meanwhile.into_iter().map(|(_, bundles)| bundles).chain([self.crowd]);
        let counted = bundles.flat_map(BTreeMap::into_values).flat_map(|bundle| bundle.sources);
        self.waiting.into_iter().flat_map(|waiting| waiting.sources).chain(counted).collect()
    }
}

impl Filter {
    #[must_use]
    pub fn new(memory: Memory, now: Instant, clock: SystemTime) -> Self {
        let Memory { told, standing, pace } = memory;
        Filter {
            queue: Queue::default(),
            accounts: Accounts::recall(standing, now, clock),
            told: Told::recall(told, now, clock),
            pace: Pace::recall(&pace, now, clock),
            under_way: None,
            settled: VecDeque::new(),
            remembered: 0,
            flushing: false,
            dead: false,
            failed: false,
            begun: (now, clock),
        }
    }

    /// What the next process has to know, as of now.
    #[must_use]
    pub fn memory(&self, now: Instant, clock: SystemTime) -> Memory {
        Memory {
            told: self.told.memory(now, clock),
            standing: self.accounts.memory(now, clock),
            pace: self.pace.memory(now, clock),
        }
    }

    pub fn handle_alert(&mut self, alert: Alert, now: Instant) {
        if self.dead {
            return;
        }
        // Before anything joins it.
        self.forget_old(now);
        let Alert { what, source, at, late } = alert;
        let mut sources = self.remember(source);
        sources.extend(self.take_notice(&what));
        match &what {
            What::BreakerClosed { account, by_person } => {
                let closing = Closing { due: Due::At(now + CLOSED_FOR), lost: 0, at, late, sources };
                self.closed(account, *by_person, closing);
            }
            What::BreakerOpened { account, .. } if self.opened_again(account) => self.settle(sources),
            _ => {
                let hold = match Class::of(&what) {
                    Class::Test => Duration::ZERO,
                    Class::Opened => HOLD,
                    _ if what.is_urgent() => HOLD,
                    _ => NOTICE_HOLD,
                };
                let waiting = Waiting { what, times: 1, lost: 0, at, late, sources, due: Due::At(now + hold) };
                self.wait_or_count(waiting, now);
            }
        }
    }

    /// It waits for its message, or is counted with the alert that explains it.
    fn wait_or_count(&mut self, waiting: Waiting, now: Instant) {
        match self.inhibitor(&waiting.what, now) {
            Some(standing) => waiting::bundle(&mut standing.meanwhile, waiting),
            None => self.queue.push(waiting),
        }
    }

    /// The delivered opening that explains it.
    fn inhibitor(&mut self, what: &What, now: Instant) -> Option<&mut Standing> {
        let of = explained_by(what)?;
        let mut accounts = self.accounts.all.iter_mut().filter(|(_, account)| account.inhibits(now));
        let found = match of {
            ExplainedBy::Account(name) => accounts.find(|(account, _)| **account == name),
            ExplainedBy::Any => accounts.next(),
        };
        found.and_then(|(_, account)| account.standing.as_mut())
    }

    /// Whether the owner believes it to be OPEN anyway: then that is no news.
    fn opened_again(&mut self, account: &str) -> bool {
        let closing_is_told = self.under_way.as_ref().is_some_and(|under_way| under_way.closings.contains(account));
        let Some(known) = self.accounts.all.get_mut(account) else { return false };
        let closing = known.closing.take();
        let stands = !closing_is_told && known.standing.as_mut().map(|standing| standing.open = true).is_some();
        known.untold += u64::from(stands && closing.is_some());
        self.settle(closing.map(|closing| closing.sources).unwrap_or_default());
        stands
    }

    fn closed(&mut self, account: &str, by_person: bool, closing: Closing) {
        // One that opened and closed unsaid is no news, but counts as a flap.
        if let Some(opening) = self.queue.entries.remove(&accounts::key(account)) {
            self.settle(opening.sources);
            if let Some(known) = self.accounts.entry(account) {
                known.untold = known.untold.saturating_add(opening.times);
            }
        }
        let (opening_is_told, closing_is_told) = self.under_way.as_ref().map_or((false, false), |under_way| {
            let ended = under_way.ended.contains(account);
            (under_way.openings.contains(account) && !ended, under_way.closings.contains(account))
        });
        let news = opening_is_told || (self.accounts.stands(account) && !closing_is_told);
        let Some(known) = self.accounts.entry(account).filter(|_| news) else { return self.settle(closing.sources) };
        if by_person {
            let unsaid = known.closing.take().map(|closing| closing.sources);
            let standing = known.standing.take();
            self.settle(closing.sources);
            self.settle(unsaid.unwrap_or_default());
            if let Some(under_way) = self.under_way.as_mut().filter(|_| opening_is_told) {
                under_way.ended.insert(account.to_owned());
            }
            if let Some(standing) = standing {
                self.release(standing);
            }
            return;
        }
        if let Some(standing) = &mut known.standing {
            standing.open = false;
        }
        match &mut known.closing {
            Some(earlier) => earlier.sources.extend(closing.sources),
            None => known.closing = Some(closing),
        }
    }

    /// What it inhibited is explained by nothing any more.
    fn release(&mut self, standing: Standing) {
        for (class, bundle) in standing.meanwhile {
            waiting::add(&mut self.queue.crowd, class, bundle);
        }
    }

    /// When [`Filter::handle_timeout`] or [`Filter::poll_message`] next has something to do by itself.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.dead || self.under_way.is_some() {
            return None;
        }
        let free = |key: &Key, due: Instant| self.told.free_at(key).map_or(due, |free| free.max(due));
        let entries = self.queue.entries.iter().filter(|(key, _)| key.kind != Kind::Test);
        let entries = entries.filter_map(|(key, waiting)| Some(free(key, waiting.due.instant()?)));
        let crowd = self.queue.crowd.values();
        let crowd = crowd.filter_map(|bundle| Some(free(&bundle.sample.key(), bundle.due.instant()?)));
        let closings = self.accounts.all.iter().filter_map(|(account, known)| {
            let closing = known.closing.as_ref().filter(|_| known.standing.is_some())?;
            Some(free(&accounts::key(account), closing.due.instant()?))
        });
        let message = entries.chain(crowd).chain(closings).min();
        let message = message.map(|at| self.pace.next().map_or(at, |next| next.max(at)));
        let test = self.queue.entries.get(&What::Test.key()).and_then(|waiting| waiting.due.instant());
        let held = self.accounts.all.values().filter_map(|known| known.standing.as_ref());
        let held = held.filter(|standing| !standing.meanwhile.is_empty()).map(|standing| standing.inhibits_until).min();
        message.into_iter().chain(test).chain(held).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.told.prune(now);
        let over = |standing: &&mut Standing| standing.inhibits_until <= now && !standing.meanwhile.is_empty();
        let over = self.accounts.all.values_mut().filter_map(|known| known.standing.as_mut().filter(over));
        let released: Vec<_> = over.map(|standing| std::mem::take(&mut standing.meanwhile)).collect();
        for (class, bundle) in released.into_iter().flatten() {
            waiting::add(&mut self.queue.crowd, class, bundle);
        }
        if self.under_way.is_none() {
            self.accounts.prune(&self.told);
        }
    }

    /// The next message, if there is one to send now. It is under way until [`Filter::handle_outcome`].
    pub fn poll_message(&mut self, now: Instant) -> Option<Message> {
        if self.dead || self.under_way.is_some() {
            return None;
        }
        self.handle_timeout(now);
        self.forget_old(now);
        let (message, under_way) = self.compose_test().or_else(|| self.compose(now))?;
        self.under_way = Some(under_way);
        Some(message)
    }

    /// What became of the message under way. How many alerts the owner has now to be told of as lost: each once, also
    /// where it goes along with a later message.
    pub fn handle_outcome(&mut self, outcome: &Outcome, now: Instant) -> u64 {
        let Some(mut under_way) = self.under_way.take() else { return 0 };
        let message_keys = std::mem::take(&mut under_way.message_keys);
        let openings = std::mem::take(&mut under_way.openings);
        let closings = std::mem::take(&mut under_way.closings);
        let (test, unsaid) = (under_way.test, under_way.unsaid());
        if !test && *outcome != Outcome::Unsent {
            self.pace.sent(now);
        }
        let lost = match outcome {
            Outcome::Delivered => {
                self.stand(&openings, &under_way.ended, now);
                self.end(&closings);
                self.settle(under_way.into_sources());
                self.arrived(now);
                0
            }
            Outcome::Dropped(_) => {
                // Nothing more can be said of it.
                self.end(&closings);
                self.settle(under_way.into_sources());
                unsaid
            }
            Outcome::Failed(_) => {
                self.give_back(under_way);
                unsaid
            }
            Outcome::Unsent => {
                self.forget(under_way.into_sources().len());
                0
            }
            Outcome::Dead(_) => return unsaid.saturating_add(self.die()),
        };
        if matches!(outcome, Outcome::Delivered | Outcome::Dropped(_)) && !test {
            message_keys.into_iter().for_each(|key| self.told.note(key, now));
        }
        for account in openings.iter().chain(&closings) {
            self.reconcile(account);
        }
        self.inhibit_what_waits(now);
        lost
    }

    /// The owner has read that these are OPEN.
    fn stand(&mut self, openings: &BTreeSet<String>, ended: &BTreeSet<String>, now: Instant) {
        for account in openings.difference(ended) {
            if let Some(known) = self.accounts.entry(account) {
                known.standing = Some(Standing::new(known.closing.is_none(), now));
            }
        }
    }

    /// The owner has read that these are CLOSED.
    fn end(&mut self, closings: &BTreeSet<String>) {
        for account in closings {
            if let Some(standing) = self.accounts.all.get_mut(account).and_then(|known| known.standing.take()) {
                self.release(standing);
            }
        }
    }

    /// What came in while the message was under way may be no news now that its outcome is known.
    fn reconcile(&mut self, account: &str) {
        let Some(known) = self.accounts.all.get_mut(account) else { return };
        let Some(standing) = &mut known.standing else {
            // It was not told that it had opened.
            let closing = known.closing.take();
            return self.settle(closing.map(|closing| closing.sources).unwrap_or_default());
        };
        if let Some(opening) = self.queue.entries.remove(&accounts::key(account)) {
            standing.open = true;
            known.untold = known.untold.saturating_add(opening.times);
            self.settle(opening.sources);
        }
    }

    /// What waits and is explained by what is now told, is counted with it.
    fn inhibit_what_waits(&mut self, now: Instant) {
        if !self.accounts.all.values().any(|known| known.inhibits(now)) {
            return;
        }
        for (_, waiting) in std::mem::take(&mut self.queue.entries) {
            self.wait_or_count(waiting, now);
        }
    }

    /// It tells nothing any more. How many alerts it had taken in, and the owner has now to be told of as lost.
    pub fn die(&mut self) -> u64 {
        self.dead = true;
        let queue = std::mem::take(&mut self.queue);
        let entries = queue.entries.values().map(Waiting::unsaid);
        let meanwhile = self.accounts.all.values_mut().filter_map(|known| known.standing.as_mut());
        let meanwhile: Vec<_> = meanwhile.map(|standing| std::mem::take(&mut standing.meanwhile)).collect();
        let bundles = meanwhile.iter().chain([&queue.crowd]).flat_map(|bundles| bundles.values());
        let lost = entries.chain(bundles.map(Bundle::unsaid)).fold(0, u64::saturating_add);
        self.accounts.all.values_mut().for_each(|known| known.closing = None);
        self.remembered = self.settled.len();
        lost
    }

    /// A dead sink takes messages again: what it missed stays unsaid.
    pub fn revive(&mut self) {
        self.dead = false;
    }

    /// A record of which this sink has nothing more to tell.
    pub fn poll_settled(&mut self) -> Option<Source> {
        let source = self.settled.pop_front()?;
        self.forget(1);
        Some(source)
    }

    /// The process ends: what is held for others goes now. What was told too often or too lately stays unsaid, and owed.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    fn remember(&mut self, source: Option<Source>) -> Vec<Source> {
        let source = source.filter(|_| self.remembered < SOURCES_MAX);
        self.remembered += usize::from(source.is_some());
        source.into_iter().collect()
    }

    fn forget(&mut self, sources: usize) {
        self.remembered -= sources;
    }

    fn settle(&mut self, sources: Vec<Source>) {
        self.settled.extend(sources);
    }
}

/// Whether the owner is told that it was lost: of an alert that alerts were lost, and of a test, they are not.
pub fn counts(what: &What) -> bool {
    !matches!(what, What::Lost { .. } | What::Test)
}

enum ExplainedBy {
    Account(String),
    /// Of the accounts that stand open, whichever.
    Any,
}

/// The OPEN breaker that makes an alert about a job no news of its own. Files that do not verify, a disk, a crash loop: no
/// provider explains those.
fn explained_by(what: &What) -> Option<ExplainedBy> {
    let (account, cause) = match what {
        What::JobAborted { account, cause, .. } => (account, Some(cause.kind)),
        What::Attention { account, .. } | What::LimitNear { account, .. } => (account, None),
        _ => return None,
    };
    match (account, cause) {
        (_, Some(CauseKind::Quarantined | CauseKind::Io(_) | CauseKind::CrashLoop)) => None,
        (Some(account), _) => Some(ExplainedBy::Account(account.clone())),
        (None, Some(CauseKind::AllOpen)) => Some(ExplainedBy::Any),
        (None, _) => None,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;
