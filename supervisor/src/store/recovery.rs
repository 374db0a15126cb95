//! What to believe of a run's files after any kind of end, as one table (spec §10).
//!
//! Torn = bytes after the last newline, never acknowledged: cut. Everything else that does not verify was acknowledged
//! once and has changed since: the whole run is refused and the file kept aside, for no guess about what is missing is
//! safe to act upon. The log is the truth; a snapshot only ever saves time, and one that tells of more than the log
//! holds shows that the log has lost records.
#![deny(clippy::disallowed_methods)]

use std::fmt;

use ukai_protocol::event::Event;
use ukai_protocol::job::{Cause, CauseKind, JobSpec, Outcome};
use ukai_protocol::run_state::{Progress, RunState};

use super::event_log::{self, Damage, Splitter, TooLong};

/// The first line that does not verify. Lines are numbered as their events are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    pub line: u64,
    pub why: Damage,
}

impl Corrupt {
    /// The number of the last record that can be believed.
    #[must_use]
    pub fn last_good(&self) -> u64 {
        self.line - 1
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} does not verify ({}); the {} before it do", self.line, self.why, self.last_good())
    }
}

impl std::error::Error for Corrupt {}

/// Folds the bytes of a log into the state of its run.
#[derive(Default)]
pub struct Replay {
    pub state: RunState,
    /// Length of the log up to and with the last folded record.
    pub bytes: u64,
    splitter: Splitter,
    against: Option<(RunState, u64)>,
    pub agreement: Agreement,
}

/// Whether a snapshot told the truth about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// There is none to compare with, or the log has not come so far.
    #[default]
    NotReached,
    Agrees,
    Differs,
}

impl Replay {
    /// Goes on from a state that is believed.
    #[must_use]
    pub fn from(state: RunState, bytes: u64) -> Self {
        Replay { state, bytes, ..Replay::default() }
    }

    /// From the beginning, comparing with a snapshot on the way.
    #[must_use]
    pub fn against(state: RunState, bytes: u64) -> Self {
        Replay { against: Some((state, bytes)), ..Replay::default() }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        let mut splitter = std::mem::take(&mut self.splitter);
        let fed = splitter.feed(bytes, |line| self.line(line).map_err(Refused));
        self.splitter = splitter;
        fed.map_err(|Refused(why)| Corrupt { line: self.state.progress.seq + 1, why })
    }

    /// Bytes after the last newline.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.splitter.torn()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Damage> {
        let record = event_log::decode(line, self.state.progress.seq + 1)?;
        self.state.apply(&record.event).map_err(|illegal| Damage::Illegal(illegal.to_string()))?;
        self.bytes += line.len() as u64 + 1;
        if let Some((state, bytes)) = self.against.take_if(|(state, _)| state.progress.seq == self.state.progress.seq) {
            let same = state == self.state && bytes == self.bytes;
            self.agreement = if same { Agreement::Agrees } else { Agreement::Differs };
        }
        Ok(())
    }
}

struct Refused(Damage);

impl From<TooLong> for Refused {
    fn from(TooLong: TooLong) -> Self {
        Refused(Damage::TooLong)
    }
}

