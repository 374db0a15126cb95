//! Lines as they are for ever, and lines that are not ours.

use proptest::prelude::*;
use ukai_protocol::event::{Change, FileChange};
use ukai_protocol::job::Limit;

use super::*;
use crate::store::testing::{AT, at, every_event, log_of, tool_finished};

const GOLDEN: &str = include_str!("../../../testdata/events.golden.jsonl");

#[test]
fn every_event_is_these_bytes_for_ever() {
    assert_eq!(String::from_utf8(log_of(&every_event())).expect("text"), GOLDEN);
}

#[test]
fn the_golden_lines_decode_for_ever() {
    assert!(GOLDEN.lines().count() >= every_event().len());
    for (line, (seq, event)) in GOLDEN.lines().zip((1..).zip(every_event())) {
        assert_eq!(decode(line.as_bytes(), seq), Ok(Record { seq, at: at(), event }), "{line}");
    }
}

#[test]
fn a_log_of_the_first_build_loads_for_ever() {
    let first = include_str!("../../../testdata/events.first.jsonl");
    let events: Vec<_> = first
        .lines()
        .zip(1..)
        .map(|(line, seq)| decode::<Event>(line.as_bytes(), seq).expect("it decodes").event)
        .collect();
    let since = |event: &Event| {
        let people = matches!(event, Event::Paused {} | Event::Unpaused {} | Event::Acked {} | Event::Resumed { .. });
        people || is_of_asks_or_hooks(event)
    };
    let known: Vec<_> = every_event().into_iter().filter(|event| !since(event)).collect();
    assert_eq!(events, known);
}

fn is_of_asks_or_hooks(event: &Event) -> bool {
    matches!(event, Event::AskOpened { .. } | Event::AskAnswered { .. } | Event::HookRan { .. })
}

#[test]
fn a_log_of_before_anybody_was_asked_loads_for_ever() {
    let second = include_str!("../../../testdata/events.second.jsonl");
    let known = every_event().into_iter().filter(|event| !is_of_asks_or_hooks(event));
    for ((line, seq), event) in second.lines().zip(1..).zip(known) {
        assert_eq!(decode::<Event>(line.as_bytes(), seq).expect("it decodes").event, event);
    }
}

