//! Rules one by one, and properties of any night.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{Cause, Limit};

use super::*;

mod failed;
mod notice;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// In the first hour of a storm: at 0, 30 s, 2.5 min, then every ten minutes.
const MESSAGES_PER_HOUR_MAX: usize = 9;

/// A filter, its sink, and the logs that it is handed again from after a restart.
struct World {
    filter: Filter,
    now: Instant,
    clock: SystemTime,
    alerts: Vec<What>,
    settled: BTreeSet<u64>,
    /// Messages that arrived.
    arrived: Vec<(Instant, Message)>,
    lost: u64,
    /// A message was: then the owner's belief and the filter's may differ.
    refused: bool,
}

impl World {
    fn new() -> Self {
        let (now, clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let filter = Filter::new(Memory::default(), now, clock);
        World {
            filter,
            now,
            clock,
            alerts: vec![What::Test],
            settled: BTreeSet::new(),
            arrived: Vec::new(),
            lost: 0,
            refused: false,
        }
    }

    /// Its number, which is its source.
    fn alert(&mut self, what: What) -> u64 {
        let seq = self.alerts.len() as u64;
        self.alerts.push(what);
        self.hand_in(seq, false);
        seq
    }

    fn hand_in(&mut self, seq: u64, late: bool) {
        let (what, source) = (self.alerts[seq as usize].clone(), Some(Source::Server { seq }));
        self.filter.handle_alert(Alert { what, source, at: self.clock, late }, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(Source::Server { seq }) = self.filter.poll_settled() {
            assert!(self.settled.insert(seq), "{seq} was settled twice");
            assert!((seq as usize) < self.alerts.len());
        }
    }

    fn send(&mut self, outcome: &Outcome) -> bool {
        let Some(message) = self.filter.poll_message(self.now) else { return false };
        assert!(!message.entries.is_empty() && message.entries.len() <= compose::ENTRIES_MAX);
        assert!(self.filter.poll_message(self.now).is_none(), "one at a time");
        self.came_of(message, outcome);
        true
    }

    fn came_of(&mut self, message: Message, outcome: &Outcome) {
        self.lost += self.filter.handle_outcome(outcome, self.now);
        self.refused |= *outcome != Outcome::Delivered;
        if *outcome == Outcome::Delivered {
            self.arrived.push((self.now, message));
        }
        self.collect();
    }

    /// Time goes on, and every message arrives.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.send(&Outcome::Delivered);
        let mut idle = 0;
        while let Some(at) = self.filter.poll_timeout().filter(|at| *at <= end) {
            self.clock += at.saturating_duration_since(self.now);
            self.now = at.max(self.now);
            self.filter.handle_timeout(self.now);
            idle = if self.send(&Outcome::Delivered) { 0 } else { idle + 1 };
            assert!(idle < 4, "it wakes for nothing");
        }
        self.clock += end.saturating_duration_since(self.now);
        self.now = end;
    }

    /// The next process is handed what its cursors say.
    fn restart(&mut self, flush: bool) {
        if flush {
            self.filter.flush();
            self.send(&Outcome::Delivered);
        }
        let memory = self.filter.memory(self.now, self.clock);
        let json = serde_json::to_string(&memory).expect("written");
        self.filter = Filter::new(serde_json::from_str(&json).expect("read"), self.now, self.clock);
        let owed = (1..self.alerts.len() as u64).find(|seq| !self.settled.contains(seq));
        for seq in owed.map_or(0..0, |lowest| lowest..self.alerts.len() as u64) {
            let breaker = self.alerts[seq as usize].key().kind == Kind::Breaker;
            if breaker {
                self.settled.remove(&seq);
            }
            if !self.settled.contains(&seq) {
                self.hand_in(seq, true);
            }
        }
    }

    fn owed(&self) -> usize {
        self.alerts.len() - 1 - self.settled.len()
    }

    /// All messages as text: `entry ×times, …; count words, …`.
    fn texts(&self) -> Vec<String> {
        let entry = |entry: &crate::message::Entry| {
            let times = if entry.times > 1 { format!(" ×{}", entry.times) } else { String::new() };
            let late = if entry.late { " late" } else { "" };
            let key = entry.what.key();
            let kind = match entry.what {
                What::BreakerOpened { .. } => "opened".to_owned(),
                What::BreakerClosed { .. } => "closed".to_owned(),
                _ => format!("{:?}", key.kind),
            };
            format!("{kind} {}{times}{late}", key.subject)
        };
        let text = |(_, message): &(Instant, Message)| {
            let entries: Vec<_> = message.entries.iter().map(entry).collect();
            let more = message.more.iter().map(|(count, what)| format!("; {count} {what}"));
            entries.join(", ") + &more.collect::<String>()
        };
        self.arrived.iter().map(text).collect()
    }

    fn keep_the_promises(&self) {
        let mut told: BTreeMap<Key, Vec<Instant>> = BTreeMap::new();
        let mut open: BTreeSet<String> = BTreeSet::new();
        let mut messages = Vec::new();
        for (at, message) in &self.arrived {
            if message.entries[0].what == What::Test {
                assert_eq!(message.entries.len(), 1, "a test goes alone");
                continue;
            }
            messages.push(*at);
            let mut keys = BTreeSet::new();
            for entry in &message.entries {
                assert!(keys.insert(entry.what.key()), "a key stands twice in one message");
                told.entry(entry.what.key()).or_default().push(*at);
                match &entry.what {
                    What::BreakerOpened { account, .. } => {
                        let news = open.insert(account.clone());
                        let excused = self.refused || self.alerts.contains(&reset(account));
                        assert!(news || excused, "opened twice");
                    }
                    What::BreakerClosed { account, by_person } => {
                        assert!(!by_person && open.remove(account), "a closing without its opening");
                    }
                    _ => {}
                }
            }
        }
        for times in told.values() {
            for window in times.windows(3) {
                assert!(window[2] - window[0] >= HOUR, "a key was told three times in an hour");
            }
        }
        for window in messages.windows(MESSAGES_PER_HOUR_MAX + 1) {
            assert!(window[MESSAGES_PER_HOUR_MAX] - window[0] >= HOUR, "too many messages in an hour");
        }
        assert!(self.filter.queue.entries.len() <= waiting::WAITING_MAX);
        assert!(self.filter.remembered <= SOURCES_MAX);
        assert!(self.filter.accounts.all.len() <= accounts::ACCOUNTS_MAX);
    }
}

fn job(number: u16) -> JobId {
    let [high, low] = number.to_be_bytes();
    JobId::from_random([0, 0, 0, high, low])
}

fn aborted_by(number: u16, account: Option<&str>, kind: CauseKind) -> What {
    let cause = Cause::new(kind, format!("detail {number}"));
    What::JobAborted {
        job: job(number),
        name: "job".to_owned(),
        account: account.map(str::to_owned),
        cause,
        raise: Vec::new(),
    }
}

fn aborted(number: u16) -> What {
    aborted_by(number, None, CauseKind::Internal)
}

fn opened(account: &str) -> What {
    What::BreakerOpened { account: account.to_owned(), why: "5 failures".to_owned(), until: Some(MINUTE) }
}

fn closed(account: &str) -> What {
    What::BreakerClosed { account: account.to_owned(), by_person: false }
}

fn reset(account: &str) -> What {
    What::BreakerClosed { account: account.to_owned(), by_person: true }
}

fn limit_near(number: u16) -> What {
    limit_near_at(number, None)
}

fn limit_near_at(number: u16, account: Option<&str>) -> What {
    let (name, account) = ("job".to_owned(), account.map(str::to_owned));
    What::LimitNear { job: job(number), name, account, limit: Limit::Steps, used: 8.0, max: 10.0 }
}

fn attention(number: u16, account: Option<&str>) -> What {
    let (name, account, why) = ("job".to_owned(), account.map(str::to_owned), "denied".to_owned());
    What::Attention { job: job(number), name, account, why }
}

fn batch_done() -> What {
    What::BatchDone { batch: BatchId::from_random([0; 5]), name: String::new(), completed: 3, other: 0 }
}

#[test]
fn a_provider_that_dies_is_one_message() {
    let mut world = World::new();
    for number in 0..8 {
        world.alert(aborted_by(number, Some("lab"), CauseKind::AllOpen));
    }
    world.pass(SECOND);
    world.alert(opened("lab"));
    world.alert(opened("lab-2"));
    world.alert(aborted_by(9, None, CauseKind::AllOpen));
    world.pass(HOUR);
    assert_eq!(world.texts(), ["opened lab, opened lab-2; 9 jobs aborted meanwhile"]);
    assert_eq!(world.owed(), 0);
    for number in 20..23 {
        world.alert(aborted_by(number, Some("lab"), CauseKind::Attempts));
    }
    world.pass(HOUR);
    assert_eq!(world.owed(), 3, "told with the closing");
    world.alert(closed("lab"));
    world.pass(HOUR);
    assert_eq!(world.texts()[1..], ["closed lab; 3 jobs aborted meanwhile"]);
    assert_eq!(world.owed(), 0);
}

#[test]
fn a_table_of_openings_and_closings() {
    type Step = (u64, fn(&str) -> What);
    let cases: [(&[Step], &[&str]); 8] = [
        (&[(0, opened), (3, closed)], &[]),
        (&[(0, opened), (3, reset)], &[]),
        (&[(0, opened), (100, closed)], &["opened lab", "closed lab"]),
        (&[(0, opened), (100, closed), (159, opened)], &["opened lab"]),
        (&[(0, opened), (100, closed), (130, opened), (200, closed)], &["opened lab", "closed lab ×2"]),
        (&[(0, opened), (100, reset)], &["opened lab"]),
        (&[(0, opened), (100, reset), (200, opened)], &["opened lab", "opened lab"]),
        (&[(0, closed), (10, reset)], &[]),
    ];
    for (steps, expected) in cases {
        let mut world = World::new();
        let start = world.now;
        for (at_s, what) in steps {
            world.pass((start + SECOND * (*at_s as u32)).saturating_duration_since(world.now));
            world.alert(what("lab"));
        }
        world.pass(HOUR);
        assert_eq!(world.texts(), expected);
        assert_eq!(world.owed(), 0);
        world.keep_the_promises();
    }
}

#[test]
fn while_a_message_is_under_way_the_world_goes_on() {
    type Step = fn(&str) -> What;
    let cases: [(&[Step], Outcome, &[&str], usize); 7] = [
        (&[closed], Outcome::Delivered, &["opened lab", "closed lab"], 0),
        (&[closed, opened], Outcome::Delivered, &["opened lab"], 0),
        (&[closed, opened, closed], Outcome::Delivered, &["opened lab", "closed lab ×2"], 0),
        (&[reset], Outcome::Delivered, &["opened lab"], 0),
        (&[reset, opened], Outcome::Delivered, &["opened lab", "opened lab"], 0),
        (&[closed], Outcome::Failed(String::new()), &[], 0),
        (&[closed], Outcome::Dropped(String::new()), &[], 0),
    ];
    for (steps, outcome, expected, owed) in cases {
        let mut world = World::new();
        world.alert(opened("lab"));
        world.now += HOLD;
        let message = world.filter.poll_message(world.now).expect("it is due");
        for what in steps {
            world.alert(what("lab"));
        }
        world.came_of(message, &outcome);
        world.pass(HOUR * 2);
        assert_eq!((world.texts(), world.owed()), (expected.iter().map(|text| (*text).to_owned()).collect(), owed));
    }
}

#[test]
fn a_job_that_aborts_while_the_opening_is_under_way_is_told_with_the_closing() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.now += HOLD;
    let message = world.filter.poll_message(world.now).expect("it is due");
    world.alert(aborted_by(1, Some("lab"), CauseKind::Attempts));
    world.came_of(message, &Outcome::Delivered);
    world.pass(HOUR);
    assert_eq!((world.texts(), world.owed()), (vec!["opened lab".to_owned()], 1));
    world.alert(closed("lab"));
    world.pass(HOUR);
    assert_eq!(world.texts()[1..], ["closed lab; 1 job aborted meanwhile"]);
}

