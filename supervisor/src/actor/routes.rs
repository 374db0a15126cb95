//! What is known of the provider accounts, kept on disk: the next supervisor knows it too.
//!
//! Whatever a provider named, and every move of a breaker, is on disk before anybody is given another lease (spec §5):
//! between the two the router only notes what happens. A write that fails holds nobody up for ever; what it was to keep
//! binds this supervisor all the same.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use ukai_protocol::command::quoted;
use ukai_protocol::control::BreakerState;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};
use ukai_protocol::server_event::ServerEvent;

use super::{Msg, State};
use crate::route::breaker::{Standing, Until};
use crate::route::decision;
use crate::store::StateDir;
use crate::store::routes::{self, Found, Remembered};
use crate::store::told::Told;

/// Workers that outlived the last supervisor knock within [50 ms](ukai_protocol::session); what they were told meanwhile
/// must be known before the first lease. One that does not come within this is not waited for.
const RETURN_GRACE: Duration = Duration::from_secs(1);

/// From a save that failed to the next.
const SAVE_AGAIN: Duration = Duration::from_secs(5);

/// One writer at a time, so that an older state never replaces a newer one.
#[derive(Default)]
pub struct Routes {
    /// The router's revision that is on disk, or that could not be put there.
    saved: u64,
    saving: bool,
    /// The last save failed: it is tried again then.
    again: Option<Instant>,
    /// Why it did.
    failure: Option<String>,
    /// What is known of accounts that are not configured (now): kept for when they are again.
    others: Vec<Remembered>,
    /// What is in the buckets goes to disk once more, at the end.
    last: bool,
    /// Each breaker as it was last told of, by account.
    told: Vec<Standing>,
    /// Workers of the last supervisor that have not said yet what providers told them meanwhile.
    returning: BTreeSet<JobId>,
    returned_by: Option<Instant>,
    /// Accounts that a person has just said are well again.
    reset: BTreeSet<String>,
}

impl State {
    pub(super) fn recall_routes(&mut self, found: Found, told: Vec<Told>, now: Instant) {
        let clock = SystemTime::now();
        match found {
            Found::Known(accounts) => {
                for kept in accounts {
                    if self.router.recall(&kept.account, kept.memory(now, clock), now) {
                        continue;
                    }
                    self.routes.others.push(kept);
                }
            }
            Found::Quarantined { why } => {
                let why = format!(
                    "{why}; whom not to ask is not known, so nobody is asked: see {}, and when no provider has to be waited \
                     for, {}",
                    quoted(&["quarantine", "ls"]),
                    quoted(&["quarantine", "clear", routes::NAME])
                );
                self.found_quarantined(routes::NAME, why.clone());
                self.router.shut(Cause::new(CauseKind::Quarantined, why));
            }
        }
        self.routes.saved = self.router.revision();
        // These are not on disk by themselves: the revision moves, and no lease is given before they are.
        for Told { provider, left } in told {
            tracing::info!(provider, left_s = left.as_secs_f64(), "it asked a worker that died to wait");
            self.router.told(&provider, left, now);
        }
        // A supervisor that is killed leaves a file that says so: what was left in its buckets is then not known.
        self.routes.last = self.router.has_rates();
        self.routes.told = self.router.breakers().map(|(_, standing)| standing).collect();
    }

    /// The worker of an earlier supervisor may be alive, and have been told something.
    pub(super) fn await_return(&mut self, job: JobId, now: Instant) {
        self.routes.returned_by.get_or_insert(now + RETURN_GRACE);
        self.routes.returning.insert(job);
    }

    pub(super) fn returned(&mut self, job: &JobId) {
        self.routes.returning.remove(job);
    }

    /// Whether leases may be given: all that must be known, here and on disk, is.
    pub(super) fn may_lease(&self, now: Instant) -> bool {
        let awaited = !self.routes.returning.is_empty() && self.routes.returned_by.is_some_and(|by| now < by);
        !awaited && !self.routes.saving && self.routes.saved == self.router.revision()
    }

