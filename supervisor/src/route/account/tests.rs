//! One account, answer by answer.

use ukai_protocol::lease::LimitsSeen;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn report(class: AnswerClass, wait: Option<Wait>) -> Report {
    Report { class, wait, ..Report::default() }
}

fn told(account: &mut Account, class: AnswerClass, seconds: Option<u64>, now: Instant) {
    let generation = account.take(0.0, now);
    account.settle(0.0, 0.0, now);
    let report = report(class, seconds.map(|seconds| Wait::For(seconds * 1_000)));
    account.reported("a", Admission::Request { generation }, &report, now, 1.0);
}

#[test]
fn a_shorter_wait_does_not_unsay_a_longer_one_and_each_asker_has_its_place_behind_it() {
    let now = Instant::now();
    let mut account = Account::new("a".into(), 4);
    told(&mut account, AnswerClass::RateLimited, Some(30), now);
    told(&mut account, AnswerClass::Unavailable, Some(1), now);
    told(&mut account, AnswerClass::Success, None, now);
    let at = |seconds: u64, roll| account.standing(0.0, now + SECOND * u32::try_from(seconds).expect("small"), roll);
    assert_eq!(at(29, 0.0), Standing::NotBefore(now + SECOND * 30));
    assert_eq!(at(30, 0.0), Standing::Ready);
    assert_eq!(at(32, 1.0), Standing::NotBefore(now + SECOND * 33));
}

#[test]
fn nameless_throttling_waits_longer_each_time_in_a_row() {
    let now = Instant::now();
    let mut account = Account::new("a".into(), 1);
    for expected in [2, 4] {
        told(&mut account, AnswerClass::RateLimited, None, now);
        assert_eq!(account.standing(0.0, now, 0.0), Standing::NotBefore(now + SECOND * expected));
    }
    assert_eq!(account.revision(), 0, "nobody has named it, so nobody has to remember it");
}

#[test]
fn a_reset_opens_again_for_what_was_named_and_not_for_a_backoff() {
    let now = Instant::now();
    for (quirk, seconds, expected) in [
        ("an hour was named", Some(3_600), true),
        ("ten seconds were named", Some(10), false),
        ("backing off for minutes", None, false),
    ] {
        let mut account = Account { nameless: 8, ..Account::new("a".into(), 9) };
        told(&mut account, AnswerClass::RateLimited, seconds, now);
        account.reset(false, now);
        assert_eq!(account.breaker() != breaker::Standing::Closed, expected, "{quirk}");
        assert_ne!(account.standing(0.0, now, 0.0), Standing::Ready, "{quirk}");
    }
}

#[test]
fn what_was_named_is_remembered_whatever_backoff_lies_over_it() {
    let now = Instant::now();
    for words in [[Some(40), None], [None, Some(40)]] {
        let mut account = Account { nameless: 8, ..Account::new("a".into(), 9) };
        for seconds in words {
            told(&mut account, AnswerClass::RateLimited, seconds, now);
            account.nameless = 8;
        }
        assert_eq!(account.standing(0.0, now, 0.0), Standing::NotBefore(now + SECOND * 300), "{words:?}");
        assert_eq!(account.revision(), 1, "it was named: {words:?}");
        let mut next = Account::new("a".into(), 9);
        next.recall(account.memory(now), now);
        assert_eq!(next.standing(0.0, now, 0.0), Standing::NotBefore(now + SECOND * 40), "{words:?}");
    }
}