#[test]
fn what_an_open_breaker_does_not_explain_is_told() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.pass(MINUTE * 3);
    for (kind, number) in [(CauseKind::Quarantined, 1), (CauseKind::Io(28), 2), (CauseKind::CrashLoop, 3)] {
        world.alert(aborted_by(number, Some("lab"), kind));
    }
    world.alert(aborted_by(4, Some("other"), CauseKind::Attempts));
    world.alert(aborted_by(5, Some("lab"), CauseKind::Attempts));
    world.alert(aborted_by(6, None, CauseKind::AllOpen));
    world.alert(limit_near_at(7, Some("lab")));
    world.alert(attention(8, Some("lab")));
    world.alert(attention(9, None));
    world.pass(MINUTE);
    let expected = format!("CrashLoop {}, JobAborted {}, JobAborted {}, JobAborted {}", job(3), job(1), job(2), job(4));
    assert_eq!(world.texts(), ["opened lab".to_owned(), format!("{expected}, Attention {}", job(9))]);
    world.alert(reset("lab"));
    world.pass(HOUR);
    let (attention, near) = (format!("Attention {}", job(8)), format!("LimitNear {} steps", job(7)));
    assert_eq!(world.texts()[2], format!("JobAborted {}, {attention}, {near}; 1 more job aborted", job(5)));
    assert_eq!(world.owed(), 0);
}

