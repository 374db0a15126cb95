//! The table of what may be found at a start.

use proptest::prelude::*;
use ukai_protocol::job::JobStatus;

use super::*;
use crate::store::testing::{finished, fold, log_of, replay, run, spec, submitted, tool_started};

#[test]
fn a_replayed_log_is_the_fold_of_its_events() {
    let events = run(3);
    let log = log_of(&events);
    let replay = replay(&log);
    assert_eq!((replay.state, replay.bytes), (fold(&events), log.len() as u64));
}

#[test]
fn an_event_that_the_fold_refuses_is_damage_even_with_a_good_seal() {
    for (quirk, events) in [
        ("a tool that nobody judged", vec![submitted(), tool_started("c")]),
        ("something after the end", vec![submitted(), finished(), finished()]),
        ("a second beginning", vec![submitted(), submitted()]),
    ] {
        let damage = Replay::default().feed(&log_of(&events)).expect_err(quirk);
        assert_eq!(damage.line, events.len() as u64, "{quirk}");
        assert!(matches!(damage.why, Damage::Illegal(_)), "{quirk}: {damage}");
    }
}

#[test]
fn a_snapshot_is_compared_where_the_log_passes_it() {
    let (events, log) = (run(2), log_of(&run(2)));
    let part = |until: usize| (fold(&events[..until]), log_of(&events[..until]).len() as u64);
    let agreement = |(state, bytes): (RunState, u64)| {
        let mut replay = Replay::against(state, bytes);
        replay.feed(&log).expect("a sound log");
        replay.agreement
    };
    assert_eq!(agreement(part(6)), Agreement::Agrees);
    assert_eq!(agreement(part(events.len())), Agreement::Agrees);
    assert_eq!(agreement((part(6).0, part(5).1)), Agreement::Differs);
    let (mut state, bytes) = part(6);
    state.progress.used.cost_usd += 0.001;
    assert_eq!(agreement((state, bytes)), Agreement::Differs);
    assert_eq!(agreement((fold(&run(3)), log_of(&run(3)).len() as u64)), Agreement::NotReached);
}

#[test]
fn the_table() {
    let sound = Found {
        spec: SpecFound::Sound,
        log: LogFound::Sound { torn: 0 },
        snapshot: SnapshotFound::Missing,
        outputs: false,
        had_ended: false,
        refused_before: false,
    };
    let corrupt = LogFound::Corrupt(Corrupt { line: 3, why: Damage::Checksum });
    let keep = |torn, bad_snapshot: Option<&str>| Verdict::Keep { torn, bad_snapshot: bad_snapshot.map(str::to_owned) };
    let check = |quirk: &str, change: &dyn Fn(&mut Found), expected: Result<Verdict, &[Part]>| {
        let mut found = sound.clone();
        change(&mut found);
        match (judge(found), expected) {
            (Verdict::Refuse { aside, .. }, Err(expected)) => assert_eq!(aside, expected, "{quirk}"),
            (verdict, Ok(expected)) => assert_eq!(verdict, expected, "{quirk}"),
            (verdict, Err(_)) => panic!("{quirk}: {verdict:?}"),
        }
    };
    let nothing = |found: &mut Found| found.log = LogFound::Nothing;
    let bad = || SnapshotFound::Bad("x".to_owned());

    check("a sound log without a snapshot", &|_| {}, Ok(keep(0, None)));
    check("a torn tail", &|found| found.log = LogFound::Sound { torn: 7 }, Ok(keep(7, None)));
    check(
        "a snapshot that agrees",
        &|found| found.snapshot = SnapshotFound::Sound(Agreement::Agrees),
        Ok(keep(0, None)),
    );
    check("a snapshot that does not verify", &|found| found.snapshot = bad(), Ok(keep(0, Some("x"))));
    check(
        "a snapshot that tells otherwise",
        &|found| found.snapshot = SnapshotFound::Sound(Agreement::Differs),
        Ok(keep(0, Some("it is not what the event log says"))),
    );
    check(
        "a snapshot ahead of the log",
        &|found| found.snapshot = SnapshotFound::Sound(Agreement::NotReached),
        Err(&[Part::Log, Part::Snapshot]),
    );
    check("a sound log of a run that was cleared", &|found| found.refused_before = true, Ok(keep(0, None)));
    check("a damaged line", &|found| found.log = corrupt.clone(), Err(&[Part::Log]));
    check("never acknowledged", &nothing, Ok(Verdict::Never));
    check("not even a job file yet", &|found| (nothing(found), found.spec = SpecFound::Missing).1, Ok(Verdict::Never));
    check("a lost log", &|found| (nothing(found), found.snapshot = bad()).1, Err(&[Part::Snapshot]));
    check("a lost log, told by outputs", &|found| (nothing(found), found.outputs = true).1, Err(&[]));
    check("ended, and nothing of its log is left", &|found| (nothing(found), found.had_ended = true).1, Err(&[]));
    check("refused before", &|found| (nothing(found), found.refused_before = true).1, Err(&[]));
    check("a lost job file", &|found| found.spec = SpecFound::Missing, Err(&[]));
    check("a damaged job file", &|found| found.spec = SpecFound::Bad("x".to_owned()), Err(&[Part::Spec]));
}

