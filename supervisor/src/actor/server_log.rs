//! What happens to no job in particular is written to `supervisor/events.jsonl`, and told when it is there.

use std::collections::VecDeque;
use std::time::SystemTime;

use ukai_notifier::{Alert, Source};
use ukai_protocol::server_event::{ServerEvent, ServerState};

use super::{Msg, State};
use crate::news;
use crate::store::event_log::Record;
use crate::store::server_log::{self, ServerLog};
use crate::store::{StoreError, loader};

/// Records that wait for the disk: all breakers of a large configuration, moving while it hangs.
const WAITING_MAX: usize = 10_000;

/// One writer at a time, so that records are in the order in which things happened.
pub struct Writing {
    /// Absent while a thread has it, and after one was lost.
    log: Option<Box<ServerLog>>,
    waiting: VecDeque<ServerEvent>,
    /// What its records say, as far as they are written.
    pub state: ServerState,
    noted: u64,
    written: u64,
    under_way: u64,
    /// The last write that failed: up to which record, and why.
    failure: Option<(u64, String)>,
}

/// What came of one write.
pub struct Logged {
    log: Box<ServerLog>,
    events: Vec<ServerEvent>,
    result: Result<Vec<Record<ServerEvent>>, StoreError>,
}

impl Writing {
    #[must_use]
    pub fn new(log: ServerLog) -> Self {
        let state = log.state().clone();
        let log = Some(Box::new(log));
        Writing { log, waiting: VecDeque::new(), state, noted: 0, written: 0, under_way: 0, failure: None }
    }

    /// How many of those that were noted are written, or will never be.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Why a record of this number, as [`State::note`] counts them, may not be there.
    #[must_use]
    pub fn failed(&self, number: u64) -> Option<String> {
        self.failure.as_ref().filter(|(up_to, _)| number > 0 && number <= *up_to).map(|(_, why)| why.clone())
    }

    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.written < self.noted
    }
}

impl State {
    /// Returns how many have been noted with these.
    pub(super) fn note(&mut self, events: Vec<ServerEvent>) -> u64 {
        for event in events {
            self.server_log.noted += 1;
            if self.server_log.waiting.len() == WAITING_MAX {
                tracing::error!(
                    event = event.name(),
                    "too many records wait for the disk: it is told, and not recorded"
                );
                self.tell_unrecorded(&event);
                self.server_log.written += 1;
                continue;
            }
            self.server_log.waiting.push_back(event);
        }
        self.write_noted();
        self.server_log.noted
    }

    fn write_noted(&mut self) {
        if self.server_log.waiting.is_empty() {
            return;
        }
        let Some(mut log) = self.server_log.log.take() else { return };
        let events: Vec<_> = self.server_log.waiting.drain(..).collect();
        self.server_log.under_way = events.len() as u64;
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let written = tokio::task::spawn_blocking(move || {
                let result = log.append(events.clone(), loader::now);
                Logged { log, events, result }
            });
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::ServerLogged(written.await.map_err(|error| error.to_string())));
        });
    }

    pub(super) fn server_logged(&mut self, logged: Result<Logged, String>) {
        self.server_log.written += std::mem::take(&mut self.server_log.under_way);
        match logged {
            Ok(Logged { log, events, result }) => {
                match result {
                    Ok(records) => {
                        self.server_log.state = log.state().clone();
                        records.iter().for_each(|record| self.tell_recorded(record));
                    }
                    Err(error) => self.not_logged(&error.to_string(), &events),
                }
                self.server_log.log = Some(log);
            }
            // Its thread broke: what follows is told, and recorded by the next supervisor.
            Err(why) => {
                let rest: Vec<_> = self.server_log.waiting.drain(..).collect();
                self.server_log.written += rest.len() as u64;
                self.not_logged(&why, &rest);
            }
        }
        self.write_noted();
        self.answer_acks();
    }

    fn not_logged(&mut self, why: &str, events: &[ServerEvent]) {
        tracing::error!(why, "what happened could not be written to supervisor/events.jsonl");
        self.server_log.failure = Some((self.server_log.written, why.to_owned()));
        for event in events {
            self.server_log.state.apply(event);
            self.tell_unrecorded(event);
        }
    }

    fn tell_recorded(&self, record: &Record<ServerEvent>) {
        let Some(what) = news::of_server(&record.event) else { return };
        let source = Some(Source::Server { seq: record.seq });
        let at = server_log::time(&record.at).unwrap_or_else(SystemTime::now);
        self.notifier.alert(Alert { what, source, at, late: false });
    }

    /// It matters all the same.
    fn tell_unrecorded(&self, event: &ServerEvent) {
        if let Some(what) = news::of_server(event) {
            self.alert(what);
        }
    }
}
