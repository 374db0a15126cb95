//! The simplest router that honours the lease: one attempt per grant, and every ask is granted, refused or withdrawn.
//!
//! For each call it remembers how often which provider was tried. It stays with a provider for two attempts while
//! another may be asked, goes to at most two others per call, and comes back to one that it left only when the one it
//! went to cannot be asked. How long an account may not be asked is [`Account`]'s business, and its word is obeyed to the instant.
//!
//! A job has at most one ask or one lease at a time, so all that is kept is bounded by the number of workers.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, Wait, WaitWhy};

use super::account::{Account, Standing};
use super::backoff;
use super::fit::{self, Wants};
use crate::settings::Provider;

/// At a provider, for one call, while another may be asked.
const ATTEMPTS_WITH_ALTERNATIVE_MAX: u32 = 2;
/// At a provider, for one call, when no other may be asked.
const ATTEMPTS_ALONE_MAX: u32 = 5;
/// Changes of provider in one call.
const FALLBACKS_MAX: u32 = 2;
/// Who may not be asked for longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer to hand to a worker. `until` is an instant here; the shell turns it into milliseconds from now.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub job: JobId,
    pub call: u64,
    pub answer: Answer,
}

#[derive(Debug)]
pub struct Router {
    providers: Vec<Provider>,
    accounts: Vec<Account>,
    /// `providers[i]` belongs to `accounts[account_of[i]]`.
    account_of: Vec<usize>,
    pending: BTreeMap<JobId, Pending>,
    leases: HashMap<u64, Lease>,
    calls: HashMap<JobId, Call>,
    next_lease: u64,
    arrivals: u64,
    told: VecDeque<Told>,
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
}

#[derive(Debug)]
struct Lease {
    job: JobId,
    provider: usize,
    generation: u64,
}

/// What was tried for the call a job is at.
#[derive(Debug, Default)]
struct Call {
    call: u64,
    current: Option<usize>,
    switches: u32,
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

/// Where an ask can go.
enum Choice {
    Grant(usize),
    Wait { why: WaitWhy, until: Option<Instant> },
    Refuse(Cause),
}

/// One candidate, as one call sees it now.
enum View {
    Ready,
    Later(WaitWhy, Option<Instant>),
    /// Beyond our patience.
    Away(String),
}

impl Router {
    /// `workers_max` bounds the accounts that set no bound themselves.
    #[must_use]
    pub fn new(providers: Vec<Provider>, workers_max: usize) -> Self {
        let mut accounts: Vec<Account> = Vec::new();
        let mut account_of = Vec::new();
        for provider in &providers {
            let bound = provider.max_concurrency.unwrap_or(workers_max);
            let index = accounts.iter().position(|account| account.name == provider.account);
            account_of.push(index.unwrap_or(accounts.len()));
            match index {
                Some(index) => accounts[index].narrow(bound),
                None => accounts.push(Account::new(provider.account.clone(), bound)),
            }
        }
        Router {
            providers,
            accounts,
            account_of,
            pending: BTreeMap::new(),
            leases: HashMap::new(),
            calls: HashMap::new(),
            next_lease: 1,
            arrivals: 0,
            told: VecDeque::new(),
        }
    }

