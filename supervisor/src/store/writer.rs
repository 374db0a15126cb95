//! The one that writes a run's log. It lives on whichever thread a lane has lent it to, and may block.
//!
//! All appends that wait for a run go out in one write and one sync. Each is checked first against the fold itself, with
//! the conversation left out of the state (no event is judged by it): what would not load is never written, and
//! the state held here does not grow with the run.

use std::path::Path;
use std::sync::Arc;

use ukai_protocol::control::Happened;
use ukai_protocol::disk;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_protocol::run_state::{Progress, RunState};

use super::error::StoreError;
use super::event_log::{self, Record};
use super::loader::{self, Opened};
use super::log_file::LogFile;
use super::message::{Appended, Numbered};
use super::paths::{RunDir, StateDir};
use super::spec_file;

/// Room for the record of the end when the disk is full (spec §10).
const RESERVE_BYTES: u64 = 64 * 1024;

/// The clock that stamps records.
pub type Clock = fn() -> String;

/// What one caller wants recorded.
pub struct Append {
    pub from: Option<Numbered>,
    pub events: Vec<Event>,
}

pub type Answer = Result<Arc<Appended>, StoreError>;

pub struct Writer {
    id: JobId,
    run: RunDir,
    log: LogFile,
    /// Without its conversation.
    state: RunState,
    pub snapshot_seq: u64,
}

impl Writer {
    /// A run that is on disk already.
    pub fn open(state: &StateDir, id: &JobId) -> Result<Self, StoreError> {
        match loader::open(state, id)? {
            Opened::Run(found) => {
                let run = state.run(id);
                let log = LogFile::at(run.log(), found.log_bytes);
                let mut state = found.state;
                slim(&mut state);
                Ok(Writer { id: id.clone(), run, log, state, snapshot_seq: found.snapshot_seq })
            }
            Opened::Refused { why, .. } => Err(StoreError::Quarantined { job: id.clone(), why }),
            Opened::Never => Err(StoreError::Unknown(id.clone())),
        }
    }

