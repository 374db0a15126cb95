//! One run written to: what is refused, what is repeated, and disks and hands that interfere.

use nix::libc::{EIO, EMFILE, ENOSPC};
use ukai_protocol::disk::fault::{self, Effect, Fault, Operation};

use super::*;
use crate::store::testing::{
    Temp, aborted, at, attention, finished, fold, id, interrupted, leased, replied, run, spec, started, step,
    submitted, tool_started,
};

fn writer(temp: &Temp) -> Writer {
    Writer::open(&temp.state, &id(1)).expect("it opens")
}

fn created(temp: &Temp) -> Writer {
    Writer::create(&temp.state, &id(1), &spec(), submitted(), at).expect("created").0
}

fn ours(events: Vec<Event>) -> Append {
    Append { from: None, events }
}

fn workers(attempt: u32, n: u64, events: Vec<Event>) -> Append {
    Append { from: Some(Numbered { attempt, n }), events }
}

fn one(writer: &mut Writer, append: Append) -> Result<u64, StoreError> {
    writer.flush(vec![append], at).remove(0).map(|appended| appended.records.len() as u64)
}

#[test]
fn a_new_run_is_whole_on_disk_and_opens_again() {
    let temp = Temp::new();
    let mut first = created(&temp);
    assert_eq!(one(&mut first, ours(vec![started(1)])), Ok(1));
    assert_eq!(temp.events(), [submitted(), started(1)]);
    assert_eq!(std::fs::metadata(temp.run().reserve()).expect("reserve").len(), RESERVE_BYTES);
    assert_eq!(writer(&temp).progress(), first.progress());
    let again = Writer::create(&temp.state, &id(1), &spec(), submitted(), at);
    assert_eq!(again.err(), Some(StoreError::Exists(id(1))));
    assert_eq!(temp.events(), [submitted(), started(1)]);
}

#[test]
fn a_run_that_cannot_be_created_leaves_nothing() {
    for (operation, file) in [
        (Operation::Open, "reserve"),
        (Operation::Open, "events.jsonl"),
        (Operation::Replace, "job.json"),
        (Operation::Write, "events.jsonl"),
        (Operation::Sync, "events.jsonl"),
    ] {
        let temp = Temp::new();
        let under = temp.run().root().join(file);
        let fault = fault::inject(Fault { under, operation, skip: 0, times: 1, effect: Effect::Fail(ENOSPC) });
        let error = Writer::create(&temp.state, &id(1), &spec(), submitted(), at).err();
        assert!(error.is_some_and(|error| error.is_out_of_space()), "{operation:?} {file}");
        assert!(!temp.run().root().exists(), "{operation:?} {file}");
        drop(fault);
        created(&temp);
    }
}

#[test]
fn what_is_sent_again_is_recorded_once() {
    let temp = Temp::with(&[submitted(), started(1)]);
    let mut writer = writer(&temp);
    let check = |writer: &mut Writer, quirk: &str, n: u64, events: Vec<Event>, expected: Result<u64, StoreError>| {
        assert_eq!(one(writer, workers(1, n, events)), expected, "{quirk}");
    };
    let gap = |expected, found| Err(StoreError::Gap { job: id(1), expected, found });
    check(&mut writer, "one that never arrived", 1, step(1), gap(0, 1));
    check(&mut writer, "the first", 0, step(1), Ok(5));
    check(&mut writer, "all again", 0, step(1), Ok(0));
    check(&mut writer, "some again", 3, step(1).split_off(3), Ok(0));
    check(&mut writer, "some again with new ones", 4, [step(1).split_off(4), step(2)].concat(), Ok(5));
    check(&mut writer, "nothing", 10, Vec::new(), Ok(0));
    check(&mut writer, "a gap", 11, step(3), gap(10, 11));
    let stale = StoreError::StaleAttempt { job: id(1), theirs: 2, ours: 1 };
    assert_eq!(one(&mut writer, workers(2, 0, step(3))), Err(stale));
    assert_eq!(one(&mut writer, ours(vec![interrupted(1), started(2)])), Ok(2));
    let stale = StoreError::StaleAttempt { job: id(1), theirs: 1, ours: 2 };
    assert_eq!(one(&mut writer, workers(1, 10, step(3))), Err(stale));
    assert_eq!(one(&mut writer, workers(2, 0, step(3))), Ok(5));
    let expected = [vec![submitted(), started(1)], step(1), step(2), vec![interrupted(1), started(2)], step(3)];
    assert_eq!(temp.events(), expected.concat());
}

