//! What people ask about providers: how they stand, why a call went where it went, to believe in one again, to ask one.

use std::time::{Duration, Instant};

use ukai_protocol::control::{BreakerState, FailureRow, ProviderRow};
use ukai_protocol::id::JobId;
use ukai_protocol::lease::Grant;

use super::request::usage;
use super::{Answer, Msg, Refusal, State};
use crate::examine::{self, Examination, Examined};
use crate::job::Life;
use crate::route::breaker::{Standing, Until};
use crate::route::decision;
use crate::route::router::Router;
use crate::store::StateDir;

/// A client that waits until what it had reset stays so, whatever dies.
pub struct Resetting {
    ids: Vec<String>,
    /// Of the router, with all of it reset.
    revision: u64,
    /// How many records of the server's log must be written.
    server: u64,
    answer: Answer<Vec<ProviderRow>>,
}

/// In the order of the configuration.
#[must_use]
pub fn rows(router: &Router, now: Instant) -> Vec<ProviderRow> {
    let ahead = |at: Instant| Some(at).filter(|at| *at > now).map(|at| millis(at - now));
    let row = |(provider, account): (&crate::settings::Provider, &crate::route::account::Account)| {
        let (breaker, why, open_ms) = match account.breaker() {
            Standing::Closed => (BreakerState::Closed, None, None),
            Standing::HalfOpen => (BreakerState::HalfOpen, None, None),
            // Whoever looks next finds it so.
            Standing::Open { until: Until::At(at), .. } if at <= now => (BreakerState::HalfOpen, None, None),
            Standing::Open { until, why } => {
                let until = match until {
                    Until::At(at) => ahead(at),
                    Until::Reset => None,
                };
                (BreakerState::Open, Some(decision::opened(why).to_owned()), until)
            }
        };
        let (in_flight, in_flight_max) = account.in_flight();
        let [requests, tokens] = account.levels(now);
        ProviderRow {
            id: provider.id.clone(),
            account: provider.account.clone(),
            wire: provider.wire,
            model: provider.model.clone(),
            breaker,
            why,
            open_ms,
            not_before_ms: account.not_before().and_then(ahead),
            in_flight: in_flight as u64,
            in_flight_max: in_flight_max as u64,
            requests,
            tokens,
            tools: provider.supports_tools,
            last_failure: account.last_failure().map(|last| FailureRow {
                class: last.class,
                signature: last.signature.clone(),
                ago_ms: millis(now.saturating_duration_since(last.at)),
            }),
        }
    };
    router.providers().map(row).collect()
}

/// All of them where none is named; an id that is none may be an account, which alerts name: all providers of it are
/// meant then. A name that is neither is an error that names those that there are.
pub fn chosen(router: &Router, names: &[String]) -> Result<Vec<String>, Refusal> {
    let known: Vec<_> =
        router.providers().map(|(provider, _)| (provider.id.as_str(), provider.account.as_str())).collect();
    let is_id = |name: &str| known.iter().any(|(id, _)| *id == name);
    let means = |name: &String, (id, account): (&str, &str)| name == id || (name == account && !is_id(name));
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|provider| means(name, *provider))) {
        let ids: Vec<_> = known.iter().map(|(id, _)| *id).collect();
        return Err(usage(format!("there is no provider `{unknown}`; configured are: {}", ids.join(", "))));
    }
    let named = known.iter().filter(|provider| names.is_empty() || names.iter().any(|name| means(name, **provider)));
    Ok(named.map(|(id, _)| (*id).to_owned()).collect())
}

/// By id, the lease to ask it with, or why it is not asked.
pub fn grants(router: &mut Router, ids: Vec<String>, now: Instant) -> Vec<(String, Result<Grant, String>)> {
    let grants = ids.into_iter().map(|id| {
        let grant = router.examine(&id, now);
        (id, grant)
    });
    grants.collect()
}

impl State {
    pub(super) fn why(&self, job: &str, answer: Answer<(JobId, Vec<String>)>, now: Instant) {
        // A client that has gone needs no answer, here and below.
        let _ = answer.send(self.decision_about(job, now));
    }

    fn decision_about(&self, job: &str, now: Instant) -> Result<(JobId, Vec<String>), Refusal> {
        let id = self.job_meant(job)?;
        let mut lines = self.router.why(&id, now).unwrap_or_default();
        if let Some(job) = self.jobs.get(&id).filter(|job| job.life == Life::Queued) {
            lines.insert(0, format!("it is queued: {}", self.row(&id, job, now).note));
        }
        Ok((id, lines))
    }

