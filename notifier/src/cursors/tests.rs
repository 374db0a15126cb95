//! What one process leaves behind, and the next one finds.

use std::time::UNIX_EPOCH;

use ukai_protocol::id::JobId;

use super::ledger::JobCursor;
use super::*;
use crate::alert::{Key, Kind};
use crate::filter::memory::{PaceMemory, StandingAccount, ToldKey};

const NOW: u64 = 1_800_000_000_000;

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(NOW)
}

fn known() -> BTreeMap<String, SinkCursors> {
    let told = ToldKey { key: Key { kind: Kind::Breaker, subject: "lab".to_owned() }, at_ms: vec![NOW - 60_000, NOW] };
    let standing = StandingAccount { account: "lab".to_owned(), since_ms: NOW, open: true, untold: 2 };
    let pace = PaceMemory { messages: 2, last_ms: NOW };
    let discord = SinkCursors {
        born_ms: NOW - 5,
        server: 7,
        beyond: [9, 10].into(),
        jobs: [(JobId::from_random([1; 5]), JobCursor { seq: 12, at_ms: NOW })].into(),
        dead: Some(DeadSink { identity: "0af3".to_owned(), why: "404".to_owned() }),
        wait_until_ms: NOW + 3,
        wait_left_ms: None,
        wait_of: None,
        filter: Memory { told: vec![told], standing: vec![standing], pace },
    };
    [("discord".to_owned(), discord), ("log".to_owned(), SinkCursors { born_ms: NOW, ..SinkCursors::default() })].into()
}

#[test]
fn the_bytes_are_these_for_ever() {
    let bytes = encode(known()).expect("encoded");
    assert_eq!(String::from_utf8(bytes.clone()).expect("text"), include_str!("../../testdata/cursors.golden.json"));
    assert_eq!(decode(&bytes), Ok(known()));
}

#[test]
fn a_file_that_says_less_loads() {
    let open = r#"{"schema":1,"sinks":{"log":{}}"#;
    let sealed = checksum::seal(open.to_owned());
    assert_eq!(decode(sealed.as_bytes()), Ok([("log".to_owned(), SinkCursors::default())].into()));
}

#[tokio::test]
async fn what_is_saved_is_there_again_and_absent_sinks_are_not_forgotten() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("cursors.json");
    std::fs::write(&path, encode(known()).expect("encoded")).expect("written");
    let cursors = Arc::new(Cursors::load(path.clone(), clock()));
    cursors.begin("log", clock());
    cursors.begin("desktop", clock());
    cursors.save().await;
    let sinks = decode(&std::fs::read(&path).expect("read")).expect("sound");
    assert_eq!(sinks["discord"], known()["discord"]);
    assert_eq!(sinks["desktop"].born_ms, NOW);
}

#[test]
fn what_does_not_verify_is_put_aside_and_every_sink_owes_a_day() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("cursors.json");
    let text = String::from_utf8(encode(known()).expect("encoded")).expect("text");
    let open = text[..text.len() - checksum::SEAL_BYTES].replacen("\"schema\":1", "\"schema\":2", 1);
    let other_schema = checksum::seal(open.to_owned());
    for bad in ["", "{}", &text.replace("404", "405"), &text[..text.len() / 2], &other_schema] {
        std::fs::write(&path, bad).expect("written");
        let cursors = Cursors::load(path.clone(), clock());
        assert_eq!(cursors.begin("discord", clock()).born_ms, NOW - OWED_FOR_MS, "{bad}");
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(temp.path().join("cursors.json.damaged")).expect("kept"), bad);
    }
    assert_eq!(Cursors::load(path, clock()).begin("discord", clock()).born_ms, NOW);
}

fn waiting(left: Duration, of: Option<&str>) -> Vec<u8> {
    let left_ms = u64::try_from(left.as_millis()).expect("it fits");
    let discord = SinkCursors {
        born_ms: NOW,
        wait_until_ms: NOW + left_ms,
        wait_left_ms: of.map(|_| left_ms),
        wait_of: of.map(str::to_owned),
        ..SinkCursors::default()
    };
    encode([("discord".to_owned(), discord)].into()).expect("encoded")
}

