//! What goes into the next message: the most important by name, the rest as numbers.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::Instant;

use super::class::Class;
use super::waiting::{Due, Waiting};
use super::{Closing, ExplainedBy, Filter, UnderWay, accounts, explained_by};
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
        if self.explains(&waiting.what) {
            *self.meanwhile.entry(class).or_default() += 1;
        } else if self.entries.len() >= ENTRIES_MAX {
            *self.more.entry(class).or_default() += 1;
        } else {
            let Waiting { what, times, at, late, .. } = &waiting;
            self.show(Entry { what: what.clone(), times: *times, at: *at, late: *late });
        }
        self.under_way.waiting.push(waiting);
    }

    fn show(&mut self, entry: Entry) {
        self.under_way.message_keys.push(entry.what.key());
        if let What::BreakerOpened { account, .. } = &entry.what {
            self.under_way.openings.insert(account.clone());
        }
        self.entries.push((Class::of(&entry.what), entry));
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
        let goes = |key: &Key, waiting: &mut Waiting| free(key) && waiting.due.may_go();
        let mut eligible: Vec<_> = self.queue.entries.extract_if(.., goes).map(|(_, waiting)| waiting).collect();
        // It is never only a number: who was told that an account is not asked wants to know of that one. It can wait.
        let room = ENTRIES_MAX.saturating_sub(eligible.len());
        let closings: Vec<_> = self.closings(now, |due| due.is_by(now) || due == Due::Along).take(room).collect();
        for account in closings {
            eligible.extend(self.take_closing(&account, &mut draft));
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
        let due = |due: Due| due.is_by(now) || (self.flushing && due.instant().is_some());
        let mut entries = self.queue.entries.iter().filter(|(key, _)| key.kind != Kind::Test);
        let mut crowd = self.queue.crowd.values();
        entries.any(|(key, waiting)| due(waiting.due) && self.told.is_free(key, now))
            || self.closings(now, |due| due.is_by(now)).next().is_some()
            || crowd.any(|bundle| due(bundle.due) && self.told.is_free(&bundle.sample.key(), now))
    }

    /// Accounts that have stayed closed, to whom it was told that they had opened.
    fn closings(&self, now: Instant, goes: impl Fn(Due) -> bool) -> impl Iterator<Item = String> {
        let stayed = self.accounts.all.iter().filter(move |(account, known)| {
            let closing = known.closing.as_ref().filter(|_| known.standing.is_some());
            closing.is_some_and(|closing| goes(closing.due)) && self.told.is_free(&accounts::key(account), now)
        });
        stayed.map(|(account, _)| account.clone())
    }

    /// With what the opening inhibited.
    fn take_closing(&mut self, account: &str, draft: &mut Draft) -> Option<Waiting> {
        let known = self.accounts.all.get_mut(account)?;
        let Closing { due, lost, at, late, sources } = known.closing.take()?;
        let times = 1 + std::mem::take(&mut known.untold);
        draft.under_way.closings.insert(account.to_owned());
        if let Some(standing) = &mut known.standing {
            let meanwhile = std::mem::take(&mut standing.meanwhile);
            for (class, bundle) in &meanwhile {
                *draft.meanwhile.entry(*class).or_default() += bundle.count;
            }
            draft.under_way.meanwhile.push((account.to_owned(), meanwhile));
        }
        let what = What::BreakerClosed { account: account.to_owned(), by_person: false };
        Some(Waiting { what, times, lost, at, late, sources, due })
    }

    /// What is only counted goes with any message; where there is room, one of each class stands for the others.
    fn take_crowd(&mut self, draft: &mut Draft, now: Instant) {
        for (class, bundle) in self.queue.crowd.extract_if(.., |_, bundle| bundle.due.may_go()) {
            let key = bundle.sample.key();
            let shown = draft.entries.len() < ENTRIES_MAX
                && self.told.is_free(&key, now)
                && !draft.under_way.message_keys.contains(&key)
                && !draft.explains(&bundle.sample);
            let rest = bundle.count - u64::from(shown);
            if shown {
                draft.show(Entry { what: bundle.sample.clone(), times: 1, at: bundle.at, late: bundle.late });
            }
            if rest > 0 {
                *draft.more.entry(class).or_default() += rest;
            }
            draft.under_way.crowd.insert(class, bundle);
        }
    }
}
