//! Which provider an ask goes to, and when: the one place in ukai where anything is tried again (spec §5).
//!
//! Every ask is granted, refused, parked or withdrawn; until then it is told what it waits for. What is decided is decided
//! in [`Router::place`], for all asks together and in their order, so that the shell can first put on disk what must be
//! there (`revision`): all other methods only note what happened.
//!
//! What a call has behind it is kept here, what an account has behind it in [`Account`], how the two make a choice is in
//! `survey`. A job has at most one ask or one lease at a time, so all that is kept is bounded by the number of workers.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, WaitWhy};
use ukai_protocol::message::Usage;
use ukai_protocol::probe::Shape;

use super::account::{Account, Admission, Memory, PATIENCE, Standing};
use super::backoff;
use super::breaker::{self, PROBE_LEASE, Until};
use super::decision::{self, Decision, Decisions};
use super::estimate::Estimate;
use super::fit::{self, Wants};
use super::lease::{Holder, Lease, Leases};
use super::probe;
use super::survey::{self, Behind, Choice, Seen, View};
use crate::settings::Provider;

/// A call that changes over to a provider whose scarcer bucket is lower than this …
const THIN: f64 = 0.2;
/// … waits until it is so full, …
const THIN_UNTIL: f64 = 0.3;
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

    // --- what happened ---------------------------------------------------------------------------------------------

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

    /// Its worker or connection is gone: what it held comes back, once.
    pub fn gone(&mut self, job: &JobId, now: Instant) {
        self.give_up(job, now);
        self.calls.remove(job);
    }

    /// What came of a lease. Of an unknown one, or of an older generation, only a wait that the provider named counts.
    pub fn report(&mut self, job: &JobId, report: &Report, now: Instant, roll: f64) {
        self.stirred = true;
        let Some(lease) = self.leases.end(report.lease, &Holder::Job(job.clone())) else {
            return self.overheard(report, now, roll);
        };
        let used = used(&lease, report);
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
    }

    /// What a probe or a first use has shown of a provider's tools.
    pub fn know_tools(&mut self, provider: &str, tools: Option<bool>) {
        if let Some(known) = self.providers.iter_mut().find(|known| known.id == provider) {
            known.supports_tools = tools;
            self.stirred = true;
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
        if let Some(at) = account.not_before().filter(|at| *at > now) {
            let left = at.saturating_duration_since(now).as_millis().div_ceil(1_000);
            return Err(format!("not asked: it asked to wait for another {left} s"));
        }
        let generation = account.take(0.0, now);
        let admission = Admission::Request { generation };
        let lease = Lease { holder: Holder::Probe, provider: index, admission, reserved: 0.0, window: 0 };
        let lease = self.leases.grant(lease);
        Ok(self.grant_of(index, lease, generation))
    }

    fn learn(&mut self, provider: usize, tools: Option<bool>) {
        let known = &mut self.providers[provider];
        if tools.is_some() && known.supports_tools != tools {
            known.supports_tools = tools;
            self.learnt.extend(tools.map(|tools| Capability { provider: known.id.clone(), tools }));
        }
    }

    /// A person says that these are well. What a provider named still binds, unless that too is to be forgotten.
    pub fn reset(&mut self, provider: &str, forget_wait: bool, now: Instant) {
        self.stirred = true;
        if let Some(index) = self.providers.iter().position(|known| known.id == provider) {
            self.accounts[self.account_of[index]].reset(forget_wait, now);
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

    /// When the next waiting ask may be able to go, or a breaker has something to do that somebody waits for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asks = self.pending.values().filter_map(|pending| pending.wake).min();
        let breakers = self.accounts.iter().zip(&self.wanted_until).filter_map(|(account, wanted)| {
            let at = account.poll_timeout()?;
            wanted.filter(|until| at <= *until).map(|_| at)
        });
        breakers.chain(asks).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.stirred |= self.poll_timeout().is_some_and(|at| at <= now);
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
            // Our own giving up is no attempt that the provider failed.
            AnswerClass::Withdrawn => tried.attempts = tried.attempts.saturating_sub(1),
            AnswerClass::RateLimited => {}
        }
    }

    // --- what is decided -------------------------------------------------------------------------------------------

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
        order.sort_by_key(|(_, pending)| (std::cmp::Reverse(pending.ask.priority), pending.arrival));
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
            // Parked, it would come back and begin anew: a request that opens each breaker by itself, for ever.
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
    fn reserves(&self, provider: usize, ask: &Ask) -> f64 {
        self.estimates[provider].tokens(ask.window) + self.output(provider, ask) as f64
    }

    fn output(&self, provider: usize, ask: &Ask) -> u64 {
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

    fn grant_of(&self, provider: usize, lease: u64, generation: u64) -> Grant {
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

    fn order_probes(&mut self, now: Instant) {
        for account in 0..self.accounts.len() {
            let wanted = self.wanted_until[account].is_some_and(|until| until >= now) && self.shut.is_none();
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

    // --- what there is to do and to show ---------------------------------------------------------------------------

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

    /// Why no lease is given at all.
    #[must_use]
    pub fn is_shut(&self) -> Option<&Cause> {
        self.shut.as_ref()
    }

    pub fn providers(&self) -> impl Iterator<Item = (&Provider, &Account)> {
        self.providers.iter().zip(&self.account_of).map(|(provider, account)| (provider, &self.accounts[*account]))
    }

    /// The last decision about a job, in words, candidate by candidate.
    #[must_use]
    pub fn why(&self, job: &JobId, now: Instant) -> Option<Vec<String>> {
        let decision = self.decisions.of(job)?;
        Some(decision.lines(&self.providers, now))
    }

    /// By account, what outlives the supervisor.
    pub fn memories(&self, now: Instant) -> impl Iterator<Item = (&str, Memory)> {
        self.accounts.iter().map(move |account| (account.name.as_str(), account.memory(now)))
    }

    /// What an earlier supervisor knew; of an account that is no longer configured it is nobody's.
    pub fn recall(&mut self, account: &str, memory: Memory, now: Instant) {
        self.stirred = true;
        if let Some(account) = self.accounts.iter_mut().find(|known| known.name == account) {
            account.recall(memory, now);
        }
    }

    #[must_use]
    pub fn place_of(&self, provider: &str) -> Option<usize> {
        self.providers.iter().position(|known| known.id == provider)
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

    fn history(&self, job: &JobId) -> String {
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

/// The tokens that a request turned out to use, of those that it had reserved.
fn used(lease: &Lease, report: &Report) -> f64 {
    match (report.usage, report.class) {
        (Some(Usage { input, output, .. }), _) => input.saturating_add(output) as f64,
        // Answered, and nobody said how large it was: what was reserved is the best that is known.
        (None, AnswerClass::Success) => lease.reserved,
        (None, _) => 0.0,
    }
}

/// Rounded up: who sleeps that long is never early.
fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
#[path = "router_tests.rs"]
mod tests;
