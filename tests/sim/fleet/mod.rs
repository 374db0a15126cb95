//! Twenty query machines, the router and the fold on one clock, for nights of some hours: with three providers of many
//! moods, workers that die, persons who pause, cancel and reset, probes that are lost, and supervisors that end and begin.
//!
//! What must hold is in `reference`, in terms of what the providers saw.

mod agenda;
mod labs;
mod link;
mod person;
mod reference;
mod shell;
mod succession;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, Outcome};
use ukai_supervisor::route::fit::Wants;
use ukai_supervisor::route::router::Router;

use crate::query::{assert_valid, seeds};
use agenda::{Agenda, Coming};
use labs::{LABS, Lab};
use reference::Reference;
use shell::{Shell, WORKERS};
use worker::Worker;

const HOUR: Duration = Duration::from_secs(3_600);
/// Each is a night of its own; so many have met every mixture of moods, and take a few seconds.
const NIGHTS: usize = 12;
/// For so long the providers have moods, and jobs are submitted; then all is well.
const NIGHT: Duration = Duration::from_secs(3 * 3_600);
/// The longest wait that is named, with all that may come after it. A night that is not over then has wedged.
const WEDGED: Duration = Duration::from_secs(9 * 3_600);
/// Things that happen at the same instant.
const SPINS_MAX: u32 = 100_000;
/// More jobs than workers: some always wait for a place.
const JOBS: usize = WORKERS + 3;

/// Of the supervisor, in a night.
const STOPS: usize = 12;

struct Fleet {
    rng: StdRng,
    agenda: Agenda,
    labs: BTreeMap<String, Lab>,
    router: Router,
    reference: Reference,
    shell: Shell,
    jobs: BTreeMap<u32, Worker>,
    ids: BTreeMap<JobId, u32>,
    submitted: u32,
    figures: Figures,
}

#[derive(Debug, Default)]
struct Figures {
    stops: u32,
    restarts: u32,
    ends: BTreeSet<&'static str>,
}

/// Names the seed if the night ends badly.
struct Seed(u64);

#[allow(clippy::print_stderr, reason = "whoever reads the failure wants to play it again")]
impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}: UKAI_SIM_SEED={0} plays it alone", self.0);
        }
    }
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let agenda = Agenda::new();
        let now = agenda.now;
        let reference = Reference::new(now);
        let labs = LABS.map(|(id, ..)| (id.to_owned(), Lab::new(rng.random(), now, now + NIGHT)));
        let park = rng.random();
        let mut fleet = Fleet {
            rng,
            agenda,
            labs: labs.into(),
            router: Router::new(labs::settings(), WORKERS, park, now),
            shell: Shell::new(reference.gates.clone()),
            reference,
            jobs: BTreeMap::new(),
            ids: BTreeMap::new(),
            submitted: 0,
            figures: Figures::default(),
        };
        for _ in 0..JOBS {
            fleet.at(0..60, Coming::Submission);
        }
        fleet.at(600..4_000, Coming::Visit);
        for _ in 0..STOPS {
            let clean = fleet.rng.random_bool(0.3);
            fleet.at(60..NIGHT.as_secs(), Coming::Stop { clean });
        }
        fleet
    }

    fn at(&mut self, secs: std::ops::Range<u64>, what: Coming) {
        let after = Duration::from_millis(self.rng.random_range(secs.start * 1_000..secs.end * 1_000));
        self.agenda.push(self.agenda.now + after, what);
    }

    fn is_night(&self) -> bool {
        self.agenda.passed() < NIGHT
    }

    fn is_over(&self) -> bool {
        let well = self.reference.gates.values().all(reference::gate::Gate::is_closed);
        !self.is_night() && well && self.jobs.is_empty() && !self.shell.down
    }

    fn run(mut self) -> Self {
        let (mut at, mut spins): (Option<Instant>, u32) = (None, 0);
        while let Some(what) = self.agenda.next().filter(|_| !self.is_over()) {
            let now = self.agenda.now;
            spins = if at == Some(now) { spins + 1 } else { 0 };
            at = Some(now);
            assert!(spins < SPINS_MAX, "it spins");
            assert!(self.agenda.passed() < WEDGED, "it has wedged: {}", self.standing());
            self.happen(what);
            self.settle();
        }
        self
    }

    fn standing(&self) -> String {
        let gates: Vec<_> = self.reference.gates.iter().map(|(id, gate)| (id, &gate.state)).collect();
        let jobs: Vec<_> = self.jobs.iter().map(|(job, worker)| (job, worker.has_process())).collect();
        format!("jobs (running?) {jobs:?}, gates {gates:?}, {:?}", self.agenda.passed())
    }

    fn happen(&mut self, what: Coming) {
        let (reign, down) = (self.shell.reign, self.shell.down);
        let lives = |fleet: &Self, job, life| fleet.jobs.get(&job).is_some_and(|worker: &Worker| worker.life == life);
        match what {
            Coming::News { job, life, news } if lives(self, job, life) => self.hear(job, news),
            Coming::Word { job, life, reign: to, word } if to == reign && lives(self, job, life) => {
                self.hear_word(job, word);
            }
            Coming::Turn { reign: of, turn } if of == reign => self.take_turn(turn),
            Coming::News { .. } | Coming::Word { .. } | Coming::Turn { .. } => {}
            Coming::Stop { clean } if !down => self.stop(clean),
            Coming::Stop { .. } => {}
            Coming::Start { clean } => self.start(clean),
            // There is nobody to say it to yet.
            Coming::Wish { .. } | Coming::Submission | Coming::Visit if down => self.at(1..10, what),
            Coming::Wish { job, wish } if self.jobs.contains_key(&job) => self.wished(job, wish),
            Coming::Wish { .. } => {}
            Coming::Submission => self.submit(),
            Coming::Visit => self.visit(),
        }
    }

    fn submit(&mut self) {
        if !self.is_night() {
            return;
        }
        let job = self.submitted;
        self.submitted += 1;
        let [_, a, b, c, d] = u64::from(job).to_be_bytes()[3..] else { unreachable!("five bytes") };
        let id = JobId::from_random([0, a, b, c, d]);
        let lab = |fleet: &mut Self| LABS[fleet.rng.random_range(0..LABS.len())].0.to_owned();
        let mut wants = Wants::default();
        match self.rng.random_range(0..10) {
            0 => wants.provider = Some(lab(self)),
            1..4 => wants.priority = LABS.iter().rev().map(|(id, ..)| (*id).to_owned()).collect(),
            4 => {
                let (first, second) = (lab(self), lab(self));
                wants.priority = if first == second { vec![first] } else { vec![first, second] };
            }
            _ => {}
        }
        self.ids.insert(id.clone(), job);
        let poisoned = self.rng.random_bool(0.05);
        self.jobs.insert(job, Worker::new(id, wants, poisoned));
        self.shell.queue.push_back(job);
    }

    fn ended(&mut self, job: u32) {
        let worker = self.jobs.remove(&job).expect("it is one of ours");
        let ends = worker.log.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        assert_eq!(ends, 1, "j{job} has one end");
        let state = worker.fold();
        assert_valid(&state.messages);
        let used = state.progress.used;
        assert!(used.run_time_ms <= used.wall_ms, "{used:?}");
        self.figures.ends.insert(match state.progress.outcome {
            Some(Outcome::Completed { attention: false }) => "completed",
            Some(Outcome::Ended(cause)) if cause.kind == CauseKind::Attempts => "attempts",
            Some(Outcome::Ended(cause)) if cause.kind == CauseKind::AllOpen => "all_open",
            Some(Outcome::Ended(cause)) if cause.kind == CauseKind::Cancel && worker.cancelled => "cancelled",
            other => panic!("j{job} ended {other:?}"),
        });
        self.at(1..120, Coming::Submission);
    }
}

