//! `supervisor/events.jsonl`: what happened to no job in particular (spec §10), in the format of the runs' logs.
//!
//! No job depends on it, so one that does not verify refuses nothing: it is put aside, what verifies of it is kept, and
//! the next record says so, which needs a person.

use std::io;
use std::time::SystemTime;

use jiff::Timestamp;
use ukai_protocol::disk;
use ukai_protocol::server_event::{ServerEvent, ServerState};

use super::error::StoreError;
use super::event_log::{self, Damage, Record, Splitter, TooLong};
use super::log_file::{self, LogFile, ReadError};
use super::paths::StateDir;
use super::quarantine;
use super::writer::Clock;

/// In quarantine, and for `ukai ack`, by this name.
pub const NAME: &str = "events.jsonl";
/// Records of the last hours that a start looks at: breakers that flap all night.
const RECENT_MAX: usize = 10_000;

/// The one that writes it. It may block.
pub struct ServerLog {
    log: LogFile,
    state: ServerState,
}

/// What a supervisor begins with.
pub struct Found {
    pub log: ServerLog,
    pub state: ServerState,
    /// The records since an instant, in order.
    pub recent: Vec<Record<ServerEvent>>,
}

/// Call it under the [`super::Lock`]. Afterwards the log is sound. `since`: from when on records are wanted.
pub fn open(state_dir: &StateDir, since: SystemTime, clock: Clock) -> Result<Found, StoreError> {
    let path = state_dir.supervisor_events();
    let mut folded = Folded::new(since);
    let damage = match log_file::read(&path, 0, None, |bytes| folded.feed(bytes, |_| {})) {
        Ok(()) => None,
        Err(ReadError::Refused(Bad(why))) => Some(why),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            drop(LogFile::create(path.clone())?);
            None
        }
        Err(ReadError::Io(error)) => return Err(StoreError::io("reading", &path, &error)),
    };
    let torn = folded.splitter.torn();
    let Folded { state, bytes, recent, .. } = folded;
    let mut log = ServerLog { log: LogFile::at(path.clone(), bytes), state };
    let mut news = Vec::new();
    if let Some(why) = damage {
        let believed = believable(state_dir, bytes)?;
        // Never without its place: a crash in between finds the bad one again.
        let kept = quarantine::copy_aside_file(state_dir, &path)?;
        disk::write_atomic(&path, &believed).map_err(|error| StoreError::io("writing", &path, &error))?;
        let why = format!("{why}; kept as {}, and what stands before it goes on", kept.display());
        news.push(ServerEvent::Quarantined { subject: NAME.to_owned(), why });
    } else if torn > 0 {
        news.push(ServerEvent::Recovered { torn_bytes: torn });
    }
    let mut recent: Vec<_> = recent.into();
    if !news.is_empty() {
        recent.extend(log.append(news, clock)?);
    }
    let state = log.state.clone();
    Ok(Found { log, state, recent })
}

fn believable(state_dir: &StateDir, bytes: u64) -> Result<Vec<u8>, StoreError> {
    let path = state_dir.supervisor_events();
    let mut believed = Vec::new();
    let read = log_file::read(&path, 0, Some(bytes), |piece| {
        believed.extend_from_slice(piece);
        Ok::<_, Bad>(())
    });
    match read {
        Err(ReadError::Io(error)) => Err(StoreError::io("reading", &path, &error)),
        Ok(()) | Err(ReadError::Refused(_)) => Ok(believed),
    }
}

/// Its state as far as it verifies, each record told to `each`. Looks only.
pub fn read(
    state_dir: &StateDir,
    mut each: impl FnMut(&Record<ServerEvent>),
) -> Result<(ServerState, Option<String>), StoreError> {
    let path = state_dir.supervisor_events();
    let mut folded = Folded::new(SystemTime::UNIX_EPOCH);
    folded.keep = 0;
    match log_file::read(&path, 0, None, |bytes| folded.feed(bytes, &mut each)) {
        Ok(()) => Ok((folded.state, None)),
        Err(ReadError::Refused(Bad(why))) => Ok((folded.state, Some(why))),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok((ServerState::default(), None)),
        Err(ReadError::Io(error)) => Err(StoreError::io("reading", &path, &error)),
    }
}

/// Why the log at this place does not verify, if so.
pub fn damage(path: &std::path::Path) -> io::Result<Option<String>> {
    let mut folded = Folded::new(SystemTime::UNIX_EPOCH);
    folded.keep = 0;
    match log_file::read(path, 0, None, |bytes| folded.feed(bytes, |_| {})) {
        Ok(()) => Ok(None),
        Err(ReadError::Refused(Bad(why))) => Ok(Some(why)),
        Err(ReadError::Io(error)) => Err(error),
    }
}

impl ServerLog {
    #[must_use]
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// All of them or none, in one sync.
    pub fn append(&mut self, events: Vec<ServerEvent>, clock: Clock) -> Result<Vec<Record<ServerEvent>>, StoreError> {
        let at = clock();
        let (mut state, mut lines, mut records) = (self.state.clone(), String::new(), Vec::with_capacity(events.len()));
        for event in events {
            state.apply(&event);
            let record = Record { seq: state.seq, at: at.clone(), event };
            let line = event_log::encode(&record).map_err(|unwritable| StoreError::Io {
                what: format!("recording in {NAME}"),
                why: unwritable.to_string(),
                errno: 0,
            })?;
            lines.push_str(&line);
            records.push(record);
        }
        self.log.append(lines.as_bytes())?;
        self.state = state;
        Ok(records)
    }
}

