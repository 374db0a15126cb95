//! `supervisor/routes.json`: what is known of the provider accounts that must outlive the supervisor (spec §5, §10): until
//! when they asked not to be asked, and which breakers are OPEN. So neither a restart nor the next `ukai run` sends a
//! request that it knows a provider asked it not to send.
//!
//! The wall clock is the only one that two processes share. Each instant stands with the time that was left when it was
//! written: a clock that was set back cannot make a wait longer than that.
//!
//! A file that does not verify is put aside, and whom not to ask is then not known: no lease is given until a person says
//! so (`ukai quarantine clear routes.json`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use ukai_protocol::disk;
use ukai_protocol::lease::AnswerClass;

use super::error::StoreError;
use super::paths::StateDir;
use super::{checksum, quarantine};
use crate::route::account::{LastFailure, Memory, NotBefore};
use crate::route::breaker::{self, Until, Why};

const SCHEMA: u64 = 2;
/// A thousand accounts and more.
const ROUTES_BYTES_MAX: u64 = 1024 * 1024;
/// In quarantine, by this name.
pub const NAME: &str = "routes.json";

/// What is known of one account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    pub account: String,
    /// When this was written, milliseconds since 1970.
    at_ms: u64,
    #[serde(default)]
    not_before: Option<Named>,
    #[serde(default)]
    breaker: Option<Opened>,
    /// What was left in its buckets.
    #[serde(default)]
    requests: Option<f64>,
    #[serde(default)]
    tokens: Option<f64>,
    #[serde(default)]
    last_failure: Option<Failed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Named {
    until_ms: u64,
    /// The wait as it was named.
    wait_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Opened {
    /// None: until a person resets it.
    until_ms: Option<u64>,
    /// Of OPEN, when this was written.
    left_ms: u64,
    why: WhyOpened,
    /// How often it has opened since it was wholly well.
    times: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhyOpened {
    Limited,
    Unavailable,
    Timeouts,
    LongWait,
    Closed,
    UntilReset,
    Probes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    provider: String,
    class: AnswerClass,
    signature: String,
    at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u64,
    accounts: Vec<Remembered>,
}

/// As the first versions wrote it, in the root of the state directory.
#[derive(Deserialize)]
struct FirstFile {
    schema: u64,
    not_before: Vec<FirstNamed>,
}

#[derive(Deserialize)]
struct FirstNamed {
    account: String,
    until_ms: u64,
    wait_ms: u64,
}

/// What a start finds.
#[derive(Debug, PartialEq)]
pub enum Found {
    Known(Vec<Remembered>),
    /// It does not verify, now or at an earlier start, and nobody has cleared it.
    Quarantined {
        why: String,
    },
}

impl Remembered {
    #[must_use]
    pub fn new(account: &str, memory: &Memory, now: Instant, clock: SystemTime) -> Self {
        let at_ms = since_1970(clock);
        let later = |at: Instant| at_ms.saturating_add(millis(at.saturating_duration_since(now)));
        Remembered {
            account: account.to_owned(),
            at_ms,
            not_before: memory
                .not_before
                .map(|NotBefore { at, wait }| Named { until_ms: later(at), wait_ms: millis(wait) }),
            breaker: memory.breaker.map(|breaker::Memory { until, why, opened }| {
                let (until_ms, left_ms) = match until {
                    Until::At(at) => (Some(later(at)), millis(at.saturating_duration_since(now))),
                    Until::Reset => (None, 0),
                };
                Opened { until_ms, left_ms, why: why.into(), times: opened }
            }),
            requests: memory.requests,
            tokens: memory.tokens,
            last_failure: memory.last_failure.as_ref().map(|LastFailure { provider, class, signature, at }| Failed {
                provider: provider.clone(),
                class: *class,
                signature: signature.clone(),
                at_ms: at_ms.saturating_sub(millis(now.saturating_duration_since(*at))),
            }),
        }
    }

    #[must_use]
    pub fn memory(&self, now: Instant, clock: SystemTime) -> Memory {
        let clock_ms = since_1970(clock);
        // Never longer than it was when it was written, whatever was done to the clock.
        let left = |until_ms: u64, at_most_ms: u64| until_ms.saturating_sub(clock_ms).min(at_most_ms);
        let instant = |left_ms: u64| now.checked_add(Duration::from_millis(left_ms));
        Memory {
            not_before: self.not_before.and_then(|Named { until_ms, wait_ms }| {
                let at_most = until_ms.saturating_sub(self.at_ms).min(wait_ms);
                let left = Some(left(until_ms, at_most)).filter(|left| *left > 0)?;
                Some(NotBefore { at: instant(left)?, wait: Duration::from_millis(wait_ms) })
            }),
            breaker: self.breaker.map(|Opened { until_ms, left_ms, why, times }| breaker::Memory {
                until: until_ms.and_then(|until| instant(left(until, left_ms))).map_or(Until::Reset, Until::At),
                why: why.into(),
                opened: times,
            }),
            requests: self.requests,
            tokens: self.tokens,
            age: Duration::from_millis(clock_ms.saturating_sub(self.at_ms)),
            last_failure: self.last_failure.as_ref().map(|failed| LastFailure {
                provider: failed.provider.clone(),
                class: failed.class,
                signature: failed.signature.clone(),
                at: now.checked_sub(Duration::from_millis(clock_ms.saturating_sub(failed.at_ms))).unwrap_or(now),
            }),
        }
    }
}

impl From<Why> for WhyOpened {
    fn from(why: Why) -> Self {
        match why {
            Why::Limited => WhyOpened::Limited,
            Why::Unavailable => WhyOpened::Unavailable,
            Why::Timeouts => WhyOpened::Timeouts,
            Why::LongWait => WhyOpened::LongWait,
            Why::Closed => WhyOpened::Closed,
            Why::UntilReset => WhyOpened::UntilReset,
            Why::Probes => WhyOpened::Probes,
        }
    }
}

impl From<WhyOpened> for Why {
    fn from(why: WhyOpened) -> Self {
        match why {
            WhyOpened::Limited => Why::Limited,
            WhyOpened::Unavailable => Why::Unavailable,
            WhyOpened::Timeouts => Why::Timeouts,
            WhyOpened::LongWait => Why::LongWait,
            WhyOpened::Closed => Why::Closed,
            WhyOpened::UntilReset => Why::UntilReset,
            WhyOpened::Probes => Why::Probes,
        }
    }
}

fn since_1970(clock: SystemTime) -> u64 {
    millis(clock.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Rounded up: nobody is early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub fn save(state: &StateDir, accounts: Vec<Remembered>) -> io::Result<()> {
    let json = serde_json::to_string(&File { schema: SCHEMA, accounts })?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("routes that are no JSON object"))?;
    disk::write_atomic(&state.routes(), checksum::seal(open.to_owned()).as_bytes())?;
    // What the first versions wrote says nothing any more.
    match std::fs::remove_file(state.first_routes()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What an earlier supervisor knew; a file that is not there knows nothing. One that does not verify is put aside: call
/// it under the [`super::Lock`].
pub fn recover(state: &StateDir) -> Result<Found, StoreError> {
    match look(state)? {
        Looked::Known(accounts) => Ok(Found::Known(accounts)),
        Looked::Quarantined(why) => Ok(Found::Quarantined { why }),
        Looked::Damaged(path, why) => {
            let kept = quarantine::put_aside_file(state, &path)?;
            let why = format!("{} does not verify ({why}), and was put aside as {}", path.display(), kept.display());
            Ok(Found::Quarantined { why })
        }
    }
}

/// The same, and nothing is moved.
pub fn peek(state: &StateDir) -> Result<Found, StoreError> {
    Ok(match look(state)? {
        Looked::Known(accounts) => Found::Known(accounts),
        Looked::Quarantined(why) => Found::Quarantined { why },
        Looked::Damaged(path, why) => Found::Quarantined { why: format!("{} does not verify ({why})", path.display()) },
    })
}

enum Looked {
    Known(Vec<Remembered>),
    Quarantined(String),
    Damaged(PathBuf, String),
}

fn look(state: &StateDir) -> Result<Looked, StoreError> {
    let aside = state.quarantine().join(NAME);
    if aside.symlink_metadata().is_ok() {
        return Ok(Looked::Quarantined(format!("{} was put aside earlier and has not been cleared", aside.display())));
    }
    for path in [state.routes(), state.first_routes()] {
        match load(&path) {
            Ok(accounts) => return Ok(Looked::Known(accounts)),
            Err(Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(Unread::Io(error)) => return Err(StoreError::io("reading", &path, &error)),
            Err(Unread::Damaged(why)) => return Ok(Looked::Damaged(path, why)),
        }
    }
    Ok(Looked::Known(Vec::new()))
}

/// Why the file does not verify, if it does not.
pub fn verify(path: &Path) -> io::Result<Result<(), String>> {
    match load(path) {
        Ok(_) => Ok(Ok(())),
        Err(Unread::Damaged(why)) => Ok(Err(why)),
        Err(Unread::Io(error)) => Err(error),
    }
}

enum Unread {
    Io(io::Error),
    Damaged(String),
}

fn load(path: &Path) -> Result<Vec<Remembered>, Unread> {
    let bytes = match disk::read_bounded(path, ROUTES_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(Unread::Damaged(error.to_string())),
        Err(error) => return Err(Unread::Io(error)),
    };
    if !checksum::is_sealed(&bytes) {
        return Err(Unread::Damaged("its checksum does not match".to_owned()));
    }
    if let Ok(FirstFile { schema: 1, not_before }) = serde_json::from_slice(&bytes) {
        return Ok(not_before.into_iter().map(FirstNamed::remembered).collect());
    }
    match serde_json::from_slice(&bytes) {
        Ok(File { schema: SCHEMA, accounts }) => Ok(accounts),
        Ok(File { schema, .. }) => {
            Err(Unread::Damaged(format!("it is of schema {schema}, this ukai reads up to {SCHEMA}")))
        }
        Err(error) => Err(Unread::Damaged(error.to_string())),
    }
}

impl FirstNamed {
    fn remembered(self) -> Remembered {
        let FirstNamed { account, until_ms, wait_ms } = self;
        Remembered {
            account,
            at_ms: until_ms.saturating_sub(wait_ms),
            not_before: Some(Named { until_ms, wait_ms }),
            breaker: None,
            requests: None,
            tokens: None,
            last_failure: None,
        }
    }
}

#[cfg(test)]
mod tests {
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
        save(&state, vec![kept.clone()]).expect("saved");
        let golden = concat!(
            r#"{"schema":2,"accounts":[{"account":"lab","at_ms":1700000000000,"#,
            r#""not_before":{"until_ms":1700000006000,"wait_ms":9000},"#,
            r#""breaker":{"until_ms":1700000090000,"left_ms":90000,"why":"limited","times":2},"#,
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
        save(&state, accounts).expect("saved");
        assert!(!state.first_routes().exists(), "it has moved to its place");
    }

    #[test]
    fn what_does_not_verify_is_put_aside_and_stays_so_until_a_person_clears_it() {
        let sound = {
            let (_temp, state) = state();
            let now = Instant::now();
            save(&state, vec![Remembered::new("lab", &memory(now), now, UNIX_EPOCH)]).expect("saved");
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
}
