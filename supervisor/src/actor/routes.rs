//! What providers asked us to wait for, kept on disk: the next supervisor waits too.
//!
//! The router already holds everyone back while the file is written, so nothing waits for the disk here; a wait is at
//! least a second, and the file is there in milliseconds.

use std::io;
use std::time::{Instant, SystemTime};

use super::{Msg, State};
use crate::store::StateDir;
use crate::store::routes::{self, NotBefore};

/// One writer at a time, so that an older state never replaces a newer one.
#[derive(Default)]
pub struct Routes {
    /// What is on disk, or on its way: account and instant.
    saved: Vec<(String, Instant)>,
    saving: bool,
}

impl State {
    pub(super) fn recall_waits(&mut self, not_before: &[NotBefore], now: Instant) {
        let clock = SystemTime::now();
        for named in not_before {
            if let Some(left) = named.left(clock) {
                let (account, left_s) = (&named.account, left.as_secs_f64());
                tracing::info!(account, left_s, "it asked an earlier supervisor to wait");
                self.router.recall(account, left, named.wait(), now);
            }
        }
        self.routes.saved = self.waits();
    }

    fn waits(&self) -> Vec<(String, Instant)> {
        self.router.named_waits().map(|(account, at, _)| (account.to_owned(), at)).collect()
    }

    pub(super) fn save_routes(&mut self, now: Instant) {
        if self.routes.saving || self.waits() == self.routes.saved {
            return;
        }
        self.routes.saving = true;
        self.routes.saved = self.waits();
        let clock = SystemTime::now();
        let named = self.router.named_waits().filter(|(_, at, _)| *at > now).map(|(account, at, wait)| {
            NotBefore::new(account.to_owned(), at.saturating_duration_since(now), wait, clock)
        });
        let named: Vec<_> = named.collect();
        let path = StateDir::new(&self.pool.settings.state_dir).routes();
        let myself = self.myself.clone();
        tokio::task::spawn_blocking(move || {
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::RoutesSaved(routes::save(&path, named)));
        });
    }

    pub(super) fn routes_saved(&mut self, result: io::Result<()>) {
        self.routes.saving = false;
        if let Err(error) = result {
            // It binds this supervisor all the same.
            tracing::error!(%error, "what a provider asked to wait for could not be written to routes.json");
        }
    }
}