#[test]
fn an_opening_that_stands_for_days_does_not_silence_its_jobs() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.pass(HOUR);
    world.alert(aborted_by(1, Some("lab"), CauseKind::Attempts));
    world.pass(HOUR * 25);
    assert_eq!(world.texts()[1..], [format!("JobAborted {}", job(1))]);
    world.alert(aborted_by(2, Some("lab"), CauseKind::Attempts));
    world.pass(HOUR);
    assert_eq!(world.texts()[2..], [format!("JobAborted {}", job(2))]);
}

#[test]
fn notices_wait_a_minute_or_ride_along() {
    let mut world = World::new();
    world.alert(limit_near(1));
    world.alert(batch_done());
    world.pass(NOTICE_HOLD - SECOND);
    assert!(world.texts().is_empty());
    world.pass(SECOND);
    assert_eq!(world.texts(), [format!("BatchDone b-aaaaaaaa, LimitNear {} steps", job(1))]);
    world.pass(HOUR);
    world.alert(limit_near(2));
    world.alert(aborted(2));
    world.pass(HOLD);
    assert_eq!(world.texts()[1..], [format!("JobAborted {}, LimitNear {} steps", job(2), job(2))]);
}

#[test]
fn a_test_goes_at_once_and_alone_as_often_as_somebody_asks() {
    let mut world = World::new();
    for _ in 0..5 {
        world.alert(aborted(1));
        world.alert(What::Test);
        world.pass(Duration::ZERO);
    }
    assert_eq!(world.texts(), ["Test "; 5]);
    world.pass(HOLD);
    assert_eq!(world.texts()[5..], [format!("JobAborted {} ×5", job(1))]);
}