#[test]
fn a_line_that_is_not_ours_is_told_apart_by_why() {
    let sealed = |head: &str| checksum::seal(head.to_owned()).into_bytes();
    let good = r#"{"v":1,"seq":1,"at":"T","event":"Recovered","data":{"torn_bytes":1}"#;
    let check = |quirk: &str, line: &[u8], expected: fn(&Damage) -> bool| {
        let damage = decode::<Event>(line, 1).expect_err(quirk);
        assert!(expected(&damage), "{quirk}: {damage}");
    };
    assert!(decode::<Event>(&sealed(good), 1).is_ok());
    check("empty", b"", |damage| *damage == Damage::Checksum);
    check("NULs", &[0; 100], |damage| *damage == Damage::Checksum);
    check("no seal", format!("{good}}}").as_bytes(), |damage| *damage == Damage::Checksum);
    check("a later version", &sealed(&good.replace("\"v\":1", "\"v\":2")), |damage| *damage == Damage::Version(2));
    check("a later version of another shape", &sealed(r#"{"v":3,"body":[]"#), |damage| *damage == Damage::Version(3));
    check("a gap", &sealed(&good.replace("\"seq\":1", "\"seq\":2")), |damage| {
        *damage == Damage::Number { found: 2, expected: 1 }
    });
    check("sealed, but no JSON", &sealed("{v:1"), |damage| matches!(damage, Damage::Shape(_)));
    check("sealed, but no record", &sealed(r#"{"v":1"#), |damage| matches!(damage, Damage::Shape(_)));
    check("an unknown event", &sealed(&good.replace("Recovered", "Exploded")), |damage| {
        matches!(damage, Damage::Event(_))
    });
    check("data of another event", &sealed(&good.replace("torn_bytes", "why")), |damage| {
        matches!(damage, Damage::Event(_))
    });
}

#[test]
fn what_a_tool_changed_is_these_bytes_and_nothing_in_a_log_from_before() {
    let old = r#"{"v":1,"seq":1,"at":"2026-11-29T12:00:00.000Z","event":"ToolFinished","data":{"call":"c-1","tool":"Read","status":"ok","output":"x","run_time_ms":130,"wall_ms":140}"#;
    let new = old.replace(
        "140}",
        r#"140,"files_changed":[{"path":"/w/a","change":"created"},{"path":"/w/b","change":"modified"}]}"#,
    );
    let change = |path: &str, change| FileChange { path: path.to_owned(), change };
    let both = vec![change("/w/a", Change::Created), change("/w/b", Change::Modified)];
    for (head, files) in [(old.to_owned(), Vec::new()), (new.clone(), both)] {
        let mut event = tool_finished("c-1", "x");
        if let Event::ToolFinished { files_changed, .. } = &mut event {
            *files_changed = files;
        }
        let record = Record { seq: 1, at: at(), event };
        let line = checksum::seal(head.clone());
        assert_eq!(decode(line.as_bytes(), 1), Ok(record.clone()), "{head}");
        if head == new {
            let line = checksum::seal(head.replace("}]}", r#"}],"seen":[]}"#));
            assert_eq!(encode(&record).expect("it can be written"), format!("{line}\n"));
        }
    }
}

#[test]
fn a_field_that_a_later_ukai_adds_is_no_damage() {
    let head = r#"{"v":1,"seq":1,"at":"T","event":"Recovered","data":{"torn_bytes":1,"since":2}"#;
    assert!(decode::<Event>(checksum::seal(head.to_owned()).as_bytes(), 1).is_ok());
}

#[test]
fn what_would_not_read_back_is_not_written() {
    let check = |quirk: &str, event: Event| {
        let refused = encode(&Record { seq: 1, at: at(), event });
        assert!(refused.is_err(), "{quirk}: {refused:?}");
    };
    for used in [f64::NAN, f64::INFINITY] {
        check("a number that JSON has not", Event::LimitWarned { limit: Limit::Cost, used, max: 1.0 });
    }
    let mut deep = serde_json::Value::Null;
    for _ in 0..200 {
        deep = serde_json::json!([deep]);
    }
    let mut event = crate::store::testing::judged("c");
    if let Event::Judged { input, .. } = &mut event {
        input.0.insert("deep".to_owned(), deep);
    }
    check("deeper than the reader goes", event);
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let mut splitter = Splitter::default();
    let piece = vec![b'x'; RECORD_BYTES_MAX / 4 + 1];
    let fed: Vec<_> = (0..4).map(|_| splitter.feed::<TooLong>(&piece, |_| Ok(()))).collect();
    assert_eq!(fed, [Ok(()), Ok(()), Ok(()), Err(TooLong)]);
}

proptest! {
    #[test]
    fn any_text_and_any_number_read_back_as_they_were(
        output in any::<String>(), used in any::<f64>().prop_filter("finite", |number| number.is_finite()), seq in 1..=u64::MAX,
    ) {
        for event in [tool_finished("c", &output), Event::LimitWarned { limit: Limit::Cost, used, max: used }] {
            let record = Record { seq, at: AT.to_owned(), event };
            let line = encode(&record).expect("it can be written");
            prop_assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            prop_assert_eq!(decode(line.trim_end_matches('\n').as_bytes(), seq), Ok(record));
        }
    }

    #[test]
    fn lines_do_not_depend_on_the_pieces_they_arrive_in(text in "[ab\n]{0,40}", cuts in prop::collection::vec(0..40usize, 0..6)) {
        let bytes = text.as_bytes();
        let mut ends: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let (mut splitter, mut lines, mut begin) = (Splitter::default(), Vec::new(), 0);
        for end in ends {
            splitter.feed::<TooLong>(&bytes[begin..end], |line| { lines.push(line.to_vec()); Ok(()) }).expect("short");
            begin = end;
        }
        let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let torn = expected.pop().map_or(0, |torn| torn.len());
        prop_assert_eq!((lines, splitter.torn()), (expected, torn as u64));
    }
}
