//! The bytes that outlive a supervisor, and what becomes of others.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const EPOCH_MS: u64 = 1_700_000_000_000;

fn state() -> (tempfile::TempDir, StateDir) {
    let temp = tempfile::tempdir().expect("temp");
    let state = StateDir::new(temp.path());
    state.create().expect("created");
    (temp, state)
}

fn memory(now: Instant) -> Memory {
    Memory {
        not_before: Some(NotBefore { at: now + SECOND * 6, wait: SECOND * 9 }),
        breaker: Some(breaker::Memory { until: Until::At(now + SECOND * 90), why: Why::Limited, opened: 2 }),
        tally: None,
        requests: Some(2.5),
        tokens: None,
        age: Duration::ZERO,
        last_failure: Some(LastFailure {
            provider: "lab".into(),
            class: AnswerClass::RateLimited,
            signature: "http:429".into(),
            at: now,
        }),
    }
}

#[test]
fn a_wait_is_over_when_it_is_and_a_clock_set_back_does_not_stretch_it() {
    let (now, clock) = (Instant::now(), UNIX_EPOCH + Duration::from_millis(EPOCH_MS));
    let kept = Remembered::new("a", &memory(now), now, clock);
    for (later, not_before, open) in [(0, Some(6), 90), (5, Some(1), 85), (6, None, 84), (900, None, 0)] {
        let seen = kept.memory(now, clock + SECOND * later);
        assert_eq!(seen.not_before.map(|named| named.at), not_before.map(|left| now + SECOND * left), "{later}");
        let until = seen.breaker.expect("it is open").until;
        assert_eq!(until, Until::At(now + SECOND * open), "{later}");
    }
    let set_back = kept.memory(now, UNIX_EPOCH);
    assert_eq!(set_back.not_before.map(|named| named.at), Some(now + SECOND * 6));
    assert_eq!(set_back.breaker.expect("open").until, Until::At(now + SECOND * 90));
    let reset = breaker::Memory { until: Until::Reset, why: Why::Closed, opened: 1 };
    let kept = Remembered::new("a", &Memory { breaker: Some(reset), ..memory(now) }, now, clock);
    assert_eq!(kept.memory(now, clock + SECOND * 1_000_000).breaker, Some(reset));
}

#[test]
fn the_bytes_are_these_for_ever_and_the_first_ones_still_load() {
    let (_temp, state) = state();
    assert_eq!(recover(&state).expect("read"), Found::Known(Vec::new()));
    let (now, clock) = (Instant::now(), UNIX_EPOCH + Duration::from_millis(EPOCH_MS));
    let kept = Remembered::new("lab", &memory(now), now, clock);
    save(&state, vec![kept.clone()], true).expect("saved");
    let golden = concat!(
        r#"{"schema":2,"ended":true,"accounts":[{"account":"lab","at_ms":1700000000000,"#,
        r#""not_before":{"until_ms":1700000006000,"wait_ms":9000},"#,
        r#""breaker":{"until_ms":1700000090000,"left_ms":90000,"why":"limited","times":2},"tally":null,"#,
        r#""requests":2.5,"tokens":null,"last_failure":{"provider":"lab","class":"rate_limited","#,
        r#""signature":"http:429","at_ms":1700000000000}}],"crc":"#
    );
    let text = std::fs::read_to_string(state.routes()).expect("text");
    assert!(text.starts_with(golden), "{text}");
    assert_eq!(recover(&state).expect("read"), Found::Known(vec![kept]));

    std::fs::remove_file(state.routes()).expect("removed");
    let first = r#"{"schema":1,"not_before":[{"account":"lab","until_ms":1700000006000,"wait_ms":6000}]"#;
    std::fs::write(state.first_routes(), checksum::seal(first.to_owned())).expect("written");
    let Found::Known(accounts) = recover(&state).expect("read") else { panic!("not known") };
    let named = accounts[0].memory(now, clock).not_before.expect("named");
    assert_eq!((accounts.len(), named), (1, NotBefore { at: now + SECOND * 6, wait: SECOND * 6 }));
    save(&state, accounts, true).expect("saved");
    assert!(!state.first_routes().exists(), "it has moved to its place");
}

#[test]
fn what_does_not_verify_is_put_aside_and_stays_so_until_a_person_clears_it() {
    let sound = {
        let (_temp, state) = state();
        let now = Instant::now();
        save(&state, vec![Remembered::new("lab", &memory(now), now, UNIX_EPOCH)], true).expect("saved");
        std::fs::read_to_string(state.routes()).expect("text")
    };
    for bad in ["", "{}", &sound.replace("9000", "1000"), &sound[..sound.len() / 2]] {
        let (_temp, state) = state();
        std::fs::write(state.routes(), bad).expect("written");
        assert!(matches!(recover(&state).expect("read"), Found::Quarantined { .. }), "{bad}");
        assert!(!state.routes().exists());
        assert!(matches!(recover(&state).expect("read"), Found::Quarantined { .. }), "again: {bad}");
        let aside = state.quarantine().join(NAME);
        std::fs::rename(&aside, aside.with_extension("json.cleared")).expect("cleared");
        assert_eq!(recover(&state).expect("read"), Found::Known(Vec::new()));
    }
}

#[test]
fn what_a_killed_supervisor_left_in_its_buckets_is_not_known() {
    let (_temp, state) = state();
    let now = Instant::now();
    let tally = breaker::Tally { limited: vec![now], unavailable: 2, timeouts: 1, in_flight_max: Some(4), opened: 3 };
    let memory = Memory { breaker: None, tally: Some(tally.clone()), ..memory(now) };
    for (ended, requests) in [(true, 2.5), (false, 0.0)] {
        save(&state, vec![Remembered::new("lab", &memory, now, UNIX_EPOCH)], ended).expect("saved");
        let Found::Known(accounts) = recover(&state).expect("read") else { panic!("not known") };
        let seen = accounts[0].memory(now, UNIX_EPOCH);
        assert_eq!((seen.requests, seen.tally), (Some(requests), Some(tally.clone())), "{ended}");
    }
}