#[test]
fn after_a_crash_the_log_tells_what_came_through() {
    let temp = Temp::with(&[vec![submitted(), started(1)], step(1)].concat());
    let mut writer = writer(&temp);
    assert_eq!(one(&mut writer, workers(1, 3, [step(1).split_off(3), step(2)].concat())), Ok(5));
    assert_eq!(temp.events(), [vec![submitted(), started(1)], step(1), step(2)].concat());
}

#[test]
fn an_end_is_recorded_once_whoever_wrote_it() {
    let end = |by_worker: bool, outcome: Event| {
        let temp = Temp::with(&run(1));
        let mut writer = writer(&temp);
        let recorded = writer.progress().recorded;
        let append = if by_worker { workers(1, recorded, vec![outcome]) } else { ours(vec![outcome]) };
        assert_eq!(one(&mut writer, append), Ok(1));
        (temp, writer, recorded)
    };
    let (_temp, mut writer, n) = end(true, finished());
    assert_eq!(one(&mut writer, workers(1, n, vec![finished()])), Ok(0), "the acknowledgement was lost");
    let finished_before = |found: Result<u64, StoreError>| matches!(found, Err(StoreError::Illegal { .. }));
    assert!(finished_before(one(&mut writer, ours(vec![aborted(1)]))));
    let (_temp, mut writer, n) = end(false, aborted(EIO));
    assert!(finished_before(one(&mut writer, workers(1, n, vec![leased(2)]))), "it is not what the log has there");
    assert!(finished_before(one(&mut writer, workers(1, n, step(2)))));
    assert_eq!(one(&mut writer, workers(1, n - 1, vec![step(1).remove(4)])), Ok(0), "recorded before the end");
    assert_eq!(one(&mut writer, ours(vec![attention()])), Ok(1), "a person may still be called");
}

#[test]
fn each_records_only_what_is_theirs_to_know() {
    let temp = Temp::with(&run(1));
    let mut writer = writer(&temp);
    let n = writer.progress().recorded;
    for event in [submitted(), started(2), interrupted(1), attention(), Event::Recovered { torn_bytes: 1 }] {
        let refused = one(&mut writer, workers(1, n, vec![event]));
        assert!(matches!(refused, Err(StoreError::Illegal { .. })), "{refused:?}");
    }
    let refused = one(&mut writer, ours(vec![leased(2)]));
    assert!(matches!(refused, Err(StoreError::Illegal { .. })), "{refused:?}");
    assert_eq!(temp.events(), run(1));
}

#[test]
fn a_refused_append_leaves_no_trace_and_holds_up_no_other() {
    let temp = Temp::with(&run(1));
    let mut writer = writer(&temp);
    let n = writer.progress().recorded;
    let answers = writer.flush(
        vec![
            workers(1, n, vec![leased(2), replied(2, &["c-2"]), tool_started("c-2")]),
            workers(1, n, step(2)),
            workers(1, n + 9, step(3)),
            workers(1, n + 5, step(3)),
        ],
        at,
    );
    let recorded: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(|done| done.records.len())).collect();
    assert_eq!(recorded, [None, Some(5), None, Some(5)]);
    assert_eq!(temp.events(), run(3));
    let progress = |answer: &Answer| answer.as_ref().expect("recorded").progress.clone();
    assert_eq!(progress(&answers[1]), fold(&run(2)).progress, "as it was after that append");
    assert_eq!(progress(&answers[3]), fold(&run(3)).progress);
    assert_eq!(*writer.progress(), fold(&run(3)).progress);
}

#[test]
fn a_failed_write_or_sync_records_nothing_and_the_next_one_is_clean() {
    for (operation, errno) in [(Operation::Write, ENOSPC), (Operation::Sync, EIO), (Operation::Sync, ENOSPC)] {
        // With the second `Open` failing too, the file cannot even be cut back at once.
        for reopens in [true, false] {
            let temp = Temp::with(&run(1));
            let mut writer = writer(&temp);
            let n = writer.progress().recorded;
            let fault = temp.fault(operation, 0, 1, Effect::Fail(errno));
            let no_open = (!reopens).then(|| temp.fault(Operation::Open, 1, 1, Effect::Fail(EMFILE)));
            let refused = one(&mut writer, workers(1, n, step(2)));
            assert!(matches!(refused, Err(StoreError::Io { errno: found, .. }) if found == errno), "{refused:?}");
            assert_eq!(writer.progress().recorded, n, "the earlier state is intact");
            drop((fault, no_open));
            assert_eq!(one(&mut writer, workers(1, n, step(2))), Ok(5), "{operation:?} {reopens}");
            assert_eq!(temp.events(), run(2), "{operation:?} {reopens}");
        }
    }
}

