//! Runs whose logs were damaged, cleared: what they go on from, and what is told of the rest.

use ukai_protocol::event::ProcessMark;
use ukai_protocol::message::Args;
use ukai_protocol::policy::{Judgement, Source};

use super::*;
use crate::store::quarantine::kept::{self, Kept};
use crate::store::testing::{
    Temp, attention, finished, fold, id, interrupted, judged, leased, log_of, replied, run, started, submitted,
    tool_finished, tool_started,
};

/// The run as the last supervisor left it, with a changed byte in the record after `sound`.
fn damaged(events: &[Event], sound: usize) -> Temp {
    let temp = Temp::with(events);
    let mut log = temp.log();
    let place = log_of(&events[..sound]).len() + 20;
    log[place] ^= 1;
    std::fs::write(temp.run().log(), log).expect("damaged");
    temp
}

fn clear(temp: &Temp) -> Result<Cleared, ClearError> {
    let lock = Lock::take(&temp.state).expect("free");
    clear_run(&temp.state, &id(1), &lock)
}

fn is_sound(temp: &Temp) -> bool {
    matches!(loader::open(&temp.state, &id(1), Verify::Open).expect("opens"), Opened::Run(_))
}

/// The names of the events behind those that were taken over.
fn check(quirk: &str, events: &[Event], sound: usize, expected: &[&str]) -> Vec<Event> {
    // Whether a start has put the log aside before or not.
    for started_before in [false, true] {
        let temp = damaged(events, sound);
        let bad = temp.log();
        if started_before {
            assert!(!is_sound(&temp), "{quirk}");
        }
        let cleared = clear(&temp).unwrap_or_else(|error| panic!("{quirk}: {error}"));
        assert_eq!(cleared.records, Some(sound as u64), "{quirk}");
        assert_eq!(std::fs::read(&cleared.kept[0]).expect("kept"), bad, "{quirk}");
        assert!(cleared.kept[0].ends_with("events.jsonl.cleared"), "{quirk}: {cleared:?}");
        let after = temp.events();
        assert_eq!(after[..sound], events[..sound], "{quirk}");
        assert!(temp.log().starts_with(&log_of(&events[..sound])), "{quirk}: byte for byte");
        let names: Vec<_> = after[sound..].iter().map(Event::name).collect();
        assert_eq!(names, expected, "{quirk}");
        assert!(fold(&after).progress.attention.is_some(), "{quirk}");
        assert!(is_sound(&temp), "{quirk}");
        assert!(matches!(clear(&temp), Err(ClearError::NotThere { .. })), "{quirk}: there is nothing more to clear");
        if started_before {
            return after;
        }
    }
    Vec::new()
}

