//! The decision itself: every ask is looked at, in the order of their claims, and is granted, refused, parked or told what it
//! waits for.

#![deny(clippy::disallowed_methods)]

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::lease::{Answer, Ask, Grant, WaitWhy};

use super::super::account::{Account, Admission, PATIENCE, Standing};
use super::super::decision::{self, Decision};
use super::super::fit;
use super::super::lease::{Holder, Lease};
use super::super::survey::{self, Choice, Seen, View};
use super::{Call, Pending, Router, Told, Tried};

/// A call that changes over to a provider whose scarcer bucket is lower than this …
const THIN: f64 = 0.2;
/// … waits until it is so full, at most for as long as anybody's patience.
const THIN_UNTIL: f64 = 0.3;

impl Router {
    /// Looks at every ask again, 9 before 0, then in the order of arrival, and sends the probes that are due. To be
    /// called when all that [`Router::revision`] counts is on disk.
    pub fn place(&mut self, now: Instant) {
        if !std::mem::take(&mut self.stirred) {
            return;
        }
        for account in &mut self.accounts {
            account.handle_timeout(now);
        }
        let mut order: Vec<_> = self.pending.iter().collect();
        order.sort_by_key(|(_, pending)| (Reverse(pending.ask.priority), pending.arrival));
        let jobs: Vec<JobId> = order.into_iter().map(|(job, _)| job.clone()).collect();
        // Whoever waits for a bucket is not overtaken by smaller requests: it would wait for ever.
        let mut queued = vec![None; self.accounts.len()];
        for job in jobs {
            self.place_one(&job, &mut queued, now);
        }
        self.order_probes(now);
    }

    fn place_one(&mut self, job: &JobId, queued: &mut [Option<Instant>], now: Instant) {
        let (Some(pending), Some(call)) = (self.pending.get(job), self.calls.get(job)) else { return };
        let seen = self.survey(pending, call, queued, now);
        let choice = match survey::choose(&seen, call.behind, now) {
            // Parked, it would come back to what it may not try any more.
            Choice::AllOpen if self.park && survey::is_exhausted(&seen, call.behind) => Choice::Attempts,
            choice => choice,
        };
        let thin = pending.thin_now(&seen, now);
        for seen in seen.iter().filter(|seen| seen.view.awaits_verdict()) {
            self.want(seen.provider, now);
        }
        let answer = match choice {
            _ if self.shut.is_some() => self.shut.clone().map_or(Answer::Park, |cause| Answer::Refuse { cause }),
            Choice::Grant(provider) => Answer::Grant(Box::new(self.grant(job, provider, now))),
            Choice::Wait { provider, why, until } => {
                let in_line = |seen: &Seen| seen.provider == provider && matches!(seen.view, View::Rate(_));
                if seen.iter().any(in_line) {
                    let account = self.account_of[provider];
                    queued[account] = queued[account].max(until);
                }
                let until_ms = until.map(|at| millis_up(at.saturating_duration_since(now)));
                Answer::Wait { why, until_ms }
            }
            Choice::Unfit => Answer::Refuse { cause: self.unfit(job, &seen, now) },
            Choice::AllOpen if self.park => Answer::Park,
            Choice::AllOpen => Answer::Refuse { cause: Cause::new(CauseKind::AllOpen, self.words(&seen, now)) },
            Choice::Attempts => Answer::Refuse { cause: Cause::new(CauseKind::Attempts, self.history(job)) },
        };
        let Some(pending) = self.pending.get_mut(job) else { return };
        let call = pending.ask.call;
        self.decisions.note(job, Decision { call, at: now, seen, choice });
        if let (Choice::Wait { why, until, .. }, Answer::Wait { .. }) = (choice, &answer) {
            pending.thin = thin;
            pending.wake = until;
            // The end of a wait for a bucket moves with each request that leaves before it: that is told once.
            let again = pending.told.is_none_or(|(told, at)| told != why || (at != until && why != WaitWhy::Rate));
            if !again {
                return;
            }
            pending.told = Some((why, until));
        } else {
            self.pending.remove(job);
        }
        self.told.push_back(Told { job: job.clone(), call, answer });
    }

