//! The breaker held to its promises, row by row and over any sequence of what can happen to it.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A breaker whose clock the test moves.
struct Bench {
    breaker: Breaker,
    now: Instant,
    not_before: Option<Instant>,
}

impl Bench {
    fn new() -> Self {
        Bench { breaker: Breaker::default(), now: Instant::now(), not_before: None }
    }

    fn open() -> Self {
        let mut bench = Bench::new();
        bench.fail(Failed::Shut(Why::LongWait, Until::At(bench.now)));
        bench
    }

    fn half_open() -> Self {
        let mut bench = Bench::open();
        bench.after(MINUTE);
        assert_eq!(bench.breaker.standing(), Standing::HalfOpen);
        bench
    }

    fn fail(&mut self, failed: Failed) {
        self.breaker.failed(self.breaker.generation(), failed, self.not_before, self.now);
    }

    fn succeed(&mut self) {
        self.breaker.succeeded(self.breaker.generation(), 8);
    }

    fn probe(&mut self, verdict: Verdict) {
        let probe = self.breaker.take_probe(self.now).expect("a probe may leave");
        self.breaker.probed(probe.id, verdict, self.not_before, self.now);
    }

    fn after(&mut self, wait: Duration) {
        self.now += wait;
        self.breaker.handle_timeout(self.not_before, self.now);
    }

    fn open_for(&self) -> Option<Duration> {
        match self.breaker.standing() {
            Standing::Open { until: Until::At(at), .. } => Some(at - self.now),
            _ => None,
        }
    }
}

#[test]
fn the_rows_of_the_table_open_it_at_their_count_and_not_before() {
    for (failed, count, why) in [
        (Failed::Limited, 3, Why::Limited),
        (Failed::Unavailable, 5, Why::Unavailable),
        (Failed::Timeout, 3, Why::Timeouts),
        (Failed::Shut(Why::LongWait, Until::At(Instant::now())), 1, Why::LongWait),
        (Failed::Shut(Why::Closed, Until::Reset), 1, Why::Closed),
    ] {
        let mut bench = Bench::new();
        for number in 1..=count {
            assert_eq!(bench.breaker.standing(), Standing::Closed, "{failed:?} {number}");
            bench.fail(failed);
        }
        assert!(matches!(bench.breaker.standing(), Standing::Open { why: of, .. } if of == why), "{failed:?}");
        assert_eq!(bench.breaker.generation(), 1);
    }
}

#[test]
fn throttling_counts_within_a_minute_and_failures_in_a_row() {
    let mut bench = Bench::new();
    for _ in 0..9 {
        bench.fail(Failed::Limited);
        bench.after(SECOND * 31);
        bench.succeed();
    }
    assert_eq!(bench.breaker.standing(), Standing::Closed, "two in any minute");
    for _ in 0..9 {
        for failed in [Failed::Unavailable, Failed::Timeout, Failed::Unavailable, Failed::Timeout, Failed::Unavailable]
        {
            bench.fail(failed);
        }
        bench.succeed();
    }
    assert_eq!(bench.breaker.standing(), Standing::Closed, "never five, and never three, in a row");
}

#[test]
fn it_stays_open_a_minute_doubling_to_fifteen_and_as_long_as_was_named_if_that_is_longer() {
    let mut bench = Bench::open();
    for minutes in [1, 2, 4, 8, 15, 15, 15] {
        assert_eq!(bench.open_for(), Some(MINUTE * minutes));
        bench.after(MINUTE * minutes - SECOND);
        assert_eq!(bench.open_for(), Some(SECOND));
        bench.after(SECOND);
        bench.probe(Verdict::Failure(Failed::Unavailable));
        bench.after(PROBE_PAUSE);
        bench.probe(Verdict::Failure(Failed::Unavailable));
    }
    let mut bench = Bench::new();
    bench.not_before = Some(bench.now + MINUTE * 600);
    bench.fail(Failed::Shut(Why::LongWait, Until::At(bench.now)));
    assert_eq!(bench.open_for(), Some(MINUTE * 600), "never clipped");
    bench.breaker.named(Until::At(bench.now + MINUTE * 700), MINUTE, bench.now);
    assert_eq!(bench.open_for(), Some(MINUTE * 700), "the latest that is known");
}

#[test]
fn closing_does_not_wipe_the_doubling_until_it_is_wholly_well() {
    let mut bench = Bench::half_open();
    bench.probe(Verdict::Success);
    bench.probe(Verdict::Success);
    assert_eq!(bench.breaker.in_flight_max(), Some(1));
    for _ in 0..3 {
        bench.fail(Failed::Limited);
    }
    assert_eq!(bench.open_for(), Some(MINUTE * 2), "it opened again before it was well");
}

