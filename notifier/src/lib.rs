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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::{Semaphore, oneshot};
use ukai_protocol::secret::Secret;

pub use actor::{Sinks, Tested, Untold};
pub use alert::{Alert, Source, What};
use cursors::Cursors;
use desktop::Desktop;
pub use desktop::NAME as DESKTOP;
use discord::Discord;
pub use discord::NAME as DISCORD;
pub use log::NAME as LOG;
use redact::Redactor;

/// Alerts that wait for the sinks: every job of a large batch ending at once.
pub const ALERTS_MAX: usize = 1_024;
/// A process that ends waits this long for its sinks (spec §12) …
const FINISH_DEADLINE: Duration = Duration::from_secs(5);
/// … of which this is left to write down what they have not told.
const SAVE_GRACE: Duration = Duration::from_millis(500);

const UNSET: &str = "not configured: UKAI_DISCORD_WEBHOOK is unset here";

/// Told of a sink, of how many alerts it could not deliver, once for each message, and why (empty: it had no room).
pub type Lost = Arc<dyn Fn(&str, u64, &str) + Send + Sync>;

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
        Setup { cursors, secrets, discord: None, desktop: false, demo: false, owed, lost: Arc::new(|_, _, _| ()) }
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

/// Why Discord would take nothing, as the last process left it in `cursors`; None: for all that is known, it would.
/// `webhook`: as it is set here. Blocks.
#[must_use]
pub fn discord_is_dead(cursors: &Path, webhook: &Secret) -> Option<String> {
    cursors::dead(cursors, discord::NAME)
        .filter(|dead| dead.identity == discord::identity(webhook))
        .map(|dead| dead.why)
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
                Ok(Some(discord)) => sinks.add(discord),
                Ok(None) => sinks.leave_off(discord::NAME, UNSET.to_owned()),
                // Whoever set it wants to know; what it is stays unsaid.
                Err(why) => sinks.refuse(
                    discord::NAME,
                    format!("UKAI_DISCORD_WEBHOOK is not used: {why}; correct it, then start again"),
                ),
            }
            match desktop.then(|| Desktop::here(demo)) {
                Some(Ok(desktop)) => sinks.add(desktop),
                Some(Err(why)) => sinks.leave_off(desktop::NAME, why),
                None => sinks.leave_off(desktop::NAME, "off: the configuration says `desktop = false`".to_owned()),
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

    /// How each sink stands; none is told anything.
    pub async fn sinks(&self) -> Tested {
        let (answer, stands) = oneshot::channel();
        match self.actor.cast(actor::Msg::Sinks { answer }) {
            Ok(()) => stands.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Tells what still waits, then ends. The sinks whose last message did not arrive, and why.
    pub async fn finish(&self) -> Untold {
        let deadline = push::now() + FINISH_DEADLINE;
        let (answer, ended) = oneshot::channel();
        let asked = self.actor.cast(actor::Msg::Finish { until: deadline - SAVE_GRACE, answer });
        let ended = match asked {
            Ok(()) => tokio::time::timeout_at(deadline.into(), ended).await.ok(),
            Err(_) => None,
        };
        if ended.is_none() {
            tracing::warn!("alerts were left behind");
        }
        self.actor.stop(None);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
