//! The jobs that the supervisor knows, and how they are named and shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ractor::ActorRef;
use ukai_protocol::command::command;
use ukai_protocol::control::{JobResult, JobRow};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, JobSpec, JobStatus, Limits};
use ukai_protocol::run_state::{OpenAsk, Progress};

use crate::cli::progress::argument;
use crate::job::{self, IllegalTransition, Life, Step};
use crate::pool::actor::Msg as WorkerMsg;
use crate::queue::Rank;
use crate::restart::Restarts;
use crate::resume;
use crate::route::fit::Wants;

pub struct Job {
    /// None once it has ended: nothing of it runs any more.
    pub spec: Option<Arc<JobSpec>>,
    /// What its log says, as of the last record that was stored.
    pub progress: Progress,
    pub life: Life,
    pub restarts: Restarts,
    /// What a person last said, on its way to the disk or there: it is to pause, or to stay paused.
    pub paused: bool,
    /// The latest such word that is on its way.
    pub pause_under_way: Option<u64>,
    /// A person wants it to end; it ends as soon as no process of it is left.
    pub cancel: Option<CauseKind>,
    /// Its worker was told to go, since nobody can be asked for long; it goes on by itself.
    pub parked: bool,
    /// How it ended stands in no log that could be written to.
    pub unwritten: bool,
    /// The job actor of the attempt under way.
    pub worker: Option<ActorRef<WorkerMsg>>,
    /// Lists are in the order of submission.
    pub order: u64,
}

impl Job {
    #[must_use]
    pub fn new(spec: Option<Arc<JobSpec>>, progress: Progress, life: Life, order: u64) -> Self {
        let paused = progress.paused;
        let restarts = Restarts::default();
        Job {
            spec,
            progress,
            life,
            restarts,
            paused,
            pause_under_way: None,
            cancel: None,
            parked: false,
            unwritten: false,
            worker: None,
            order,
        }
    }

    pub fn step(&mut self, step: Step) -> Result<(), IllegalTransition> {
        self.life = job::next(self.life, step)?;
        Ok(())
    }

    /// One that has ended needs no more words: its report is on the way.
    pub fn tell_worker(&self, message: WorkerMsg) {
        if let (Life::Attempt { .. }, Some(worker)) = (self.life, &self.worker) {
            let _ = worker.cast(message);
        }
    }

    /// Its place in the queue.
    #[must_use]
    pub fn rank(&self) -> Rank {
        if self.progress.attempt > 0 { Rank::Interrupted } else { Rank::New }
    }

    /// Those in force. None: what it is cannot be read.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        self.progress.limits.or_else(|| self.spec.as_ref().map(|spec| spec.limits))
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
            _ if !progress.asks.is_empty() && self.cancel.is_none() => waits_for_you(id, &progress.asks),
            Life::Queued => waits(),
            Life::BackingOff { until } => {
                format!("starts again in {} s", until.saturating_duration_since(now).as_secs_f64().ceil())
            }
            Life::Parked => "goes on at the next start of the server".to_owned(),
            Life::Attempt { .. } | Life::Interrupting { .. } | Life::Closing if self.cancel.is_some() => {
                "is being cancelled".to_owned()
            }
            Life::Attempt { .. } if progress.paused => "pauses when its current call has ended".to_owned(),
            Life::Attempt { .. } if progress.status == JobStatus::Waiting => "waits for a provider".to_owned(),
            Life::Attempt { .. }
            | Life::Interrupting { .. }
            | Life::Paused
            | Life::Closing
            | Life::Ended
            | Life::Resuming => String::new(),
        };
        JobRow::of(id.clone(), progress, note)
    }

    #[must_use]
    pub fn result(&self, id: &JobId) -> JobResult {
        resume::result(id, &self.progress)
    }
}

/// What jobs can be called.
pub fn names(jobs: &BTreeMap<JobId, Job>) -> impl Iterator<Item = (&JobId, &str)> {
    jobs.iter().map(|(id, job)| (id, &*job.progress.name))
}

/// Names the first question, and counts the others.
fn waits_for_you(id: &JobId, asks: &[OpenAsk]) -> String {
    let Some(ask) = asks.first() else { return String::new() };
    let more = if asks.len() > 1 { format!(" and {} more", asks.len() - 1) } else { String::new() };
    let approve = command(&["approve", &format!("{id}/{}", ask.call)]);
    format!("waits for you: {} {}{more}; type: {approve}", ask.tool, argument(&ask.input))
}
