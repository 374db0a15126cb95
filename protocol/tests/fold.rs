//! The fold: what may follow what, and how an end answers the calls it leaves open.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

use ukai_protocol::event::{Change, Event, FileChange, ProcessMark, ToolStatus};
use ukai_protocol::job::{Cause, CauseKind, JobStatus, Limit, Outcome};
use ukai_protocol::json::Json;
use ukai_protocol::message::{Args, Call, Message, Stop, Usage};
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::run_state::{FILES_CHANGED_BYTES_MAX, FILES_CHANGED_MAX, RunState};

fn submitted() -> Event {
    Event::Submitted { name: "a".to_owned(), prompt: "do".to_owned(), priority: 5, batch: None }
}

fn started(attempt: u32) -> Event {
    let process = ProcessMark { pid: 1, start_time: 1, boot_id: String::new() };
    Event::Started { attempt, process, token_hash: String::new() }
}

fn replied(calls: &[&str]) -> Event {
    let call = |id: &&str| Call { id: (*id).to_owned(), tool: "T".to_owned(), args: Args::Whole(Json::default()) };
    Event::Replied {
        step: 1,
        text: String::new(),
        calls: calls.iter().map(call).collect(),
        opaque: Vec::new(),
        stop: Stop::Calls,
        usage: Usage { input: 10, cached: 0, output: 5, estimated: false },
        cost_usd: 0.25,
        run_time_ms: 100,
        wall_ms: 200,
    }
}

fn judged(call: &str) -> Event {
    Event::Judged {
        call: call.to_owned(),
        tool: "T".to_owned(),
        input: Json::default(),
        read_only: false,
        judgement: Judgement::allow(Source::Default),
    }
}

fn tool_started(call: &str, read_only: bool) -> Event {
    Event::ToolStarted { call: call.to_owned(), tool: "T".to_owned(), read_only, idempotent: false }
}

fn tool_finished(call: &str) -> Event {
    Event::ToolFinished {
        call: call.to_owned(),
        tool: "T".to_owned(),
        status: ToolStatus::Ok,
        output: format!("of {call}"),
        run_time_ms: 150,
        wall_ms: 250,
        files_changed: Vec::new(),
        seen: Vec::new(),
    }
}

fn finished(kind: CauseKind) -> Event {
    Event::Finished { outcome: Outcome::Ended(Cause::new(kind, "")), text: String::new() }
}

fn fold(events: &[Event]) -> RunState {
    let mut state = RunState::default();
    for event in events {
        state.apply(event).unwrap_or_else(|illegal| panic!("{illegal}"));
    }
    state
}

#[test]
fn what_cannot_follow_is_refused_and_changes_nothing() {
    let run = [submitted(), started(1)];
    for (before, event) in [
        (&[][..], started(1)),
        (&run, submitted()),
        (&run, started(1)),
        (&run, judged("c")),
        (&run, tool_started("c", true)),
        (&run, tool_finished("c")),
        (&[submitted(), started(1), replied(&["c"])], replied(&[])),
        (&[submitted(), started(1), replied(&["c"])], tool_started("c", true)),
        (&[submitted(), started(1), replied(&["c"]), judged("c")], judged("c")),
        (&[submitted(), finished(CauseKind::Cancel)], started(1)),
        (&[submitted(), finished(CauseKind::Cancel)], finished(CauseKind::Cancel)),
    ] {
        let mut state = fold(before);
        let as_it_was = state.clone();
        assert!(state.apply(&event).is_err(), "{} after {} events", event.name(), before.len());
        assert_eq!(state, as_it_was, "{}", event.name());
    }
}

