//! Which provider accounts the owner believes to be OPEN, and what has moved since they were told.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::memory::{StandingAccount, age, ms};
use super::told::Told;
use super::waiting::{Bundles, Due};
use crate::alert::{Key, Kind, Source};

/// Accounts come from the configuration: more than anybody has.
pub const ACCOUNTS_MAX: usize = 256;
/// An OPEN breaker explains the aborts of a day. After that they are told as what they are: what was held back longer
/// would be too old to go out after a restart.
const INHIBIT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Default)]
pub struct Account {
    /// An opening was delivered, and no closing since.
    pub standing: Option<Standing>,
    /// It was heard to be closed again, and that is not told yet.
    pub closing: Option<Closing>,
    /// How often it has moved and moved back since it was last told.
    pub untold: u64,
}

#[derive(Debug)]
pub struct Standing {
    pub inhibits_until: Instant,
    pub open: bool,
    /// What it inhibits.
    pub meanwhile: Bundles,
}

#[derive(Debug)]
pub struct Closing {
    /// It has stayed closed by then.
    pub due: Due,
    /// 1: the owner has been told that it was lost.
    pub lost: u64,
    pub at: SystemTime,
    pub late: bool,
    pub sources: Vec<Source>,
}

impl Standing {
    #[must_use]
    pub fn new(open: bool, now: Instant) -> Self {
        Standing { inhibits_until: now + INHIBIT_FOR, open, meanwhile: Bundles::new() }
    }
}

impl Account {
    /// Whether its alerts about jobs are explained by the one that stands.
    #[must_use]
    pub fn inhibits(&self, now: Instant) -> bool {
        let stands = |standing: &Standing| now < standing.inhibits_until && (standing.open || self.closing.is_some());
        self.standing.as_ref().is_some_and(stands)
    }
}

#[derive(Debug, Default)]
pub struct Accounts {
    pub all: BTreeMap<String, Account>,
}

#[must_use]
pub fn key(account: &str) -> Key {
    Key { kind: Kind::Breaker, subject: account.to_owned() }
}

impl Accounts {
    /// None: there are too many. Then it is told of, and not remembered: no closing follows, nothing is inhibited.
    pub fn entry(&mut self, account: &str) -> Option<&mut Account> {
        if !self.all.contains_key(account) {
            if self.all.len() >= ACCOUNTS_MAX {
                return None;
            }
            self.all.insert(account.to_owned(), Account::default());
        }
        self.all.get_mut(account)
    }

    #[must_use]
    pub fn stands(&self, account: &str) -> bool {
        self.all.get(account).is_some_and(|account| account.standing.is_some())
    }

    /// Forgets those of which there is nothing to remember.
    pub fn prune(&mut self, told: &Told) {
        self.all.retain(|name, account| {
            let flapped = account.untold > 0 && told.contains(&key(name));
            account.standing.is_some() || account.closing.is_some() || flapped
        });
    }

    #[must_use]
    pub fn memory(&self, now: Instant, clock: SystemTime) -> Vec<StandingAccount> {
        let remembered = |(name, account): (&String, &Account)| {
            let standing = account.standing.as_ref()?;
            let age = INHIBIT_FOR.saturating_sub(standing.inhibits_until.saturating_duration_since(now));
            let since_ms = ms(clock).saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            let (account, untold) = (name.clone(), account.untold);
            Some(StandingAccount { account, since_ms, open: standing.open, untold })
        };
        self.all.iter().filter_map(remembered).collect()
    }

    #[must_use]
    pub fn recall(memory: Vec<StandingAccount>, now: Instant, clock: SystemTime) -> Self {
        let mut all = BTreeMap::new();
        for StandingAccount { account, since_ms, open, untold } in memory.into_iter().take(ACCOUNTS_MAX) {
            let left = INHIBIT_FOR.saturating_sub(age(since_ms, clock));
            // Its closing was not delivered within a day, and is not owed any more.
            if left.is_zero() && !open {
                continue;
            }
            let standing = Standing { inhibits_until: now + left, open, meanwhile: Bundles::new() };
            all.insert(account, Account { standing: Some(standing), closing: None, untold });
        }
        Accounts { all }
    }
}