    pub(super) fn reset_providers(
        &mut self,
        ids: &[String],
        forget_wait: bool,
        answer: Answer<Vec<ProviderRow>>,
        now: Instant,
    ) {
        let ids = match chosen(&self.router, ids) {
            Ok(ids) => ids,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        for id in &ids {
            tracing::info!(provider = id, forget_wait, "reset by a person");
            self.reset_by_person(id);
            self.router.reset(id, forget_wait, now);
        }
        self.tell_breakers(now);
        let (revision, server) = (self.router.revision(), self.note(Vec::new()));
        self.resets.push(Resetting { ids, revision, server, answer });
    }

    /// Each hears of it when the next supervisor would know it too.
    pub(super) fn answer_resets(&mut self, now: Instant) {
        for Resetting { ids, revision, server, answer } in std::mem::take(&mut self.resets) {
            let kept = self.routes_kept(revision).filter(|_| self.server_log.written() >= server);
            let Some(kept) = kept else {
                self.resets.push(Resetting { ids, revision, server, answer });
                continue;
            };
            let logged = self.server_log.failed(server).map_or(Ok(()), Err);
            let answered = match kept.and(logged) {
                Ok(()) => Ok(rows(&self.router, now).into_iter().filter(|row| ids.contains(&row.id)).collect()),
                Err(why) => {
                    let why = format!(
                        "{}: reset in this server, but that could not be written down: {why}; the next server may find \
                         them as they were. Mend that, and reset again",
                        ids.join(", ")
                    );
                    Err(Refusal { why, usage: false })
                }
            };
            let _ = answer.send(answered);
        }
    }

    pub(super) fn probe_providers(&mut self, ids: &[String], refresh: bool, answer: Answer<Examined>, now: Instant) {
        let ids = match chosen(&self.router, ids) {
            Ok(ids) => ids,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        if refresh {
            ids.iter().for_each(|id| self.forget_capability(id));
        }
        let granted = grants(&mut self.router, ids, now);
        let (program, family) = (self.pool.settings.worker_program.clone(), self.pool.family);
        let (myself, secrets) = (self.myself.clone(), self.pool.secrets.clone());
        tokio::spawn(async move {
            let heard = |one: &Examination| {
                if let Some(lease) = one.lease {
                    // Without its supervisor it is for nobody, here and below.
                    let _ = myself.cast(Msg::ExaminedOne { lease, report: one.report().cloned() });
                }
            };
            let examined = examine::ask(program, family, granted, &secrets, heard).await;
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::Examined { examined, answer });
        });
    }

    pub(super) fn examined(&mut self, examined: Vec<Examination>, answer: Answer<Examined>) {
        for one in &examined {
            if let Some(tools) = one.tools() {
                self.know_capability(&one.id, tools);
            }
        }
        let state = StateDir::new(&self.pool.settings.state_dir);
        tokio::task::spawn_blocking(move || {
            let kept = examine::keep(&state, examined);
            let refused = |error| Refusal { why: format!("writing down what the probe saw: {error}"), usage: false };
            drop(answer.send(kept.map_err(refused)));
        });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ukai_protocol::lease::{Timeouts, Wire};

    use super::*;
    use crate::route::account::Rates;
    use crate::settings::Provider;

    #[test]
    fn a_provider_is_meant_by_its_id_and_all_of_an_account_by_its_name() {
        let of = |id: &str, account: &str| Provider {
            id: id.to_owned(),
            account: account.to_owned(),
            wire: Wire::Openai,
            url: "http://lab".to_owned(),
            model: "lab-1".to_owned(),
            key: None,
            context_window: 1_000,
            max_output: 400,
            prices: None,
            timeouts: Timeouts::default(),
            max_concurrency: None,
            supports_tools: None,
            rates: Rates::default(),
        };
        let providers = vec![of("lab", "shared"), of("lab-big", "shared"), of("other", "lab")];
        let router = Router::new(providers, 1, false, Instant::now());
        for (typed, expected) in [
            ("", Some("lab lab-big other")),
            ("lab-big", Some("lab-big")),
            ("shared", Some("lab lab-big")),
            // An id is meant before an account.
            ("lab", Some("lab")),
            ("other lab", Some("lab other")),
            ("nobody", None),
        ] {
            let names: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
            assert_eq!(chosen(&router, &names).ok().map(|ids| ids.join(" ")).as_deref(), expected, "{typed}");
        }
    }
}
