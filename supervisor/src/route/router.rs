//! Which provider an ask goes to, and when: the one place in ukai where anything is tried again (spec §5).
//!
//! Every ask is granted, refused, parked or withdrawn; until then it is told what it waits for. What is decided is decided
//! in [`Router::place`], for all asks together and in their order, so that the shell can first put on disk what must be
//! there (`revision`): all other methods only note what happened.
//!
//! What a call has behind it is kept here, what an account has behind it in [`Account`], how the two make a choice is in
//! `survey`. A job has at most one ask or one lease at a time, so all that is kept is bounded by the number of workers.

#![deny(clippy::disallowed_methods)]

mod place;
mod probes;
mod show;
#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::Cause;
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, STALE, WaitWhy};
use ukai_protocol::message::Usage;
use ukai_protocol::probe::Shape;

use super::account::{Account, Admission};
use super::backoff;
use super::decision::Decisions;
use super::estimate::Estimate;
use super::fit::{self, Wants};
use super::lease::{Holder, Lease, Leases};
use super::survey::Behind;
use crate::settings::Provider;

/// Probes are sent while somebody has wanted the account within this time: an idle supervisor spends no money.
const WANTED_FOR: Duration = Duration::from_secs(5 * 60);

/// An answer to hand to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub job: JobId,
    pub call: u64,
    pub answer: Answer,
}

/// A probe to send. Its lease is over when [`Router::probed`] says so, or with the deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub grant: Grant,
    pub shape: Shape,
    pub deadline: Duration,
}

/// What was learnt of a provider's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    pub provider: String,
    pub tools: bool,
}

#[derive(Debug)]
pub struct Router {
    providers: Vec<Provider>,
    accounts: Vec<Account>,
    /// `providers[i]` belongs to `accounts[account_of[i]]`.
    account_of: Vec<usize>,
    /// By provider.
    estimates: Vec<Estimate>,
    /// By account: until when probes are worth sending.
    wanted_until: Vec<Option<Instant>>,
    /// Where every candidate is OPEN: park the job instead of ending it.
    park: bool,
    /// No lease is given, for this reason.
    shut: Option<Cause>,
    pending: BTreeMap<JobId, Pending>,
    leases: Leases,
    calls: HashMap<JobId, Call>,
    decisions: Decisions,
    arrivals: u64,
    /// Something happened since the asks were last looked at.
    stirred: bool,
    told: VecDeque<Told>,
    orders: VecDeque<Order>,
    learnt: VecDeque<Capability>,
}

#[derive(Debug)]
struct Pending {
    ask: Ask,
    wants: Wants,
    arrival: u64,
    /// Its place in the spread after a named wait.
    roll: f64,
    /// What it was last told, so that it is told again only when that changes.
    told: Option<(WaitWhy, Option<Instant>)>,
    /// When it may be able to go.
    wake: Option<Instant>,
    /// The provider that it waits for to fill up, and until when at most.
    thin: Option<(usize, Instant)>,
}

/// What was tried for the call a job is at.
#[derive(Debug, Default)]
struct Call {
    call: u64,
    behind: Behind,
    tried: HashMap<usize, Tried>,
}

#[derive(Debug, Default)]
struct Tried {
    attempts: u32,
    /// Left for the next one; asked again only when nobody else may be.
    left: bool,
    /// Backing off, this call alone.
    not_before: Option<Instant>,
    /// The signature of its last failure.
    last: String,
}

/// From when a job can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Now,
    At(Instant),
    /// Not before a person resets a provider.
    Never,
}

impl Router {
    /// `workers_max` bounds the accounts that set no bound themselves.
    #[must_use]
    pub fn new(providers: Vec<Provider>, workers_max: usize, park: bool, now: Instant) -> Self {
        let mut accounts: Vec<Account> = Vec::new();
        let mut account_of = Vec::new();
        for provider in &providers {
            let bound = provider.max_concurrency.unwrap_or(workers_max);
            let index = accounts.iter().position(|account| account.name == provider.account);
            let index = index.unwrap_or_else(|| {
                accounts.push(Account::new(provider.account.clone(), bound));
                accounts.len() - 1
            });
            account_of.push(index);
            accounts[index].narrow(bound, provider.rates, now);
        }
        Router {
            estimates: vec![Estimate::default(); providers.len()],
            wanted_until: vec![None; accounts.len()],
            providers,
            accounts,
            account_of,
            park,
            shut: None,
            pending: BTreeMap::new(),
            leases: Leases::default(),
            calls: HashMap::new(),
            decisions: Decisions::default(),
            arrivals: 0,
            stirred: true,
            told: VecDeque::new(),
            orders: VecDeque::new(),
            learnt: VecDeque::new(),
        }
    }

    /// No lease is given any more: whom not to ask is not known.
    pub fn shut(&mut self, cause: Cause) {
        self.shut = Some(cause);
        self.stirred = true;
    }

