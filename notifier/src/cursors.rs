//! `supervisor/cursors.json`: up to where each sink has told what the logs say (spec §10, §12).
//!
//! It is written after each delivered message at once, and a crash in between tells that message twice. A file that does
//! not verify is put aside, and every sink then owes the last day: twice is better than never.
//!
//! On a disk that is full, what was told would be told again with every restart, and restarts are many then: a reserve
//! lies beside the file, and makes room for it.

pub mod ledger;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use ukai_protocol::{checksum, disk};

use crate::alert::{Alert, Source};
use crate::filter::memory::{Memory, ms};
use ledger::{DeadSink, Ledger, OWED_FOR_MS, SinkCursors};

const SCHEMA: u64 = 1;
/// Three sinks, a hundred thousand jobs of the last day each.
const CURSORS_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The least that is kept for a disk that is full; else twice the file.
const RESERVE_BYTES_MIN: u64 = 64 * 1024;
/// A thousand lines of the log are worth one write.
const SAVE_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
struct File {
    schema: u64,
    #[serde(default)]
    sinks: BTreeMap<String, SinkCursors>,
}

/// A sink that stands dead in the file: a hash of what it was configured with, and why. For who only looks. Blocks.
#[must_use]
pub fn dead(path: &Path, sink: &str) -> Option<DeadSink> {
    // A file that does not verify is the next process's to put aside, and no sink is dead by it.
    read(path).ok()??.remove(sink)?.dead
}

/// Shared by all sinks.
#[derive(Debug)]
pub struct Cursors {
    /// Empty: they are in memory only.
    path: PathBuf,
    state: Mutex<State>,
    /// One writer at a time.
    writing: tokio::sync::Mutex<()>,
    changed: Notify,
    urgent: Notify,
}

#[derive(Debug)]
struct State {
    ledgers: BTreeMap<String, Ledger>,
    /// Of sinks that are not there now: they may come back.
    absent: BTreeMap<String, SinkCursors>,
    /// Of sinks that were not there before.
    born_ms: u64,
    /// So that a full disk is said once.
    failing: bool,
}

impl Cursors {
    /// Reads the file. Blocks.
    #[must_use]
    pub fn load(path: PathBuf, clock: SystemTime) -> Self {
        let now_ms = ms(clock);
        let (absent, born_ms) = match read(&path) {
            Ok(Some(sinks)) => (sinks, now_ms),
            Ok(None) => (BTreeMap::new(), now_ms),
            Err(why) => {
                put_aside(&path, &why);
                (BTreeMap::new(), now_ms.saturating_sub(OWED_FOR_MS))
            }
        };
        let state = State { ledgers: BTreeMap::new(), absent, born_ms, failing: false };
        let (writing, changed, urgent) = (tokio::sync::Mutex::new(()), Notify::new(), Notify::new());
        Cursors { path, state: Mutex::new(state), writing, changed, urgent }
    }

    /// What is known of a sink that begins.
    pub fn begin(&self, sink: &str, clock: SystemTime) -> SinkCursors {
        let mut state = self.lock();
        let born = SinkCursors { born_ms: state.born_ms, ..SinkCursors::default() };
        let kept = state.absent.remove(sink).unwrap_or(born);
        let ledger = Ledger::recall(kept, ms(clock));
        let kept = ledger.kept.clone();
        state.ledgers.insert(sink.to_owned(), ledger);
        kept
    }

    /// Before it begins: for how long it must not be asked, if it is configured as it was when it said so.
    #[must_use]
    pub fn left_to_wait(&self, sink: &str, identity: &str, clock: SystemTime) -> Option<Duration> {
        let state = self.lock();
        let kept = Ledger::recall(state.absent.get(sink)?.clone(), ms(clock)).kept;
        if kept.wait_of.is_some_and(|of| of != identity) {
            return None;
        }
        let until_ms = kept.wait_until_ms;
        Some(Duration::from_millis(until_ms.saturating_sub(ms(clock)))).filter(|left| !left.is_zero())
    }

    /// Whether the alert is to be handed to that sink.
    pub fn take_in(&self, sink: &str, alert: &Alert, clock: SystemTime) -> bool {
        self.lock().ledgers.get_mut(sink).is_some_and(|ledger| ledger.take_in(alert, ms(clock)))
    }

    /// No sink is handed it, and each owes it.
    pub fn owe(&self, alert: &Alert, clock: SystemTime) {
        for ledger in self.lock().ledgers.values_mut() {
            ledger.take_in(alert, ms(clock));
        }
    }

    pub fn settle(&self, sink: &str, sources: impl IntoIterator<Item = Source>, clock: SystemTime) {
        let mut state = self.lock();
        let Some(ledger) = state.ledgers.get_mut(sink) else { return };
        let mut settled = false;
        for source in sources {
            ledger.settle(source, ms(clock));
            settled = true;
        }
        drop(state);
        if settled {
            self.changed.notify_one();
        }
    }

    /// What a sink's filter has to know later.
    pub fn remember(&self, sink: &str, filter: Memory) {
        if let Some(ledger) = self.lock().ledgers.get_mut(sink) {
            ledger.kept.filter = filter;
        }
    }

