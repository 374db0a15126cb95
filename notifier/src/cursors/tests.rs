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

#[test]
fn a_sink_waits_for_what_is_left_and_never_for_longer_than_a_day() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("cursors.json");
    std::fs::write(&path, encode(known()).expect("encoded")).expect("written");
    let cursors = Cursors::load(path, clock());
    let day = Duration::from_secs(24 * 60 * 60);
    for (clock, left) in
        [(clock(), Some(Duration::from_millis(3))), (clock() + day, None), (clock() - 300 * day, Some(day))]
    {
        assert_eq!(cursors.left_to_wait("discord", clock), left);
    }
    assert_eq!(cursors.left_to_wait("desktop", clock()), None);
}