struct Folded {
    splitter: Splitter,
    state: ServerState,
    /// Up to and with the last whole record.
    bytes: u64,
    since: SystemTime,
    keep: usize,
    recent: std::collections::VecDeque<Record<ServerEvent>>,
}

struct Bad(String);

impl From<TooLong> for Bad {
    fn from(TooLong: TooLong) -> Self {
        Bad(Damage::TooLong.to_string())
    }
}

impl Folded {
    fn new(since: SystemTime) -> Self {
        let (splitter, state) = (Splitter::default(), ServerState::default());
        Folded { splitter, state, bytes: 0, since, keep: RECENT_MAX, recent: std::collections::VecDeque::new() }
    }

    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&Record<ServerEvent>)) -> Result<(), Bad> {
        let Folded { splitter, state, bytes: good, since, keep, recent } = self;
        splitter.feed(bytes, |line| {
            let number = state.seq + 1;
            let record: Record<ServerEvent> =
                event_log::decode(line, number).map_err(|damage| Bad(format!("record {number}: {damage}")))?;
            state.apply(&record.event);
            *good += line.len() as u64 + 1;
            each(&record);
            if *keep > 0 && time(&record.at).is_some_and(|at| at >= *since) {
                if recent.len() == *keep {
                    recent.pop_front();
                }
                recent.push_back(record);
            }
            Ok(())
        })
    }
}

/// When a record was made, by the clock of people.
#[must_use]
pub fn time(at: &str) -> Option<SystemTime> {
    SystemTime::try_from(at.parse::<Timestamp>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::testing::Temp;

    fn clock() -> String {
        "2026-11-30T02:00:00.000Z".to_owned()
    }

    fn paused(pause_ms: u64) -> ServerEvent {
        ServerEvent::StartsPaused { pause_ms }
    }

    fn opened(temp: &Temp) -> Found {
        open(&temp.state, SystemTime::UNIX_EPOCH, clock).expect("opened")
    }

    #[test]
    fn what_was_appended_is_found_again_and_goes_on_counting() {
        let temp = Temp::new();
        let mut found = opened(&temp);
        assert_eq!((found.state.seq, found.recent.len()), (0, 0));
        let records = found.log.append(vec![paused(1), paused(2)], clock).expect("appended");
        assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2]);
        drop(found);
        let mut found = opened(&temp);
        assert_eq!(found.recent, records);
        assert_eq!(found.log.append(vec![paused(3)], clock).expect("appended")[0].seq, 3);
        let text = fs::read_to_string(temp.state.supervisor_events()).expect("text");
        let golden =
            r#"{"v":1,"seq":1,"at":"2026-11-30T02:00:00.000Z","event":"StartsPaused","data":{"pause_ms":1},"crc":"#;
        assert!(text.starts_with(golden), "{text}");
    }

    #[test]
    fn only_what_is_recent_is_handed_out() {
        let temp = Temp::new();
        opened(&temp).log.append(vec![paused(1)], clock).expect("appended");
        let at = time(&clock()).expect("a time");
        let recent = |since| open(&temp.state, since, clock).expect("opened").recent.len();
        assert_eq!((recent(at), recent(at + std::time::Duration::from_millis(1))), (1, 0));
    }

    #[test]
    fn a_torn_end_is_cut_and_said() {
        let temp = Temp::new();
        opened(&temp).log.append(vec![paused(1)], clock).expect("appended");
        let path = temp.state.supervisor_events();
        let whole = fs::read(&path).expect("bytes");
        fs::write(&path, [&whole[..], b"{\"v\":1,"].concat()).expect("torn");
        assert_eq!(read(&temp.state, |_| {}).expect("read").0.seq, 1);
        let found = opened(&temp);
        assert_eq!(found.recent.last().expect("said").event, ServerEvent::Recovered { torn_bytes: 7 });
        assert_eq!(opened(&temp).state.seq, 2, "once");
    }

    #[test]
    fn one_that_does_not_verify_is_put_aside_and_what_does_goes_on() {
        let temp = Temp::new();
        opened(&temp).log.append(vec![paused(1), paused(2)], clock).expect("appended");
        let path = temp.state.supervisor_events();
        let bad = fs::read_to_string(&path).expect("text").replace("\"pause_ms\":2", "\"pause_ms\":3");
        fs::write(&path, &bad).expect("spoiled");
        assert!(read(&temp.state, |_| {}).expect("read").1.is_some_and(|why| why.contains("record 2")));
        let found = opened(&temp);
        assert_eq!(found.recent.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(&found.recent[1].event, ServerEvent::Quarantined { subject, .. } if subject == NAME));
        assert_eq!(found.state.attention().len(), 1);
        assert_eq!(fs::read_to_string(temp.state.quarantine().join(NAME)).expect("kept"), bad);
        assert_eq!(opened(&temp).state.seq, 2, "once");
    }
}
