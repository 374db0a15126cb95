//! Tells the owner what happened.
//!
//! Nobody waits for a sink: an alert is handed over or, when too many wait, counted as lost and said so later. Today
//! there is one sink, the log; desktop and Discord will stand beside it, each behind a queue of its own.

mod actor;
mod log;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::Semaphore;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{Cause, Limit};

/// Alerts that wait for the sinks: every job of a large batch ending at once.
pub const ALERTS_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum Alert {
    JobAborted {
        job: JobId,
        name: String,
        cause: Cause,
    },
    /// A person should look at it.
    Attention {
        job: JobId,
        name: String,
        why: String,
    },
    CrashLoop {
        job: JobId,
        starts: u32,
        detail: String,
    },
    /// Its files cannot be believed or read.
    Refused {
        job: JobId,
        why: String,
    },
    /// Nobody asks this provider account any more, for as long, or until a person resets it.
    BreakerOpened {
        account: String,
        why: String,
        until: Option<Duration>,
    },
    BreakerClosed {
        account: String,
    },
    /// Whom not to ask is not known, so nobody is asked.
    RoutesQuarantined {
        why: String,
    },
    /// Too many jobs crashed at once.
    StartsPaused {
        pause: Duration,
    },
    /// All jobs of a list have ended.
    BatchDone {
        batch: BatchId,
        name: String,
        completed: u64,
        /// That ended in another way.
        other: u64,
    },
    LimitNear {
        job: JobId,
        limit: Limit,
        used: f64,
        max: f64,
    },
}

impl Alert {
    /// Whether it waits for a person, or is only for their information.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !matches!(
            self,
            Alert::LimitNear { .. }
                | Alert::BatchDone { .. }
                | Alert::BreakerOpened { .. }
                | Alert::BreakerClosed { .. }
        )
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alert::JobAborted { job, name, cause } => {
                write!(f, "{job} ({name}) aborted: {} ({}): {}", cause.kind.reason(), cause.kind, cause.detail)
            }
            Alert::Attention { job, name, why } => write!(f, "{job} ({name}) needs attention: {why}"),
            Alert::CrashLoop { job, starts, detail } => write!(f, "{job} crashed {starts} times in a row: {detail}"),
            Alert::Refused { job, why } => write!(f, "{job} cannot go on, its files were refused: {why}"),
            Alert::BreakerOpened { account, why, until: Some(until) } => {
                write!(f, "provider account {account} is not asked for {} s: {why}", until.as_secs())
            }
            Alert::BreakerOpened { account, why, until: None } => {
                write!(
                    f,
                    "provider account {account} is not asked until it is reset: {why}; mend that, then `ukai providers reset`"
                )
            }
            Alert::BreakerClosed { account } => write!(f, "provider account {account} is asked again"),
            Alert::RoutesQuarantined { why } => write!(f, "{why}"),
            Alert::StartsPaused { pause } => {
                write!(f, "many jobs crashed at once: no job is started for {} s", pause.as_secs())
            }
            Alert::BatchDone { batch, name, completed, other: 0 } => {
                write!(f, "batch {batch} ({name}) is done: all {completed} completed")
            }
            Alert::BatchDone { batch, name, completed, other } => {
                write!(f, "batch {batch} ({name}) is done: {completed} completed, {other} did not")
            }
            Alert::LimitNear { job, limit, used, max } => write!(f, "{job} has used {used} of {max} ({limit})"),
        }
    }
}

/// A handle to the sinks. The last one to be dropped ends them.
#[derive(Clone, Debug)]
pub struct Notifier {
    actor: ActorRef<actor::Msg>,
    room: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
}

impl Notifier {
    pub async fn start() -> Result<Self, SpawnErr> {
        let lost = Arc::new(AtomicU64::new(0));
        let (actor, _) = Actor::spawn(None, actor::Sinks, lost.clone()).await?;
        Ok(Notifier { actor, room: Arc::new(Semaphore::new(ALERTS_MAX)), lost })
    }

    /// Never waits.
    pub fn alert(&self, alert: Alert) {
        let handed_over = match self.room.clone().try_acquire_owned() {
            Ok(room) => self.actor.cast(actor::Msg::Alert { alert, room }).is_ok(),
            Err(_) => false,
        };
        if !handed_over {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells what still waits, then ends.
    pub async fn finish(&self) {
        if let Err(error) = self.actor.drain_and_wait(Some(FINISH_DEADLINE)).await {
            tracing::warn!(%error, "alerts were left behind");
        }
    }
}

/// A process that ends waits this long for its sinks (spec §12).
const FINISH_DEADLINE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn what_does_not_fit_is_counted_and_nobody_waits() {
        let notifier = Notifier::start().await.expect("it starts");
        // The actor cannot run before this task gives way.
        for _ in 0..ALERTS_MAX + 3 {
            notifier.alert(Alert::StartsPaused { pause: Duration::from_secs(60) });
        }
        assert_eq!(notifier.lost.load(Ordering::Relaxed), 3);
        notifier.finish().await;
        assert_eq!(notifier.lost.load(Ordering::Relaxed), 0, "told in the log");
        assert_eq!(notifier.room.available_permits(), ALERTS_MAX);
    }
}
