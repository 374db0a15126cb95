//! Which records the owner is told of, and in which words. One road for what just happened and for what an earlier
//! process left untold.

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use ukai_notifier::What;
use ukai_protocol::control::BreakerState;
use ukai_protocol::event::{Event, Why};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{JobStatus, Limits, Outcome, Used};
use ukai_protocol::run_state::OpenAsk;
use ukai_protocol::server_event::{ALERTS, ServerEvent};

use crate::cli::progress::argument;
use crate::resume;

/// Names, as they stand on disk, of the records of a job that may be news.
pub const OF_JOBS: [&str; 5] = ["Finished", "LimitWarned", "Attention", "AskOpened", "Injected"];

/// The job that a record is about.
pub struct About<'a> {
    pub id: &'a JobId,
    pub name: &'a str,
    /// Of the provider that it was last assigned to.
    pub account: Option<&'a str>,
    pub used: &'a Used,
    /// What still waits for a person.
    pub asks: &'a [OpenAsk],
    /// Those in force. None: they cannot be read, and nothing is told of them.
    pub limits: Option<Limits>,
}

#[must_use]
pub fn of_job(about: &About<'_>, event: &Event) -> Option<What> {
    let About { id, name, account, used, asks, limits } = *about;
    let (job, name, account) = (id.clone(), name.to_owned(), account.map(str::to_owned));
    Some(match event {
        Event::Finished { outcome, .. } => match outcome {
            Outcome::Ended(cause) if outcome.status() == JobStatus::Aborted => {
                let raise = limits.map(|limits| resume::to_raise(Some(outcome), used, &limits)).unwrap_or_default();
                What::JobAborted { job, name, account, cause: cause.clone(), raise }
            }
            Outcome::Completed { attention: true } => What::Attention {
                job,
                name,
                account,
                why: "what it asked for was denied, and nothing was carried out".to_owned(),
            },
            Outcome::Ended(_) | Outcome::Completed { attention: false } => return None,
        },
        // Of files that did not verify: no breaker explains those.
        Event::Injected { why: Why::Alarm, text } => What::Attention { job, name, account: None, why: text.clone() },
        Event::Attention { why } => What::Attention { job, name, account: None, why: why.clone() },
        // What was answered meanwhile waits no more.
        Event::AskOpened { call, tool, input, .. } if asks.iter().any(|ask| ask.call == *call) => {
            What::AskWaiting { job, name, call: call.clone(), tool: tool.clone(), argument: argument(input) }
        }
        Event::LimitWarned { limit, used, max } => {
            What::LimitNear { job, name, account, limit: *limit, used: *used, max: *max }
        }
        _ => return None,
    })
}

/// Whether a person has seen what came before it in the log of a job.
#[must_use]
pub fn is_seen_by(event: &Event) -> bool {
    matches!(event, Event::Acked {} | Event::Resumed { .. })
}

/// Whether a later record of the server's log leaves nothing to tell of an earlier one: a person has seen it, or the files
/// verify again.
#[must_use]
pub fn is_over_by(earlier: &ServerEvent, later: &ServerEvent) -> bool {
    let over = match later {
        ServerEvent::Acked { subject } | ServerEvent::Verified { subject } => subject,
        _ => return false,
    };
    match earlier {
        ServerEvent::Quarantined { subject, .. } => subject == over,
        ServerEvent::AlertsLost { .. } => over == ALERTS,
        _ => false,
    }
}

#[must_use]
pub fn of_server(event: &ServerEvent) -> Option<What> {
    Some(match event {
        ServerEvent::BreakerMoved { account, to: BreakerState::Open, why, open_ms, .. } => {
            let until = open_ms.map(Duration::from_millis);
            What::BreakerOpened { account: account.clone(), why: why.clone(), until }
        }
        ServerEvent::BreakerMoved { account, to: BreakerState::Closed, by_person, .. } => {
            What::BreakerClosed { account: account.clone(), by_person: *by_person }
        }
        ServerEvent::BatchDone { batch, name, completed, other } => {
            What::BatchDone { batch: batch.clone(), name: name.clone(), completed: *completed, other: *other }
        }
        ServerEvent::Quarantined { subject, why } => What::Quarantined { subject: subject.clone(), why: why.clone() },
        ServerEvent::StartsPaused { pause_ms } => What::StartsPaused { pause: Duration::from_millis(*pause_ms) },
        ServerEvent::AlertsLost { sink, count, .. } => What::Lost { sink: sink.clone(), count: *count },
        ServerEvent::BreakerMoved { to: BreakerState::HalfOpen, .. }
        | ServerEvent::Verified { .. }
        | ServerEvent::Acked { .. }
        | ServerEvent::Recovered { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use ukai_protocol::job::{Cause, CauseKind, Limit};

    use super::*;

    #[test]
    fn what_a_provider_may_explain_names_its_account() {
        let id = JobId::from_random([0; 5]);
        let used = Used::default();
        let about = About { id: &id, name: "n", account: Some("lab"), used: &used, asks: &[], limits: None };
        let finished = |outcome| Event::Finished { outcome, text: String::new() };
        let warned = Event::LimitWarned { limit: Limit::Steps, used: 8.0, max: 10.0 };
        for (event, expected) in [
            (finished(Outcome::Ended(Cause::new(CauseKind::AllOpen, ""))), Some("lab")),
            (finished(Outcome::Completed { attention: true }), Some("lab")),
            (warned, Some("lab")),
            // It is about files.
            (Event::Attention { why: "cleared".to_owned() }, None),
        ] {
            let account = match of_job(&about, &event) {
                Some(
                    What::JobAborted { account, .. }
                    | What::Attention { account, .. }
                    | What::LimitNear { account, .. },
                ) => account,
                other => panic!("{other:?}"),
            };
            assert_eq!(account.as_deref(), expected, "{event:?}");
        }
    }

    #[test]
    fn what_a_person_ended_or_what_went_well_is_no_news() {
        let id = JobId::from_random([0; 5]);
        let (used, limits) = (Used { steps: 25, ..Used::default() }, Some(Limits::default()));
        let about = About { id: &id, name: "n", account: Some("lab"), used: &used, asks: &[], limits };
        let ended = |kind| Outcome::Ended(Cause::new(kind, ""));
        for (outcome, told) in [
            (Outcome::Completed { attention: false }, false),
            (Outcome::Completed { attention: true }, true),
            (ended(CauseKind::Cancel), false),
            (ended(CauseKind::Signal), false),
            (ended(CauseKind::AllOpen), true),
            (ended(CauseKind::CrashLoop), true),
        ] {
            let event = Event::Finished { outcome, text: String::new() };
            assert_eq!(of_job(&about, &event).is_some(), told, "{event:?}");
            assert!(OF_JOBS.contains(&event.name()));
        }
        let outcome = ended(CauseKind::Limit(Limit::Steps));
        let Some(What::JobAborted { raise, .. }) = of_job(&about, &Event::Finished { outcome, text: String::new() })
        else {
            panic!("it is news")
        };
        assert_eq!(raise, ["steps=50"], "what is told to be typed names what it needs");
    }
}
