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
use ukai_protocol::lease::AnswerClass;
use ukai_protocol::{checksum, disk};

use super::error::StoreError;
use super::paths::StateDir;
use super::quarantine;
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
    #[serde(default)]
    tally: Option<Counted>,
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
    why: Why,
    /// How often it has opened since it was wholly well.
    times: u32,
}

/// What speaks against an account that is CLOSED.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    /// How long ago each 429 of the last minute came.
    limited_ms: Vec<u64>,
    unavailable: u32,
    timeouts: u32,
    in_flight_max: Option<usize>,
    times: u32,
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
    /// Its supervisor has come to its end, so that what was left in the buckets is known. Of one that was killed it is
    /// not, and they begin empty.
    #[serde(default)]
    ended: bool,
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
    fn empty_buckets(&mut self) {
        for level in [&mut self.requests, &mut self.tokens].into_iter().flatten() {
            *level = level.min(0.0);
        }
    }

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
                Opened { until_ms, left_ms, why, times: opened }
            }),
            tally: memory.tally.as_ref().map(|tally| Counted {
                limited_ms: tally.limited.iter().map(|at| millis(now.saturating_duration_since(*at))).collect(),
                unavailable: tally.unavailable,
                timeouts: tally.timeouts,
                in_flight_max: tally.in_flight_max,
                times: tally.opened,
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
        let age_ms = clock_ms.saturating_sub(self.at_ms);
        // Of a machine that was started since then there is no such instant, and nothing to remember.
        let earlier = |ago_ms: u64| now.checked_sub(Duration::from_millis(ago_ms));
        let instant = |left_ms: u64| now.checked_add(Duration::from_millis(left_ms));
        Memory {
            not_before: self.not_before.and_then(|Named { until_ms, wait_ms }| {
                let at_most = until_ms.saturating_sub(self.at_ms).min(wait_ms);
                let left = Some(left(until_ms, at_most)).filter(|left| *left > 0)?;
                Some(NotBefore { at: instant(left)?, wait: Duration::from_millis(wait_ms) })
            }),
            breaker: self.breaker.map(|Opened { until_ms, left_ms, why, times }| breaker::Memory {
                until: until_ms.and_then(|until| instant(left(until, left_ms))).map_or(Until::Reset, Until::At),
                why,
                opened: times,
            }),
            tally: self.tally.as_ref().map(|counted| breaker::Tally {
                limited: counted
                    .limited_ms
                    .iter()
                    .filter_map(|ago_ms| earlier(ago_ms.saturating_add(age_ms)))
                    .collect(),
                unavailable: counted.unavailable,
                timeouts: counted.timeouts,
                in_flight_max: counted.in_flight_max,
                opened: counted.times,
            }),
            requests: self.requests,
            tokens: self.tokens,
            age: Duration::from_millis(age_ms),
            last_failure: self.last_failure.as_ref().map(|failed| LastFailure {
                provider: failed.provider.clone(),
                class: failed.class,
                signature: failed.signature.clone(),
                at: now.checked_sub(Duration::from_millis(clock_ms.saturating_sub(failed.at_ms))).unwrap_or(now),
            }),
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

/// `ended`: nothing more is asked before the next start.
pub fn save(state: &StateDir, accounts: Vec<Remembered>, ended: bool) -> io::Result<()> {
    let json = serde_json::to_string(&File { schema: SCHEMA, ended, accounts })?;
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
            // A link that leads nowhere is no sign that nothing was known.
            Err(Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_ok() => {
                return Ok(Looked::Damaged(path, "it is a link that leads nowhere".to_owned()));
            }
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
        Ok(File { schema: SCHEMA, ended, mut accounts }) => {
            if !ended {
                accounts.iter_mut().for_each(Remembered::empty_buckets);
            }
            Ok(accounts)
        }
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
            tally: None,
            requests: None,
            tokens: None,
            last_failure: None,
        }
    }
}

#[cfg(test)]
mod tests;