#[test]
fn the_bytes_of_a_wait_are_these_for_ever() {
    let bytes = String::from_utf8(waiting(Duration::from_millis(3), Some("0af3"))).expect("text");
    assert_eq!(bytes, include_str!("../../testdata/cursors.wait.golden.json"));
}

#[test]
fn a_wait_is_as_long_as_it_was_named_and_of_who_named_it() {
    const MS: Duration = Duration::from_millis(1);
    let day = Duration::from_secs(24 * 60 * 60);
    let (back, at_once, later) = (clock() - 300 * day, clock(), clock() + day);
    for (quirk, named, of, clock, left) in [
        ("the rest of it", 3 * MS, Some("ours"), at_once, Some(3 * MS)),
        ("it is over", 3 * MS, Some("ours"), later, None),
        ("nothing is clipped", 900 * day, Some("ours"), later, Some(899 * day)),
        ("a clock that was set back", 3 * day, Some("ours"), back, Some(3 * day)),
        ("another address", 3 * day, Some("theirs"), at_once, None),
        ("an earlier ukai's", 3 * day, None, at_once, Some(3 * day)),
    ] {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().join("cursors.json");
        std::fs::write(&path, waiting(named, of)).expect("written");
        let cursors = Cursors::load(path, self::clock());
        assert_eq!(cursors.left_to_wait("discord", "ours", clock), left, "{quirk}");
        assert_eq!(cursors.left_to_wait("desktop", "ours", clock), None, "{quirk}");
    }
}

#[tokio::test]
async fn a_wait_is_written_down_with_who_named_it() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("cursors.json");
    let cursors = Arc::new(Cursors::load(path.clone(), clock()));
    cursors.begin("discord", clock());
    for (left, expected) in [(Some(Duration::from_secs(7)), Some("ours")), (None, None)] {
        cursors.wait("discord", left, Some("ours".to_owned()), clock());
        cursors.save().await;
        let kept = decode(&std::fs::read(&path).expect("read")).expect("sound")["discord"].clone();
        assert_eq!((kept.wait_of.as_deref(), kept.wait_left_ms), (expected, left.map(|_| 7_000)));
    }
}

#[tokio::test]
async fn a_full_disk_makes_nobody_forget_what_was_told() {
    use std::os::unix::fs::MetadataExt as _;
    use ukai_protocol::disk::fault::{self, Effect, Fault, Operation};
    let full = |path: &Path, times| {
        let effect = Effect::Fail(28);
        fault::inject(Fault { under: path.to_owned(), operation: Operation::Replace, skip: 0, times, effect })
    };
    let temp = tempfile::tempdir().expect("a folder");
    let (path, kept) = (temp.path().join("cursors.json"), temp.path().join("cursors.json.reserve"));
    let cursors = Arc::new(Cursors::load(path.clone(), clock()));
    cursors.begin("log", clock());
    cursors.save().await;
    let taken = || kept.metadata().map_or(0, |kept| kept.blocks() * 512);
    assert!(taken() >= RESERVE_BYTES_MIN, "its room is really taken");
    let told = |seq| cursors.settle("log", [Source::Server { seq }], clock());
    let known = || decode(&std::fs::read(&path).expect("read")).expect("sound")["log"].server;
    told(1);
    let fault = full(&path, 1);
    cursors.save().await;
    drop(fault);
    assert_eq!(known(), 1, "the reserve has made room for it");
    assert!(taken() >= RESERVE_BYTES_MIN, "and is there for the next one");
    told(2);
    let fault = full(&path, 2);
    cursors.save().await;
    drop(fault);
    assert_eq!((known(), taken()), (1, 0), "somebody else was quicker");
    cursors.save().await;
    assert_eq!(known(), 2);
    assert!(taken() >= RESERVE_BYTES_MIN);
}