    /// Every candidate as this ask sees it. `queued`: by account, the wait of an earlier asker for its buckets.
    fn survey(&self, pending: &Pending, call: &Call, queued: &[Option<Instant>], now: Instant) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut passed_over = false;
        for provider in fit::candidates(&self.providers, &pending.wants) {
            let tried = call.tried.get(&provider);
            let view = match fit::unfit_for(&self.providers[provider], &pending.ask) {
                Some(unfit) => View::Unfit(unfit),
                None => {
                    let switched = passed_over || call.behind.current.is_some_and(|current| current != provider);
                    passed_over = true;
                    self.view(provider, pending, tried, switched, queued, now)
                }
            };
            let (attempts, left) = tried.map_or((0, false), |tried| (tried.attempts, tried.left));
            seen.push(Seen { provider, view, attempts, left });
        }
        seen
    }

    fn view(
        &self,
        provider: usize,
        pending: &Pending,
        tried: Option<&Tried>,
        switched: bool,
        queued: &[Option<Instant>],
        now: Instant,
    ) -> View {
        let account = &self.accounts[self.account_of[provider]];
        let backoff = tried.and_then(|tried| tried.not_before).filter(|at| *at > now);
        let queued = queued[self.account_of[provider]];
        match account.standing(self.reserves(provider, &pending.ask), now, pending.roll) {
            Standing::Open { until, why } => View::Open { until, why },
            Standing::HalfOpen => View::HalfOpen,
            Standing::NotBefore(at) => View::NotBefore(backoff.map_or(at, |own| own.max(at))),
            Standing::Ready | Standing::Full | Standing::Rate(_) if backoff.is_some() => {
                View::Backoff(backoff.unwrap_or(now))
            }
            Standing::Full => View::Full,
            Standing::Rate(at) => View::Rate(queued.map_or(at, |queued| queued.max(at))),
            Standing::Ready => match (queued, pending.thin_at(provider, account, switched, now)) {
                (Some(at), _) => View::Rate(at),
                (None, Some(thin)) => thin,
                (None, None) => View::Ready,
            },
        }
    }

    /// What a request takes out of the bucket of tokens when it leaves: its input as far as it is known, and all the
    /// output that it may bring.
    pub(super) fn reserves(&self, provider: usize, ask: &Ask) -> f64 {
        self.estimates[provider].tokens(ask.window) + self.output(provider, ask) as f64
    }

    pub(super) fn output(&self, provider: usize, ask: &Ask) -> u64 {
        let provider = &self.providers[provider];
        fit::output(provider, ask.max_output).min(provider.context_window.saturating_sub(ask.window))
    }

    fn grant(&mut self, job: &JobId, provider: usize, now: Instant) -> Grant {
        let (window, reserved, max_output, model) = match self.pending.get(job) {
            Some(Pending { ask, wants, .. }) => {
                (ask.window, self.reserves(provider, ask), self.output(provider, ask), wants.model.clone())
            }
            None => (0, 0.0, 0, None),
        };
        let generation = self.accounts[self.account_of[provider]].take(reserved, now);
        if let Some(call) = self.calls.get_mut(job) {
            if let Some(current) = call.behind.current.filter(|current| *current != provider) {
                call.behind.switches += 1;
                call.tried.entry(current).or_default().left = true;
            }
            call.behind.current = Some(provider);
            call.tried.entry(provider).or_default().attempts += 1;
        }
        let admission = Admission::Request { generation };
        let lease = Lease { holder: Holder::Job(job.clone()), provider, admission, reserved, window };
        let lease = self.leases.grant(lease);
        let model = model.unwrap_or_else(|| self.providers[provider].model.clone());
        Grant { model, max_output, ..self.grant_of(provider, lease, generation) }
    }

    pub(super) fn grant_of(&self, provider: usize, lease: u64, generation: u64) -> Grant {
        let provider = &self.providers[provider];
        Grant {
            lease,
            generation,
            provider: provider.id.clone(),
            account: provider.account.clone(),
            wire: provider.wire,
            url: provider.url.clone(),
            model: provider.model.clone(),
            key: provider.key.clone(),
            timeouts: provider.timeouts,
            context_window: provider.context_window,
            max_output: provider.max_output,
            prices: provider.prices,
        }
    }

    fn unfit(&self, job: &JobId, seen: &[Seen], now: Instant) -> Cause {
        let why = match self.pending.get(job) {
            Some(pending) if seen.is_empty() => fit::no_candidate(&pending.wants),
            _ => self.words(seen, now),
        };
        Cause::new(CauseKind::NoCapableProvider, why)
    }

    fn words(&self, seen: &[Seen], now: Instant) -> String {
        let last = |provider: usize| {
            let last = self.accounts[self.account_of[provider]].last_failure()?;
            (last.provider == self.providers[provider].id).then_some(last.signature.as_str())
        };
        decision::words(seen, &self.providers, last, now)
    }

    pub(super) fn history(&self, job: &JobId) -> String {
        let Some(call) = self.calls.get(job) else { return String::new() };
        let mut tried: Vec<_> = call.tried.iter().collect();
        tried.sort_unstable_by_key(|(index, _)| **index);
        let told = |(index, tried): (&usize, &Tried)| {
            let last = if tried.last.is_empty() { String::new() } else { format!(" (last: {})", tried.last) };
            format!("{} × {}{last}", self.providers[*index].id, tried.attempts)
        };
        let tried: Vec<_> = tried.into_iter().map(told).collect();
        format!("call {} was tried at {}, and got no reply", call.call, tried.join(", "))
    }
}

impl Pending {
    /// Whether a call that changes over to this provider has to wait until its buckets have filled up.
    fn thin_at(&self, provider: usize, account: &Account, switched: bool, now: Instant) -> Option<View> {
        let waiting = self.thin.filter(|(of, _)| *of == provider).map(|(_, until)| until);
        let fraction = account.fraction(now);
        let is_thin = if waiting.is_some() { fraction < THIN_UNTIL } else { switched && fraction < THIN };
        let fills = account.fills_to(THIN_UNTIL, now);
        let deadline = waiting.unwrap_or(now + PATIENCE);
        is_thin.then(|| View::Thin { until: fills.min(deadline), far: fills > deadline })
    }

    fn thin_now(&self, seen: &[Seen], now: Instant) -> Option<(usize, Instant)> {
        let thin = seen.iter().find(|seen| matches!(seen.view, View::Thin { .. }))?;
        let began = self.thin.filter(|(of, _)| *of == thin.provider);
        Some(began.unwrap_or((thin.provider, now + PATIENCE)))
    }
}

/// Rounded up: who sleeps that long is never early.
fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
