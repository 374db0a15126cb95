//! Tells the owner what happened.
//!
//! Nobody waits for a sink: an alert is handed over or, when too many wait, counted as lost and said so later. Each sink
//! has a queue of its own and a cursor on disk, so that what one process could not tell, the next one does.

mod actor;
pub mod alert;
mod cursors;
mod desktop;
mod discord;
mod filter;
mod gone;
mod log;
pub mod message;
mod push;
pub mod redact;
mod render;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::{Semaphore, oneshot};
use ukai_protocol::secret::Secret;

pub use actor::{Sinks, Tested};
pub use alert::{Alert, Source, What};
use cursors::Cursors;
use desktop::Desktop;
pub use desktop::NAME as DESKTOP;
use discord::Discord;
use redact::Redactor;

/// Alerts that wait for the sinks: every job of a large batch ending at once.
pub const ALERTS_MAX: usize = 1_024;
/// A process that ends waits this long for its sinks (spec §12) …
const FINISH_DEADLINE: Duration = Duration::from_secs(5);
/// … of which this is left to write down what they have not told.
const SAVE_GRACE: Duration = Duration::from_millis(500);

/// Told of a sink and of how many alerts it could not deliver, once for each message.
pub type Lost = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// What it needs to know to begin.
pub struct Setup {
    /// `supervisor/cursors.json`; empty: nothing is remembered.
    pub cursors: PathBuf,
    /// What no sink may tell.
    pub secrets: Vec<Secret>,
    /// `UKAI_DISCORD_WEBHOOK`, as it stands there; None: unset.
    pub discord: Option<Secret>,
    pub desktop: bool,
    /// Nothing that happens is the owner's own: each message says so.
    pub demo: bool,
    /// What happened lately, in order, as the logs tell: each sink is told what it does not know yet.
    pub owed: Vec<Alert>,
    pub lost: Lost,
}

impl Default for Setup {
    fn default() -> Self {
        let (cursors, secrets, owed) = (PathBuf::new(), Vec::new(), Vec::new());
        Setup { cursors, secrets, discord: None, desktop: false, demo: false, owed, lost: Arc::new(|_, _| ()) }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { cursors, discord, desktop, demo, owed, .. } = self;
        let mut shown = f.debug_struct("Setup");
        shown.field("cursors", cursors).field("discord", discord).field("desktop", desktop).field("demo", demo);
        shown.field("owed", &owed.len()).finish_non_exhaustive()
    }
}

/// A handle to the sinks. The last one to be dropped ends them.
#[derive(Clone, Debug)]
pub struct Notifier {
    actor: ActorRef<actor::Msg>,
    cursors: Arc<Cursors>,
    room: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
}

impl Notifier {
    pub async fn start(setup: Setup) -> Result<Self, SpawnErr> {
        let demo = setup.demo;
        Self::start_with(setup, |sinks, discord, desktop| {
            let discord = discord.map(|webhook| {
                let left_to_wait = sinks.left_to_wait(discord::NAME, &discord::identity(&webhook));
                Discord::new(&webhook, left_to_wait, sinks.redactor().clone(), demo)
            });
            match discord.transpose() {
                Ok(discord) => discord.into_iter().for_each(|discord| sinks.add(discord)),
                // Whoever set it wants to know; what it is stays unsaid.
                Err(why) => sinks.refuse(
                    discord::NAME,
                    format!("UKAI_DISCORD_WEBHOOK is not used: {why}; correct it, then start again"),
                ),
            }
            if desktop && let Some(desktop) = Desktop::here(demo) {
                sinks.add(desktop);
            }
        })
        .await
    }

    /// With the sinks that `add` adds. Each has its place on disk before anything happens.
    pub async fn start_with(
        setup: Setup,
        add: impl FnOnce(&mut Sinks, Option<Secret>, bool),
    ) -> Result<Self, SpawnErr> {
        let Setup { cursors, secrets, discord, desktop, owed, lost: on_lost, .. } = setup;
        let cursors = tokio::task::spawn_blocking(move || Cursors::load(cursors, SystemTime::now()));
        let cursors = Arc::new(cursors.await.map_err(|error| SpawnErr::StartupFailed(error.into()))?);
        let lost = Arc::new(AtomicU64::new(0));
        let mut sinks = Sinks::new(cursors.clone(), Redactor::new(secrets), on_lost, owed, lost.clone());
        add(&mut sinks, discord, desktop);
        cursors.save().await;
        let (actor, _) = Actor::spawn(None, actor::Hands, sinks).await?;
        Ok(Notifier { actor, cursors, room: Arc::new(Semaphore::new(ALERTS_MAX)), lost })
    }

    /// Never waits.
    pub fn alert(&self, alert: Alert) {
        let handed_over = match self.room.clone().try_acquire_owned() {
            Ok(room) => self.actor.cast(actor::Msg::Alert { alert, room }).is_ok(),
            Err(_) => {
                self.cursors.owe(&alert, SystemTime::now());
                false
            }
        };
        if !handed_over {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a test to every sink now. How that went, within ten seconds.
    pub async fn test(&self) -> Tested {
        let (answer, tested) = oneshot::channel();
        match self.actor.cast(actor::Msg::Test { answer }) {
            Ok(()) => tested.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Tells what still waits, then ends.
    pub async fn finish(&self) {
        let deadline = push::now() + FINISH_DEADLINE;
        let (answer, ended) = oneshot::channel();
        let asked = self.actor.cast(actor::Msg::Finish { until: deadline - SAVE_GRACE, answer });
        if asked.is_err() || tokio::time::timeout_at(deadline.into(), ended).await.is_err() {
            tracing::warn!("alerts were left behind");
        }
        self.actor.stop(None);
    }
}

#[cfg(test)]
mod tests;
