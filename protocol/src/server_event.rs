//! What happens to no job in particular: the records of `supervisor/events.jsonl` (spec §10), in the same format as those
//! of a run.
//!
//! As with [`Event`](crate::event::Event): named fields only, and a field added later carries a serde default.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::quoted;
use crate::control::BreakerState;
use crate::id::BatchId;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerEvent {
    /// The breaker of a provider account moved.
    BreakerMoved {
        account: String,
        to: BreakerState,
        /// Why it is OPEN; empty otherwise.
        why: String,
        /// For how long it is OPEN; None also where that is until a person resets it.
        open_ms: Option<u64>,
        /// A person reset it.
        by_person: bool,
    },
    /// All jobs of a list have ended.
    BatchDone { batch: BatchId, name: String, completed: u64, other: u64 },
    /// Files do not verify: a job's (by its id), or the supervisor's own (by its name).
    Quarantined { subject: String, why: String },
    /// They do again, or were cleared.
    Verified { subject: String },
    /// Too many jobs crashed at once.
    StartsPaused { pause_ms: u64 },
    /// A sink could not deliver these.
    AlertsLost {
        sink: String,
        count: u64,
        /// Why, where that is known.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// A person has seen it.
    Acked { subject: String },
    /// Bytes after the last whole line were cut off when the log was opened.
    Recovered { torn_bytes: u64 },
}

impl ServerEvent {
    /// The name that stands on disk.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ServerEvent::BreakerMoved { .. } => "BreakerMoved",
            ServerEvent::BatchDone { .. } => "BatchDone",
            ServerEvent::Quarantined { .. } => "Quarantined",
            ServerEvent::Verified { .. } => "Verified",
            ServerEvent::StartsPaused { .. } => "StartsPaused",
            ServerEvent::AlertsLost { .. } => "AlertsLost",
            ServerEvent::Acked { .. } => "Acked",
            ServerEvent::Recovered { .. } => "Recovered",
        }
    }
}

/// What needs a person and is no job's: the fold of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerState {
    /// The number of the last record.
    pub seq: u64,
    /// By what is quarantined: why, and whether a person has seen it.
    pub quarantined: BTreeMap<String, Seen>,
    /// Alerts that never arrived, and that nobody has been told of.
    pub lost: u64,
    /// Of the last of them: by which sink, and why.
    #[serde(default)]
    pub lost_why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub why: String,
    pub acked: bool,
    /// It verifies again. It stays until a person has seen that it did not.
    pub over: bool,
}

/// By this name a person acks alerts that were lost.
pub const ALERTS: &str = "alerts";

impl ServerState {
    pub fn apply(&mut self, event: &ServerEvent) {
        self.seq += 1;
        match event {
            ServerEvent::Quarantined { subject, why } => {
                self.quarantined.insert(subject.clone(), Seen { why: why.clone(), acked: false, over: false });
            }
            ServerEvent::Verified { subject } => {
                if let Some(seen) = self.quarantined.get_mut(subject) {
                    seen.over = true;
                }
                self.forget(subject);
            }
            ServerEvent::AlertsLost { sink, count, why } => {
                self.lost = self.lost.saturating_add(*count);
                self.lost_why = if why.is_empty() { sink.clone() } else { format!("{sink}: {why}") };
            }
            ServerEvent::Acked { subject } if subject == ALERTS => (self.lost, self.lost_why) = (0, String::new()),
            ServerEvent::Acked { subject } => {
                if let Some(seen) = self.quarantined.get_mut(subject) {
                    seen.acked = true;
                }
                self.forget(subject);
            }
            ServerEvent::BreakerMoved { .. }
            | ServerEvent::BatchDone { .. }
            | ServerEvent::StartsPaused { .. }
            | ServerEvent::Recovered { .. } => {}
        }
    }

    fn forget(&mut self, subject: &str) {
        if self.quarantined.get(subject).is_some_and(|seen| seen.acked && seen.over) {
            self.quarantined.remove(subject);
        }
    }

    /// Whether its last record about these files says that they do not verify, and why.
    #[must_use]
    pub fn refuses(&self, subject: &str) -> Option<&Seen> {
        self.quarantined.get(subject).filter(|seen| !seen.over)
    }

    /// What a person has not seen: its name, for `ukai ack`, and why.
    #[must_use]
    pub fn attention(&self) -> Vec<(String, String)> {
        let quarantined = self.quarantined.iter().filter(|(_, seen)| !seen.acked);
        let mut attention: Vec<_> = quarantined.map(|(subject, seen)| (subject.clone(), seen.why.clone())).collect();
        if self.lost > 0 {
            let by = if self.lost_why.is_empty() { String::new() } else { format!(" ({})", self.lost_why) };
            let alerts = if self.lost == 1 { "alert" } else { "alerts" };
            let ls = quoted(&["ls"]);
            let why = format!("{} {alerts} could not be delivered{by}; {ls} shows what was not told", self.lost);
            attention.push((ALERTS.to_owned(), why));
        }
        attention
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_has_not_seen_stays_until_they_say_so() {
        let mut state = ServerState::default();
        let quarantined =
            |subject: &str| ServerEvent::Quarantined { subject: subject.to_owned(), why: "bad".to_owned() };
        let acked = |subject: &str| ServerEvent::Acked { subject: subject.to_owned() };
        let lost = ServerEvent::AlertsLost { sink: "discord".to_owned(), count: 2, why: "it is dead: 404".to_owned() };
        let names = |state: &ServerState| state.attention().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        for (event, expected) in [
            (quarantined("routes.json"), vec!["routes.json"]),
            (lost.clone(), vec!["routes.json", ALERTS]),
            (acked("routes.json"), vec![ALERTS]),
            (acked("nothing"), vec![ALERTS]),
            (acked(ALERTS), vec![]),
            // The same again is news again.
            (quarantined("routes.json"), vec!["routes.json"]),
            (ServerEvent::Verified { subject: "routes.json".to_owned() }, vec!["routes.json"]),
            (acked("routes.json"), vec![]),
            (lost, vec![ALERTS]),
        ] {
            state.apply(&event);
            assert_eq!(names(&state), expected, "{event:?}");
            let why = state.attention().into_iter().find(|(name, _)| name == ALERTS).map(|(_, why)| why);
            assert!(why.is_none_or(|why| why.contains("2 alerts") && why.contains("discord: it is dead: 404")));
        }
        assert_eq!((state.seq, state.quarantined.len()), (9, 0));
    }
}
