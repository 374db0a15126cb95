//! Without a server: the router as the last one left it, under the state directory's lock where anything is changed.

use std::cell::RefCell;
use std::time::{Instant, SystemTime};

use jiff::Timestamp;
use ukai_protocol::command::quoted;
use ukai_protocol::control::ProviderRow;

use crate::actor::{Refusal, providers};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::examine::{self, Examination, Examined};
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
    Ok(providers::rows(&router(&settings, accounts, &table, now).0, now))
}

fn router(
    settings: &Settings,
    accounts: Vec<Remembered>,
    table: &Capabilities,
    now: Instant,
) -> (Router, Vec<Remembered>) {
    let mut router = Router::new(settings.providers.clone(), settings.max_workers, settings.park, now);
    let clock = SystemTime::now();
    let mut others = Vec::new();
    for kept in accounts {
        if !router.recall(&kept.account, kept.memory(now, clock), now) {
            others.push(kept);
        }
    }
    for row in table.rows() {
        router.know_tools(&row.provider_id, Some(row.supports_tool_calling));
    }
    (router, others)
}

fn refused(why: &str) -> Failure {
    let (list, clear) = (quoted(&["quarantine", "ls"]), quoted(&["quarantine", "clear", routes::NAME]));
    Failure::failed(format!("{why}; whom not to ask is not known: see {list}, then {clear}"))
}

/// The state directory, held, and what is known of the providers.
pub(super) struct Held<'a> {
    context: &'a Context,
    settings: Settings,
    router: Router,
    /// Of accounts that are not configured (now).
    others: Vec<Remembered>,
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
        let (router, others) = router(&settings, accounts, &table, Instant::now());
        Ok(Held { context, settings, router, others, table, _lock: lock })
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
        let secrets = self.settings.fingerprints();
        let context = self.context;
        let (held, failed) = (RefCell::new(self), RefCell::new(None));
        let heard = |one: &Examination| {
            // At once: whoever interrupts the others must not lose what this one named.
            if let Err(failure) = held.borrow_mut().hear(one) {
                failed.replace(Some(failure));
            }
        };
        let examined = examine::ask(program, Family::found(), granted, &secrets, heard).await;
        if let Some(failure) = failed.into_inner() {
            return Err(failure);
        }
        let saving = |error| Failure::failed(format!("writing {}: {error}", context.state.capabilities().display()));
        capabilities::save(&context.state, &held.borrow().table).map_err(saving)?;
        Ok(examine::keep(&context.state, examined)?)
    }

    fn hear(&mut self, one: &Examination) -> Result<(), Failure> {
        let now = Instant::now();
        if let Some(lease) = one.lease {
            self.router.probed(lease, one.report(), now, rand::random());
        }
        if let Some(tools) = one.tools() {
            self.table.set(&one.id, tools, Timestamp::now().to_string());
        }
        self.save(now)
    }

    fn save(&self, now: Instant) -> Result<(), Failure> {
        let clock = SystemTime::now();
        let memories = self.router.memories(now);
        let kept = memories.map(|(account, memory)| Remembered::new(account, &memory, now, clock));
        let kept = kept.chain(self.others.iter().cloned()).collect();
        let path = self.context.state.routes();
        routes::save(&self.context.state, kept, true)
            .map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))
    }
}

fn failure(refusal: Refusal) -> Failure {
    if refusal.usage { Failure::usage(refusal.why) } else { Failure::failed(refusal.why) }
}
