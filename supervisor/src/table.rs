//! The jobs that the supervisor knows, and how they are named and shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ractor::ActorRef;
use ukai_protocol::control::{JobResult, JobRow};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, JobSpec, JobStatus};
use ukai_protocol::run_state::Progress;

use crate::job::{self, IllegalTransition, Life, Step};
use crate::pool::actor::Msg as WorkerMsg;
use crate::restart::Restarts;
use crate::route::fit::Wants;

pub struct Job {
    /// None once it has ended: nothing of it runs any more.
    pub spec: Option<Arc<JobSpec>>,
    /// What its log says, as of the last record that was stored.
    pub progress: Progress,
    pub life: Life,
    pub restarts: Restarts,
    /// A person wants it to end; it ends as soon as no process of it is left.
    pub cancel: Option<CauseKind>,
    /// The job actor of the attempt under way.
    pub worker: Option<ActorRef<WorkerMsg>>,
    /// Lists are in the order of submission.
    pub order: u64,
}

impl Job {
    #[must_use]
    pub fn new(spec: Option<Arc<JobSpec>>, progress: Progress, life: Life, order: u64) -> Self {
        Job { spec, progress, life, restarts: Restarts::default(), cancel: None, worker: None, order }
    }

    pub fn step(&mut self, step: Step) -> Result<(), IllegalTransition> {
        self.life = job::next(self.life, step)?;
        Ok(())
    }

    #[must_use]
    pub fn wants(&self) -> Wants {
        self.spec.as_ref().map_or_else(Wants::default, |spec| Wants {
            provider: spec.provider.clone(),
            model: spec.model.clone(),
            priority: spec.policy.provider_priority.clone(),
        })
    }

    #[must_use]
    pub fn row(&self, id: &JobId, now: Instant, waits: impl Fn() -> String) -> JobRow {
        let progress = &self.progress;
        let note = match self.life {
            Life::Queued => waits(),
            Life::BackingOff { until } => {
                format!("starts again in {} s", until.saturating_duration_since(now).as_secs_f64().ceil())
            }
            Life::Parked => "goes on at the next start of the server".to_owned(),
            Life::Attempt { .. } | Life::Interrupting { .. } | Life::Closing if self.cancel.is_some() => {
                "is being cancelled".to_owned()
            }
            Life::Attempt { .. } if progress.status == JobStatus::Waiting => "waits for a provider".to_owned(),
            Life::Attempt { .. } | Life::Interrupting { .. } | Life::Closing | Life::Ended => String::new(),
        };
        JobRow {
            id: id.clone(),
            name: progress.name.clone(),
            status: progress.status,
            outcome: progress.outcome.clone(),
            attention: progress.attention.is_some(),
            used: progress.used,
            restarts: progress.restarts(),
            provider: progress.provider.clone(),
            note,
        }
    }

    #[must_use]
    pub fn result(&self) -> JobResult {
        JobResult {
            text: self.progress.text.clone(),
            duration_ms: self.progress.used.wall_ms,
            denied: self.progress.denied.clone(),
        }
    }
}

/// How many candidates an ambiguous name is answered with.
const CANDIDATES_SHOWN_MAX: usize = 10;

/// The job that `text` names: by its id, its name, or a prefix of its id that no other has.
pub fn resolve<'a>(jobs: &'a BTreeMap<JobId, Job>, text: &str) -> Result<&'a JobId, String> {
    if let Ok(id) = text.parse::<JobId>()
        && let Some((id, _)) = jobs.get_key_value(&id)
    {
        return Ok(id);
    }
    let named: Vec<&JobId> = jobs.iter().filter(|(_, job)| job.progress.name == text).map(|(id, _)| id).collect();
    let found = match named.is_empty() {
        true if text.is_empty() => Vec::new(),
        true => jobs.keys().filter(|id| id.as_str().starts_with(text)).collect(),
        false => named,
    };
    match found[..] {
        [id] => Ok(id),
        [] => Err(format!("no job has the id, the name or the prefix `{text}`; `ukai ls` shows them all")),
        _ => {
            let shown: Vec<&str> = found.iter().take(CANDIDATES_SHOWN_MAX).map(|id| id.as_str()).collect();
            let more = found.len().saturating_sub(CANDIDATES_SHOWN_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(format!("`{text}` names {} jobs: {}{more}; use an id", found.len(), shown.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(jobs: &[(&str, &str)]) -> BTreeMap<JobId, Job> {
        let job = |(id, name): &(&str, &str)| {
            let progress = Progress { name: (*name).to_owned(), ..Progress::default() };
            (id.parse().expect("an id"), Job::new(None, progress, Life::Queued, 0))
        };
        jobs.iter().map(job).collect()
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let jobs =
            table(&[("j-aaaaaaaa", "one"), ("j-aaaaaaab", "two"), ("j-bbbbbbbb", "two"), ("j-cccccccc", "j-aaaaaaaa")]);
        match (resolve(&jobs, text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn an_id_before_a_name_before_a_prefix() {
        check("j-aaaaaaaa", Ok("j-aaaaaaaa"));
        check("one", Ok("j-aaaaaaaa"));
        check("j-b", Ok("j-bbbbbbbb"));
        check("j-aaaa", Err("j-aaaaaaaa, j-aaaaaaab"));
        check("two", Err("j-aaaaaaab, j-bbbbbbbb"));
        check("x", Err("no job"));
        check("", Err("no job"));
    }
}