    /// A worker asks. What the job held or asked before is given up: it has one query loop.
    pub fn ask(&mut self, job: &JobId, ask: Ask, wants: Wants, now: Instant, roll: f64) {
        self.give_up(job);
        let call = self.calls.entry(job.clone()).or_default();
        if call.call != ask.call {
            *call = Call { call: ask.call, ..Call::default() };
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.pending.insert(job.clone(), Pending { ask, wants, arrival, roll, told: None });
        self.place_all(now);
    }

    pub fn withdraw(&mut self, job: &JobId, call: u64, now: Instant) {
        if self.calls.get(job).is_some_and(|at| at.call == call) {
            self.give_up(job);
            self.place_all(now);
        }
    }

    /// Its worker or connection is gone: what it held comes back, once.
    pub fn gone(&mut self, job: &JobId, now: Instant) {
        self.give_up(job);
        self.calls.remove(job);
        self.place_all(now);
    }

    /// What came of a lease. Of an unknown lease: nothing changes. Of an older generation: the slot comes back, a wait
    /// that the provider named binds, and nothing else changes.
    pub fn report(&mut self, job: &JobId, report: &Report, now: Instant, roll: f64) {
        if self.leases.get(&report.lease).is_none_or(|lease| lease.job != *job) {
            return;
        }
        let Some(lease) = self.leases.remove(&report.lease) else { return };
        let account = &mut self.accounts[self.account_of[lease.provider]];
        account.free_slot();
        let current = account.generation() == lease.generation && lease.generation == report.generation;
        match report.wait {
            Some(Wait::For(ms)) => account.told_to_wait(Duration::from_millis(ms), now),
            Some(Wait::UntilReset) => account.shut("it asked to wait until a reset that no clock reaches".to_owned()),
            None if report.class == AnswerClass::RateLimited && current => account.throttled(roll, now),
            None => {}
        }
        if current {
            match report.class {
                AnswerClass::Success => account.succeeded(),
                AnswerClass::Closed => account.shut(format!("it closed the account: {}", report.signature)),
                _ => {}
            }
        }
        self.remember(&lease, report, now, roll);
        self.place_all(now);
    }

    /// What an account asked an earlier supervisor for; one that is no longer configured is nobody's.
    pub fn recall(&mut self, account: &str, left: Duration, wait: Duration, now: Instant) {
        if let Some(account) = self.accounts.iter_mut().find(|known| known.name == account) {
            account.recall(left, wait, now);
        }
    }

    /// The accounts that asked to wait: until when, and how long it was when they named it.
    pub fn named_waits(&self) -> impl Iterator<Item = (&str, Instant, Duration)> {
        self.accounts.iter().filter_map(|account| {
            let (at, wait) = account.named_wait()?;
            Some((account.name.as_str(), at, wait))
        })
    }

    /// Whether this job could be asked for within our patience, and if not, from when: a job is not started to be refused.
    pub fn opens_at(&self, wants: &Wants, now: Instant) -> Opening {
        let mut opening = Opening::Never;
        for index in fit::candidates(&self.providers, wants) {
            let at = match self.account(index).standing(now, 0.0) {
                Standing::Open | Standing::Full => return Opening::Now,
                Standing::NotBefore(at) if at <= now + PATIENCE => return Opening::Now,
                Standing::NotBefore(at) => at - PATIENCE,
                Standing::Shut(_) => continue,
            };
            opening = match opening {
                Opening::At(earlier) => Opening::At(earlier.min(at)),
                _ => Opening::At(at),
            };
        }
        // Without any candidate the worker asks, and is refused with the reason.
        if fit::candidates(&self.providers, wants).is_empty() { Opening::Now } else { opening }
    }

    /// When the next waiting ask may be able to go.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.values().filter_map(|pending| pending.told.and_then(|(_, until)| until)).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.place_all(now);
    }

