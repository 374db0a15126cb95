//! Requests that belong to no job: the probes of a breaker that is HALF_OPEN, and those that a person wants.

#![deny(clippy::disallowed_methods)]

use std::time::Instant;

use ukai_protocol::command::quoted;
use ukai_protocol::lease::{Grant, Report};

use super::super::account::{Admission, Standing};
use super::super::breaker::{self, PROBE_LEASE, Until};
use super::super::lease::{Holder, Lease};
use super::super::probe;
use super::{Order, Router, used};

impl Router {
    pub(super) fn order_probes(&mut self, now: Instant) {
        for account in 0..self.accounts.len() {
            // As in `poll_timeout`: what became due while somebody wanted it is sent, however late anybody looks.
            let due = self.accounts[account].poll_timeout();
            let wanted = self.wanted_until[account].is_some_and(|until| due.is_some_and(|due| due <= until));
            let wanted = wanted && self.shut.is_none();
            let last = self.accounts[account].last_failure().and_then(|last| self.place_of(&last.provider));
            let of_account = |provider: &usize| self.account_of[*provider] == account;
            let provider = last.filter(of_account).or_else(|| (0..self.providers.len()).find(of_account));
            let Some(provider) = provider.filter(|_| wanted) else { continue };
            let shape = probe::shape(self.accounts[account].last_failure(), self.providers[provider].supports_tools);
            let tokens = (shape.output_tokens + shape.input_bytes) as f64;
            let Some(probe) = self.accounts[account].take_probe(tokens, now) else { continue };
            let admission = Admission::Probe { id: probe.id, generation: probe.generation };
            let lease = Lease { holder: Holder::Probe, provider, admission, reserved: 0.0, window: 0 };
            let lease = self.leases.grant(lease);
            let grant = Grant { max_output: shape.output_tokens, ..self.grant_of(provider, lease, probe.generation) };
            self.orders.push_back(Order { grant, shape, deadline: PROBE_LEASE });
        }
    }

    /// What came of a probe; None: it could not be sent, or was ended before it had an answer.
    pub fn probed(&mut self, lease: u64, report: Option<&Report>, now: Instant, roll: f64) {
        self.stirred = true;
        let Some(lease) = self.leases.end(lease, &Holder::Probe) else { return };
        let account = &mut self.accounts[self.account_of[lease.provider]];
        if let Admission::Request { .. } = lease.admission {
            account.settle(lease.reserved, report.map_or(0.0, |report| used(&lease, report)), now);
        }
        match (lease.admission, report) {
            (admission, Some(report)) => {
                account.reported(&self.providers[lease.provider].id, admission, report, now, roll);
            }
            (Admission::Probe { id, .. }, None) => account.probe_lost(id, now),
            (Admission::Request { .. }, None) => {}
        }
        if let Some(report) = report {
            self.learn(lease.provider, report.tools);
        }
        if self.accounts[self.account_of[lease.provider]].breaker() == breaker::Standing::HalfOpen {
            // A trial that has begun comes to its end.
            self.want(lease.provider, now);
        }
    }

    /// A lease for a person who wants to see whether this provider answers; its end is [`Router::probed`]. Why not, if it
    /// asked to wait: that binds people too.
    pub fn examine(&mut self, provider: &str, now: Instant) -> Result<Grant, String> {
        let index = self.place_of(provider).ok_or_else(|| format!("there is no provider `{provider}`"))?;
        if let Some(cause) = &self.shut {
            return Err(cause.detail.clone());
        }
        let account = &mut self.accounts[self.account_of[index]];
        let left = |at: Instant| at.saturating_duration_since(now).as_millis().div_ceil(1_000);
        let why_not = match account.standing(0.0, now, 0.0) {
            _ if account.not_before().is_some_and(|at| at > now) => {
                account.not_before().map(|at| format!("it asked to wait for another {} s", left(at)))
            }
            // A person may find out whether what was wrong has been mended.
            Standing::Ready | Standing::Open { until: Until::Reset, .. } => None,
            Standing::Open { until: Until::At(at), .. } => {
                let seconds = left(at);
                Some(format!(
                    "its breaker is OPEN for another {seconds} s ({} ends that)",
                    quoted(&["providers", "reset", provider])
                ))
            }
            Standing::HalfOpen => Some("its breaker is HALF_OPEN, and a probe is on its way".to_owned()),
            Standing::NotBefore(at) => Some(format!("it is backed off from for another {} s", left(at))),
            Standing::Rate(at) => Some(format!("its bucket of requests is empty for another {} s", left(at))),
            Standing::Full => Some("as many as may are asking it".to_owned()),
        };
        if let Some(why) = why_not {
            return Err(format!("not asked: {why}"));
        }
        let generation = account.take(0.0, now);
        let admission = Admission::Request { generation };
        let lease = Lease { holder: Holder::Probe, provider: index, admission, reserved: 0.0, window: 0 };
        let lease = self.leases.grant(lease);
        Ok(self.grant_of(index, lease, generation))
    }
}