#[test]
fn what_a_named_wait_does_to_the_breaker() {
    use AnswerClass::{Closed, RateLimited, Success, Unavailable};
    let now = Instant::now();
    let at = |seconds: u32| Until::At(now + SECOND * seconds);
    let open = |until, why| breaker::Standing::Open { until, why };
    for (quirk, class, wait, expected) in [
        ("a minute is sat out", RateLimited, Some(60), breaker::Standing::Closed),
        ("more opens at once", RateLimited, Some(61), open(at(61), Why::LongWait)),
        ("with any status", Unavailable, Some(90), open(at(90), Why::LongWait)),
        ("also beside a reply", Success, Some(3_600), open(at(3_600), Why::LongWait)),
        ("closed until a person comes", Closed, None, open(Until::Reset, Why::Closed)),
        ("closed for a minute at least", Closed, Some(13), open(at(60), Why::Closed)),
        ("closed until it is said to be over", Closed, Some(7_200), open(at(7_200), Why::Closed)),
    ] {
        let mut account = Account::new("a".into(), 1);
        told(&mut account, class, wait, now);
        assert_eq!(account.breaker(), expected, "{quirk}");
    }
}

#[test]
fn an_old_generation_changes_nothing_but_what_it_names_binds() {
    let now = Instant::now();
    let mut account = Account::new("a".into(), 9);
    let old = account.take(0.0, now);
    account.reset(false, now);
    let old = Admission::Request { generation: old };
    for class in [AnswerClass::Closed, AnswerClass::Timeout, AnswerClass::Unavailable] {
        for _ in 0..9 {
            account.reported("a", old, &report(class, None), now, 0.0);
        }
    }
    assert_eq!(account.breaker(), breaker::Standing::Closed);
    account.reported("a", old, &report(AnswerClass::RateLimited, Some(Wait::For(5_000))), now, 0.0);
    assert_eq!(account.standing(0.0, now, 0.0), Standing::NotBefore(now + SECOND * 5));
    account.reported("a", old, &report(AnswerClass::RateLimited, Some(Wait::For(90_000))), now, 0.0);
    assert!(matches!(account.breaker(), breaker::Standing::Open { why: Why::LongWait, .. }));
}

#[test]
fn a_wait_that_a_probe_was_told_binds_the_probes_of_the_next_supervisor() {
    let now = Instant::now();
    let mut account = Account::new("a".into(), 1);
    told(&mut account, AnswerClass::RateLimited, Some(61), now);
    let now = now + SECOND * 61;
    account.handle_timeout(now);
    let Probe { id, generation, .. } = account.take_probe(0.0, now).expect("HALF_OPEN");
    let report = report(AnswerClass::RateLimited, Some(Wait::For(20_000)));
    account.reported("a", Admission::Probe { id, generation }, &report, now, 0.0);
    let mut next = Account::new("a".into(), 1);
    next.recall(account.memory(now), now);
    for (seconds, leaves) in [(0, false), (19, false), (20, true)] {
        let now = now + SECOND * seconds;
        next.handle_timeout(now);
        assert_eq!(next.take_probe(0.0, now).is_some(), leaves, "{seconds} s later");
    }
}

#[test]
fn reservations_are_settled_and_headers_only_lower() {
    let now = Instant::now();
    let mut account = Account::new("a".into(), 9);
    account.narrow(9, Rates { requests_per_minute: 300, burst: 0, tokens_per_minute: 1_000 }, now);
    assert_eq!(account.levels(now), [Some((5.0, 5.0)), Some((1_000.0, 1_000.0))]);
    let generation = account.take(900.0, now);
    assert!(matches!(account.standing(200.0, now, 0.0), Standing::Rate(_)));
    account.settle(900.0, 100.0, now);
    let limits_seen = LimitsSeen { requests_left: Some(2), tokens_left: Some(5_000) };
    let report = Report { limits_seen, ..report(AnswerClass::Success, None) };
    account.reported("a", Admission::Request { generation }, &report, now, 0.0);
    assert_eq!(account.levels(now), [Some((2.0, 5.0)), Some((900.0, 1_000.0))]);
    assert_eq!(account.in_flight(), (0, 9));
    account.narrow(3, Rates { requests_per_minute: 60, ..Rates::default() }, now);
    assert_eq!(account.levels(now)[0], Some((1.0, 1.0)), "the narrowest of those who share it");
}