    /// When the router has something to do, as far as it may.
    pub(super) fn routes_timeout(&self, now: Instant) -> Option<Instant> {
        let asks = match (self.may_lease(now), self.draining) {
            (_, true) => None,
            (true, false) => self.router.poll_timeout(),
            (false, false) => self.routes.returned_by.filter(|by| now < *by),
        };
        asks.into_iter().chain(self.routes.again).min()
    }

    pub(super) fn save_routes(&mut self, now: Instant) {
        let revision = self.router.revision();
        let again = self.routes.again.is_some_and(|at| at <= now);
        if self.routes.saving || (revision == self.routes.saved && !self.routes.last && !again) {
            return;
        }
        self.routes.again = None;
        let ended = self.draining;
        self.routes.saving = true;
        self.routes.last = false;
        let clock = SystemTime::now();
        let kept = self.router.memories(now).map(|(account, memory)| Remembered::new(account, &memory, now, clock));
        let kept: Vec<_> = kept.chain(self.routes.others.iter().cloned()).collect();
        let state = StateDir::new(&self.pool.settings.state_dir);
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let saved = tokio::task::spawn_blocking(move || routes::save(&state, kept, ended)).await;
            let result = saved.unwrap_or_else(|error| Err(io::Error::other(error)));
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::RoutesSaved { revision, result });
        });
    }

    /// Whether what the router knew at that revision is on disk, or could not be put there, and then why. None: not yet.
    pub(super) fn routes_kept(&self, revision: u64) -> Option<Result<(), String>> {
        let tried = !self.routes.saving && self.routes.saved >= revision;
        tried.then(|| self.routes.failure.clone().map_or(Ok(()), Err))
    }

    pub(super) fn save_routes_at_the_end(&mut self) {
        self.routes.last = true;
    }

    pub(super) fn is_saving_routes(&self) -> bool {
        self.routes.saving || self.routes.last
    }

    pub(super) fn routes_saved(&mut self, revision: u64, result: io::Result<()>) {
        self.routes.saving = false;
        self.routes.saved = revision;
        self.routes.failure = result.as_ref().err().map(io::Error::to_string);
        if let Err(error) = result {
            // It binds this supervisor all the same, and a full disk may have room in a while.
            tracing::error!(%error, "what is known of the providers could not be written to routes.json");
            self.routes.again = Some(Instant::now() + SAVE_AGAIN);
        }
    }

    pub(super) fn reset_by_person(&mut self, provider: &str) {
        let account = self.account_of(provider).to_owned();
        let moves = self.router.breakers().any(|(known, now)| known == account && now != Standing::Closed);
        if moves {
            self.routes.reset.insert(account);
        }
    }

    /// Who should know of a breaker that moved, does.
    pub(super) fn tell_breakers(&mut self, now: Instant) {
        let moved: Vec<_> = self
            .router
            .breakers()
            .zip(&self.routes.told)
            .filter(|((_, standing), told)| standing != *told)
            .map(|((account, standing), told)| (account.to_owned(), standing, *told))
            .collect();
        if moved.is_empty() {
            return;
        }
        self.routes.told = self.router.breakers().map(|(_, standing)| standing).collect();
        for (account, standing, before) in moved {
            let (to, by_person) = match standing {
                Standing::Open { until, why } => {
                    let until = match until {
                        Until::At(at) => Some(at.saturating_duration_since(now)),
                        Until::Reset => None,
                    };
                    // One that stays open for longer than was told is no news.
                    if !matches!(before, Standing::Open { .. }) {
                        let open_ms = until.map(|until| u64::try_from(until.as_millis()).unwrap_or(u64::MAX));
                        let (to, why) = (BreakerState::Open, decision::opened(why).to_owned());
                        self.note(vec![ServerEvent::BreakerMoved { account, to, why, open_ms, by_person: false }]);
                    }
                    continue;
                }
                Standing::HalfOpen => {
                    tracing::info!(account, "its breaker is HALF_OPEN: a probe will tell");
                    (BreakerState::HalfOpen, false)
                }
                Standing::Closed => (BreakerState::Closed, self.routes.reset.remove(&account)),
            };
            self.note(vec![ServerEvent::BreakerMoved { account, to, why: String::new(), open_ms: None, by_person }]);
        }
    }
}
