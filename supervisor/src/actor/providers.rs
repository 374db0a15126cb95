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

/// All of them where none is named; an unknown id is an error that names those that there are.
pub fn chosen(router: &Router, ids: &[String]) -> Result<Vec<String>, Refusal> {
    let known: Vec<&str> = router.providers().map(|(provider, _)| provider.id.as_str()).collect();
    if let Some(unknown) = ids.iter().find(|id| !known.contains(&id.as_str())) {
        return Err(usage(format!("there is no provider `{unknown}`; configured are: {}", known.join(", "))));
    }
    let named = |id: &&str| ids.is_empty() || ids.iter().any(|named| named == id);
    Ok(known.into_iter().filter(named).map(str::to_owned).collect())
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
        let reset = chosen(&self.router, ids).map(|ids| {
            for id in &ids {
                tracing::info!(provider = id, forget_wait, "reset by a person");
                self.reset_by_person(id);
                self.router.reset(id, forget_wait, now);
            }
            rows(&self.router, now).into_iter().filter(|row| ids.contains(&row.id)).collect()
        });
        let _ = answer.send(reset);
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
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let heard = |one: &Examination| {
                if let Some(lease) = one.lease {
                    // Without its supervisor it is for nobody, here and below.
                    let _ = myself.cast(Msg::ExaminedOne { lease, report: one.report().cloned() });
                }
            };
            let examined = examine::ask(program, family, granted, heard).await;
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
