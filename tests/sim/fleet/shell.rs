//! The supervisor's shell around the router: what is on disk before anybody is given another lease, who is told what,
//! and what the next supervisor finds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::RngExt as _;
use ukai_protocol::event::Event;
use ukai_protocol::job::{Cause, CauseKind, Outcome};
use ukai_protocol::lease::{AnswerClass, Report, Wait};
use ukai_supervisor::route::fit::Wants;
use ukai_supervisor::route::router::{Opening, Order, Router};
use ukai_supervisor::store::routes::Remembered;

use super::Fleet;
use super::agenda::{Coming, News, Turn, Word};
use super::labs::LABS;
use super::reference::Lent;
use super::reference::gate::Gate;
use crate::query::interrupted;

pub const WORKERS: usize = 20;
const BUCKET_SLACK: f64 = 1e-2;

pub struct Shell {
    pub reign: u32,
    pub down: bool,
    pub saved: u64,
    pub saving: Option<(u64, Disk)>,
    pub disk: Disk,
    pub returning: BTreeSet<u32>,
    pub returned_by: Option<Instant>,
    pub alarm: Option<Instant>,
    pub queue: VecDeque<u32>,
    /// Of the wall clock, against the one that only goes forward.
    pub clock: Duration,
    /// Once, behind what was on disk: waits may seem longer than they are.
    pub set_back: bool,
}

#[derive(Clone)]
pub struct Disk {
    pub kept: Vec<Remembered>,
    /// The same, for the reference.
    pub gates: BTreeMap<String, Gate>,
    /// How the wall clock stood then.
    pub clock: Duration,
}

/// Of the wall clock, against the one that only goes forward.
const CLOCK: Duration = Duration::from_secs(1_700_000_000);

impl Shell {
    pub fn new(gates: BTreeMap<String, Gate>) -> Self {
        Shell {
            reign: 1,
            down: false,
            saved: 0,
            saving: None,
            disk: Disk { kept: Vec::new(), gates, clock: CLOCK },
            returning: BTreeSet::new(),
            returned_by: None,
            alarm: None,
            queue: VecDeque::new(),
            clock: CLOCK,
            set_back: false,
        }
    }
}

impl Fleet {
    pub fn clock(&self) -> SystemTime {
        UNIX_EPOCH + self.shell.clock + self.agenda.passed()
    }

    fn may_lease(&self) -> bool {
        let shell = &self.shell;
        let awaited = !shell.returning.is_empty() && shell.returned_by.is_some_and(|by| self.agenda.now < by);
        !awaited && shell.saving.is_none() && shell.saved == self.router.revision()
    }

    pub fn known(&self) -> Disk {
        let (now, clock) = (self.agenda.now, self.clock());
        let kept = self.router.memories(now).map(|(account, memory)| Remembered::new(account, &memory, now, clock));
        Disk { kept: kept.collect(), gates: self.reference.gates.clone(), clock: self.shell.clock }
    }

    fn save(&mut self) {
        let revision = self.router.revision();
        if self.shell.saving.is_none() && revision != self.shell.saved {
            self.shell.saving = Some((revision, self.known()));
            let at = self.agenda.now + Duration::from_micros(self.rng.random_range(500..20_000));
            self.turn(at, Turn::Saved);
        }
    }

    fn turn(&mut self, at: Instant, turn: Turn) {
        self.agenda.push(at, Coming::Turn { reign: self.shell.reign, turn });
    }

    pub fn take_turn(&mut self, turn: Turn) {
        let now = self.agenda.now;
        match turn {
            Turn::Wake => {
                self.shell.alarm = None;
                self.router.handle_timeout(now);
            }
            Turn::Saved => {
                if let Some((revision, disk)) = self.shell.saving.take() {
                    (self.shell.saved, self.shell.disk) = (revision, disk);
                }
            }
            Turn::Probed(lease, report) => {
                let roll = self.rng.random();
                self.reference.probed(lease, report.as_deref(), now);
                self.router.probed(lease, report.as_deref(), now, roll);
            }
        }
    }

    pub fn hear_word(&mut self, job: u32, word: Word) {
        let (now, id) = (self.agenda.now, self.worker(job).id.clone());
        match word {
            Word::Ask(_) if self.worker(job).cancelled => {}
            Word::Ask(ask) => {
                let roll = self.rng.random();
                let wants = self.worker(job).wants.clone();
                self.reference.asks(job, &ask, roll, candidates(&wants));
                self.router.ask(&id, ask, wants, now, roll);
            }
            Word::Withdraw(call) => {
                let lent = if self.reference.is_at(job, call) { self.reference.gives_up(job) } else { None };
                self.settles(lent, 0.0, |router| router.withdraw(&id, call, now));
            }
            Word::Report(report) => {
                let roll = self.rng.random();
                let lent = self.reference.reported(job, &report, now);
                let used = report.usage.map_or(0, |usage| usage.input + usage.output);
                self.settles(lent, used as f64, |router| router.report(&id, &report, now, roll));
            }
            Word::Returned => drop(self.shell.returning.remove(&job)),
            Word::Gone { stopped } => {
                let lent = self.reference.gone(job);
                self.settles(lent, 0.0, |router| router.gone(&id, now));
                self.over(job, stopped);
            }
        }
    }