    /// A new run. On an error nothing of it is left. The log is there, empty, before `job.json`: the sync of the folder
    /// that completes the one covers the other.
    pub fn create(
        state: &StateDir,
        id: &JobId,
        spec: &JobSpec,
        submitted: Event,
        clock: Clock,
    ) -> Result<(Self, Answer), StoreError> {
        let run = state.run(id);
        if run.root().exists() || state.quarantine_of(id).exists() {
            return Err(StoreError::Exists(id.clone()));
        }
        let created = (|| {
            let io = |path: &Path, error| StoreError::io("creating", path, &error);
            disk::create_dir(&run.outputs()).map_err(|error| io(&run.outputs(), error))?;
            disk::allocate(&run.reserve(), RESERVE_BYTES).map_err(|error| io(&run.reserve(), error))?;
            let log = LogFile::create(run.log())?;
            spec_file::save(&run.spec(), spec).map_err(|error| io(&run.spec(), error))?;
            let run = run.clone();
            let mut writer = Writer { id: id.clone(), run, log, state: RunState::default(), snapshot_seq: 0 };
            let append = Append { from: None, events: vec![submitted] };
            let answer = writer.flush(vec![append], clock).pop().unwrap_or(Err(StoreError::Stopped))?;
            Ok((writer, Ok(answer)))
        })();
        if created.is_err()
            && let Err(error) = disk::remove_dir_all(run.root())
        {
            // Without a whole record in its log it is no job, now or at the next start.
            tracing::warn!("removing {}: {error}", run.root().display());
        }
        created
    }

    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.state.progress
    }

    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Gives the descriptor back.
    pub fn rest(&mut self) {
        self.log.close();
    }

    /// Records what was asked, in order, and answers each in the same order. A refused append does not hold up the
    /// others; a failed write fails all of them.
    pub fn flush(&mut self, appends: Vec<Append>, clock: Clock) -> Vec<Answer> {
        let at = clock();
        let mut trial = self.state.clone();
        let mut lines = String::new();
        let ends =
            appends.iter().flat_map(|append| &append.events).any(|event| matches!(event, Event::Finished { .. }));
        let answers: Vec<_> =
            appends.into_iter().map(|append| self.stage(append, &mut trial, &mut lines, &at)).collect();
        if lines.is_empty() {
            return answers;
        }
        match self.write(lines.as_bytes(), ends) {
            Ok(()) => {
                self.state = trial;
                answers
            }
            Err(error) => {
                tracing::error!("recording for {}: {error}", self.id);
                answers.into_iter().map(|answer| answer.and_then(|_| Err(error.clone()))).collect()
            }
        }
    }

    /// Adds one append to the lines, or changes nothing.
    fn stage(&self, append: Append, trial: &mut RunState, lines: &mut String, at: &str) -> Answer {
        let events = self.new_ones(append, &trial.progress)?;
        let (before, length) = (trial.clone(), lines.len());
        let mut records = Vec::with_capacity(events.len());
        let staged = events.into_iter().try_for_each(|event| {
            let job = || self.id.clone();
            trial.apply(&event).map_err(|illegal| StoreError::Illegal { job: job(), why: illegal.to_string() })?;
            slim(trial);
            let record = Record { seq: trial.progress.seq, at: at.to_owned(), event };
            let line =
                event_log::encode(&record).map_err(|unwritable| StoreError::Unwritable { job: job(), unwritable })?;
            lines.push_str(&line);
            let Record { seq, at, event } = record;
            records.push(Happened { job: job(), seq, at, event });
            Ok(())
        });
        if let Err(error) = staged {
            *trial = before;
            lines.truncate(length);
            return Err(error);
        }
        Ok(Arc::new(Appended { job: self.id.clone(), records, progress: trial.progress.clone() }))
    }

    /// The events that the log does not hold yet. A worker numbers its events from 0 in each attempt and sends again
    /// what was not acknowledged; the log's own count tells what came through (spec §1, `Record{attempt, n}`).
    fn new_ones(&self, append: Append, progress: &Progress) -> Result<Vec<Event>, StoreError> {
        let Append { from, mut events } = append;
        let job = || self.id.clone();
        let illegal = |event: &Event, who: &str| StoreError::Illegal {
            job: job(),
            why: format!("{} is not for {who} to record", event.name()),
        };
        let Some(Numbered { attempt, n }) = from else {
            let strange =
                events.iter().find(|event| !event.is_supervisors() && !matches!(event, Event::Finished { .. }));
            return strange.map_or(Ok(()), |event| Err(illegal(event, "the supervisor"))).map(|()| events);
        };
        if let Some(strange) = events.iter().find(|event| event.is_supervisors()) {
            return Err(illegal(strange, "a worker"));
        }
        if attempt != progress.attempt {
            return Err(StoreError::StaleAttempt { job: job(), theirs: attempt, ours: progress.attempt });
        }
        if n > progress.recorded {
            return Err(StoreError::Gap { job: job(), expected: progress.recorded, found: n });
        }
        let end = n + events.len() as u64;
        // The end counts among the recorded too, and the supervisor may have written it in the worker's place.
        if let Some(outcome) = &progress.outcome
            && end == progress.recorded
            && events
                .last()
                .is_some_and(|last| !matches!(last, Event::Finished { outcome: theirs, .. } if theirs == outcome))
        {
            return Err(StoreError::Illegal { job: job(), why: "the run has finished".to_owned() });
        }
        let known = usize::try_from(progress.recorded - n).unwrap_or(usize::MAX).min(events.len());
        events.drain(..known);
        Ok(events)
    }

    /// A full disk gets the reserve back, once, when the end itself is to be written.
    fn write(&mut self, lines: &[u8], ends: bool) -> Result<(), StoreError> {
        match self.log.append(lines) {
            Err(error) if ends && error.is_out_of_space() => {
                tracing::error!("{error}: giving the reserve of {} back to record its end", self.id);
                let path = self.run.reserve();
                disk::remove_file(&path).map_err(|error| StoreError::io("releasing", &path, &error))?;
                self.log.append(lines)
            }
            other => other,
        }?;
        if ends && let Err(error) = disk::remove_file(&self.run.reserve()) {
            // It costs space, nothing else.
            tracing::warn!("releasing the reserve of {}: {error}", self.id);
        }
        Ok(())
    }
}

/// Drops what no event is judged by.
fn slim(state: &mut RunState) {
    state.messages = Vec::new();
    state.system = None;
}

#[cfg(test)]
mod tests {
    use nix::libc::{EIO, EMFILE, ENOSPC};
    use ukai_protocol::disk::fault::{self, Effect, Fault, Operation};

    use super::*;
    use crate::store::testing::{
        Temp, aborted, at, attention, finished, fold, id, interrupted, leased, replied, run, spec, started, step,
        submitted, tool_started,
    };

