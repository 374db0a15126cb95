//! What a worker has been told about pausing, and whether its end was what it was told.
//!
//! A connection may break between the word and its being heard, and the supervisor may have been another one when it
//! was said. So a worker that comes back is told again, whichever of the two holds; hearing it twice changes nothing.

use ukai_protocol::session::ToWorker;

use super::State;
use crate::restart::Exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pausing {
    No,
    Yes,
    /// It was told to go on after all, and may have begun to stop before it heard.
    NotAnyMore,
}

impl State {
    pub(super) fn pause(&mut self) {
        self.pausing = Pausing::Yes;
        self.send(ToWorker::Pause);
    }

    pub(super) fn unpause(&mut self) {
        if self.pausing == Pausing::Yes {
            self.pausing = Pausing::NotAnyMore;
        }
        self.send(ToWorker::Unpause);
    }

    /// A worker has been let in.
    pub(super) fn tell_pausing(&mut self, again: bool) {
        match self.pausing {
            Pausing::Yes => self.send(ToWorker::Pause),
            Pausing::No | Pausing::NotAnyMore if again => self.send(ToWorker::Unpause),
            Pausing::No | Pausing::NotAnyMore => {}
        }
    }

    /// Whether it ended because of the pause, and nobody ended it.
    pub(super) fn has_paused(&self, exit: &Exit) -> bool {
        self.stop.is_none() && self.pausing.explains(exit)
    }
}

impl Pausing {
    /// How a process ended that was no child of ours is not known: one that was to pause is believed to have.
    fn explains(self, exit: &Exit) -> bool {
        match self {
            Pausing::No => false,
            Pausing::Yes => matches!(exit, Exit::Code(0) | Exit::Unknown),
            Pausing::NotAnyMore => *exit == Exit::Code(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_told_to_pause_and_ended_well_has_paused() {
        for (exit, [no, yes, not_any_more]) in [
            (Exit::Code(0), [false, true, true]),
            (Exit::Unknown, [false, true, false]),
            (Exit::Code(70), [false; 3]),
            (Exit::Signal(9), [false; 3]),
            (Exit::NotStarted(String::new()), [false; 3]),
        ] {
            for (pausing, paused) in [(Pausing::No, no), (Pausing::Yes, yes), (Pausing::NotAnyMore, not_any_more)] {
                assert_eq!(pausing.explains(&exit), paused, "{pausing:?} {exit:?}");
            }
        }
    }
}
