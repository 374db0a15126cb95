//! Without a server: the router as the last one left it, under the state directory's lock where anything is changed.

use std::time::{Instant, SystemTime};

use jiff::Timestamp;
use ukai_protocol::control::ProviderRow;

use crate::actor::{Refusal, providers};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::examine::{self, Examined};
use crate::pool::reaper::Family;
use crate::route::router::Router;
use crate::settings::Settings;
use crate::store::Lock;
use crate::store::capabilities::{self, Capabilities};
use crate::store::routes::{self, Found, Remembered};

/// As far as it can be seen without changing anything.
pub(super) fn rows(context: &Context) -> Result<Vec<ProviderRow>, Failure> {
    let settings = context.settings()?;
    let accounts = match routes::peek(&context.state)? {
        Found::Known(accounts) => accounts,
        Found::Quarantined { why } => return Err(refused(&why)),
    };
    let table = capabilities::peek(&context.state)?;
    let now = Instant::now();
    Ok(providers::rows(&router(&settings, accounts, &table, now), now))
}

fn router(settings: &Settings, accounts: Vec<Remembered>, table: &Capabilities, now: Instant) -> Router {
    let mut router = Router::new(settings.providers.clone(), settings.max_workers, settings.park, now);
    let clock = SystemTime::now();
    for kept in accounts {
        router.recall(&kept.account, kept.memory(now, clock), now);
    }
    for row in table.rows() {
        router.know_tools(&row.provider_id, Some(row.supports_tool_calling));
    }
    router
}

fn refused(why: &str) -> Failure {
    let name = routes::NAME;
    Failure::failed(format!(
        "{why}; whom not to ask is not known: see `ukai quarantine ls`, then `ukai quarantine clear {name}`"
    ))
}

/// The state directory, held, and what is known of the providers.
pub(super) struct Held<'a> {
    context: &'a Context,
    settings: Settings,
    router: Router,
    table: Capabilities,
    _lock: Lock,
}

impl<'a> Held<'a> {
    pub fn read(context: &'a Context, lock: Lock) -> Result<Self, Failure> {
        let settings = context.settings()?;
        let accounts = match routes::recover(&context.state)? {
            Found::Known(accounts) => accounts,
            Found::Quarantined { why } => return Err(refused(&why)),
        };
        let table = capabilities::load(&context.state)?;
        let router = router(&settings, accounts, &table, Instant::now());
        Ok(Held { context, settings, router, table, _lock: lock })
    }

    pub fn reset(mut self, ids: &[String], forget_wait: bool) -> Result<Vec<ProviderRow>, Failure> {
        let now = Instant::now();
        let ids = providers::chosen(&self.router, ids).map_err(failure)?;
        for id in &ids {
            self.router.reset(id, forget_wait, now);
        }
        self.save(now)?;
        Ok(providers::rows(&self.router, now).into_iter().filter(|row| ids.contains(&row.id)).collect())
    }

    pub async fn probe(mut self, ids: &[String], refresh: bool) -> Result<Examined, Failure> {
        let ids = providers::chosen(&self.router, ids).map_err(failure)?;
        for id in ids.iter().filter(|_| refresh) {
            self.table.forget(id);
        }
        let granted = providers::grants(&mut self.router, ids, Instant::now());
        let program = self.settings.worker_program.clone();
        let examined = examine::ask(program, Family::found(), granted).await;
        let now = Instant::now();
        for one in &examined {
            if let Some(lease) = one.lease {
                self.router.probed(lease, one.report(), now, rand::random());
            }
            if let Some(tools) = one.tools() {
                self.table.set(&one.id, tools, Timestamp::now().to_string());
            }
        }
        self.save(now)?;
        let saving =
            |error| Failure::failed(format!("writing {}: {error}", self.context.state.capabilities().display()));
        capabilities::save(&self.context.state, &self.table).map_err(saving)?;
        Ok(examine::keep(&self.context.state, examined)?)
    }

    fn save(&self, now: Instant) -> Result<(), Failure> {
        let clock = SystemTime::now();
        let memories = self.router.memories(now);
        let kept = memories.map(|(account, memory)| Remembered::new(account, &memory, now, clock)).collect();
        let path = self.context.state.routes();
        routes::save(&self.context.state, kept)
            .map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))
    }
}

fn failure(refusal: Refusal) -> Failure {
    if refusal.usage { Failure::usage(refusal.why) } else { Failure::failed(refusal.why) }
}
