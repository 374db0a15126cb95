//! What the logs of the jobs know of it: which waits a provider named, and from when on each step could be asked for.

use std::collections::HashMap;

use jiff::Timestamp;
use ukai_protocol::control::{Happened, JobRow};
use ukai_protocol::event::Event;

use crate::cli::failure::Failure;
use crate::cli::offline;
use crate::store::StateDir;

#[derive(Debug, Default)]
pub(super) struct Logs {
    /// By provider.
    pub told: HashMap<String, Vec<Told>>,
    /// By the job's name and the step: before this, the step before it was not on disk, and nobody asked for it.
    pub begun: HashMap<(String, u64), Timestamp>,
}

/// A wait that a provider named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// When it was on disk.
    pub at: Timestamp,
    pub wait_ms: u64,
}

impl Logs {
    pub fn read(state: &StateDir, rows: &[JobRow]) -> Result<Self, Failure> {
        let mut logs = Logs::default();
        let mut undated = None;
        for row in rows {
            offline::records(state, &row.id, |happened| match happened.at.parse() {
                Ok(at) => logs.take(&row.name, at, happened),
                Err(error) => undated = Some(format!("record {} of {}: {error}", happened.seq, row.id)),
            })?;
        }
        match undated {
            None => Ok(logs),
            Some(why) => Err(Failure::failed(format!("reading when it happened: {why}"))),
        }
    }

    fn take(&mut self, job: &str, at: Timestamp, happened: Happened) {
        match happened.event {
            Event::Started { attempt: 1, .. } => drop(self.begun.insert((job.to_owned(), 1), at)),
            Event::Replied { step, .. } => drop(self.begun.insert((job.to_owned(), step + 1), at)),
            Event::AttemptFailed { provider, wait_ms: Some(wait_ms), .. } => {
                self.told.entry(provider).or_default().push(Told { at, wait_ms });
            }
            _ => {}
        }
    }
}
