//! Tells the owner what happened.
//!
//! Nobody waits for a sink: an alert is handed over or, when too many wait, counted as lost and said so later. Each sink
//! has a queue of its own and a cursor on disk, so that what one process could not tell, the next one does.

mod actor;
pub mod alert;
mod log;
pub mod message;
pub mod redact;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::Semaphore;
use ukai_protocol::secret::Secret;

pub use alert::{Alert, Source, What};

/// Alerts that wait for the sinks: every job of a large batch ending at once.
pub const ALERTS_MAX: usize = 1_024;

/// What it needs to know to begin.
#[derive(Debug, Default)]
pub struct Setup {
    /// `supervisor/cursors.json`.
    pub cursors: PathBuf,
    /// What no sink may tell.
    pub secrets: Vec<Secret>,
    /// `UKAI_DISCORD_WEBHOOK`, as it stands there; None: unset.
    pub discord: Option<Secret>,
    pub desktop: bool,
    /// What happened lately, in order, as the logs tell: each sink is told what it does not know yet.
    pub owed: Vec<Alert>,
}

/// A handle to the sinks. The last one to be dropped ends them.
#[derive(Clone, Debug)]
pub struct Notifier {
    actor: ActorRef<actor::Msg>,
    room: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
}

impl Notifier {
    pub async fn start(_setup: Setup) -> Result<Self, SpawnErr> {
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

    /// Has each sink tell something now; how each fared.
    pub async fn test(&self) -> Vec<(String, Result<(), String>)> {
        Vec::new()
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
    use std::time::SystemTime;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn what_does_not_fit_is_counted_and_nobody_waits() {
        let notifier = Notifier::start(Setup::default()).await.expect("it starts");
        let what = What::StartsPaused { pause: Duration::from_secs(60) };
        let alert = Alert { what, source: None, at: SystemTime::UNIX_EPOCH, late: false };
        // The actor cannot run before this task gives way.
        for _ in 0..ALERTS_MAX + 3 {
            notifier.alert(alert.clone());
        }
        assert_eq!(notifier.lost.load(Ordering::Relaxed), 3);
        notifier.finish().await;
        assert_eq!(notifier.lost.load(Ordering::Relaxed), 0, "told in the log");
        assert_eq!(notifier.room.available_permits(), ALERTS_MAX);
    }
}
