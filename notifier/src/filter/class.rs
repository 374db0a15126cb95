//! What matters more, and how what has no line of its own is counted in words.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::job::CauseKind;

use crate::alert::What;

/// The most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Test,
    Quarantined,
    CrashLoop,
    Opened,
    Aborted,
    StartsPaused,
    Lost,
    Attention,
    Waiting,
    BatchDone,
    LimitNear,
    Closed,
}

impl Class {
    #[must_use]
    pub fn of(what: &What) -> Class {
        match what {
            What::Test => Class::Test,
            What::Quarantined { .. } => Class::Quarantined,
            What::JobAborted { cause, .. } if cause.kind == CauseKind::CrashLoop => Class::CrashLoop,
            What::BreakerOpened { .. } => Class::Opened,
            What::JobAborted { .. } => Class::Aborted,
            What::StartsPaused { .. } => Class::StartsPaused,
            What::Lost { .. } => Class::Lost,
            What::Attention { .. } => Class::Attention,
            What::AskWaiting { .. } => Class::Waiting,
            What::BatchDone { .. } => Class::BatchDone,
            What::LimitNear { .. } => Class::LimitNear,
            What::BreakerClosed { .. } => Class::Closed,
        }
    }

    /// After a number: those that found no room in a message.
    #[must_use]
    pub fn more(self, count: u64) -> &'static str {
        let (one, many) = match self {
            Class::Test => ("more test", "more tests"),
            Class::Quarantined => ("more quarantined", "more quarantined"),
            Class::CrashLoop => ("more job in a crash loop", "more jobs in a crash loop"),
            Class::Opened => ("more provider account not asked", "more provider accounts not asked"),
            Class::Aborted => ("more job aborted", "more jobs aborted"),
            Class::StartsPaused => ("more pause of starts", "more pauses of starts"),
            Class::Lost => ("more sink lost alerts", "more sinks lost alerts"),
            Class::Attention => ("more job needs attention", "more jobs need attention"),
            Class::Waiting => ("more call waits for you", "more calls wait for you"),
            Class::BatchDone => ("more batch done", "more batches done"),
            Class::LimitNear => ("more limit nearly used up", "more limits nearly used up"),
            Class::Closed => ("more provider account asked again", "more provider accounts asked again"),
        };
        if count == 1 { one } else { many }
    }

    /// After a number: what an OPEN breaker brought with it.
    #[must_use]
    pub fn meanwhile(self, count: u64) -> &'static str {
        let (one, many) = match self {
            Class::Aborted => ("job aborted meanwhile", "jobs aborted meanwhile"),
            Class::Attention => ("job needs attention meanwhile", "jobs need attention meanwhile"),
            Class::LimitNear => ("limit nearly used up meanwhile", "limits nearly used up meanwhile"),
            // Nothing else is inhibited.
            _ => return self.more(count),
        };
        if count == 1 { one } else { many }
    }
}