    pub fn poll_event(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    fn account(&self, provider: usize) -> &Account {
        &self.accounts[self.account_of[provider]]
    }

    fn give_up(&mut self, job: &JobId) {
        self.pending.remove(job);
        let held: Vec<u64> = self.leases.iter().filter(|(_, lease)| lease.job == *job).map(|(id, _)| *id).collect();
        for id in held {
            if let Some(lease) = self.leases.remove(&id) {
                self.accounts[self.account_of[lease.provider]].free_slot();
            }
        }
    }

    /// What this call learns from an answer: where it may go next, and not before when.
    fn remember(&mut self, lease: &Lease, report: &Report, now: Instant, roll: f64) {
        let Some(call) = self.calls.get_mut(&lease.job) else { return };
        let tried = call.tried.entry(lease.provider).or_default();
        tried.last.clone_from(&report.signature);
        match report.class {
            AnswerClass::Success | AnswerClass::ContextOverflow | AnswerClass::Rejected => {
                self.calls.remove(&lease.job);
            }
            AnswerClass::Unavailable | AnswerClass::Timeout => {
                tried.left |= report.class == AnswerClass::Timeout;
                tried.not_before = Some(now + backoff::full_jitter(tried.attempts.saturating_sub(1), roll));
            }
            AnswerClass::Closed => tried.left = true,
            // Our own giving up is no attempt that the provider failed.
            AnswerClass::Withdrawn => tried.attempts = tried.attempts.saturating_sub(1),
            // No table keeps it yet: a supervisor that is started again learns it again.
            AnswerClass::NoTools => {
                tried.left = true;
                self.providers[lease.provider].supports_tools = Some(false);
            }
            AnswerClass::RateLimited => {}
        }
    }

    /// Every pending ask is looked at again, 9 before 0, then in the order of arrival.
    fn place_all(&mut self, now: Instant) {
        let mut order: Vec<_> = self.pending.iter().collect();
        order.sort_by_key(|(_, pending)| (std::cmp::Reverse(pending.ask.priority), pending.arrival));
        let jobs: Vec<JobId> = order.into_iter().map(|(job, _)| job.clone()).collect();
        for job in jobs {
            self.place(&job, now);
        }
    }

    fn place(&mut self, job: &JobId, now: Instant) {
        let (Some(pending), Some(call)) = (self.pending.get(job), self.calls.get(job)) else { return };
        let answer = match self.choose(pending, call, now) {
            Choice::Grant(provider) => Answer::Grant(Box::new(self.grant(job, provider))),
            Choice::Refuse(cause) => Answer::Refuse { cause },
            Choice::Wait { why, until } => {
                let call = pending.ask.call;
                if pending.told != Some((why, until)) {
                    let until_ms = until.map(|at| millis_up(at.saturating_duration_since(now)));
                    self.told.push_back(Told { job: job.clone(), call, answer: Answer::Wait { why, until_ms } });
                    if let Some(pending) = self.pending.get_mut(job) {
                        pending.told = Some((why, until));
                    }
                }
                return;
            }
        };
        if let Some(pending) = self.pending.remove(job) {
            self.told.push_back(Told { job: job.clone(), call: pending.ask.call, answer });
        }
    }

    fn choose(&self, pending: &Pending, call: &Call, now: Instant) -> Choice {
        let candidates = fit::candidates(&self.providers, &pending.wants);
        let mut unfit = Vec::new();
        let capable: Vec<usize> = candidates
            .into_iter()
            .filter(|index| match fit::unfit_for(&self.providers[*index], &pending.ask) {
                Some(why) => {
                    unfit.push(format!("{}: {why}", self.providers[*index].id));
                    false
                }
                None => true,
            })
            .collect();
        if capable.is_empty() {
            let why = if unfit.is_empty() { fit::no_candidate(&pending.wants) } else { unfit.join("; ") };
            return Choice::Refuse(Cause::new(CauseKind::NoCapableProvider, why));
        }

        let mut away = Vec::new();
        let mut reachable = Vec::new();
        for index in &capable {
            match self.view(*index, call, pending.roll, now) {
                View::Away(why) => away.push(format!("{}: {why}", self.providers[*index].id)),
                view => reachable.push((*index, view)),
            }
        }
        if reachable.is_empty() {
            return Choice::Refuse(Cause::new(CauseKind::AllOpen, away.join("; ")));
        }

        let fresh = |index: usize| {
            call.tried.get(&index).is_none_or(|tried| !tried.left && tried.attempts < ATTEMPTS_WITH_ALTERNATIVE_MAX)
        };
        // Back to one that was left only if the current one cannot be asked: no flipping between two.
        let current_away = call.current.is_some_and(|current| !reachable.iter().any(|(index, _)| *index == current));
        let worn = |index: usize| {
            call.tried.get(&index).is_none_or(|tried| {
                let back = call.current != Some(index) && tried.left;
                tried.attempts < ATTEMPTS_ALONE_MAX && (!back || current_away)
            })
        };
        let allowed =
            |index: usize| call.current.is_none_or(|current| current == index) || call.switches < FALLBACKS_MAX;
        let chosen = first(&reachable, call.current, |index| fresh(index) && allowed(index))
            .or_else(|| first(&reachable, call.current, |index| worn(index) && allowed(index)));
        match chosen {
            None => Choice::Refuse(Cause::new(CauseKind::Attempts, self.history(call))),
            Some((index, View::Ready)) => Choice::Grant(*index),
            Some((_, View::Later(why, until))) => Choice::Wait { why: *why, until: *until },
            // Those away were set aside above.
            Some((_, View::Away(why))) => Choice::Refuse(Cause::new(CauseKind::AllOpen, why.clone())),
        }
    }

    fn view(&self, index: usize, call: &Call, roll: f64, now: Instant) -> View {
        let backing_off = call.tried.get(&index).and_then(|tried| tried.not_before).filter(|at| *at > now);
        match self.account(index).standing(now, roll) {
            Standing::Shut(why) => View::Away(why),
            // Judged by what was named: our own spread is no reason to give up on it.
            Standing::NotBefore(_) if self.account(index).not_before().is_some_and(|at| at > now + PATIENCE) => {
                let at = self.account(index).not_before().unwrap_or(now);
                View::Away(format!("it asked to wait for another {} s", at.saturating_duration_since(now).as_secs()))
            }
            Standing::NotBefore(at) => View::Later(WaitWhy::NotBefore, Some(backing_off.map_or(at, |own| own.max(at)))),
            Standing::Open | Standing::Full if backing_off.is_some() => View::Later(WaitWhy::Backoff, backing_off),
            Standing::Full => View::Later(WaitWhy::Concurrency, None),
            Standing::Open => View::Ready,
        }
    }

    fn grant(&mut self, job: &JobId, index: usize) -> Grant {
        let lease = self.next_lease;
        self.next_lease += 1;
        let account = &mut self.accounts[self.account_of[index]];
        account.take_slot();
        let generation = account.generation();
        self.leases.insert(lease, Lease { job: job.clone(), provider: index, generation });
        if let Some(call) = self.calls.get_mut(job) {
            if call.current.is_some_and(|current| current != index) {
                call.switches += 1;
                if let Some(tried) = call.current.and_then(|current| call.tried.get_mut(&current)) {
                    tried.left = true;
                }
            }
            call.current = Some(index);
            call.tried.entry(index).or_default().attempts += 1;
        }
        let provider = &self.providers[index];
        let (window, asked, model) = match self.pending.get(job) {
            Some(Pending { ask, wants, .. }) => (ask.window, ask.max_output, wants.model.clone()),
            None => (0, 0, None),
        };
        Grant {
            lease,
            generation,
            provider: provider.id.clone(),
            account: provider.account.clone(),
            wire: provider.wire,
            url: provider.url.clone(),
            model: model.unwrap_or_else(|| provider.model.clone()),
            key: provider.key.clone(),
            timeouts: provider.timeouts,
            context_window: provider.context_window,
            max_output: fit::output(provider, asked).min(provider.context_window.saturating_sub(window)),
            prices: provider.prices,
        }
    }

    fn history(&self, call: &Call) -> String {
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

/// From when a job can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Now,
    At(Instant),
    /// Not before a reset.
    Never,
}

/// The current one before the others, those in their order.
fn first(
    reachable: &[(usize, View)],
    current: Option<usize>,
    passes: impl Fn(usize) -> bool,
) -> Option<&(usize, View)> {
    let of_current = reachable.iter().find(|(index, _)| Some(*index) == current && passes(*index));
    of_current.or_else(|| reachable.iter().find(|(index, _)| passes(*index)))
}

/// Rounded up: who sleeps that long is never early.
fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
#[path = "router_tests.rs"]
mod tests;
