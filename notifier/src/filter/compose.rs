//! What goes into the next message: the most important by name, the rest as numbers.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::Instant;

use super::class::Class;
use super::waiting::Waiting;
use super::{CLOSED_FOR, ExplainedBy, Filter, UnderWay, accounts, counts, explained_by};
use crate::alert::{Key, Kind, What};
use crate::message::{Entry, Message};

/// What a person reads of one message, and what Discord shows in one (embeds).
pub const ENTRIES_MAX: usize = 10;

/// A message while it grows.
#[derive(Default)]
struct Draft {
    entries: Vec<(Class, Entry)>,
    more: BTreeMap<Class, u64>,
    meanwhile: BTreeMap<Class, u64>,
    under_way: UnderWay,
}

impl Draft {
    fn add(&mut self, waiting: Waiting) {
        let class = Class::of(&waiting.what);
        let Waiting { what, times, at, late, sources, .. } = waiting;
        self.under_way.sources.extend(sources);
        self.under_way.alerts = self.under_way.alerts.saturating_add(if counts(&what) { times } else { 0 });
        if self.explains(&what) {
            *self.meanwhile.entry(class).or_default() += 1;
            return;
        }
        if self.entries.len() >= ENTRIES_MAX {
            *self.more.entry(class).or_default() += 1;
            return;
        }
        self.under_way.message_keys.push(what.key());
        if let What::BreakerOpened { account, .. } = &what {
            self.under_way.openings.insert(account.clone());
        }
        self.entries.push((class, Entry { what, times, at, late }));
    }

    /// Whether an opening in this message does.
    fn explains(&self, what: &What) -> bool {
        match explained_by(what) {
            Some(ExplainedBy::Account(account)) => self.under_way.openings.contains(&account),
            Some(ExplainedBy::Any) => !self.under_way.openings.is_empty(),
            None => false,
        }
    }

    fn finish(mut self) -> (Message, UnderWay) {
        self.entries.sort_by(|(class, entry), (other_class, other)| (class, entry.at).cmp(&(other_class, other.at)));
        let meanwhile = self.meanwhile.into_iter().map(|(class, count)| (count, class.meanwhile(count).to_owned()));
        let more = self.more.into_iter().map(|(class, count)| (count, class.more(count).to_owned()));
        let more = meanwhile.chain(more).collect();
        let entries = self.entries.into_iter().map(|(_, entry)| entry).collect();
        (Message { entries, more }, self.under_way)
    }
}

impl Filter {
    /// Somebody waits for it: at once, alone, and whatever the pace.
    pub(super) fn compose_test(&mut self) -> Option<(Message, UnderWay)> {
        let waiting = self.queue.entries.remove(&What::Test.key())?;
        let mut draft = Draft::default();
        draft.add(waiting);
        draft.under_way.test = true;
        Some(draft.finish())
    }

    pub(super) fn compose(&mut self, now: Instant) -> Option<(Message, UnderWay)> {
        let hurried = self.flushing && self.pace.may_hurry();
        if !(self.pace.is_over(now) || hurried) || !self.is_due(now) {
            return None;
        }
        let mut draft = Draft::default();
        let free = |key: &Key| key.kind != Kind::Test && self.told.is_free(key, now);
        let mut eligible: Vec<_> = self.queue.entries.extract_if(.., |key, _| free(key)).map(|(_, w)| w).collect();
        // It is never only a number: who was told that an account is not asked wants to know of that one. It can wait.
        let room = ENTRIES_MAX.saturating_sub(eligible.len());
        let closings: Vec<_> = self.closings(now).take(room).collect();
        for account in closings {
            eligible.extend(self.take_closing(&account, &mut draft, now));
        }
        eligible.sort_by(|one, other| {
            let rank = |waiting: &Waiting| (Class::of(&waiting.what), waiting.at);
            rank(one).cmp(&rank(other))
        });
        for mut waiting in eligible {
            if let What::BreakerOpened { account, .. } = &waiting.what
                && let Some(known) = self.accounts.all.get_mut(account)
            {
                waiting.times = waiting.times.saturating_add(std::mem::take(&mut known.untold));
            }
            draft.add(waiting);
        }
        self.take_crowd(&mut draft, now);
        Some(draft.finish())
    }

    /// Whether there is something to tell by name that has been held for long enough.
    fn is_due(&self, now: Instant) -> bool {
        let due = |at: Instant| self.flushing || at <= now;
        let mut entries = self.queue.entries.iter().filter(|(key, _)| key.kind != Kind::Test);
        let mut crowd = self.queue.crowd.values();
        entries.any(|(key, waiting)| due(waiting.due) && self.told.is_free(key, now))
            || self.closings(now).next().is_some()
            || crowd.any(|bundle| due(bundle.due) && self.told.is_free(&bundle.sample.key(), now))
    }

    /// Accounts that have stayed closed, to whom it was told that they had opened.
    fn closings(&self, now: Instant) -> impl Iterator<Item = String> {
        let stayed = self.accounts.all.iter().filter(move |(account, known)| {
            let closing = known.closing.as_ref().filter(|_| known.standing.is_some());
            closing.is_some_and(|closing| closing.since + CLOSED_FOR <= now)
                && self.told.is_free(&accounts::key(account), now)
        });
        stayed.map(|(account, _)| account.clone())
    }

    /// With what the opening inhibited.
    fn take_closing(&mut self, account: &str, draft: &mut Draft, now: Instant) -> Option<Waiting> {
        let known = self.accounts.all.get_mut(account)?;
        let closing = known.closing.take()?;
        let times = 1 + std::mem::take(&mut known.untold);
        draft.under_way.closings.insert(account.to_owned());
        for (class, bundle) in known.standing.iter_mut().flat_map(|standing| std::mem::take(&mut standing.meanwhile)) {
            *draft.meanwhile.entry(class).or_default() += bundle.count;
            draft.under_way.sources.extend(bundle.sources);
            draft.under_way.alerts = draft.under_way.alerts.saturating_add(bundle.count);
        }
        let what = What::BreakerClosed { account: account.to_owned(), by_person: false };
        Some(Waiting { what, times, at: closing.at, late: closing.late, sources: closing.sources, due: now })
    }

    /// What is only counted goes with any message; where there is room, one of each class stands for the others.
    fn take_crowd(&mut self, draft: &mut Draft, now: Instant) {
        for (class, bundle) in std::mem::take(&mut self.queue.crowd) {
            let counted = counts(&bundle.sample);
            let key = bundle.sample.key();
            let shown = draft.entries.len() < ENTRIES_MAX
                && self.told.is_free(&key, now)
                && !draft.under_way.message_keys.contains(&key)
                && !draft.explains(&bundle.sample);
            let rest = bundle.count - u64::from(shown);
            if shown {
                let (what, at, late) = (bundle.sample, bundle.at, bundle.late);
                draft.add(Waiting { what, times: 1, at, late, sources: Vec::new(), due: now });
            }
            if rest > 0 {
                *draft.more.entry(class).or_default() += rest;
            }
            draft.under_way.sources.extend(bundle.sources);
            draft.under_way.alerts = draft.under_way.alerts.saturating_add(if counted { rest } else { 0 });
        }
    }
}
