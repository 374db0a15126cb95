//! Probes: the router orders them, a worker process each sends them, and what came of it goes back to the router.

use std::time::{Duration, Instant};

use ukai_protocol::probe::{ProbeAnswer, ProbeKind, ProbeRequest};

use super::{Msg, State};
use crate::probe::{self, ProbeError};
use crate::route::router::Order;

impl State {
    pub(super) fn send_probes(&mut self) {
        while let Some(Order { grant, shape, deadline }) = self.router.poll_probe() {
            tracing::info!(provider = grant.provider, account = grant.account, "a probe is sent");
            let lease = grant.lease;
            let deadline_ms = millis(deadline);
            let secrets = (*self.pool.secrets).clone();
            let request = ProbeRequest { grant, kind: ProbeKind::Health(shape), deadline_ms, secrets };
            let (program, family) = (self.pool.settings.worker_program.clone(), self.pool.family);
            let myself = self.myself.clone();
            tokio::spawn(async move {
                let result = probe::run(&program, family, request).await.map(Box::new);
                // Without its supervisor the answer is for nobody.
                let _ = myself.cast(Msg::Probed { lease, result });
            });
        }
    }

    pub(super) fn probed(&mut self, lease: u64, result: Result<Box<ProbeAnswer>, ProbeError>, now: Instant) {
        match result {
            Ok(answer) => {
                tracing::info!(account = answer.report.account, class = ?answer.report.class, answer.detail, "a probe");
                self.router.probed(lease, Some(&answer.report), now, rand::random());
            }
            Err(error) => {
                tracing::warn!(%error, "a probe brought no answer");
                self.router.probed(lease, None, now, rand::random());
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