    /// A worker asks. What the job held or asked before is given up: it has one query loop.
    pub fn ask(&mut self, job: &JobId, ask: Ask, wants: Wants, now: Instant, roll: f64) {
        self.give_up(job, now);
        let call = self.calls.entry(job.clone()).or_default();
        if call.call != ask.call {
            *call = Call { call: ask.call, ..Call::default() };
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        let pending = Pending { ask, wants, arrival, roll, told: None, wake: None, thin: None };
        self.pending.insert(job.clone(), pending);
    }

    pub fn withdraw(&mut self, job: &JobId, call: u64, now: Instant) {
        if self.calls.get(job).is_some_and(|at| at.call == call) {
            self.give_up(job, now);
        }
    }

    /// Its worker or connection is gone: what it held comes back, once. What was tried for its call stays known, so that
    /// the next worker does not begin anew.
    pub fn gone(&mut self, job: &JobId, now: Instant) {
        self.give_up(job, now);
    }

    /// The job has ended.
    pub fn forget(&mut self, job: &JobId, now: Instant) {
        self.give_up(job, now);
        self.calls.remove(job);
    }

    /// What came of a lease. Of an unknown one, or of an older generation, only a wait that the provider named counts.
    pub fn report(&mut self, job: &JobId, report: &Report, now: Instant, roll: f64) {
        self.stirred = true;
        let Some(lease) = self.leases.end(report.lease, &Holder::Job(job.clone())) else {
            return self.overheard(report, now, roll);
        };
        let used = used(&lease, report).min(self.providers[lease.provider].context_window as f64);
        let account = &mut self.accounts[self.account_of[lease.provider]];
        account.settle(lease.reserved, used, now);
        account.reported(&self.providers[lease.provider].id, lease.admission, report, now, roll);
        if let Some(usage) = report.usage.filter(|usage| !usage.estimated) {
            self.estimates[lease.provider].learn(lease.window, usage.input);
        }
        let refused = (report.class == AnswerClass::NoTools).then_some(false);
        self.learn(lease.provider, refused.or(report.tools));
        self.remember(job, lease.provider, report, now, roll);
    }

    /// A report of a lease that another supervisor gave, or that was given up: what the provider named binds all the same.
    fn overheard(&mut self, report: &Report, now: Instant, roll: f64) {
        if report.wait.is_none() {
            return;
        }
        let provider = self.providers.iter().position(|provider| provider.account == report.account);
        if let Some(provider) = provider {
            let account = &mut self.accounts[self.account_of[provider]];
            let unknown = Admission::Request { generation: u64::MAX };
            account.reported(&self.providers[provider].id, unknown, report, now, roll);
        }
    }

    fn learn(&mut self, provider: usize, tools: Option<bool>) {
        let known = &mut self.providers[provider];
        if tools.is_some() && known.supports_tools != tools {
            known.supports_tools = tools;
            self.learnt.extend(tools.map(|tools| Capability { provider: known.id.clone(), tools }));
        }
    }

    /// What a probe or a first use has shown of a provider's tools.
    pub fn know_tools(&mut self, provider: &str, tools: Option<bool>) {
        if let Some(known) = self.providers.iter_mut().find(|known| known.id == provider) {
            known.supports_tools = tools;
            self.stirred = true;
        }
    }

    /// Somebody who is queued would be asked for at these.
    pub fn wish(&mut self, wants: &Wants, now: Instant) {
        for index in fit::candidates(&self.providers, wants) {
            self.want(index, now);
        }
    }

    fn want(&mut self, provider: usize, now: Instant) {
        self.wanted_until[self.account_of[provider]] = Some(now + WANTED_FOR);
    }

    fn give_up(&mut self, job: &JobId, now: Instant) {
        self.stirred = true;
        self.pending.remove(job);
        if let Some(lease) = self.leases.end_of(job) {
            self.accounts[self.account_of[lease.provider]].settle(lease.reserved, 0.0, now);
        }
    }

    /// What this call learns from an answer: where it may go next, and not before when.
    fn remember(&mut self, job: &JobId, provider: usize, report: &Report, now: Instant, roll: f64) {
        let Some(call) = self.calls.get_mut(job) else { return };
        let tried = call.tried.entry(provider).or_default();
        tried.last.clone_from(&report.signature);
        match report.class {
            AnswerClass::Success | AnswerClass::ContextOverflow | AnswerClass::Rejected => drop(self.calls.remove(job)),
            AnswerClass::Unavailable | AnswerClass::Timeout => {
                tried.left |= report.class == AnswerClass::Timeout;
                tried.not_before = Some(now + backoff::full_jitter(tried.attempts.saturating_sub(1), roll));
            }
            AnswerClass::Closed | AnswerClass::NoTools => tried.left = true,
            // Our own giving up is no attempt that the provider failed. A request that may have been read is one.
            AnswerClass::Withdrawn if report.signature != STALE => tried.attempts = tried.attempts.saturating_sub(1),
            AnswerClass::Withdrawn | AnswerClass::RateLimited => {}
        }
    }

    /// When the next waiting ask may be able to go, or a breaker has something to do that somebody waits for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asks = self.pending.values().filter_map(|pending| pending.wake).min();
        let breakers = self.accounts.iter().zip(&self.wanted_until).filter_map(|(account, wanted)| {
            let at = account.poll_timeout()?;
            // Nobody is probed where nobody may be asked.
            wanted.filter(|until| at <= *until && self.shut.is_none()).map(|_| at)
        });
        breakers.chain(asks).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.stirred |= self.poll_timeout().is_some_and(|at| at <= now);
    }

    pub fn poll_event(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    pub fn poll_probe(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    pub fn poll_learnt(&mut self) -> Option<Capability> {
        self.learnt.pop_front()
    }

    /// Changes whenever something does that must be on disk before anybody acts on it.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.accounts.iter().map(Account::revision).sum()
    }
}

/// The tokens that a request turned out to use, of those that it had reserved, in the provider's own word.
fn used(lease: &Lease, report: &Report) -> f64 {
    match (report.usage, report.class) {
        (Some(Usage { input, output, .. }), _) => input.saturating_add(output) as f64,
        // Answered, and nobody said how large it was: what was reserved is the best that is known.
        (None, AnswerClass::Success) => lease.reserved,
        (None, _) => 0.0,
    }
}