    fn writer(temp: &Temp) -> Writer {
        Writer::open(&temp.state, &id(1)).expect("it opens")
    }

    fn created(temp: &Temp) -> Writer {
        Writer::create(&temp.state, &id(1), &spec(), submitted(), at).expect("created").0
    }

    fn ours(events: Vec<Event>) -> Append {
        Append { from: None, events }
    }

    fn workers(attempt: u32, n: u64, events: Vec<Event>) -> Append {
        Append { from: Some(Numbered { attempt, n }), events }
    }

    fn one(writer: &mut Writer, append: Append) -> Result<u64, StoreError> {
        writer.flush(vec![append], at).remove(0).map(|appended| appended.records.len() as u64)
    }

    #[test]
    fn a_new_run_is_whole_on_disk_and_opens_again() {
        let temp = Temp::new();
        let mut first = created(&temp);
        assert_eq!(one(&mut first, ours(vec![started(1)])), Ok(1));
        assert_eq!(temp.events(), [submitted(), started(1)]);
        assert_eq!(std::fs::metadata(temp.run().reserve()).expect("reserve").len(), RESERVE_BYTES);
        assert_eq!(writer(&temp).progress(), first.progress());
        let again = Writer::create(&temp.state, &id(1), &spec(), submitted(), at);
        assert_eq!(again.err(), Some(StoreError::Exists(id(1))));
        assert_eq!(temp.events(), [submitted(), started(1)]);
    }

    #[test]
    fn a_run_that_cannot_be_created_leaves_nothing() {
        for (operation, file) in [
            (Operation::Open, "reserve"),
            (Operation::Open, "events.jsonl"),
            (Operation::Replace, "job.json"),
            (Operation::Write, "events.jsonl"),
            (Operation::Sync, "events.jsonl"),
        ] {
            let temp = Temp::new();
            let under = temp.run().root().join(file);
            let fault = fault::inject(Fault { under, operation, skip: 0, times: 1, effect: Effect::Fail(ENOSPC) });
            let error = Writer::create(&temp.state, &id(1), &spec(), submitted(), at).err();
            assert!(error.is_some_and(|error| error.is_out_of_space()), "{operation:?} {file}");
            assert!(!temp.run().root().exists(), "{operation:?} {file}");
            drop(fault);
            created(&temp);
        }
    }

    #[test]
    fn what_is_sent_again_is_recorded_once() {
        let temp = Temp::with(&[submitted(), started(1)]);
        let mut writer = writer(&temp);
        let check =
            |writer: &mut Writer, quirk: &str, n: u64, events: Vec<Event>, expected: Result<u64, StoreError>| {
                assert_eq!(one(writer, workers(1, n, events)), expected, "{quirk}");
            };
        let gap = |expected, found| Err(StoreError::Gap { job: id(1), expected, found });
        check(&mut writer, "one that never arrived", 1, step(1), gap(0, 1));
        check(&mut writer, "the first", 0, step(1), Ok(5));
        check(&mut writer, "all again", 0, step(1), Ok(0));
        check(&mut writer, "some again", 3, step(1).split_off(3), Ok(0));
        check(&mut writer, "some again with new ones", 4, [step(1).split_off(4), step(2)].concat(), Ok(5));
        check(&mut writer, "nothing", 10, Vec::new(), Ok(0));
        check(&mut writer, "a gap", 11, step(3), gap(10, 11));
        let stale = StoreError::StaleAttempt { job: id(1), theirs: 2, ours: 1 };
        assert_eq!(one(&mut writer, workers(2, 0, step(3))), Err(stale));
        assert_eq!(one(&mut writer, ours(vec![interrupted(1), started(2)])), Ok(2));
        let stale = StoreError::StaleAttempt { job: id(1), theirs: 1, ours: 2 };
        assert_eq!(one(&mut writer, workers(1, 10, step(3))), Err(stale));
        assert_eq!(one(&mut writer, workers(2, 0, step(3))), Ok(5));
        let expected = [vec![submitted(), started(1)], step(1), step(2), vec![interrupted(1), started(2)], step(3)];
        assert_eq!(temp.events(), expected.concat());
    }

    #[test]
    fn after_a_crash_the_log_tells_what_came_through() {
        let temp = Temp::with(&[vec![submitted(), started(1)], step(1)].concat());
        let mut writer = writer(&temp);
        assert_eq!(one(&mut writer, workers(1, 3, [step(1).split_off(3), step(2)].concat())), Ok(5));
        assert_eq!(temp.events(), [vec![submitted(), started(1)], step(1), step(2)].concat());
    }

