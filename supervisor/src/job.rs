//! The life of one job as the supervisor leads it, apart from what its log says.
//!
//! The log's fold ([`ukai_protocol::run_state::Progress`]) says where the run stands; it cannot say what the supervisor
//! is doing about it: whether a slot is taken, whether a process may exist, whether an end is being written. Those are
//! the states here, each with only what is true in it, and [`next`] is the one place where they change.
//!
//! What is shown as waiting or running is the fold's word; here both are [`Life::Attempt`].

#![deny(clippy::disallowed_methods)]

use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// In the queue: no slot, no process.
    Queued,
    /// A slot is taken and a job actor looks after a process, from before its start until after its last record.
    Attempt { attempt: u32 },
    /// The process is gone and `Interrupted` is being written: no slot.
    Interrupting { attempt: u32 },
    /// Between a crash and its restart: no slot, no process.
    BackingOff { until: Instant },
    /// A person paused it: no slot, no process.
    Paused,
    /// Its end was decided and is being written: no slot, no process, and no way back.
    Closing,
    /// The end is durable.
    Ended,
    /// It had ended, and that a person lets it go on is being written.
    Resuming,
    /// The supervisor drains: the run is interrupted and goes on at the next start.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The queue gave it a slot.
    Start { attempt: u32 },
    /// The process is gone, its connection read to its end, all its records stored.
    Gone,
    /// `Interrupted` is durable; run again at once.
    Requeue,
    /// `Interrupted` is durable; run again later.
    BackOff { until: Instant },
    /// The backing off is over.
    Due,
    /// A person wants it to wait.
    Pause,
    /// A person lets it go on.
    Unpause,
    /// `Interrupted` is durable; not again in this supervisor's life.
    Park,
    /// An end is to be written.
    Close,
    /// A terminal event is durable, or a resumption could not be written.
    End,
    /// A person lets it go on after its end.
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} cannot follow in {life:?}")]
pub struct IllegalTransition {
    pub life: Life,
    pub step: Step,
}

pub fn next(life: Life, step: Step) -> Result<Life, IllegalTransition> {
    Ok(match (life, step) {
        (Life::Queued, Step::Start { attempt }) => Life::Attempt { attempt },
        (Life::Attempt { attempt }, Step::Gone) => Life::Interrupting { attempt },
        (Life::Interrupting { .. } | Life::Resuming, Step::Requeue) => Life::Queued,
        (Life::Interrupting { .. }, Step::BackOff { until }) => Life::BackingOff { until },
        (Life::BackingOff { .. }, Step::Due) => Life::Queued,
        // Never from Attempt: its worker is told, and stops when its call has ended.
        (Life::Queued | Life::Interrupting { .. } | Life::BackingOff { .. }, Step::Pause) => Life::Paused,
        (Life::Paused, Step::Unpause) => Life::Queued,
        (Life::Queued | Life::Interrupting { .. } | Life::BackingOff { .. } | Life::Resuming, Step::Park) => {
            Life::Parked
        }
        (Life::Ended, Step::Resume) => Life::Resuming,
        // Never from Attempt: its process may live, and may be about to write the end itself.
        (
            Life::Queued
            | Life::Interrupting { .. }
            | Life::BackingOff { .. }
            | Life::Paused
            | Life::Parked
            | Life::Resuming,
            Step::Close,
        ) => Life::Closing,
        (Life::Interrupting { .. } | Life::Closing | Life::Resuming, Step::End) => Life::Ended,
        _ => return Err(IllegalTransition { life, step }),
    })
}

impl Life {
    #[must_use]
    pub fn holds_slot(self) -> bool {
        matches!(self, Life::Attempt { .. })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn check(life: Life, step: Step, expected: Option<Life>) {
        assert_eq!(next(life, step).ok(), expected, "{life:?} {step:?}");
    }

    #[test]
    fn an_end_is_never_written_while_a_process_may_write_its_own() {
        check(Life::Attempt { attempt: 1 }, Step::Close, None);
        check(Life::Attempt { attempt: 1 }, Step::End, None);
        check(Life::Interrupting { attempt: 1 }, Step::Close, Some(Life::Closing));
    }

    #[test]
    fn a_decided_end_has_no_way_back() {
        for step in
            [Step::Requeue, Step::Due, Step::Start { attempt: 2 }, Step::Close, Step::Park, Step::Pause, Step::Unpause]
        {
            check(Life::Closing, step, None);
            check(Life::Ended, step, None);
        }
        check(Life::Closing, Step::Resume, None);
        check(Life::Ended, Step::Resume, Some(Life::Resuming));
        check(Life::Closing, Step::End, Some(Life::Ended));
    }

    #[test]
    fn only_a_person_lets_a_paused_job_go_on() {
        for step in [Step::Start { attempt: 2 }, Step::Requeue, Step::Due, Step::Park, Step::Pause, Step::Gone] {
            check(Life::Paused, step, None);
        }
        check(Life::Paused, Step::Unpause, Some(Life::Queued));
        check(Life::Paused, Step::Close, Some(Life::Closing));
        check(Life::Attempt { attempt: 1 }, Step::Pause, None);
    }

    #[test]
    fn a_worker_that_wrote_its_end_is_ended_without_another() {
        let gone = next(Life::Attempt { attempt: 3 }, Step::Gone).expect("its process is gone");
        check(gone, Step::End, Some(Life::Ended));
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let later = Instant::now() + Duration::from_secs(1);
        prop_oneof![
            (1u32..9).prop_map(|attempt| Step::Start { attempt }),
            Just(Step::Gone),
            Just(Step::Requeue),
            Just(Step::BackOff { until: later }),
            Just(Step::Due),
            Just(Step::Pause),
            Just(Step::Unpause),
            Just(Step::Park),
            Just(Step::Close),
            Just(Step::End),
            Just(Step::Resume),
        ]
    }

    proptest! {
        #[test]
        fn starts_and_ends_of_processes_alternate_and_after_an_end_only_a_person_goes_on(steps in prop::collection::vec(any_step(), 0..60)) {
            let mut life = Life::Queued;
            let (mut processes, mut ends, mut paused) = (0i32, 0, false);
            for step in steps {
                let Ok(after) = next(life, step) else { continue };
                match step {
                    Step::Start { .. } => processes += 1,
                    Step::Gone => processes -= 1,
                    Step::End => ends += 1,
                    Step::Resume => ends -= 1,
                    Step::Pause => paused = true,
                    Step::Unpause | Step::Close => paused = false,
                    _ => {}
                }
                prop_assert_eq!(after == Life::Paused, paused);
                prop_assert_eq!(after.holds_slot(), processes == 1);
                prop_assert!((0..=1).contains(&processes) && ends <= 1);
                life = after;
            }
        }
    }
}