    /// For how long a sink must not be asked. `identity`: of what it is configured with.
    pub fn wait(&self, sink: &str, left: Option<Duration>, identity: Option<String>, clock: SystemTime) {
        let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        if let Some(ledger) = self.lock().ledgers.get_mut(sink) {
            let kept = &mut ledger.kept;
            kept.wait_until_ms = left_ms.map_or(0, |left_ms| ms(clock).saturating_add(left_ms));
            kept.wait_left_ms = left_ms;
            kept.wait_of = identity.filter(|_| left.is_some());
        }
    }

    /// It takes no more; while it is configured as now, if it can say how.
    pub fn stop(&self, sink: &str, dead: Option<DeadSink>) {
        if let Some(ledger) = self.lock().ledgers.get_mut(sink) {
            ledger.kept.dead = dead;
            ledger.stop();
        }
    }

    /// It is configured otherwise than when it died.
    pub fn forgive(&self, sink: &str) {
        if let Some(ledger) = self.lock().ledgers.get_mut(sink) {
            ledger.kept.dead = None;
        }
    }

    /// A message has arrived there although it was dead.
    pub fn revive(&self, sink: &str) {
        if let Some(ledger) = self.lock().ledgers.get_mut(sink) {
            ledger.revive();
        }
    }

    /// A message has arrived: that is worth a write of its own.
    pub fn save_soon(&self) {
        self.changed.notify_one();
        self.urgent.notify_one();
    }

    /// Writes whenever something has changed, for as long as it is polled.
    pub async fn keep_saving(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            tokio::select! {
                () = self.urgent.notified() => {}
                () = tokio::time::sleep(SAVE_DELAY) => {}
            }
            self.save().await;
        }
    }

    /// Everything up to now is on disk, or it is said why not.
    pub async fn save(self: &Arc<Self>) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        let _one = self.writing.lock().await;
        let myself = self.clone();
        let written = tokio::task::spawn_blocking(move || myself.write()).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        let failed_before = std::mem::replace(&mut self.lock().failing, written.is_err());
        match written {
            Err(error) if !failed_before => tracing::error!(
                %error,
                "{} cannot be written: after a restart some alerts are told twice",
                self.path.display()
            ),
            Ok(()) if failed_before => tracing::info!("{} is written again", self.path.display()),
            _ => {}
        }
    }

    fn write(&self) -> io::Result<()> {
        let now_ms = ms(SystemTime::now());
        let mut sinks = {
            let mut state = self.lock();
            let begun = state.ledgers.iter_mut().map(|(sink, ledger)| (sink.clone(), ledger.cursors(now_ms)));
            let mut sinks: BTreeMap<_, _> = begun.collect();
            sinks.extend(state.absent.iter().map(|(sink, cursors)| (sink.clone(), cursors.clone())));
            sinks
        };
        for cursors in sinks.values_mut() {
            cursors.jobs.retain(|_, cursor| cursor.seq > 0);
        }
        let bytes = encode(sinks)?;
        let reserve = reserve(&self.path);
        match disk::write_atomic(&self.path, &bytes) {
            Err(error) if is_out_of_space(&error) => {
                disk::remove_file(&reserve)?;
                disk::write_atomic(&self.path, &bytes)?;
            }
            other => other?,
        }
        // The file that was replaced has left its room. Where somebody else has it already, the next write tries again.
        if let Err(error) = keep_free(&reserve, RESERVE_BYTES_MIN.max(2 * bytes.len() as u64)) {
            tracing::debug!(%error, "no room can be kept free for {}", self.path.display());
        }
        Ok(())
    }

    /// Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beside the file it is kept for.
fn reserve(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".reserve");
    PathBuf::from(name)
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn keep_free(reserve: &Path, bytes: u64) -> io::Result<()> {
    match reserve.metadata() {
        Ok(kept) if kept.len() >= bytes => Ok(()),
        _ => disk::allocate(reserve, bytes),
    }
}

fn encode(sinks: BTreeMap<String, SinkCursors>) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(&File { schema: SCHEMA, sinks })?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("cursors that are no JSON object"))?;
    Ok(checksum::seal(open.to_owned()).into_bytes())
}

fn decode(bytes: &[u8]) -> Result<BTreeMap<String, SinkCursors>, String> {
    if !checksum::is_sealed(bytes) {
        return Err("its checksum does not match".to_owned());
    }
    match serde_json::from_slice(bytes) {
        Ok(File { schema: SCHEMA, sinks }) => Ok(sinks),
        Ok(File { schema, .. }) => Err(format!("it is of schema {schema}, this ukai reads {SCHEMA}")),
        Err(error) => Err(format!("it is no table of cursors: {error}")),
    }
}

fn read(path: &Path) -> Result<Option<BTreeMap<String, SinkCursors>>, String> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    match disk::read_bounded(path, CURSORS_BYTES_MAX) {
        Ok(bytes) => decode(&bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn put_aside(path: &Path, why: &str) {
    let mut kept = path.as_os_str().to_owned();
    kept.push(".damaged");
    let kept = PathBuf::from(kept);
    let aside = match disk::rename(path, &kept) {
        Ok(()) => format!("kept as {}", kept.display()),
        Err(error) => format!("and cannot be put aside ({error})"),
    };
    tracing::error!("{} does not verify ({why}), {aside}: alerts of the last 24 h are told again", path.display());
}

#[cfg(test)]
mod tests;