#[test]
fn a_refused_run_is_shown_ended_with_its_name_and_the_mark_of_its_process() {
    let cause = quarantined(&crate::store::testing::id(1), "line 3", "/q");
    let nothing_known = refused(Progress::default(), Some(&spec()), cause.clone());
    assert_eq!((nothing_known.name.as_str(), nothing_known.status), ("fix-a", JobStatus::Aborted));
    let under_way = refused(fold(&run(1)).progress, None, cause.clone());
    assert_eq!(under_way.outcome, Some(Outcome::Ended(cause)));
    assert!(under_way.process.is_some() && under_way.attention.is_some() && under_way.used.steps == 1);
}

proptest! {
    #[test]
    fn one_changed_byte_is_never_read_as_something_else(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let events = run(2);
        let mut log = log_of(&events);
        let at = at.index(log.len());
        prop_assume!(log[at] != to);
        log[at] = to;
        let mut replay = Replay::default();
        let fed = replay.feed(&log);
        // Only the very last newline may go unseen: then its line is torn, and was the last.
        let good = replay.state.progress.seq as usize;
        prop_assert!(fed.is_err() || (at == log.len() - 1 && good == events.len() - 1 && replay.torn() > 0));
        prop_assert_eq!(&replay.state, &fold(&events[..good]));
        prop_assert_eq!(replay.bytes as usize, log_of(&events[..good]).len());
        prop_assert!(replay.bytes as usize <= at);
    }

    #[test]
    fn a_log_cut_anywhere_keeps_every_whole_record(at in any::<prop::sample::Index>()) {
        let events = run(2);
        let log = log_of(&events);
        let at = at.index(log.len() + 1);
        let replay = replay(&log[..at]);
        let whole = log[..at].iter().filter(|byte| **byte == b'\n').count();
        prop_assert_eq!(&replay.state, &fold(&events[..whole]));
        prop_assert_eq!(replay.bytes + replay.torn(), at as u64);
    }

    #[test]
    fn a_line_lost_doubled_or_moved_is_seen(line in 0..12usize, other in 0..12usize, what in 0..3u8) {
        let events = run(2);
        let text = String::from_utf8(log_of(&events)).expect("text");
        let mut lines: Vec<_> = text.split_inclusive('\n').collect();
        prop_assume!(what != 2 || line != other);
        match what {
            0 => drop(lines.remove(line)),
            1 => lines.insert(line, lines[line]),
            _ => lines.swap(line, other),
        }
        prop_assert!(Replay::default().feed(lines.concat().as_bytes()).is_err());
    }
}