#[test]
fn ten_thousand_jobs_that_abort_are_a_handful_of_messages() {
    let mut world = World::new();
    for number in 0..10_000 {
        world.alert(aborted(number));
        world.pass(Duration::from_millis(60));
    }
    world.pass(HOUR);
    assert!(world.arrived.len() <= 5, "{}", world.arrived.len());
    let told = |(_, message): &(Instant, Message)| {
        message.entries.iter().map(|entry| entry.times).sum::<u64>() + message.more.iter().map(|(n, _)| n).sum::<u64>()
    };
    assert_eq!(world.arrived.iter().map(told).sum::<u64>(), 10_000, "{:?}", world.texts());
    assert_eq!((world.owed(), world.filter.remembered), (0, 0));
    world.keep_the_promises();
}

#[test]
fn what_matters_finds_room_in_any_crowd() {
    let mut world = World::new();
    for number in 0..20_000 {
        world.alert(aborted(number));
    }
    world.alert(opened("lab"));
    world.alert(What::Quarantined { subject: "routes.json".to_owned(), why: String::new() });
    world.pass(HOLD);
    let text = world.texts().remove(0);
    assert!(text.starts_with("Quarantined routes.json, opened lab, JobAborted"), "{text}");
    assert!(text.ends_with("; 19992 more jobs aborted"), "{text}");
    assert_eq!(world.owed(), 20_002 - SOURCES_MAX, "what could not be remembered stays owed");
    assert_eq!(world.filter.remembered, 0);
}

#[test]
fn a_process_that_ends_tells_what_it_held_back_but_not_faster_and_faster() {
    let mut world = World::new();
    for number in 0..40 {
        world.alert(aborted(number));
        world.restart(true);
        world.pass(SECOND);
    }
    assert_eq!(world.arrived.len(), 3, "{:?}", world.texts());
    world.pass(MINUTE * 10);
    assert_eq!(world.arrived.len(), 4);
    assert!(world.arrived[3].1.entries[0].late);
    assert_eq!(world.owed(), 0);
}

#[test]
fn a_closing_follows_an_opening_that_an_earlier_process_told() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.restart(true);
    world.alert(closed("lab"));
    world.restart(true);
    assert_eq!((world.texts().len(), world.owed()), (1, 1), "it has not stayed closed yet");
    world.pass(HOUR);
    assert_eq!(world.texts(), ["opened lab", "closed lab late"]);
}