/// What stands in a run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub spec: SpecFound,
    pub log: LogFound,
    pub snapshot: SnapshotFound,
    /// `outputs/` holds something: the run was under way.
    pub outputs: bool,
    /// It was refused before, and nobody has cleared it.
    pub refused_before: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecFound {
    Missing,
    Sound,
    Bad(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFound {
    /// Not there, or without one whole line.
    Nothing,
    Sound {
        torn: u64,
    },
    Corrupt(Corrupt),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotFound {
    Missing,
    /// It verifies, and this came of comparing it with the log.
    Sound(Agreement),
    Bad(String),
}

/// What is to be done with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its log is good. `torn` bytes are cut first; a snapshot that does not verify is put aside.
    Keep { torn: u64, bad_snapshot: Option<String> },
    /// It was being created and never acknowledged: no job.
    Never,
    /// Not before a person has looked at it. These files are moved to quarantine.
    Refuse { why: String, aside: Vec<Part> },
}

/// A file of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Spec,
    Log,
    Snapshot,
}

#[must_use]
pub fn judge(found: Found) -> Verdict {
    let refuse = |why: String, aside: &[Part]| Verdict::Refuse { why, aside: aside.to_vec() };
    let torn = match found.log {
        LogFound::Corrupt(corrupt) => return refuse(format!("events.jsonl: {corrupt}"), &[Part::Log]),
        LogFound::Nothing if found.refused_before => return refuse("it was quarantined earlier".to_owned(), &[]),
        LogFound::Nothing if found.snapshot != SnapshotFound::Missing => {
            return refuse("it has a snapshot but no event log".to_owned(), &[Part::Snapshot]);
        }
        LogFound::Nothing if found.outputs => return refuse("it has outputs but no event log".to_owned(), &[]),
        LogFound::Nothing => return Verdict::Never,
        LogFound::Sound { torn } => torn,
    };
    match found.spec {
        SpecFound::Missing => return refuse("it has an event log but no job.json".to_owned(), &[]),
        SpecFound::Bad(why) => return refuse(format!("job.json: {why}"), &[Part::Spec]),
        SpecFound::Sound => {}
    }
    let bad_snapshot = match found.snapshot {
        SnapshotFound::Sound(Agreement::NotReached) => {
            let why = "events.jsonl has lost records: the snapshot tells of later ones";
            return refuse(why.to_owned(), &[Part::Log, Part::Snapshot]);
        }
        SnapshotFound::Sound(Agreement::Differs) => Some("it is not what the event log says".to_owned()),
        SnapshotFound::Bad(why) => Some(why),
        SnapshotFound::Missing | SnapshotFound::Sound(Agreement::Agrees) => None,
    };
    Verdict::Keep { torn, bad_snapshot }
}

/// How a run is shown that cannot go on: ended, in memory only. The mark of its process stays, for the sweep.
#[must_use]
pub fn refused(mut progress: Progress, spec: Option<&JobSpec>, cause: Cause) -> Progress {
    if let (0, Some(spec)) = (progress.seq, spec) {
        progress.name.clone_from(&spec.name);
        progress.priority = spec.priority;
    }
    let outcome = Outcome::Ended(cause.clone());
    progress.status = outcome.status();
    progress.attention = Some(format!("{}: {}", cause.kind, cause.detail));
    progress.outcome = Some(outcome);
    progress
}

/// The cause that a refused run shows.
#[must_use]
pub fn quarantined(why: &str, kept: &str) -> Cause {
    let detail = format!(
        "opening its files: {why}. They are kept in {kept}; nothing of the job runs before a person has looked at them"
    );
    Cause::new(CauseKind::Quarantined, detail)
}

/// What is appended when bytes were cut.
#[must_use]
pub fn recovered(torn_bytes: u64) -> Event {
    Event::Recovered { torn_bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ukai_protocol::job::JobStatus;

    use super::*;
    use crate::store::testing::{finished, fold, log_of, replay, run, spec, submitted, tool_started};

    #[test]
    fn a_replayed_log_is_the_fold_of_its_events() {
        let events = run(3);
        let log = log_of(&events);
        let replay = replay(&log);
        assert_eq!((replay.state, replay.bytes), (fold(&events), log.len() as u64));
    }

    #[test]
    fn an_event_that_the_fold_refuses_is_damage_even_with_a_good_seal() {
        for (quirk, events) in [
            ("a tool that nobody judged", vec![submitted(), tool_started("c")]),
            ("something after the end", vec![submitted(), finished(), finished()]),
            ("a second beginning", vec![submitted(), submitted()]),
        ] {
            let damage = Replay::default().feed(&log_of(&events)).expect_err(quirk);
            assert_eq!(damage.line, events.len() as u64, "{quirk}");
            assert!(matches!(damage.why, Damage::Illegal(_)), "{quirk}: {damage}");
        }
    }

    #[test]
    fn a_snapshot_is_compared_where_the_log_passes_it() {
        let (events, log) = (run(2), log_of(&run(2)));
        let part = |until: usize| (fold(&events[..until]), log_of(&events[..until]).len() as u64);
        let agreement = |(state, bytes): (RunState, u64)| {
            let mut replay = Replay::against(state, bytes);
            replay.feed(&log).expect("a sound log");
            replay.agreement
        };
        assert_eq!(agreement(part(6)), Agreement::Agrees);
        assert_eq!(agreement(part(events.len())), Agreement::Agrees);
        assert_eq!(agreement((part(6).0, part(5).1)), Agreement::Differs);
        let (mut state, bytes) = part(6);
        state.progress.used.cost_usd += 0.001;
        assert_eq!(agreement((state, bytes)), Agreement::Differs);
        assert_eq!(agreement((fold(&run(3)), log_of(&run(3)).len() as u64)), Agreement::NotReached);
    }

    #[test]
    fn the_table() {
        let sound = Found {
            spec: SpecFound::Sound,
            log: LogFound::Sound { torn: 0 },
            snapshot: SnapshotFound::Missing,
            outputs: false,
            refused_before: false,
        };
        let corrupt = LogFound::Corrupt(Corrupt { line: 3, why: Damage::Checksum });
        let keep =
            |torn, bad_snapshot: Option<&str>| Verdict::Keep { torn, bad_snapshot: bad_snapshot.map(str::to_owned) };
        let check = |quirk: &str, change: &dyn Fn(&mut Found), expected: Result<Verdict, &[Part]>| {
            let mut found = sound.clone();
            change(&mut found);
            match (judge(found), expected) {
                (Verdict::Refuse { aside, .. }, Err(expected)) => assert_eq!(aside, expected, "{quirk}"),
                (verdict, Ok(expected)) => assert_eq!(verdict, expected, "{quirk}"),
                (verdict, Err(_)) => panic!("{quirk}: {verdict:?}"),
            }
        };
        let nothing = |found: &mut Found| found.log = LogFound::Nothing;
        let bad = || SnapshotFound::Bad("x".to_owned());

        check("a sound log without a snapshot", &|_| {}, Ok(keep(0, None)));
        check("a torn tail", &|found| found.log = LogFound::Sound { torn: 7 }, Ok(keep(7, None)));
        check(
            "a snapshot that agrees",
            &|found| found.snapshot = SnapshotFound::Sound(Agreement::Agrees),
            Ok(keep(0, None)),
        );
        check("a snapshot that does not verify", &|found| found.snapshot = bad(), Ok(keep(0, Some("x"))));
        check(
            "a snapshot that tells otherwise",
            &|found| found.snapshot = SnapshotFound::Sound(Agreement::Differs),
            Ok(keep(0, Some("it is not what the event log says"))),
        );
        check(
            "a snapshot ahead of the log",
            &|found| found.snapshot = SnapshotFound::Sound(Agreement::NotReached),
            Err(&[Part::Log, Part::Snapshot]),
        );
        check("a sound log of a run that was cleared", &|found| found.refused_before = true, Ok(keep(0, None)));
        check("a damaged line", &|found| found.log = corrupt.clone(), Err(&[Part::Log]));
        check("never acknowledged", &nothing, Ok(Verdict::Never));
        check(
            "not even a job file yet",
            &|found| (nothing(found), found.spec = SpecFound::Missing).1,
            Ok(Verdict::Never),
        );
        check("a lost log", &|found| (nothing(found), found.snapshot = bad()).1, Err(&[Part::Snapshot]));
        check("a lost log, told by outputs", &|found| (nothing(found), found.outputs = true).1, Err(&[]));
        check("refused before", &|found| (nothing(found), found.refused_before = true).1, Err(&[]));
        check("a lost job file", &|found| found.spec = SpecFound::Missing, Err(&[]));
        check("a damaged job file", &|found| found.spec = SpecFound::Bad("x".to_owned()), Err(&[Part::Spec]));
    }

    #[test]
    fn a_refused_run_is_shown_ended_with_its_name_and_the_mark_of_its_process() {
        let cause = quarantined("line 3", "/q");
        let nothing_known = refused(Progress::default(), Some(&spec()), cause.clone());
        assert_eq!((nothing_known.name.as_str(), nothing_known.status), ("fix-a", JobStatus::Aborted));
        let under_way = refused(fold(&run(1)).progress, None, cause.clone());
        assert_eq!(under_way.outcome, Some(Outcome::Ended(cause)));
        assert!(under_way.process.is_some() && under_way.attention.is_some() && under_way.used.steps == 1);
    }

    proptest! {
        #[test]
        fn one_changed_byte_is_never_read_as_something_else(at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let events = run(2);
            let mut log = log_of(&events);
            let at = at.index(log.len());
            prop_assume!(log[at] != to);
            log[at] = to;
            let mut replay = Replay::default();
            let fed = replay.feed(&log);
            // Only the very last newline may go unseen: then its line is torn, and was the last.
            let good = replay.state.progress.seq as usize;
            prop_assert!(fed.is_err() || (at == log.len() - 1 && good == events.len() - 1 && replay.torn() > 0));
            prop_assert_eq!(&replay.state, &fold(&events[..good]));
            prop_assert_eq!(replay.bytes as usize, log_of(&events[..good]).len());
            prop_assert!(replay.bytes as usize <= at);
        }

        #[test]
        fn a_log_cut_anywhere_keeps_every_whole_record(at in any::<prop::sample::Index>()) {
            let events = run(2);
            let log = log_of(&events);
            let at = at.index(log.len() + 1);
            let replay = replay(&log[..at]);
            let whole = log[..at].iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(&replay.state, &fold(&events[..whole]));
            prop_assert_eq!(replay.bytes + replay.torn(), at as u64);
        }

        #[test]
        fn a_line_lost_doubled_or_moved_is_seen(line in 0..12usize, other in 0..12usize, what in 0..3u8) {
            let events = run(2);
            let text = String::from_utf8(log_of(&events)).expect("text");
            let mut lines: Vec<_> = text.split_inclusive('\n').collect();
            prop_assume!(what != 2 || line != other);
            match what {
                0 => drop(lines.remove(line)),
                1 => lines.insert(line, lines[line]),
                _ => lines.swap(line, other),
            }
            prop_assert!(Replay::default().feed(lines.concat().as_bytes()).is_err());
        }
    }
}
