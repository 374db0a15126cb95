//! `ukai providers probe`: asks providers whether they answer and take tools, on a person's word.
//!
//! Each is asked by a process of its own, all at once, and what came is written down. Whether one may be asked at all is
//! the router's to say; what a provider answers here counts like any other answer.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use ukai_protocol::control::ProbeRow;
use ukai_protocol::lease::{Grant, Report};
use ukai_protocol::probe::{ProbeAnswer, ProbeKind, ProbeRequest};
use ukai_protocol::secret::fingerprint::Fingerprints;

use crate::pool::reaper::Family;
use crate::probe::{self, ProbeError};
use crate::store::artifacts::{self, ProbedProvider};
use crate::store::{StateDir, StoreError};

/// Two calls of a model that thinks before it answers.
const DEADLINE: Duration = Duration::from_secs(60);

/// What came of asking some providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// In the order of the configuration.
    pub rows: Vec<ProbeRow>,
    /// The folder with what was seen.
    pub evidence: Option<PathBuf>,
}

/// One provider that was asked, or was not to be.
pub struct Examination {
    pub id: String,
    /// Its lease, if it had one.
    pub lease: Option<u64>,
    outcome: Result<ProbeAnswer, String>,
    evidence: Option<ProbedProvider>,
}

impl Examination {
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.outcome.as_ref().ok().map(|answer| &answer.report)
    }

    #[must_use]
    pub fn tools(&self) -> Option<bool> {
        self.outcome.as_ref().ok().and_then(|answer| answer.tools)
    }

    fn row(&self) -> ProbeRow {
        let id = self.id.clone();
        match &self.outcome {
            Ok(answer) => {
                let (class, detail) = (Some(answer.report.class), answer.detail.clone());
                ProbeRow { id, class, tools: answer.tools, detail }
            }
            Err(why) => ProbeRow { id, class: None, tools: None, detail: why.clone() },
        }
    }
}

/// Asks all of these at once. `granted`: by id, the lease to ask with, or why there is none. `answered` hears of each as
/// soon as it is through: what one provider named must not wait for the slowest.
pub async fn ask(
    worker_program: PathBuf,
    family: Family,
    granted: Vec<(String, Result<Grant, String>)>,
    secrets: &Fingerprints,
    answered: impl Fn(&Examination),
) -> Vec<Examination> {
    let answered = &answered;
    let asked = granted.into_iter().map(|(id, granted)| {
        let program = worker_program.clone();
        async move {
            let grant = match granted {
                Ok(grant) => grant,
                Err(why) => return Examination { id, lease: None, outcome: Err(why), evidence: None },
            };
            let lease = Some(grant.lease);
            let deadline_ms = u64::try_from(DEADLINE.as_millis()).unwrap_or(u64::MAX);
            let secrets = secrets.clone();
            let request = ProbeRequest { grant, kind: ProbeKind::Capability, deadline_ms, secrets };
            let answer: Result<ProbeAnswer, ProbeError> = probe::run(&program, family, request.clone()).await;
            let outcome = answer.map_err(|error| error.to_string());
            let evidence = Some(ProbedProvider::new(&request, outcome.clone()));
            let examination = Examination { id, lease, outcome, evidence };
            answered(&examination);
            examination
        }
    });
    join_all(asked).await
}

/// Writes down what was seen. Blocks for the disk.
pub fn keep(state: &StateDir, examined: Vec<Examination>) -> Result<Examined, StoreError> {
    let rows = examined.iter().map(Examination::row).collect();
    let seen: Vec<ProbedProvider> = examined.into_iter().filter_map(|one| one.evidence).collect();
    let evidence = match seen.is_empty() {
        true => None,
        false => Some(artifacts::write_probe(state, Timestamp::now(), &seen)?),
    };
    Ok(Examined { rows, evidence })
}