#[test]
fn after_a_trial_concurrency_ramps_one_two_four() {
    let mut bench = Bench::half_open();
    bench.probe(Verdict::Success);
    bench.probe(Verdict::Success);
    let mut seen = Vec::new();
    while let Some(max) = bench.breaker.in_flight_max() {
        seen.push(max);
        bench.succeed();
    }
    assert_eq!(seen, [1, 2, 2, 4, 4, 4, 4]);
    bench.fail(Failed::Shut(Why::LongWait, Until::At(bench.now)));
    assert_eq!(bench.open_for(), Some(MINUTE), "well again, it begins anew");
}

#[test]
fn two_of_three_probes_close_and_two_failures_open_again() {
    use Verdict::{Failure, Success};
    const FAILED: Verdict = Failure(Failed::Unavailable);
    for (verdicts, closed) in
        [(&[Success, Success][..], true), (&[Success, FAILED, Success], true), (&[FAILED, Success, Success], true)]
    {
        check_trial(verdicts, closed);
    }
    for verdicts in [&[FAILED, FAILED][..], &[Success, FAILED, FAILED], &[FAILED, Success, FAILED]] {
        check_trial(verdicts, false);
    }
}

fn check_trial(verdicts: &[Verdict], closed: bool) {
    let mut bench = Bench::half_open();
    for verdict in verdicts {
        assert_eq!(bench.breaker.standing(), Standing::HalfOpen, "{verdicts:?}");
        bench.after(PROBE_PAUSE);
        bench.probe(*verdict);
    }
    assert_eq!(bench.breaker.standing() == Standing::Closed, closed, "{verdicts:?}");
    assert_ne!(bench.breaker.standing(), Standing::HalfOpen, "{verdicts:?}");
}

#[test]
fn a_thousand_askers_get_one_probe_and_one_that_says_nothing_frees_its_place() {
    let mut bench = Bench::half_open();
    let probes: Vec<_> = (0..1_000).filter_map(|_| bench.breaker.take_probe(bench.now)).collect();
    assert_eq!(probes.len(), 1);
    bench.breaker.probed(probes[0].id, Verdict::Neither, None, bench.now);
    bench.after(PROBE_PAUSE);
    let again = bench.breaker.take_probe(bench.now).expect("its place is free");
    bench.breaker.probed(probes[0].id, Verdict::Success, None, bench.now);
    assert_eq!(bench.breaker.take_probe(bench.now), None, "the late word of the first is not the second's");
    bench.breaker.probed(again.id, Verdict::Success, None, bench.now);
    bench.probe(Verdict::Success);
    assert_eq!(bench.breaker.standing(), Standing::Closed);
}

#[test]
fn a_probe_that_outlives_its_lease_has_failed() {
    let mut bench = Bench::half_open();
    for _ in 0..2 {
        bench.after(PROBE_PAUSE);
        bench.breaker.take_probe(bench.now).expect("a probe may leave");
        assert_eq!(bench.breaker.poll_timeout(), Some(bench.now + PROBE_LEASE));
        bench.after(PROBE_LEASE);
    }
    assert_eq!(bench.open_for(), Some(MINUTE * 2));
}

#[test]
fn a_late_success_is_none_though_nobody_has_looked_since() {
    let mut bench = Bench::half_open();
    for _ in 0..2 {
        bench.after(PROBE_PAUSE);
        let late = bench.breaker.take_probe(bench.now).expect("a probe may leave");
        bench.now += PROBE_LEASE;
        bench.breaker.probed(late.id, Verdict::Success, None, bench.now);
    }
    assert_eq!(bench.open_for(), Some(MINUTE * 2));
}

#[test]
fn probes_without_a_verdict_do_not_keep_it_half_open_for_days() {
    let mut bench = Bench::half_open();
    let began = bench.now;
    for _ in 0..NEITHER_MAX {
        assert_eq!(bench.breaker.standing(), Standing::HalfOpen);
        let next = bench.breaker.poll_timeout().expect("the next probe");
        bench.after(next.saturating_duration_since(bench.now));
        bench.probe(Verdict::Neither);
    }
    assert!(bench.now - began < MINUTE, "{:?}", bench.now - began);
    assert_eq!(bench.open_for(), Some(MINUTE * 2));
}

#[test]
fn a_trial_ends_at_once_where_a_probe_is_told_to_wait_long_or_is_turned_away() {
    for shut in [Failed::Shut(Why::Closed, Until::Reset), Failed::Shut(Why::LongWait, Until::At(Instant::now()))] {
        let mut bench = Bench::half_open();
        bench.probe(Verdict::Failure(shut));
        assert!(matches!(bench.breaker.standing(), Standing::Open { .. }));
    }
    let mut bench = Bench::half_open();
    bench.breaker.named(Until::At(bench.now + MINUTE * 9), MINUTE, bench.now);
    assert_eq!(bench.open_for(), Some(MINUTE * 9), "a late answer of an old generation binds too");
}

#[test]
fn an_old_generation_changes_nothing() {
    let mut bench = Bench::half_open();
    let old = bench.breaker.generation();
    bench.probe(Verdict::Success);
    bench.probe(Verdict::Success);
    for _ in 0..9 {
        bench.breaker.failed(old, Failed::Unavailable, None, bench.now);
        bench.breaker.succeeded(old, 8);
    }
    assert_eq!((bench.breaker.standing(), bench.breaker.in_flight_max()), (Standing::Closed, Some(1)));
}

