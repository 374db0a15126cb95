//! The process side of an attempt: its start, its end, and everything that is done to bring the end about.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ukai_protocol::event::{Event, ProcessMark};
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::process_tree;
use ukai_protocol::session::ToWorker;

use super::{Msg, Over, State, Stop, tell};
use crate::actor::Msg as SupervisorMsg;
use crate::pool::exit;
use crate::pool::spawn::{self, Spawned};
use crate::pool::stderr::Stderr;
use crate::restart::Exit;
use crate::store::{Appended, Reply, StoreMessage};
use crate::worktree::place::{Place, placed};

/// A cancelled worker may take this long to end its tree by itself; with the sweep and a sync a cancel stays in 500 ms.
pub const CANCEL_GRACE: Duration = Duration::from_millis(300);
/// A drained worker's records in flight are waited for this long before it is killed.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// For the end of stderr after the tree is gone: somebody outside of it may hold the pipe.
const STDERR_GRACE: Duration = Duration::from_millis(50);
/// Between two attempts at killing a tree that did not die.
const KILL_AGAIN: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn spawn(&mut self) {
        let token = spawn::new_token();
        self.token_hash = spawn::token_hash(&token);
        let (pool, job, attempt, myself) = (self.pool.clone(), self.job.clone(), self.attempt, self.myself.clone());
        let (spec, unwanted) = (self.spec.clone(), self.unwanted.clone());
        tokio::task::spawn_blocking(move || {
            if spec.worktree {
                let place = pool.worktrees.ready(&job, &spec, &unwanted);
                let has_none = place.is_err();
                tell(&myself, Msg::Placed(place));
                if has_none {
                    return;
                }
            }
            let launcher = !spec.hooks.is_empty();
            let order = spawn::Order { job: &job, attempt, token: &token, launcher };
            let child = pool.family.start(|| (pool.start)(&pool.settings, &order), Child::id);
            let spawned = child.and_then(spawn::identified).map(Box::new);
            let program = pool.settings.worker_program.display();
            tell(&myself, Msg::Spawned(spawned.map_err(|error| format!("starting {program}: {error}"))));
        });
    }

    pub(super) fn placed(&mut self, place: Result<Place, String>) {
        match place {
            Ok(place) => {
                self.spec = Arc::new(placed(&self.spec, &place));
                self.placed = true;
                self.let_in();
            }
            Err(why) if self.adopted => self.stop(Stop::Failed(Cause::new(CauseKind::Internal, why))),
            // Another try would fail the same way: it is the job's end, unless it was only stopped.
            Err(why) => {
                self.stop.get_or_insert(Stop::Failed(Cause::new(CauseKind::Internal, why.clone())));
                self.exit = Some(Exit::NotStarted(why));
                self.swept = Some(String::new());
                self.report_if_over();
            }
        }
    }

    pub(super) fn spawned(&mut self, result: Result<Box<Spawned>, String>) {
        let Spawned { child, stderr, mark } = match result {
            Ok(spawned) => *spawned,
            Err(why) => {
                self.exit = Some(Exit::NotStarted(why));
                self.swept = Some(String::new());
                return self.report_if_over();
            }
        };
        match stderr.map(Stderr::follow).transpose() {
            Ok(stderr) => self.stderr = stderr,
            Err(error) => tracing::error!(job = %self.job, %error, "a worker's stderr cannot be read"),
        }
        self.mark = Some(mark.clone());
        self.silence.heard(Instant::now());
        self.watch_exit(mark.clone(), Some(child));
        if self.stop.is_some() {
            return self.kill(Duration::ZERO);
        }
        let myself = self.myself.clone();
        let started = Event::Started { attempt: self.attempt, process: mark, token_hash: self.token_hash.clone() };
        self.unstored += 1;
        let reply = Reply::new(move |result: Result<Arc<Appended>, _>| tell(&myself, Msg::Admitted(result.map(drop))));
        self.store(StoreMessage::Append { job: self.job.clone(), from: None, events: vec![started], reply });
    }

    pub(super) fn adopt(&mut self, mark: ProcessMark, token_hash: String, recorded: u64) {
        self.token_hash = token_hash;
        self.recorded = recorded;
        self.adopted = true;
        self.admitted = true;
        self.mark = Some(mark.clone());
        self.watch_exit(mark, None);
        if self.spec.worktree {
            let (worktrees, job, myself) = (self.pool.worktrees.clone(), self.job.clone(), self.myself.clone());
            tokio::task::spawn_blocking(move || tell(&myself, Msg::Placed(worktrees.place(&job))));
        }
        self.myself.send_after(self.pool.settings.orphan_grace, || Msg::OrphanGraceOver);
    }

    pub(super) fn watch_exit(&self, mark: ProcessMark, child: Option<Child>) {
        let (myself, family, job) = (self.myself.clone(), self.pool.family, self.job.clone());
        tokio::spawn(async move {
            if let Err(error) = exit::ended(&mark).await {
                // Waiting for the child below still notices its end; an adopted one is noticed by its silence.
                tracing::error!(%job, pid = mark.pid, %error, "a worker cannot be watched");
                if child.is_none() {
                    return;
                }
            }
            let status = tokio::task::spawn_blocking(move || {
                child.map_or(Exit::Unknown, |mut child| {
                    let status = exit::status(&mut child);
                    family.reaped(child.id());
                    status
                })
            });
            tell(&myself, Msg::Exited(status.await.unwrap_or(Exit::Unknown)));
        });
    }

    pub(super) fn exited(&mut self, exit: Exit) {
        if self.exit.is_some() {
            return;
        }
        self.exit = Some(exit);
        // Who knocked and was not let in never will be.
        self.knocking = None;
        let (myself, family) = (self.myself.clone(), self.pool.family);
        let (mark, stderr, job) = (self.mark.clone(), self.stderr.take(), self.job.clone());
        tokio::spawn(async move {
            let swept = tokio::task::spawn_blocking(move || {
                if let Some(mark) = mark {
                    process_tree::end(&mark, Duration::ZERO)?;
                }
                family.sweep();
                Ok::<_, std::io::Error>(())
            });
            match swept.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%job, %error, "a dead worker's tree could not be ended"),
                Err(error) => tracing::error!(%job, %error, "the sweep after a worker's end failed"),
            }
            let stderr_tail = match stderr {
                Some(stderr) => stderr.finish(STDERR_GRACE).await,
                None => String::new(),
            };
            tell(&myself, Msg::Swept { stderr_tail });
        });
    }

    pub(super) fn report_if_over(&mut self) {
        if self.open_links > 0 || self.unstored > 0 {
            return;
        }
        let (Some(exit), Some(stderr_tail)) = (&self.exit, &self.swept) else { return };
        let over = Over {
            job: self.job.clone(),
            attempt: self.attempt,
            exit: exit.clone(),
            stop: self.stop.clone(),
            paused: self.has_paused(exit),
            stderr_tail: stderr_tail.clone(),
            lived: self.began.elapsed(),
        };
        self.tell_supervisor(SupervisorMsg::Over(Box::new(over)));
        self.myself.stop(None);
    }

    pub(super) fn stop(&mut self, why: Stop) {
        if self.exit.is_some() {
            return;
        }
        tracing::info!(job = %self.job, attempt = self.attempt, ?why, "a worker is stopped");
        self.unwanted.store(true, Ordering::Relaxed);
        match &why {
            Stop::Cancel(_) | Stop::Failed(_) if self.link.is_some() => {
                let kind = match &why {
                    Stop::Cancel(kind) => *kind,
                    Stop::Failed(cause) => cause.kind,
                    _ => CauseKind::Internal,
                };
                self.send(ToWorker::Cancel { kind });
                self.myself.send_after(CANCEL_GRACE, || Msg::CancelOver);
            }
            Stop::Drain if self.unstored > 0 && self.admitted => {
                self.myself.send_after(DRAIN_GRACE, || Msg::Kill);
            }
            Stop::Hung(_) => self.kill(self.pool.settings.term_grace),
            _ => self.kill(Duration::ZERO),
        }
        // The first reason stands, but for a person's: theirs is above ours.
        if self.stop.is_none() || matches!(why, Stop::Cancel(_)) {
            self.stop = Some(why);
        }
    }

    /// Before the process exists there is nothing to kill: `spawned` does it then.
    pub(super) fn kill(&mut self, grace: Duration) {
        let Some(mark) = self.mark.clone().filter(|_| self.exit.is_none()) else { return };
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            let result = process_tree::end(&mark, grace).map_err(|error| error.to_string());
            tell(&myself, Msg::TreeEnded(result));
        });
    }

    pub(super) fn tree_ended(&mut self, result: Result<(), String>) {
        if let Err(why) = result {
            tracing::error!(job = %self.job, why, "a worker's tree could not be ended; trying again");
            self.myself.send_after(KILL_AGAIN, || Msg::Kill);
        } else if self.exit.is_none() && self.adopted {
            // Should it be one that cannot be watched: a child's exit always comes by itself.
            self.exited(Exit::Unknown);
        }
    }

    pub(super) fn tick(&mut self, planned: Instant) {
        let now = Instant::now();
        let ours = self.unstored > 0 || self.mark.is_none() || self.knocking.is_some();
        if self.silence.tick(planned, now, ours) && self.stop.is_none() {
            self.stop(Stop::Hung(format!("nothing heard of it for {} s", self.pool.settings.hang.as_secs_f64())));
        }
        self.next_tick(now);
    }

    pub(super) fn next_tick(&self, now: Instant) {
        let planned = now + self.pool.settings.heartbeat;
        self.myself.send_after(self.pool.settings.heartbeat, move || Msg::Tick { planned });
    }
}