    #[test]
    fn an_end_is_recorded_once_whoever_wrote_it() {
        let end = |by_worker: bool, outcome: Event| {
            let temp = Temp::with(&run(1));
            let mut writer = writer(&temp);
            let recorded = writer.progress().recorded;
            let append = if by_worker { workers(1, recorded, vec![outcome]) } else { ours(vec![outcome]) };
            assert_eq!(one(&mut writer, append), Ok(1));
            (temp, writer, recorded)
        };
        let (_temp, mut writer, n) = end(true, finished());
        assert_eq!(one(&mut writer, workers(1, n, vec![finished()])), Ok(0), "the acknowledgement was lost");
        let finished_before = |found: Result<u64, StoreError>| matches!(found, Err(StoreError::Illegal { .. }));
        assert!(finished_before(one(&mut writer, ours(vec![aborted(1)]))));
        let (_temp, mut writer, n) = end(false, aborted(EIO));
        assert!(finished_before(one(&mut writer, workers(1, n, vec![leased(2)]))), "it is not what the log has there");
        assert!(finished_before(one(&mut writer, workers(1, n, step(2)))));
        assert_eq!(one(&mut writer, workers(1, n - 1, vec![step(1).remove(4)])), Ok(0), "recorded before the end");
        assert_eq!(one(&mut writer, ours(vec![attention()])), Ok(1), "a person may still be called");
    }

    #[test]
    fn each_records_only_what_is_theirs_to_know() {
        let temp = Temp::with(&run(1));
        let mut writer = writer(&temp);
        let n = writer.progress().recorded;
        for event in [submitted(), started(2), interrupted(1), attention(), Event::Recovered { torn_bytes: 1 }] {
            let refused = one(&mut writer, workers(1, n, vec![event]));
            assert!(matches!(refused, Err(StoreError::Illegal { .. })), "{refused:?}");
        }
        let refused = one(&mut writer, ours(vec![leased(2)]));
        assert!(matches!(refused, Err(StoreError::Illegal { .. })), "{refused:?}");
        assert_eq!(temp.events(), run(1));
    }