#[test]
fn results_stand_in_the_order_of_their_calls_whatever_came_first() {
    let mut events = vec![submitted(), started(1), replied(&["a", "b"]), judged("a"), judged("b")];
    events.extend([tool_started("a", true), tool_started("b", true), tool_finished("b")]);
    assert!(fold(&events).turn.is_some());
    events.push(tool_finished("a"));
    let state = fold(&events);
    let results = state.messages.iter().filter_map(|message| match &**message {
        Message::Result { call, text, .. } => Some((call.as_str(), text.as_str())),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results, [("a", "of a"), ("b", "of b")]);
    assert!(state.turn.is_none());
    assert_eq!((state.progress.used.tool_calls, state.progress.used.run_time_ms), (2, 150));
}

#[test]
fn the_end_answers_open_calls_with_what_is_known() {
    let turn = [
        submitted(),
        started(1),
        replied(&["asked", "judged", "reads", "acts"]),
        judged("judged"),
        judged("reads"),
        judged("acts"),
        tool_started("reads", true),
        tool_started("acts", false),
    ];
    for (kind, answers) in [
        (
            CauseKind::Limit(Limit::RunTime),
            ["not run: limit", "not run: limit", "not finished: limit", "not finished: limit"],
        ),
        (CauseKind::Cancel, ["cancelled"; 4]),
        (
            CauseKind::CrashLoop,
            ["not run: the job ended", "not run: the job ended", "not finished: the job ended", "outcome unknown"],
        ),
    ] {
        let state = fold(&[&turn[..], &[finished(kind)]].concat());
        let told = state.messages.iter().filter_map(|message| match &**message {
            Message::Result { text, .. } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), answers, "{kind}");
        assert!(state.turn.is_none());
    }
}

#[test]
fn recorded_counts_the_workers_events_of_this_attempt() {
    let run = [submitted(), started(1), replied(&["c"]), judged("c")];
    assert_eq!(fold(&run).progress.recorded, 2);
    let again = [&run[..], &[interrupted(1, false), started(2)]].concat();
    let state = fold(&again);
    assert_eq!((state.progress.recorded, state.progress.restarts()), (0, 1));
    assert_eq!(state.progress.fruitless_starts, 1);
}

fn interrupted(attempt: u32, stopped: bool) -> Event {
    Event::Interrupted { attempt, how: String::new(), stderr_tail: String::new(), stopped }
}

#[test]
fn a_pause_is_no_restart_and_a_crash_beside_it_is_one() {
    let (pause, unpause) = (Event::Paused {}, Event::Unpaused {});
    let stop = |attempt| interrupted(attempt, true);
    let crash = |attempt| interrupted(attempt, false);
    for (why, events, status, restarts, fruitless) in [
        ("queued", vec![pause.clone()], JobStatus::Paused, 0, 0),
        ("queued again", vec![pause.clone(), unpause.clone()], JobStatus::Queued, 0, 0),
        ("pausing", vec![started(1), pause.clone()], JobStatus::Starting, 0, 1),
        ("paused", vec![started(1), pause.clone(), stop(1)], JobStatus::Paused, 0, 0),
        ("on again", vec![started(1), pause.clone(), stop(1), unpause.clone(), started(2)], JobStatus::Starting, 0, 1),
        ("too late", vec![started(1), pause.clone(), unpause.clone(), stop(1)], JobStatus::Queued, 0, 0),
        (
            "too late, on again",
            vec![started(1), pause.clone(), unpause.clone(), stop(1), started(2)],
            JobStatus::Starting,
            0,
            1,
        ),
        ("crashed while pausing", vec![started(1), pause.clone(), crash(1)], JobStatus::Paused, 0, 1),
        (
            "crashed while pausing, queued again",
            vec![started(1), pause.clone(), crash(1), unpause.clone()],
            JobStatus::Interrupted,
            0,
            1,
        ),
        (
            "crashed, paused, on again",
            vec![started(1), crash(1), pause.clone(), unpause.clone(), started(2)],
            JobStatus::Starting,
            1,
            2,
        ),
        ("paused as it starts", vec![pause.clone(), started(1)], JobStatus::Starting, 0, 1),
        (
            "paused as it goes on",
            vec![started(1), pause.clone(), stop(1), unpause.clone(), pause.clone(), started(2), stop(2)],
            JobStatus::Paused,
            0,
            0,
        ),
        (
            "paused as it starts after a crash",
            vec![started(1), crash(1), pause.clone(), started(2), stop(2)],
            JobStatus::Paused,
            1,
            1,
        ),
        (
            "paused, on again, crashed, on again",
            vec![started(1), pause, stop(1), unpause, started(2), crash(2), started(3)],
            JobStatus::Starting,
            1,
            2,
        ),
    ] {
        let progress = fold(&[vec![submitted()], events].concat()).progress;
        assert_eq!(
            (progress.status, progress.restarts(), progress.fruitless_starts),
            (status, restarts, fruitless),
            "{why}"
        );
    }
}

fn wrote(call: &str, path: &str, change: Change) -> Event {
    let mut event = tool_finished(call);
    if let Event::ToolFinished { files_changed, .. } = &mut event {
        files_changed.push(FileChange { path: path.to_owned(), change });
    }
    event
}

#[test]
fn changed_files_are_named_once_by_their_first_change_and_within_bounds() {
    let long = "x".repeat(FILES_CHANGED_BYTES_MAX / 2);
    let many: Vec<String> = (0..FILES_CHANGED_MAX + 5).map(|number| format!("/w/{number}")).collect();
    let check = |quirk: &str, writes: &[(&str, Change)], expected: &[(&str, Change)]| {
        let mut events = vec![submitted(), started(1)];
        for (path, change) in writes {
            events.extend([replied(&["c"]), judged("c"), tool_started("c", false), wrote("c", path, *change)]);
        }
        let files = fold(&events).progress.files_changed;
        let found: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.change)).collect();
        assert_eq!(found, expected, "{quirk}");
    };
    let (created, modified) = (Change::Created, Change::Modified);
    check("none", &[], &[]);
    check("in their order", &[("/b", modified), ("/a", created)], &[("/b", modified), ("/a", created)]);
    check("created stays", &[("/a", created), ("/a", modified)], &[("/a", created)]);
    let all: Vec<_> = many.iter().map(|path| (path.as_str(), created)).collect();
    check("many", &all, &all[..FILES_CHANGED_MAX]);
    let (one, two) = (format!("/1{long}"), format!("/2{long}"));
    check("long ones", &[(&one, created), (&two, created), ("/a", created)], &[(&one, created), ("/a", created)]);
}