fn check(seed: u64) -> Fleet {
    let _seed = Seed(seed);
    let fleet = Fleet::new(seed).run();
    assert!(fleet.jobs.is_empty(), "{:?} never ended", fleet.jobs.keys());
    fleet.reference.end();
    let later = fleet.agenda.now + HOUR;
    for (provider, account) in fleet.router.providers() {
        assert!(fleet.reference.gates[&provider.id].is_closed(), "{} never became well", provider.id);
        assert_eq!(account.in_flight().0, 0, "leases of {} never came back", provider.id);
        for (level, capacity) in account.levels(later).into_iter().flatten() {
            assert_eq!(level, capacity, "a bucket of {} that does not fill up", provider.id);
        }
    }
    fleet
}

#[test]
fn nights_of_twenty_workers_and_three_moody_providers_keep_every_promise() {
    let (mut passed, mut seen, mut requests, mut probes) = (Duration::ZERO, BTreeSet::new(), 0, 0);
    let (mut opened, mut waits, mut stops, mut restarts, mut jobs) = (0, 0, 0, 0, 0);
    for seed in seeds().into_iter().take(NIGHTS) {
        let fleet = check(seed);
        passed += fleet.agenda.passed();
        seen.extend(fleet.figures.ends);
        let figures = fleet.reference.figures;
        (requests, probes) = (requests + figures.requests, probes + figures.probes);
        (opened, waits) = (opened + figures.opened, waits + figures.waits);
        (stops, restarts) = (stops + fleet.figures.stops, restarts + fleet.figures.restarts);
        jobs += fleet.submitted;
    }
    println!(
        "{:.0} hours: {jobs} jobs, {requests} requests, {probes} probes, {opened} openings, {waits} named waits, \
         {restarts} supervisors, {stops} stops, ends {seen:?}",
        passed.as_secs_f64() / HOUR.as_secs_f64()
    );
    assert!(requests > 0 && probes > 0 && opened > 0 && waits > 0, "an idle night");
    if seeds().len() > 1 {
        assert!(stops > 0 && restarts > 0 && seen.len() == 4, "{stops} stops, {restarts} restarts, {seen:?}");
    }
}