#[test]
fn what_it_was_is_known_to_the_next_supervisor_and_a_person_wipes_it() {
    let mut bench = Bench::open();
    let memory = bench.breaker.memory(bench.now).expect("it is open");
    let mut next = Breaker::default();
    next.recall(memory);
    assert_eq!(next.standing(), bench.breaker.standing());
    bench.breaker = next;
    bench.after(MINUTE);
    bench.probe(Verdict::Failure(Failed::Unavailable));
    bench.after(PROBE_PAUSE);
    bench.probe(Verdict::Failure(Failed::Unavailable));
    assert_eq!(bench.open_for(), Some(MINUTE * 2), "the doubling goes on");
    let generation = bench.breaker.generation();
    bench.breaker.reset();
    assert_eq!((bench.breaker.standing(), bench.breaker.memory(bench.now)), (Standing::Closed, None));
    assert!(bench.breaker.generation() > generation, "what is in flight is of another time");
}

#[derive(Clone, Debug)]
enum Act {
    Succeed { old: bool },
    Fail { failed: Failed, old: bool },
    Named { ms: u64 },
    Take,
    Probed { verdict: Verdict, late: bool },
    Pass { ms: u64 },
}

fn any_failed() -> impl Strategy<Value = Failed> {
    prop_oneof![
        3 => Just(Failed::Limited),
        3 => Just(Failed::Unavailable),
        3 => Just(Failed::Timeout),
        // Far in the past: as long as OPEN itself lasts.
        1 => Just(Failed::Shut(Why::LongWait, Until::At(Instant::now()))),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let verdict = prop_oneof![Just(Verdict::Success), any_failed().prop_map(Verdict::Failure), Just(Verdict::Neither)];
    prop_oneof![
        2 => any::<bool>().prop_map(|old| Act::Succeed { old }),
        4 => (any_failed(), any::<bool>()).prop_map(|(failed, old)| Act::Fail { failed, old }),
        1 => (0u64..200_000).prop_map(|ms| Act::Named { ms }),
        3 => Just(Act::Take),
        3 => (verdict, any::<bool>()).prop_map(|(verdict, late)| Act::Probed { verdict, late }),
        3 => (0u64..90_000).prop_map(|ms| Act::Pass { ms }),
    ]
}

proptest! {
    #[test]
    fn one_probe_at_a_time_none_before_a_not_before_and_with_a_healthy_provider_it_closes(
        acts in prop::collection::vec(any_act(), 0..150),
    ) {
        let mut bench = Bench::new();
        let mut probes: Vec<Probe> = Vec::new();
        for act in acts {
            let before = (bench.breaker.standing(), bench.breaker.generation());
            match act {
                Act::Succeed { old } => bench.breaker.succeeded(bench.breaker.generation() - u64::from(old && before.1 > 0), 8),
                Act::Fail { failed, old } => {
                    let generation = before.1.saturating_sub(u64::from(old));
                    bench.breaker.failed(generation, failed, bench.not_before, bench.now);
                    if generation < before.1 {
                        prop_assert_eq!((bench.breaker.standing(), bench.breaker.generation()), before);
                    }
                }
                Act::Named { ms } => {
                    let named = bench.now + Duration::from_millis(ms);
                    bench.not_before = bench.not_before.max(Some(named));
                    bench.breaker.named(Until::At(named), MINUTE, bench.now);
                }
                Act::Take => if let Some(probe) = bench.breaker.take_probe(bench.now) {
                    prop_assert_eq!(before.0, Standing::HalfOpen);
                    prop_assert!(bench.not_before.is_none_or(|at| at <= bench.now), "before its time");
                    let in_flight = |earlier: &Probe| earlier.generation == probe.generation && earlier.until > bench.now;
                    prop_assert!(!probes.iter().any(in_flight), "two in flight");
                    probes.push(probe);
                },
                Act::Probed { verdict, late } => {
                    let place = if late { probes.first().copied() } else { probes.last().copied() };
                    if let Some(probe) = place {
                        probes.retain(|other| other.id != probe.id);
                        bench.breaker.probed(probe.id, verdict, bench.not_before, bench.now);
                    }
                }
                Act::Pass { ms } => bench.after(Duration::from_millis(ms)),
            }
            let (_, generation) = before;
            prop_assert!(bench.breaker.generation() >= generation);
        }
        // The provider is well from now on, and time passes.
        for _ in 0..40 {
            if let Some(probe) = bench.breaker.take_probe(bench.now) {
                bench.breaker.probed(probe.id, Verdict::Success, bench.not_before, bench.now);
            }
            bench.succeed();
            if let Some(at) = bench.breaker.poll_timeout() {
                bench.after(at.saturating_duration_since(bench.now));
            }
        }
        prop_assert_eq!((bench.breaker.standing(), bench.breaker.in_flight_max()), (Standing::Closed, None));
    }
}