#[test]
fn outcomes_decide_what_is_owed_and_what_is_lost() {
    for (outcome, owed, lost) in [
        (Outcome::Delivered, 0, 0),
        (Outcome::Dropped(String::new()), 0, 3),
        (Outcome::Failed(String::new()), 4, 3),
        (Outcome::Unsent, 4, 0),
        (Outcome::Dead(String::new()), 4, 3),
    ] {
        let mut world = World::new();
        world.alert(What::Lost { sink: "desktop".to_owned(), count: 1 });
        for number in [1, 2, 2] {
            world.alert(aborted(number));
        }
        world.now += HOLD;
        assert!(world.send(&outcome));
        assert_eq!((world.owed(), world.lost), (owed, lost), "{outcome:?}");
        assert_eq!(world.filter.remembered, if matches!(outcome, Outcome::Failed(_)) { owed } else { 0 });
        world.alert(aborted(3));
        let takes = !matches!(outcome, Outcome::Dead(_));
        assert_eq!(world.filter.poll_timeout().is_some(), takes);
    }
}

#[test]
fn a_thousand_flaps_in_an_hour_are_two_messages_at_most() {
    for (seed, restarts) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        let start = world.now;
        let mut number = 0;
        while number < 1_000 {
            let millis = match seed % 3 {
                0 => 1_800,
                1 => random.random_range(0..3_600),
                // Bursts, and minutes of peace.
                _ if number % 50 == 0 => 170_000,
                _ => random.random_range(0..200),
            };
            world.alert(What::BreakerOpened { account: "lab".to_owned(), why: format!("{number}"), until: None });
            world.pass(Duration::from_millis(millis));
            world.alert(closed("lab"));
            world.pass(Duration::from_millis(millis));
            if restarts && number % 37 == 0 {
                world.restart(number % 2 == 0);
            }
            number += 1;
        }
        let first_hour = world.arrived.iter().filter(|(at, _)| *at < start + HOUR).count();
        assert!(first_hour <= 2, "{seed} {restarts} {:?}", world.texts());
        world.pass(HOUR * 2);
        world.keep_the_promises();
        assert_eq!(world.owed(), 0);
        assert_ne!(world.texts().last().map(|text| text.starts_with("opened")), Some(true), "it is closed");
    }
}

