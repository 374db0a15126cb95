//! What is seen of it from outside: how providers stand, why a call went where it went, what the next supervisor must know.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::Cause;

use super::super::account::{Account, Memory};
use super::super::breaker::{self, Until};
use super::super::decision;
use super::super::fit::{self, Wants};
use super::{Opening, Router};
use crate::settings::Provider;

impl Router {
    /// Whether this job could be asked for now, and if not, from when: a job is not started to be refused.
    #[must_use]
    pub fn opens_at(&self, wants: &Wants, now: Instant) -> Opening {
        if self.shut.is_some() {
            return Opening::Never;
        }
        let candidates = fit::candidates(&self.providers, wants);
        // Without any the worker asks, and is refused with the reason.
        let mut opening = if candidates.is_empty() { Opening::Now } else { Opening::Never };
        for provider in candidates {
            let at = match self.accounts[self.account_of[provider]].breaker() {
                breaker::Standing::Closed => return Opening::Now,
                breaker::Standing::HalfOpen => now,
                breaker::Standing::Open { until: Until::At(at), .. } => at,
                breaker::Standing::Open { until: Until::Reset, .. } => continue,
            };
            opening = match opening {
                Opening::At(earlier) => Opening::At(earlier.min(at)),
                _ => Opening::At(at),
            };
        }
        opening
    }

    /// By account, in a fixed order.
    pub fn breakers(&self) -> impl Iterator<Item = (&str, breaker::Standing)> {
        self.accounts.iter().map(|account| (account.name.as_str(), account.breaker()))
    }

    /// The candidates of a job that only a person can open.
    #[must_use]
    pub fn closed(&self, wants: &Wants) -> Vec<&str> {
        let is_closed = |provider: &usize| {
            let standing = self.accounts[self.account_of[*provider]].breaker();
            matches!(standing, breaker::Standing::Open { until: Until::Reset, .. })
        };
        let closed = fit::candidates(&self.providers, wants).into_iter().filter(is_closed);
        closed.map(|provider| self.providers[provider].id.as_str()).collect()
    }

    /// Of each candidate of a job that is not CLOSED, why.
    #[must_use]
    pub fn opened(&self, wants: &Wants) -> String {
        let said = fit::candidates(&self.providers, wants).into_iter().filter_map(|provider| {
            let id = &self.providers[provider].id;
            match self.accounts[self.account_of[provider]].breaker() {
                breaker::Standing::Closed => None,
                breaker::Standing::HalfOpen => Some(format!("{id} is being tried")),
                breaker::Standing::Open { why, .. } => Some(format!("{id} is OPEN ({})", decision::opened(why))),
            }
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Why no lease is given at all.
    #[must_use]
    pub fn is_shut(&self) -> Option<&Cause> {
        self.shut.as_ref()
    }

    pub fn providers(&self) -> impl Iterator<Item = (&Provider, &Account)> {
        self.providers.iter().zip(&self.account_of).map(|(provider, account)| (provider, &self.accounts[*account]))
    }

    #[must_use]
    pub fn place_of(&self, provider: &str) -> Option<usize> {
        self.providers.iter().position(|known| known.id == provider)
    }

    /// The last decision about a job, in words, candidate by candidate.
    #[must_use]
    pub fn why(&self, job: &JobId, now: Instant) -> Option<Vec<String>> {
        let decision = self.decisions.of(job)?;
        Some(decision.lines(&self.providers, now))
    }

    /// A person says that these are well. What a provider named still binds, unless that too is to be forgotten.
    pub fn reset(&mut self, provider: &str, forget_wait: bool, now: Instant) {
        self.stirred = true;
        if let Some(index) = self.providers.iter().position(|known| known.id == provider) {
            self.accounts[self.account_of[index]].reset(forget_wait, now);
        }
    }

    /// By account, what outlives the supervisor.
    pub fn memories(&self, now: Instant) -> impl Iterator<Item = (&str, Memory)> {
        self.accounts.iter().map(move |account| (account.name.as_str(), account.memory(now)))
    }

    /// What an earlier supervisor knew. `false`: no provider has this account (any more).
    #[must_use]
    pub fn recall(&mut self, account: &str, memory: Memory, now: Instant) -> bool {
        self.stirred = true;
        let known = self.accounts.iter_mut().find(|known| known.name == account);
        known.map(|account| account.recall(memory, now)).is_some()
    }

    /// A provider named a wait, as the log of a job tells that nobody has read since.
    pub fn told(&mut self, provider: &str, left: Duration, now: Instant) {
        self.stirred = true;
        if let Some(index) = self.place_of(provider) {
            self.accounts[self.account_of[index]].named(left, now);
        }
    }

    /// Whether any account has a bucket.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        self.accounts.iter().any(Account::has_rates)
    }
}
