//! Worktrees of jobs that have ended: committed in a task each, after the terminal event, which waits for none of it.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Semaphore;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;

use super::{Msg, State};
use crate::job::Life;
use crate::pool::actor::Pool;
use crate::store::{Appended, Reply, StoreError, StoreMessage};
use crate::worktree::record::Stage;

/// Each is a git that reads what a job wrote.
const CLOSING_MAX: usize = 8;
/// A record is on disk within milliseconds, or its disk is in trouble.
const RECORD_MAX: Duration = Duration::from_secs(10);

pub struct Closing {
    /// Their worktrees are looked after now: they do not start.
    jobs: BTreeSet<JobId>,
    /// What an earlier supervisor left is not known yet.
    looking: bool,
    places: Arc<Semaphore>,
}

impl Default for Closing {
    fn default() -> Self {
        Closing { jobs: BTreeSet::new(), looking: false, places: Arc::new(Semaphore::new(CLOSING_MAX)) }
    }
}

impl Closing {
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.looking || !self.jobs.is_empty()
    }

    #[must_use]
    pub fn holds(&self, id: &JobId) -> bool {
        self.jobs.contains(id)
    }
}

impl State {
    /// A supervisor that was killed may have ended jobs and not their worktrees.
    pub(super) fn look_for_worktrees(&mut self) {
        self.closing.looking = true;
        let (worktrees, myself) = (self.pool.worktrees.clone(), self.myself.clone());
        tokio::task::spawn_blocking(move || {
            let left = worktrees.open_ones().unwrap_or_else(|error| {
                tracing::error!(%error, "the worktrees of an earlier supervisor cannot be listed");
                Vec::new()
            });
            // Without its supervisor a report is for nobody, here and below.
            let _ = myself.cast(Msg::WorktreesLeft(left));
        });
    }

    pub(super) fn worktrees_left(&mut self, left: Vec<JobId>) {
        self.closing.looking = false;
        for id in left {
            if self.jobs.get(&id).is_some_and(|job| job.life == Life::Ended && !job.unwritten) {
                self.close_worktree(&id);
            }
        }
    }

    /// Of a job that has ended.
    pub(super) fn close_worktree(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if !self.closing.jobs.insert(id.clone()) {
            return;
        }
        let (pool, id, name, myself) = (self.pool.clone(), id.clone(), job.progress.name.clone(), self.myself.clone());
        let places = self.closing.places.clone();
        tokio::spawn(async move {
            // Never closed: an error only means that there is nobody to count any more.
            let _place = places.acquire_owned().await.ok();
            let of = id.clone();
            if let Err(error) = tokio::task::spawn_blocking(move || close(&pool, &of, &name)).await {
                tracing::error!(job = %id, %error, "the end of a worktree failed");
            }
            let _ = myself.cast(Msg::WorktreeClosed(id));
        });
    }

    pub(super) fn worktree_closed(&mut self, id: &JobId) {
        self.closing.jobs.remove(id);
    }
}

/// What a person should see is in the job's log before the end is noted: a crash in between tells it twice.
fn close(pool: &Pool, id: &JobId, name: &str) {
    let closed = pool.worktrees.close(id, name);
    let trouble = match &closed {
        Ok(None) => return,
        Ok(Some(record)) => match &record.stage {
            Stage::Ended(end) => end.trouble.clone().map(|why| format!("{}: {why}", record.path.display())),
            Stage::Making | Stage::Open => None,
        },
        // It is tried again at the next start.
        Err(why) => Some(why.clone()),
    };
    if let Some(why) = trouble {
        let why = format!("its worktree is kept as it is: {why}");
        tracing::warn!(job = %id, why, "a worktree wants to be looked at");
        if let Err(error) = attention(pool, id, why) {
            tracing::error!(job = %id, error, "that a worktree wants to be looked at could not be recorded");
        }
    }
    if let Ok(Some(record)) = closed
        && let Err(error) = pool.worktrees.ended(&record)
    {
        tracing::error!(job = %id, error, "the end of a worktree could not be noted, and is found out again at the next start");
    }
}

fn attention(pool: &Pool, id: &JobId, why: String) -> Result<(), String> {
    let (send, receive) = mpsc::sync_channel(1);
    let reply = Reply::new(move |result: Result<Arc<Appended>, StoreError>| {
        // Whoever asked may have stopped waiting.
        let _ = send.send(result.map(drop).map_err(|error| error.to_string()));
    });
    let events = vec![Event::Attention { why }];
    pool.store
        .cast(StoreMessage::Append { job: id.clone(), from: None, events, reply })
        .map_err(|error| error.to_string())?;
    receive.recv_timeout(RECORD_MAX).unwrap_or_else(|error| Err(error.to_string()))
}