#[test]
fn a_run_goes_on_from_the_last_record_that_verifies() {
    // A process that is no more: it must not be looked for among those of today.
    let begun = |more: &[Event]| [&[submitted(), started(1)][..], more].concat();
    let denied = Event::Judged {
        call: "b".to_owned(),
        tool: "Bash".to_owned(),
        input: crate::store::testing::json("{}"),
        read_only: false,
        judgement: Judgement::deny(Source::Default, "no"),
    };
    check("before its first step", &begun(&[leased(1)]), 2, &["Injected", "Interrupted", "Attention"]);
    check("between two steps", &run(3), run(2).len(), &["Injected", "Interrupted", "Attention"]);
    let open = begun(&[leased(1), replied(1, &["a", "b"]), judged("a"), denied, tool_started("a"), attention()]);
    let after = check("in a turn", &open, 7, &["ToolFinished", "ToolFinished", "Injected", "Interrupted", "Attention"]);
    let statuses = after.iter().filter_map(|event| match event {
        Event::ToolFinished { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(statuses.collect::<Vec<_>>(), [ToolStatus::Unknown, ToolStatus::Denied]);
    let asked = begun(&[leased(1), replied(1, &["a"]), judged("a")]);
    check("calls that were not judged", &asked, 4, &["ToolFinished", "Injected", "Interrupted", "Attention"]);
    let said = begun(&[leased(1), replied(1, &[]), finished()]);
    check("after its last word", &said, 4, &["Interrupted", "Attention"]);
    let ended = begun(&[leased(1), replied(1, &[]), finished(), attention()]);
    check("after its end", &ended, 5, &["Attention"]);
    let stopped = begun(&[interrupted(1), started(2)]);
    check("without a process", &stopped, 3, &["Injected", "Attention"]);
    check("its very first record", &run(1), 0, &["Submitted", "Injected", "Attention"]);
}

#[test]
fn the_conversation_is_valid_and_says_that_steps_are_missing() {
    let begun = [submitted(), started(1), leased(1), replied(1, &["a"]), judged("a"), tool_finished("a", "x")];
    let after = check("an answer was lost", &begun, 5, &["ToolFinished", "Injected", "Interrupted", "Attention"]);
    let state = fold(&after);
    assert!(state.turn.is_none());
    let shown = state.messages.iter().map(|message| match &**message {
        Message::User { text } => text.as_str(),
        Message::Assistant { calls, .. } => match &calls[0].args {
            Args::Whole(_) => "a call",
            Args::Broken { .. } => "broken",
        },
        Message::Result { text, .. } => text.as_str(),
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown[1..], ["a call", "outcome unknown", LOST]);
}

#[test]
fn a_snapshot_that_tells_of_more_does_not_refuse_the_run_again() {
    use crate::store::snapshot::{self, Snapshot};
    let temp = damaged(&run(3), run(2).len());
    let snapshot = Snapshot { log_bytes: log_of(&run(3)).len() as u64, state: fold(&run(3)) };
    snapshot::save(&temp.run().snapshot(), &snapshot).expect("saved");
    assert!(!is_sound(&temp));
    let cleared = clear(&temp).expect("cleared");
    assert_eq!(cleared.kept.len(), 2, "{cleared:?}");
    assert!(is_sound(&temp));
}

#[test]
fn records_that_are_missing_at_the_end_are_lost_too() {
    use crate::store::snapshot::{self, Snapshot};
    let temp = Temp::with(&run(2));
    let snapshot = Snapshot { log_bytes: log_of(&run(3)).len() as u64, state: fold(&run(3)) };
    snapshot::save(&temp.run().snapshot(), &snapshot).expect("saved");
    assert!(!is_sound(&temp), "its snapshot tells of later records");
    assert_eq!(clear(&temp).expect("cleared").records, Some(run(2).len() as u64));
    assert!(is_sound(&temp));
}

#[test]
fn a_run_without_its_job_stays_refused_and_says_what_it_needs() {
    let temp = damaged(&run(2), 3);
    let spec = std::fs::read(temp.run().spec()).expect("job.json");
    std::fs::write(temp.run().spec(), "{}").expect("damaged");
    let refused = clear(&temp).expect_err("no job").to_string();
    assert!(refused.contains("job.json does not verify") && refused.contains("put a sound copy in"), "{refused}");
    assert!(!is_sound(&temp));
    std::fs::write(temp.run().spec(), spec).expect("repaired");
    clear(&temp).expect("cleared");
    assert!(is_sound(&temp));
}

#[test]
fn the_process_of_a_run_is_ended_before_its_log_is_changed() {
    let mut child = ukai_protocol::process::start(ukai_protocol::process::Start {
        program: "/bin/sleep".into(),
        args: vec!["300".into()],
        env: ukai_protocol::process::own_environment(),
        workdir: None,
        stdin: ukai_protocol::process::Stdin::Null,
        stdout: std::process::Stdio::null(),
        stderr: std::process::Stdio::null(),
    })
    .expect("it starts");
    let process: ProcessMark = ukai_protocol::process::mark(child.id()).expect("it lives");
    let started = Event::Started { attempt: 1, process: process.clone(), token_hash: String::new() };
    let temp = damaged(&[submitted(), started, leased(1)], 2);
    clear(&temp).expect("cleared");
    assert!(!ukai_protocol::process::is_alive(&process));
    child.wait().expect("reaped");
}

#[test]
fn files_of_no_run_are_renamed_and_nothing_more() {
    let temp = Temp::new();
    let lock = Lock::take(&temp.state).expect("free");
    let aside = temp.state.quarantine();
    assert!(matches!(clear_file(&temp.state, "routes.json", &lock), Err(ClearError::NotThere { .. })));
    for expected in ["routes.json.cleared", "routes.json.cleared.2"] {
        std::fs::write(aside.join("routes.json"), "{").expect("written");
        let cleared = clear_file(&temp.state, "routes.json", &lock).expect("cleared");
        assert_eq!((cleared.records, cleared.kept), (None, vec![aside.join(expected)]));
    }
    // Found damaged by hand, before any start.
    std::fs::write(temp.state.routes(), "{").expect("written");
    let cleared = clear_file(&temp.state, "routes.json", &lock).expect("cleared");
    assert_eq!(cleared.kept, [aside.join("routes.json.cleared.3")]);
    assert!(!temp.state.routes().exists());
}

#[test]
fn what_lies_there_is_listed_with_what_is_wrong_with_it() {
    let temp = damaged(&run(2), 3);
    let list = || kept::list(&temp.state).expect("listed");
    assert_eq!(list(), []);
    assert!(!is_sound(&temp));
    std::fs::write(temp.state.quarantine().join("routes.json"), "{").expect("written");
    std::fs::write(temp.state.quarantine().join("b-abcdefgh.json"), "{").expect("written");
    std::fs::write(temp.state.quarantine().join("note.txt"), "mine").expect("written");
    let shown = |kept: &Kept| format!("{} {} {} {}: {}", kept.name, kept.file, kept.cleared, kept.refused, kept.why);
    let run = id(1);
    let batch = "b-abcdefgh.json b-abcdefgh.json false false: its checksum does not match".to_owned();
    let log = "line 4 does not verify (its checksum does not match); the 3 before it do";
    let routes = "routes.json routes.json false true: its checksum does not match".to_owned();
    let mine = "note.txt note.txt false false: ukai does not know this file".to_owned();
    let before = [batch.clone(), format!("{run} {run}/events.jsonl false true: {log}"), mine.clone(), routes];
    assert_eq!(list().iter().map(shown).collect::<Vec<_>>(), before);
    clear(&temp).expect("cleared");
    clear_file(&temp.state, "routes.json", &Lock::take(&temp.state).expect("free")).expect("cleared");
    let routes = "routes.json routes.json.cleared true false: its checksum does not match".to_owned();
    let after = [batch, format!("{run} {run}/events.jsonl.cleared true false: {log}"), mine, routes];
    assert_eq!(list().iter().map(shown).collect::<Vec<_>>(), after);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn whichever_byte_was_changed_the_run_goes_on_from_records_that_were_written(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        flip in 1u8..,
    ) {
        let events = run(2);
        let temp = Temp::with(&events);
        let mut log = temp.log();
        let at = at.index(log.len());
        log[at] ^= flip;
        std::fs::write(temp.run().log(), log).expect("damaged");
        // A changed last newline is a torn end, and cut at the start: nothing was lost that was acknowledged.
        if !is_sound(&temp) {
            let believed = usize::try_from(clear(&temp).expect("cleared").records.expect("rebuilt")).expect("few");
            let after = temp.events();
            proptest::prop_assert_eq!(&after[..believed], &events[..believed]);
            let state = fold(&after);
            proptest::prop_assert!(state.turn.is_none() && state.progress.process.is_none());
            proptest::prop_assert!(is_sound(&temp));
        }
    }
}
