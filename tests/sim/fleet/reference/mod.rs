//! What must hold, in terms of what providers and workers saw. It shares no code with the router: each promise of spec §5
//! is written down once more, as a count of what happened.
//!
//! What it knows of an account changes when an answer reaches the supervisor: what is in flight meanwhile is excused, and
//! nothing that leaves later.

pub mod call;
pub mod gate;
pub mod rate;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, WaitWhy};
use ukai_supervisor::route::router::Router;

use super::labs::LABS;
use call::Call;
use gate::{Asked, Gate};
use rate::Rate;

/// A lease that is out.
#[derive(Clone, Debug)]
pub struct Lent {
    pub provider: String,
    era: u64,
    pub window: u64,
    pub max_output: u64,
}

#[derive(Debug)]
struct Open {
    ask: Ask,
    roll: f64,
    candidates: Vec<String>,
}

pub struct Reference {
    pub gates: BTreeMap<String, Gate>,
    rates: BTreeMap<String, Rate>,
    asks: BTreeMap<u32, Open>,
    lent: BTreeMap<u32, (u64, Lent)>,
    calls: BTreeMap<u32, Call>,
    probes: BTreeMap<u64, String>,
    /// Requests that a provider is answering, with who reigned when they were allowed.
    open: BTreeMap<(u32, u32), String>,
    pub figures: Figures,
}

/// That it was no idle night.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub requests: u64,
    pub probes: u64,
    pub opened: u64,
    pub waits: u64,
}

impl Reference {
    pub fn new(now: Instant) -> Self {
        let gates = LABS.map(|(id, _, _, _, concurrency)| (id.to_owned(), Gate::new(concurrency)));
        let rates = LABS.map(|(id, per_minute, burst, ..)| (id.to_owned(), Rate::new(per_minute, burst, now)));
        Reference {
            gates: gates.into(),
            rates: rates.into(),
            asks: BTreeMap::new(),
            lent: BTreeMap::new(),
            calls: BTreeMap::new(),
            probes: BTreeMap::new(),
            open: BTreeMap::new(),
            figures: Figures::default(),
        }
    }

    pub fn asks(&mut self, job: u32, ask: &Ask, roll: f64, candidates: Vec<String>) {
        self.lent.remove(&job);
        if self.calls.get(&job).is_none_or(|call| call.call != ask.call) {
            self.calls.insert(job, Call::new(ask.call));
        }
        self.asks.insert(job, Open { ask: ask.clone(), roll, candidates });
    }

    /// Takes back what it asked or holds.
    pub fn gives_up(&mut self, job: u32) -> Option<Lent> {
        self.asks.remove(&job);
        self.lent.remove(&job).map(|(_, lent)| lent)
    }

    pub fn is_at(&self, job: u32, call: u64) -> bool {
        self.calls.get(&job).is_some_and(|at| at.call == call)
    }

    pub fn gone(&mut self, job: u32) -> Option<Lent> {
        self.gives_up(job)
    }

    pub fn told(&mut self, job: u32, call: u64, answer: &Answer, now: Instant) {
        let open = self.asks.remove(&job).unwrap_or_else(|| panic!("j{job} is told {answer:?}, and does not ask"));
        assert_eq!(open.ask.call, call, "j{job} is told {answer:?}");
        match answer {
            Answer::Wait { why, .. } => {
                self.figures.waits += u64::from(*why == WaitWhy::NotBefore);
                self.asks.insert(job, open);
            }
            Answer::Grant(grant) => self.granted(job, &open, grant, now),
            Answer::Park => self.all_open(job, &open),
            Answer::Refuse { cause } if cause.kind == ukai_protocol::job::CauseKind::AllOpen => {
                self.all_open(job, &open);
            }
            Answer::Refuse { .. } => {}
        }
    }

    fn all_open(&self, job: u32, open: &Open) {
        let closed = open.candidates.iter().find(|id| self.gates[*id].is_closed());
        assert!(closed.is_none(), "j{job} is told that all are OPEN, and {closed:?} is not");
    }

    fn granted(&mut self, job: u32, open: &Open, grant: &Grant, now: Instant) {
        assert!(!self.lent.contains_key(&job), "j{job} is granted twice");
        assert!(open.candidates.contains(&grant.provider), "j{job} may not be sent to {}", grant.provider);
        let out = self.out(&grant.provider);
        let gate = &self.gates[&grant.provider];
        if let Some(why) = gate.forbids(out, open.roll, now) {
            panic!("j{job} may not ask {}: {why}", grant.provider);
        }
        let lent = Lent {
            provider: grant.provider.clone(),
            era: gate.era,
            window: open.ask.window,
            max_output: grant.max_output,
        };
        self.lent.insert(job, (grant.lease, lent));
        self.rates.get_mut(&grant.provider).expect("one of ours").leaves(false, now);
        // A bucket of tokens may be too low for longer than anybody waits.
        let prompt = |id: &&String| LABS.iter().any(|(lab, _, _, tokens, _)| lab == id && *tokens == 0);
        let may_be_asked = |id: &&String| self.gates[*id].is_closed() && prompt(id);
        let others: Vec<String> = open.candidates.iter().filter(may_be_asked).cloned().collect();
        self.calls.get_mut(&job).expect("it asked").attempt(&grant.provider, &others);
        self.figures.requests += 1;
    }