    /// What was reserved comes back, but for what was used; and nothing else does.
    fn settles(&mut self, lent: Option<Lent>, used: f64, act: impl FnOnce(&mut Router)) {
        let now = self.agenda.now;
        let levels = |router: &Router| {
            let levels = router.providers().map(|(provider, account)| (provider.id.clone(), account.levels(now)[1]));
            levels.collect::<Vec<_>>()
        };
        let before = levels(&self.router);
        act(&mut self.router);
        for ((provider, before), (_, after)) in before.into_iter().zip(levels(&self.router)) {
            let (Some((before, capacity)), Some((after, _))) = (before, after) else { continue };
            // The router learns how many tokens a window is, between a quarter and four times of what a worker says.
            let (least, most) = match &lent {
                Some(lent) if lent.provider == provider => {
                    let (window, output) = (lent.window as f64, lent.max_output as f64);
                    (window / 4.0 + output - used, window * 4.0 + output - used)
                }
                _ => (0.0, 0.0),
            };
            let (least, most) = ((before + least).min(capacity), (before + most).min(capacity));
            let fits = after >= least - BUCKET_SLACK && after <= most + BUCKET_SLACK;
            assert!(fits, "the bucket of {provider} went from {before} to {after}, of {lent:?} {used} were used");
        }
    }

    /// An attempt is over.
    pub fn over(&mut self, job: u32, stopped: bool) {
        self.shell.returning.remove(&job);
        let worker = self.worker(job);
        worker.leaving = None;
        // Whatever is still under way is of a process that is no more.
        worker.life += 1;
        if worker.has_finished() {
            return self.ended(job);
        }
        if worker.cancelled {
            return self.close(job);
        }
        worker.log.push(interrupted(worker.attempt, "it ended", stopped));
        let paused = worker.paused;
        self.figures.stops += u32::from(stopped);
        if !paused {
            self.shell.queue.push_back(job);
        }
    }

    /// The end of a cancelled job without a process is the supervisor's to write.
    pub fn close(&mut self, job: u32) {
        self.shell.queue.retain(|queued| *queued != job);
        let outcome = Outcome::Ended(Cause::new(CauseKind::Cancel, "a person"));
        self.worker(job).log.push(Event::Finished { outcome, text: String::new() });
        self.ended(job);
    }

    /// After everything that happens, as the supervisor does.
    pub fn settle(&mut self) {
        if self.shell.down {
            return;
        }
        let opening = self.start_jobs();
        let now = self.agenda.now;
        // What is saved of the reference is as old as what is saved of the router.
        self.reference.compare(&self.router, now);
        self.save();
        if self.may_lease() {
            self.router.place(now);
            while let Some(told) = self.router.poll_event() {
                let job = self.ids[&told.job];
                self.reference.told(job, told.call, &told.answer, now);
                let reign = self.shell.reign;
                self.later(job, 0..3, News::Told(reign, told.call, told.answer));
            }
        }
        self.reference.compare(&self.router, now);
        self.save();
        while let Some(order) = self.router.poll_probe() {
            self.reference.probes(&order.grant, now);
            self.probe(&order);
        }
        self.set_alarm(opening);
    }

    fn start_jobs(&mut self) -> Option<Instant> {
        let now = self.agenda.now;
        let mut room = WORKERS - self.jobs.values().filter(|worker| worker.has_process()).count();
        let mut opening: Option<Instant> = None;
        for job in self.shell.queue.clone() {
            let wants = self.worker(job).wants.clone();
            match self.router.opens_at(&wants, now) {
                Opening::Now if room > 0 => {
                    room -= 1;
                    self.shell.queue.retain(|queued| *queued != job);
                    self.begin(job);
                }
                Opening::Now => {}
                held_up => {
                    self.router.wish(&wants, now);
                    if let Opening::At(at) = held_up {
                        opening = Some(opening.map_or(at, |earlier| earlier.min(at))).filter(|at| *at > now);
                    }
                }
            }
        }
        opening
    }

    fn set_alarm(&mut self, opening: Option<Instant>) {
        let now = self.agenda.now;
        let routes = if self.may_lease() { self.router.poll_timeout() } else { self.shell.returned_by };
        let routes = routes.filter(|at| self.may_lease() || *at > now);
        let Some(at) = routes.into_iter().chain(opening).min() else { return };
        if self.shell.alarm.is_none_or(|earlier| at < earlier) {
            self.shell.alarm = Some(at);
            self.turn(at, Turn::Wake);
        }
    }

    /// A process asks, and answers: as the provider does, late, never, or that it was ended.
    fn probe(&mut self, Order { grant, deadline, .. }: &Order) {
        let now = self.agenda.now;
        let lab = self.labs.get_mut(&grant.provider).expect("it is one of ours");
        let reply = lab.answer(false, now);
        let report = |class, wait| {
            let (lease, generation, account) = (grant.lease, grant.generation, grant.account.clone());
            Some(Box::new(Report { lease, generation, account, class, wait, ..Report::default() }))
        };
        let answer = match &reply.result {
            Ok(wait) => report(AnswerClass::Success, *wait),
            Err(failure) => report(failure.class, failure.wait),
        };
        let (after, answer) = match self.rng.random_range(0..100) {
            0..5 => return,
            5..10 => (reply.after / 4, None),
            10..18 => (reply.after / 4, report(AnswerClass::Rejected, None)),
            18..22 => (*deadline + reply.after, answer),
            22..26 => (reply.after / 4, report(AnswerClass::RateLimited, Some(Wait::For(20_000)))),
            _ if reply.after > *deadline => (*deadline, report(AnswerClass::Timeout, None)),
            _ => (reply.after, answer),
        };
        self.turn(now + after, Turn::Probed(grant.lease, answer));
    }
}

fn candidates(wants: &Wants) -> Vec<String> {
    match (&wants.provider, wants.priority.as_slice()) {
        (Some(pinned), _) => vec![pinned.clone()],
        (None, []) => LABS.map(|(id, ..)| id.to_owned()).into(),
        (None, priority) => priority.to_vec(),
    }
}