#[test]
fn on_a_full_disk_the_end_is_written_from_the_reserve() {
    let temp = Temp::new();
    let mut writer = created(&temp);
    assert_eq!(one(&mut writer, ours(vec![started(1)])), Ok(1));
    let _full = temp.fault(Operation::Write, 0, 2, Effect::Fail(ENOSPC));
    let refused = one(&mut writer, workers(1, 0, step(1)));
    assert!(refused.is_err_and(|error| error.is_out_of_space()));
    assert!(temp.run().reserve().exists(), "it is kept for the end");
    assert_eq!(one(&mut writer, ours(vec![aborted(ENOSPC)])), Ok(1));
    assert!(!temp.run().reserve().exists());
    assert_eq!(temp.events(), [submitted(), started(1), aborted(ENOSPC)]);
}

#[test]
fn another_error_or_a_disk_that_stays_full_is_told_and_leaves_the_run_as_it_was() {
    for (errno, times) in [(EIO, 1), (ENOSPC, 2)] {
        let temp = Temp::new();
        let mut writer = created(&temp);
        let _fault = temp.fault(Operation::Write, 0, times, Effect::Fail(errno));
        let refused = one(&mut writer, ours(vec![aborted(errno)]));
        assert!(matches!(refused, Err(StoreError::Io { errno: found, .. }) if found == errno));
        assert_eq!(temp.events(), [submitted()]);
        assert_eq!(temp.run().reserve().exists(), errno == EIO);
    }
}

#[test]
fn a_log_that_shrank_or_vanished_is_not_written_to() {
    let vanish = |temp: &Temp| std::fs::remove_file(temp.run().log()).expect("gone");
    let shrink = |temp: &Temp| std::fs::write(temp.run().log(), "").expect("empty");
    let spoils: [&dyn Fn(&Temp); 2] = [&vanish, &shrink];
    for spoil in spoils {
        let temp = Temp::with(&run(1));
        let mut writer = writer(&temp);
        spoil(&temp);
        let n = writer.progress().recorded;
        assert!(matches!(one(&mut writer, workers(1, n, step(2))), Err(StoreError::Io { .. })));
        assert!(std::fs::metadata(temp.run().log()).map_or(0, |found| found.len()) == 0);
    }
}

#[test]
fn a_log_that_another_hand_touches_while_it_is_open_takes_no_record_that_will_not_be_read() {
    let open = || {
        let temp = Temp::with(&run(1));
        let mut writer = writer(&temp);
        let n = writer.progress().recorded;
        assert_eq!(one(&mut writer, workers(1, n, step(2))), Ok(5));
        (temp, writer, n + 5)
    };
    let (temp, mut writer, n) = open();
    let mut log = std::fs::read_to_string(temp.run().log()).expect("a log");
    log.push_str("{\"v\":1,\"se");
    std::fs::write(temp.run().log(), &log).expect("half a line of somebody's");
    assert_eq!(one(&mut writer, workers(1, n, step(3))), Ok(5));
    assert_eq!(temp.events(), run(3), "what was appended to it is gone");
    let (temp, mut writer, n) = open();
    std::fs::remove_file(temp.run().log()).expect("gone");
    assert!(matches!(one(&mut writer, workers(1, n, step(3))), Err(StoreError::Io { .. })), "it has no name");
    let (temp, mut writer, n) = open();
    std::fs::copy(temp.run().log(), temp.run().root().join("edited")).expect("a copy");
    std::fs::rename(temp.run().root().join("edited"), temp.run().log()).expect("as editors save");
    assert_eq!(one(&mut writer, workers(1, n, step(3))), Ok(5));
    assert_eq!(temp.events(), run(3), "in the file that has the name now");
}

#[test]
fn the_state_held_does_not_grow_with_the_run() {
    let temp = Temp::with(&[submitted(), started(1)]);
    let mut writer = writer(&temp);
    let mut sizes = Vec::new();
    for number in 1..=30 {
        let n = writer.progress().recorded;
        assert_eq!(one(&mut writer, workers(1, n, step(number))), Ok(5));
        sizes.push(serde_json::to_string(&writer.state).expect("text").len());
    }
    // Longer numbers, but not one more message (a step's take some 300 bytes).
    assert!(sizes[29] < sizes[0] + 100, "{sizes:?}");
}
