//! What the sink failed to take waits again, marked late.
//!
//! Why it asks for no message of its own: the sink has just had its tries, and nobody knows when it is well again but by
//! the next message that it takes. That one takes along what waits here. If it fails as well, perhaps for their sake, they
//! wait until one without them has arrived: one message that a sink chokes on holds no others up.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use super::accounts::Closing;
use super::waiting::{Bundles, Due, Waiting, add};
use super::{Filter, UnderWay};
use crate::alert::What;
use crate::cursors::ledger::OWED_FOR_MS;

impl Filter {
    /// The sink is well: what it failed to take may ask for a message again.
    pub fn arrived(&mut self, now: Instant) {
        self.failed = false;
        let standing = self.accounts.all.values_mut().flat_map(|known| {
            let closing = known.closing.as_mut().map(|closing| &mut closing.due);
            let meanwhile = known.standing.iter_mut().flat_map(|standing| standing.meanwhile.values_mut());
            closing.into_iter().chain(meanwhile.map(|bundle| &mut bundle.due))
        });
        let entries = self.queue.entries.values_mut().map(|waiting| &mut waiting.due);
        let crowd = self.queue.crowd.values_mut().map(|bundle| &mut bundle.due);
        standing.chain(entries).chain(crowd).for_each(|due| due.arrived(now));
    }

    /// The sink failed to take the message under way.
    pub(super) fn give_back(&mut self, under_way: UnderWay) {
        self.failed = true;
        let UnderWay { waiting, mut crowd, meanwhile, ended, .. } = under_way;
        for mut waiting in waiting {
            waiting.failed();
            match &waiting.what {
                // Whoever waited for it has been told.
                What::Test => self.forget(waiting.sources.len()),
                What::BreakerOpened { account, .. } => {
                    let account = account.clone();
                    let over = ended.contains(&account);
                    self.opening_failed(&account, over, waiting);
                }
                What::BreakerClosed { account, .. } => {
                    let account = account.clone();
                    self.closing_failed(&account, waiting);
                }
                What::LimitNear { .. } => self.give_back_notice(waiting),
                _ => self.queue.give_back(waiting),
            }
        }
        crowd.values_mut().for_each(|bundle| bundle.failed());
        crowd.into_iter().for_each(|(class, bundle)| add(&mut self.queue.crowd, class, bundle));
        for (account, mut bundles) in meanwhile {
            bundles.values_mut().for_each(|bundle| bundle.failed());
            let standing = self.accounts.all.get_mut(&account).and_then(|known| known.standing.as_mut());
            let place: &mut Bundles = standing.map_or(&mut self.queue.crowd, |standing| &mut standing.meanwhile);
            bundles.into_iter().for_each(|(class, bundle)| add(place, class, bundle));
        }
    }

    /// One that has closed meanwhile is no news, but counts as a flap.
    fn opening_failed(&mut self, account: &str, ended: bool, opening: Waiting) {
        match self.accounts.all.get_mut(account).filter(|known| ended || known.closing.is_some()) {
            Some(known) => {
                known.untold = known.untold.saturating_add(opening.times);
                self.settle(opening.sources);
            }
            None => self.queue.give_back(opening),
        }
    }

    /// Of one that has opened again meanwhile, the owner knows no other.
    fn closing_failed(&mut self, account: &str, closing: Waiting) {
        self.reconcile(account);
        let Waiting { times, lost, at, late, sources, due, .. } = closing;
        let Some(known) = self.accounts.all.get_mut(account) else { return self.settle(sources) };
        match &known.standing {
            Some(standing) if !standing.open => {
                known.untold = known.untold.saturating_add(times.saturating_sub(1));
                known.closing = Some(Closing { due, lost: lost.min(1), at, late, sources });
            }
            _ => {
                known.untold = known.untold.saturating_add(times);
                self.settle(sources);
            }
        }
    }

    /// What failed and has become too old to go out (spec §12) is forgotten.
    pub(super) fn forget_old(&mut self, now: Instant) {
        if !self.failed {
            return;
        }
        let (begun, clock) = self.begun;
        let clock = clock + now.saturating_duration_since(begun);
        let is_old = |due: Due, at| {
            let age = clock.duration_since(at).unwrap_or_default();
            due.instant().is_none() && age > Duration::from_millis(OWED_FOR_MS)
        };
        let entries = self.queue.entries.extract_if(.., |_, waiting| is_old(waiting.due, waiting.at));
        let entries = entries.map(|(_, waiting)| waiting.sources.len());
        let crowd = self.queue.crowd.extract_if(.., |_, bundle| is_old(bundle.due, bundle.at));
        let crowd = crowd.map(|(_, bundle)| bundle.sources.len());
        let old = entries.chain(crowd).sum();
        self.forget(old);
    }
}
