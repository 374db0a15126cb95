//! Logs as crashes, hands and bad disks leave them, and what is made of each.

use nix::libc::{EIO, EMFILE};
use ukai_protocol::disk::fault::{Effect, Operation};
use ukai_protocol::event::Event;
use ukai_protocol::job::{JobStatus, Outcome};

use super::*;
use crate::store::testing::{Temp, attention, finished, fold, id, log_of, run, started, submitted};

fn ended_run() -> Vec<Event> {
    run(2).into_iter().chain([finished()]).collect()
}

fn save_snapshot(temp: &Temp, events: &[Event]) {
    let snapshot = Snapshot { log_bytes: log_of(events).len() as u64, state: fold(events) };
    snapshot::save(&temp.run().snapshot(), &snapshot).expect("saved");
}

fn opened(temp: &Temp) -> RunFound {
    match open(&temp.state, &id(1), Verify::Open).expect("it opens") {
        Opened::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn only(temp: &Temp) -> Recovered {
    let mut all = recover_all(&temp.state).expect("listed");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn snapshot_on_disk(temp: &Temp) -> RunState {
    match snapshot::load(&temp.run().snapshot()).expect("read") {
        Loaded::Sound(Snapshot { state, .. }) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_comes_back_as_the_fold_of_its_log() {
    let temp = Temp::with(&run(2));
    let found = only(&temp);
    assert_eq!((found.progress, found.problem), (fold(&run(2)).progress, None));
    assert!(found.spec.is_some_and(|spec| spec.name == "fix-a"));
}

#[test]
fn a_torn_tail_is_cut_and_said_once() {
    for torn in [&b"{"[..], &log_of(&run(2))[..100], &[0; 4096]] {
        let temp = Temp::with(&run(2));
        std::fs::write(temp.run().log(), [log_of(&run(2)), torn.to_vec()].concat()).expect("torn");
        let torn_bytes = torn.len() as u64;
        let expected: Vec<_> = run(2).into_iter().chain([Event::Recovered { torn_bytes }]).collect();
        for _ in 0..2 {
            assert_eq!(only(&temp).progress, fold(&expected).progress);
            assert_eq!(temp.events(), expected);
        }
    }
}

#[test]
fn a_changed_byte_refuses_the_run_at_every_start_and_keeps_the_file() {
    let temp = Temp::with(&run(2));
    let mut log = temp.log();
    let middle = log_of(&run(1)).len() + 60;
    log[middle] ^= 1;
    std::fs::write(temp.run().log(), &log).expect("changed");
    for _ in 0..2 {
        let found = only(&temp);
        assert!(matches!(found.problem, Some(Problem::Quarantined { .. })), "{:?}", found.problem);
        assert_eq!((found.progress.status, found.progress.used.steps), (JobStatus::Aborted, 1));
        let Some(Outcome::Ended(cause)) = found.progress.outcome else { panic!("no cause") };
        assert_eq!(cause.kind, CauseKind::Quarantined);
        assert!(!temp.run().log().exists());
    }
    let kept = temp.state.quarantine_of(&id(1)).join("events.jsonl");
    assert_eq!(std::fs::read(kept).expect("kept"), log);
}

#[test]
fn damage_before_the_snapshot_is_seen_too() {
    let temp = Temp::with(&run(3));
    save_snapshot(&temp, &run(2));
    let mut log = temp.log();
    log[60] ^= 1;
    std::fs::write(temp.run().log(), &log).expect("changed");
    assert!(matches!(only(&temp).problem, Some(Problem::Quarantined { .. })));
}

#[test]
fn a_log_that_lost_whole_records_is_given_away_by_its_snapshot() {
    let temp = Temp::with(&run(1));
    save_snapshot(&temp, &run(2));
    assert!(matches!(only(&temp).problem, Some(Problem::Quarantined { why }) if why.contains("lost")));
}

#[test]
fn a_snapshot_that_does_not_verify_is_put_aside_and_made_again() {
    let other = {
        let mut events = ended_run();
        events.truncate(4);
        events.push(attention());
        events
    };
    let write = |bytes: &'static [u8]| move |temp: &Temp| std::fs::write(temp.run().snapshot(), bytes).expect("bad");
    let lies = |temp: &Temp| save_snapshot(temp, &other);
    let bad: [&dyn Fn(&Temp); 3] = [&write(b""), &write(b"{\"schema\":1}"), &lies];
    for (number, spoil) in bad.into_iter().enumerate() {
        let temp = Temp::with(&ended_run());
        spoil(&temp);
        let found = only(&temp);
        assert_eq!((found.progress, found.problem), (fold(&ended_run()).progress, None), "{number}");
        assert_eq!(snapshot_on_disk(&temp), fold(&ended_run()), "{number}");
        assert!(temp.state.quarantine_of(&id(1)).join("run_state.json").exists(), "{number}");
        assert_eq!(only(&temp).problem, None, "{number}: what was put aside refuses nothing");
    }
}

#[test]
fn a_missing_snapshot_is_made_again_when_it_is_worth_it() {
    let temp = Temp::with(&ended_run());
    only(&temp);
    assert_eq!(snapshot_on_disk(&temp), fold(&ended_run()));
    let long = run(SNAPSHOT_EVERY / 5 + 1);
    let temp = Temp::with(&long);
    only(&temp);
    assert_eq!(snapshot_on_disk(&temp), fold(&long));
    let temp = Temp::with(&run(2));
    only(&temp);
    assert!(!temp.run().snapshot().exists());
}

#[test]
fn a_lost_log_is_not_a_job_that_never_was() {
    let temp = Temp::with(&run(2));
    save_snapshot(&temp, &run(2));
    std::fs::remove_file(temp.run().log()).expect("lost");
    for _ in 0..2 {
        assert!(matches!(only(&temp).problem, Some(Problem::Quarantined { .. })));
    }
    let temp = Temp::with(&run(2));
    std::fs::write(temp.run().outputs().join("o-1"), "spilled").expect("output");
    std::fs::write(temp.run().log(), "").expect("lost");
    for _ in 0..2 {
        assert!(matches!(only(&temp).problem, Some(Problem::Quarantined { .. })));
    }
    assert!(temp.run().outputs().join("o-1").exists());
}

#[test]
fn a_job_that_had_ended_is_never_taken_for_one_that_never_was() {
    let mut events = run(2);
    events.push(finished());
    let temp = Temp::with(&events);
    std::fs::write(temp.run().log(), "").expect("lost");
    for _ in 0..2 {
        assert!(matches!(only(&temp).problem, Some(Problem::Quarantined { .. })));
    }
    assert!(temp.run().spec().exists(), "what it is stays");
}

#[test]
fn a_job_that_was_never_acknowledged_is_no_job() {
    let nothing = |_: &Temp| {};
    let no_log = |temp: &Temp| std::fs::remove_file(temp.run().log()).expect("no log");
    let no_job = |temp: &Temp| std::fs::remove_file(temp.run().spec()).expect("no job");
    let torn = |temp: &Temp| std::fs::write(temp.run().log(), &log_of(&[submitted()])[..50]).expect("torn");
    let half: [&dyn Fn(&Temp); 4] = [&nothing, &no_log, &no_job, &torn];
    for (number, leave) in half.into_iter().enumerate() {
        let temp = Temp::with(&[]);
        // As `Writer::create` leaves it: the reserve is there before the job is.
        std::fs::write(temp.run().reserve(), "").expect("a reserve");
        leave(&temp);
        assert!(recover_all(&temp.state).expect("listed").is_empty(), "{number}");
        assert!(!temp.run().root().exists(), "{number}");
    }
}

#[test]
fn a_disk_that_refuses_is_no_corruption() {
    for errno in [EMFILE, EIO] {
        let temp = Temp::with(&run(2));
        let before = temp.log();
        let fault = temp.fault(Operation::Open, 0, u32::MAX, Effect::Fail(errno));
        let found = only(&temp);
        assert!(matches!(found.problem, Some(Problem::Io { errno: found, .. }) if found == errno));
        assert_eq!((found.progress.status, found.progress.name.as_str()), (JobStatus::Aborted, "fix-a"));
        drop(fault);
        assert_eq!(temp.log(), before);
        assert!(!temp.state.quarantine_of(&id(1)).exists());
        assert_eq!(only(&temp).progress, fold(&run(2)).progress, "the next start finds it as it was");
    }
}

#[test]
fn one_bad_run_hides_no_other() {
    let temp = Temp::with(&run(2));
    for (number, log) in [(2, b"junk\n".to_vec()), (3, log_of(&[submitted()]))] {
        let dir = temp.state.run(&id(number));
        disk::create_dir(dir.root()).expect("folder");
        spec_file::save(&dir.spec(), &crate::store::testing::spec()).expect("job");
        std::fs::write(dir.log(), log).expect("log");
    }
    std::fs::create_dir(temp.state.runs().join("lost+found")).expect("no run");
    let found = recover_all(&temp.state).expect("listed");
    let found: Vec<_> = found.iter().map(|run| (run.id.clone(), run.problem.is_some())).collect();
    assert_eq!(found, [(id(1), false), (id(2), true), (id(3), false)]);
}

#[test]
fn an_ended_run_is_known_without_reading_its_log() {
    let temp = Temp::with(&ended_run());
    save_snapshot(&temp, &ended_run());
    let _fault = temp.fault(Operation::Open, 0, u32::MAX, Effect::Fail(EIO));
    assert_eq!(opened(&temp).state.progress, fold(&ended_run()).progress);
}

#[test]
fn a_state_loads_from_the_snapshot_and_what_follows() {
    let (all, part) = (run(3), run(2));
    let temp = Temp::with(&all);
    for snapshot in [&[][..], &part, &all] {
        if !snapshot.is_empty() {
            save_snapshot(&temp, snapshot);
        }
        assert_eq!(load(&temp.state, &id(1), None).expect("it loads").state, fold(&all));
        let until = log_of(&part).len() as u64;
        assert_eq!(load(&temp.state, &id(1), Some(until)).expect("it loads").state, fold(&part));
    }
    assert_eq!(load(&temp.state, &id(9), None).err(), Some(StoreError::Unknown(id(9))));
}

#[test]
fn a_run_whose_log_was_emptied_is_shown_as_its_snapshot_left_it_or_as_its_job_says() {
    let (steps, named) = (|progress: &Progress| progress.used.steps, |progress: &Progress| progress.name.clone());
    for (quirk, snapshot, removed, expected) in [
        ("emptied", true, false, 2),
        ("removed", true, true, 2),
        ("emptied, and the snapshot does not verify", false, false, 0),
    ] {
        let temp = Temp::with(&run(2));
        save_snapshot(&temp, &run(2));
        if !snapshot {
            std::fs::write(temp.run().snapshot(), "{}").expect("spoiled");
        }
        std::fs::write(temp.run().log(), "").expect("emptied");
        if removed {
            std::fs::remove_file(temp.run().log()).expect("removed");
        }
        assert_eq!(refusal(&temp.state, &id(1)), Ok(Some("it has a snapshot but no event log".to_owned())), "{quirk}");
        for start in 1..=2 {
            let found = only(&temp);
            assert!(matches!(found.problem, Some(Problem::Quarantined { .. })), "{quirk}: {:?}", found.problem);
            assert_eq!(found.progress.status, JobStatus::Aborted, "{quirk}");
            assert_eq!(
                (steps(&found.progress), named(&found.progress)),
                (expected, "fix-a".to_owned()),
                "{quirk} {start}"
            );
            assert!(refusal(&temp.state, &id(1)).is_ok_and(|why| why.is_some()), "{quirk}: and stays so");
        }
    }
}

#[test]
fn a_log_that_ends_before_its_snapshot_is_not_read_as_if_it_were_whole() {
    let temp = Temp::with(&run(1));
    save_snapshot(&temp, &run(2));
    let lost = StoreError::Quarantined { job: id(1), why: recovery::LOST.to_owned() };
    assert_eq!(load(&temp.state, &id(1), None).err(), Some(lost));
}

#[test]
fn left_over_temporaries_go() {
    let temp = Temp::with(&[submitted(), started(1)]);
    let left_over = temp.run().root().join("run_state.json.4711.tmp");
    std::fs::write(&left_over, "half").expect("left over");
    opened(&temp);
    assert!(!left_over.exists());
}

#[test]
fn a_record_is_stamped_in_utc_with_milliseconds() {
    let now = now();
    assert!(now.len() == "2026-11-29T12:00:00.000Z".len() && now.ends_with('Z'), "{now}");
    assert!(now.parse::<Timestamp>().is_ok(), "{now}");
}