#[test]
fn weeks_of_storms_and_restarts_keep_the_promises() {
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        // By account, as a person would say it: the reference.
        let mut really_open: BTreeMap<&str, bool> = BTreeMap::new();
        let start = world.now;
        while world.now < start + HOUR * 24 * 14 {
            let account = ["a", "b", "c"][random.random_range(0..3)];
            // Storms of an hour, then peace for one.
            let stormy = (world.now.duration_since(start).as_secs() / 3_600).is_multiple_of(2);
            match random.random_range(0..10) {
                0..3 => {
                    let open = really_open.entry(account).or_default();
                    *open = !*open;
                    let what = if *open { opened(account) } else { closed(account) };
                    world.alert(what);
                }
                3..7 => drop(world.alert(aborted_by(random.random_range(0..500), Some(account), CauseKind::Attempts))),
                7 => drop(world.alert(limit_near(random.random_range(0..500)))),
                8 => world.restart(random.random_range(0..2) == 0),
                _ => drop(world.alert(batch_done())),
            }
            world.pass(SECOND * random.random_range(0..if stormy { 120 } else { 3_000 }));
        }
        world.pass(HOUR * 48);
        world.keep_the_promises();
        assert_eq!((world.owed(), world.filter.remembered), (0, 0));
        let mut believed_open: BTreeMap<&str, bool> = really_open.keys().map(|account| (*account, false)).collect();
        for entry in world.arrived.iter().flat_map(|(_, message)| &message.entries) {
            for (account, open) in &mut believed_open {
                match &entry.what {
                    What::BreakerOpened { account: of, .. } if of == account => *open = true,
                    What::BreakerClosed { account: of, .. } if of == account => *open = false,
                    _ => {}
                }
            }
        }
        assert_eq!(believed_open, really_open, "seed {seed}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alert(What),
    Pass(Duration),
    Hang(Duration),
    Outcome(Outcome),
    Restart(bool),
}

fn what() -> impl Strategy<Value = What> {
    let account = prop::sample::select(vec!["a", "b", "c"]);
    let kind = prop::sample::select(vec![
        CauseKind::AllOpen,
        CauseKind::Attempts,
        CauseKind::Io(5),
        CauseKind::Limit(Limit::Steps),
    ]);
    prop_oneof![
        3 => account.clone().prop_map(opened),
        3 => account.clone().prop_map(closed),
        1 => account.clone().prop_map(reset),
        4 => (0u16..40, prop::option::of(account.clone()), kind).prop_map(|(n, account, kind)| aborted_by(n, account, kind)),
        2 => (0u16..5, prop::option::of(account.clone())).prop_map(|(n, account)| limit_near_at(n, account)),
        1 => (0u16..5, prop::option::of(account)).prop_map(|(n, account)| attention(n, account)),
        1 => Just(batch_done()),
        1 => Just(What::StartsPaused { pause: MINUTE }),
        1 => Just(What::Test),
    ]
}

fn op(failures: bool) -> impl Strategy<Value = Op> {
    let time = prop_oneof![4 => 0u64..10, 3 => 10u64..200, 1 => 200u64..5_000].prop_map(Duration::from_secs);
    let outcome = prop::sample::select(vec![Outcome::Failed(String::new()), Outcome::Dropped(String::new())]);
    let rarely = u32::from(failures);
    prop_oneof![
        12 => what().prop_map(Op::Alert),
        6 => time.clone().prop_map(Op::Pass),
        2 => time.prop_map(Op::Hang),
        rarely => outcome.prop_map(Op::Outcome),
        rarely => any::<bool>().prop_map(Op::Restart),
    ]
}

fn run(world: &mut World, op: Op) {
    match op {
        Op::Alert(what) => drop(world.alert(what)),
        Op::Pass(time) => world.pass(time),
        // A delivery takes its time, and something happens meanwhile.
        Op::Hang(time) => {
            if let Some(message) = world.filter.poll_message(world.now) {
                world.alert(closed("a"));
                world.alert(opened("b"));
                world.now += time;
                world.clock += time;
                world.came_of(message, &Outcome::Delivered);
            }
        }
        Op::Outcome(outcome) => drop(world.send(&outcome)),
        Op::Restart(flush) => world.restart(flush),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens_the_promises_are_kept(ops in prop::collection::vec(op(true), 1..200)) {
        let mut world = World::new();
        for op in ops {
            run(&mut world, op);
        }
        world.restart(true);
        world.pass(HOUR * 60);
        world.keep_the_promises();
        prop_assert_eq!(world.filter.remembered, 0);
    }

    #[test]
    fn after_a_quiet_spell_all_is_told_that_stands_and_nothing_twice(ops in prop::collection::vec(op(false), 1..200)) {
        let mut world = World::new();
        for op in ops {
            run(&mut world, op);
        }
        world.pass(HOUR * 60);
        world.keep_the_promises();
        prop_assert_eq!(world.owed(), 0);
        prop_assert_eq!(world.filter.remembered, 0);
        let last = |what: &dyn Fn(&What) -> bool| world.alerts[1..].iter().rev().find(|other| what(other)).cloned();
        for account in ["a", "b", "c"] {
            let key = accounts::key(account);
            let is = last(&|what| what.key() == key);
            let mut entries = world.arrived.iter().flat_map(|(_, message)| &message.entries);
            let told = entries.rfind(|entry| entry.what.key() == key).map(|entry| entry.what.clone());
            let open = |what: &Option<What>| matches!(what, Some(What::BreakerOpened { .. }));
            // Of what a person has reset, they know that it is closed.
            if open(&is) || !world.alerts.contains(&reset(account)) {
                prop_assert_eq!(open(&is), open(&told), "{}", account);
            }
        }
        // Each abort is in exactly one number or entry.
        let handed = world.alerts[1..].iter().filter(|what| matches!(what, What::JobAborted { .. })).count() as u64;
        let entries = world.arrived.iter().flat_map(|(_, message)| &message.entries);
        let named: u64 = entries.filter(|e| matches!(e.what, What::JobAborted { .. })).map(|e| e.times).sum();
        let more = world.arrived.iter().flat_map(|(_, message)| &message.more);
        let counted: u64 = more.filter(|(_, words)| words.contains("aborted")).map(|(count, _)| count).sum();
        prop_assert!(named + counted <= handed, "{} + {} of {}", named, counted, handed);
        prop_assert!(handed == 0 || named + counted > 0);
    }
}