    #[test]
    fn a_refused_append_leaves_no_trace_and_holds_up_no_other() {
        let temp = Temp::with(&run(1));
        let mut writer = writer(&temp);
        let n = writer.progress().recorded;
        let answers = writer.flush(
            vec![
                workers(1, n, vec![leased(2), replied(2, &["c-2"]), tool_started("c-2")]),
                workers(1, n, step(2)),
                workers(1, n + 9, step(3)),
                workers(1, n + 5, step(3)),
            ],
            at,
        );
        let recorded: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().ok().map(|done| done.records.len())).collect();
        assert_eq!(recorded, [None, Some(5), None, Some(5)]);
        assert_eq!(temp.events(), run(3));
        let progress = |answer: &Answer| answer.as_ref().expect("recorded").progress.clone();
        assert_eq!(progress(&answers[1]), fold(&run(2)).progress, "as it was after that append");
        assert_eq!(progress(&answers[3]), fold(&run(3)).progress);
        assert_eq!(*writer.progress(), fold(&run(3)).progress);
    }

    #[test]
    fn a_failed_write_or_sync_records_nothing_and_the_next_one_is_clean() {
        for (operation, errno) in [(Operation::Write, ENOSPC), (Operation::Sync, EIO), (Operation::Sync, ENOSPC)] {
            // With the second `Open` failing too, the file cannot even be cut back at once.
            for reopens in [true, false] {
                let temp = Temp::with(&run(1));
                let mut writer = writer(&temp);
                let n = writer.progress().recorded;
                let fault = temp.fault(operation, 0, 1, Effect::Fail(errno));
                let no_open = (!reopens).then(|| temp.fault(Operation::Open, 1, 1, Effect::Fail(EMFILE)));
                let refused = one(&mut writer, workers(1, n, step(2)));
                assert!(matches!(refused, Err(StoreError::Io { errno: found, .. }) if found == errno), "{refused:?}");
                assert_eq!(writer.progress().recorded, n, "the earlier state is intact");
                drop((fault, no_open));
                assert_eq!(one(&mut writer, workers(1, n, step(2))), Ok(5), "{operation:?} {reopens}");
                assert_eq!(temp.events(), run(2), "{operation:?} {reopens}");
            }
        }
    }

    #[test]
    fn on_a_full_disk_the_end_is_written_from_the_reserve() {
        let temp = Temp::new();
        let mut writer = created(&temp);
        assert_eq!(one(&mut writer, ours(vec![started(1)])), Ok(1));
        let _full = temp.fault(Operation::Write, 0, 2, Effect::Fail(ENOSPC));
        let refused = one(&mut writer, workers(1, 0, step(1)));
        assert!(refused.is_err_and(|error| error.is_out_of_space()));
        assert!(temp.run().reserve().exists(), "it is kept for the end");
        assert_eq!(one(&mut writer, ours(vec![aborted(ENOSPC)])), Ok(1));
        assert!(!temp.run().reserve().exists());
        assert_eq!(temp.events(), [submitted(), started(1), aborted(ENOSPC)]);
    }

    #[test]
    fn another_error_or_a_disk_that_stays_full_is_told_and_leaves_the_run_as_it_was() {
        for (errno, times) in [(EIO, 1), (ENOSPC, 2)] {
            let temp = Temp::new();
            let mut writer = created(&temp);
            let _fault = temp.fault(Operation::Write, 0, times, Effect::Fail(errno));
            let refused = one(&mut writer, ours(vec![aborted(errno)]));
            assert!(matches!(refused, Err(StoreError::Io { errno: found, .. }) if found == errno));
            assert_eq!(temp.events(), [submitted()]);
            assert_eq!(temp.run().reserve().exists(), errno == EIO);
        }
    }

    #[test]
    fn a_log_that_shrank_or_vanished_is_not_written_to() {
        let vanish = |temp: &Temp| std::fs::remove_file(temp.run().log()).expect("gone");
        let shrink = |temp: &Temp| std::fs::write(temp.run().log(), "").expect("empty");
        let spoils: [&dyn Fn(&Temp); 2] = [&vanish, &shrink];
        for spoil in spoils {
            let temp = Temp::with(&run(1));
            let mut writer = writer(&temp);
            spoil(&temp);
            let n = writer.progress().recorded;
            assert!(matches!(one(&mut writer, workers(1, n, step(2))), Err(StoreError::Io { .. })));
            assert!(std::fs::metadata(temp.run().log()).map_or(0, |found| found.len()) == 0);
        }
    }

    #[test]
    fn a_log_that_another_hand_touches_while_it_is_open_takes_no_record_that_will_not_be_read() {
        let open = || {
            let temp = Temp::with(&run(1));
            let mut writer = writer(&temp);
            let n = writer.progress().recorded;
            assert_eq!(one(&mut writer, workers(1, n, step(2))), Ok(5));
            (temp, writer, n + 5)
        };
        let (temp, mut writer, n) = open();
        let mut log = std::fs::read_to_string(temp.run().log()).expect("a log");
        log.push_str("{\"v\":1,\"se");
        std::fs::write(temp.run().log(), &log).expect("half a line of somebody's");
        assert_eq!(one(&mut writer, workers(1, n, step(3))), Ok(5));
        assert_eq!(temp.events(), run(3), "what was appended to it is gone");
        let (temp, mut writer, n) = open();
        std::fs::remove_file(temp.run().log()).expect("gone");
        assert!(matches!(one(&mut writer, workers(1, n, step(3))), Err(StoreError::Io { .. })), "it has no name");
        let (temp, mut writer, n) = open();
        std::fs::copy(temp.run().log(), temp.run().root().join("edited")).expect("a copy");
        std::fs::rename(temp.run().root().join("edited"), temp.run().log()).expect("as editors save");
        assert_eq!(one(&mut writer, workers(1, n, step(3))), Ok(5));
        assert_eq!(temp.events(), run(3), "in the file that has the name now");
    }

    #[test]
    fn the_state_held_does_not_grow_with_the_run() {
        let temp = Temp::with(&[submitted(), started(1)]);
        let mut writer = writer(&temp);
        let mut sizes = Vec::new();
        for number in 1..=30 {
            let n = writer.progress().recorded;
            assert_eq!(one(&mut writer, workers(1, n, step(number))), Ok(5));
            sizes.push(serde_json::to_string(&writer.state).expect("text").len());
        }
        // Longer numbers, but not one more message (a step's take some 300 bytes).
        assert!(sizes[29] < sizes[0] + 100, "{sizes:?}");
    }
}