    /// Leases that are out.
    pub fn out(&self, provider: &str) -> usize {
        self.lent.values().filter(|(_, lent)| lent.provider == provider).count()
    }

    /// What comes back with this report, if it is of a lease that is out.
    pub fn reported(&mut self, job: u32, report: &Report, now: Instant) -> Option<Lent> {
        let known = self.lent.get(&job).is_some_and(|(lease, _)| *lease == report.lease);
        let lent = if known { self.lent.remove(&job).map(|(_, lent)| lent) } else { None };
        let (id, era) = lent.as_ref().map_or((&report.account, u64::MAX), |lent| (&lent.provider, lent.era));
        if known || report.wait.is_some() {
            let was_closed = self.gates[id].is_closed();
            let gate = self.gates.get_mut(id).expect("one of ours");
            gate.answered(Asked::Request { era }, report.class, report.wait, now);
            self.figures.opened += u64::from(was_closed && !gate.is_closed());
        }
        if known && let Some(call) = self.calls.get_mut(&job) {
            match report.class {
                AnswerClass::Success => drop(self.calls.remove(&job)),
                AnswerClass::Withdrawn => call.take_back(id),
                _ => {}
            }
        }
        lent
    }

    pub fn probes(&mut self, grant: &Grant, now: Instant) {
        self.gates.get_mut(&grant.provider).expect("one of ours").probes(grant.lease, now);
        self.rates.get_mut(&grant.provider).expect("one of ours").leaves(true, now);
        self.probes.insert(grant.lease, grant.provider.clone());
        self.figures.probes += 1;
    }

    pub fn probed(&mut self, lease: u64, report: Option<&Report>, now: Instant) {
        let Some(provider) = self.probes.remove(&lease) else { return };
        let gate = self.gates.get_mut(&provider).expect("one of ours");
        let (class, wait) = report.map_or((AnswerClass::Withdrawn, None), |report| (report.class, report.wait));
        gate.answered(Asked::Probe { lease }, class, wait, now);
    }

    /// A request reaches its provider.
    pub fn arrives(&mut self, job: u32, reign: u32, provider: &str) {
        let before = self.open.insert((job, reign), provider.to_owned());
        assert!(before.is_none(), "j{job} asks twice at a time");
        // What an earlier supervisor allowed may still be under way.
        let asking = self.open.iter().filter(|((_, of), at)| *of == reign && *at == provider).count();
        let most = LABS.iter().find(|(id, ..)| *id == provider).map_or(0, |(.., concurrency)| *concurrency);
        assert!(asking <= most, "{provider} is asked by {asking}, {most} may");
    }

    pub fn leaves(&mut self, job: u32, reign: u32) {
        assert!(self.open.remove(&(job, reign)).is_some(), "j{job} ends a request that it has not begun");
    }

    pub fn compare(&mut self, router: &Router, now: Instant) {
        for (provider, account) in router.providers() {
            let gate = self.gates.get_mut(&provider.id).expect("one of ours");
            gate.compare(account.breaker(), now);
            let out = self.lent.values().filter(|(_, lent)| lent.provider == provider.id).count();
            assert_eq!(account.in_flight().0, out, "leases of {} that are out", provider.id);
        }
    }

    pub fn reset(&mut self, provider: &str, forget_wait: bool, now: Instant) {
        self.gates.get_mut(provider).expect("one of ours").reset(forget_wait, now);
    }

    /// Another supervisor begins with what is on disk. `sure`: its buckets are as full as they are.
    pub fn restart(&mut self, disk: &BTreeMap<String, Gate>, sure: bool, forward: Duration, now: Instant) {
        self.gates = disk.iter().map(|(id, gate)| (id.clone(), gate.remembered(forward, now))).collect();
        if !sure {
            self.rates.values_mut().for_each(Rate::begin_anew);
        }
        (self.asks, self.lent, self.calls, self.probes) = Default::default();
    }

    pub fn end(&self) {
        assert!(self.asks.is_empty(), "{:?} were never answered", self.asks);
        assert!(self.lent.is_empty() && self.open.is_empty(), "{:?} never came back", self.lent);
    }
}
