//! Whether and when a job whose worker died is started again (spec §11).
//!
//! Two things are counted, by two owners. Starts that brought no new event are counted by the log's fold, so that a
//! crash loop is seen across restarts of the supervisor. The delay grows with every death and shrinks only after
//! progress *and* a minute of health: a worker that dies after each step backs off too.
//!
//! [`Storm`] watches all jobs together: when many different ones die at once the machine is ill, not they.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};

const DELAY_FIRST: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Starts without a new event, after which the next one is not tried.
pub const FRUITLESS_STARTS_MAX: u32 = 5;
/// An attempt that lived this long and got somewhere owes nothing to the ones before it.
const HEALTHY: Duration = Duration::from_secs(60);
/// sysexits.h: the program says that trying again is of no use.
const NEVER_RETRIED: std::ops::RangeInclusive<i32> = 64..=78;
/// `EX_CONFIG`: the policy wants commands confined, and this kernel cannot.
const CANNOT_CONFINE: i32 = 78;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It could not be started at all.
    NotStarted(String),
    /// It is gone, and was no child of ours.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit {code}"),
            Exit::Signal(signal) => write!(f, "killed by signal {signal}"),
            Exit::NotStarted(why) => write!(f, "not started: {why}"),
            Exit::Unknown => f.write_str("it is gone; another process was its parent"),
        }
    }
}

/// One death, with what the decision needs.
#[derive(Clone, Debug)]
pub struct Death<'a> {
    pub exit: &'a Exit,
    pub stderr_tail: &'a str,
    /// Starts since an attempt last got somewhere, this one included.
    pub fruitless_starts: u32,
    pub lived: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Again { after: Duration },
    GiveUp(Cause),
}

/// The memory of one job's deaths.
#[derive(Clone, Debug, Default)]
pub struct Restarts {
    deaths_in_a_row: u32,
    /// Processes that never began: they leave no `Started` for the fold to count.
    unstarted: u32,
}

impl Restarts {
    /// `jitter` is uniform in 0..1; up to a quarter of the delay is added, so that jobs that died together do not
    /// start together.
    pub fn died(&mut self, death: &Death<'_>, jitter: f64) -> Verdict {
        let progressed = death.fruitless_starts == 0;
        match death.exit {
            Exit::NotStarted(_) => self.unstarted = self.unstarted.saturating_add(1),
            _ if progressed => self.unstarted = 0,
            _ => {}
        }
        let fruitless = death.fruitless_starts.saturating_add(self.unstarted);
        if let Exit::Code(code) = death.exit
            && NEVER_RETRIED.contains(code)
        {
            let detail = format!("the worker said with exit {code} that trying again is of no use{}", said(death));
            let kind = if *code == CANNOT_CONFINE { CauseKind::PolicyError } else { CauseKind::Internal };
            return Verdict::GiveUp(Cause::new(kind, detail));
        }
        if fruitless >= FRUITLESS_STARTS_MAX {
            let detail = format!(
                "{fruitless} starts in a row brought no new event; the last ended: {}{}",
                death.exit,
                said(death)
            );
            return Verdict::GiveUp(Cause::new(CauseKind::CrashLoop, detail));
        }
        if progressed && death.lived >= HEALTHY {
            self.deaths_in_a_row = 0;
        }
        let delay = DELAY_FIRST.saturating_mul(1 << self.deaths_in_a_row.min(6)).min(DELAY_MAX);
        self.deaths_in_a_row = self.deaths_in_a_row.saturating_add(1);
        Verdict::Again { after: delay + delay.mul_f64(0.25 * jitter.clamp(0.0, 1.0)) }
    }
}

fn said(death: &Death<'_>) -> String {
    match death.stderr_tail.trim() {
        "" => "; it wrote nothing to stderr".to_owned(),
        tail => format!("; its last lines:\n{tail}"),
    }
}

/// Many different jobs dying at once, without progress.
#[derive(Debug, Default)]
pub struct Storm {
    recent: VecDeque<(Instant, JobId)>,
    paused_until: Option<Instant>,
    /// The length of the last pause; None after a job got somewhere.
    last_pause: Option<Duration>,
}

const STORM_JOBS: usize = 5;
const STORM_WINDOW: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// More deaths than this within the window tell nothing new.
const STORM_DEATHS_MAX: usize = 256;

impl Storm {
    /// A death without progress. The length of the pause, if one begins here: the moment for one alert.
    pub fn died(&mut self, job: JobId, now: Instant) -> Option<Duration> {
        self.recent.push_back((now, job));
        while self.recent.len() > STORM_DEATHS_MAX
            || self.recent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > STORM_WINDOW)
        {
            self.recent.pop_front();
        }
        let jobs: BTreeSet<_> = self.recent.iter().map(|(_, job)| job).collect();
        if jobs.len() < STORM_JOBS || !self.may_start(now) {
            return None;
        }
        let pause = self.last_pause.map_or(PAUSE_FIRST, |last| (last * 2).min(PAUSE_MAX));
        self.last_pause = Some(pause);
        self.paused_until = Some(now + pause);
        self.recent.clear();
        Some(pause)
    }

    /// A job got somewhere: the machine is well.
    pub fn progressed(&mut self) {
        self.last_pause = None;
    }

    /// A person says that it is over (`ukai unpause --all`).
    pub fn clear(&mut self) {
        *self = Storm::default();
    }

    #[must_use]
    pub fn may_start(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| now >= until)
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.paused_until
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn death(exit: &Exit, fruitless_starts: u32, lived: u64) -> Death<'_> {
        Death { exit, stderr_tail: "boom", fruitless_starts, lived: Duration::from_secs(lived) }
    }

    fn delays(deaths: &[(u32, u64)]) -> Vec<u64> {
        let mut restarts = Restarts::default();
        let exit = Exit::Signal(9);
        let delay = |verdict| match verdict {
            Verdict::Again { after } => after.as_secs(),
            Verdict::GiveUp(cause) => panic!("{cause:?}"),
        };
        deaths.iter().map(|(fruitless, lived)| delay(restarts.died(&death(&exit, *fruitless, *lived), 0.0))).collect()
    }

    #[test]
    fn the_delay_doubles_up_to_a_minute() {
        assert_eq!(delays(&[(0, 1); 9]), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn only_progress_and_a_minute_of_health_reset_the_delay() {
        assert_eq!(delays(&[(0, 1), (0, 59), (1, 600), (0, 60), (0, 1)]), [1, 2, 4, 1, 2]);
    }

    #[test]
    fn the_fifth_start_without_a_new_event_is_the_last() {
        let exit = Exit::Code(101);
        let mut restarts = Restarts::default();
        for fruitless in 1..5 {
            assert!(matches!(restarts.died(&death(&exit, fruitless, 0), 0.5), Verdict::Again { .. }), "{fruitless}");
        }
        let Verdict::GiveUp(cause) = restarts.died(&death(&exit, 5, 0), 0.5) else { panic!("a sixth start") };
        assert_eq!(cause.kind, CauseKind::CrashLoop);
        assert!(cause.detail.contains("boom") && cause.detail.contains("exit 101"), "{}", cause.detail);
    }

    #[test]
    fn a_program_that_cannot_be_started_is_not_tried_for_ever() {
        let exit = Exit::NotStarted("no such file".into());
        let mut restarts = Restarts::default();
        let tries = (1..).take_while(|_| matches!(restarts.died(&death(&exit, 0, 0), 0.0), Verdict::Again { .. }));
        assert_eq!(tries.count(), 4);
    }

    #[test]
    fn sysexits_are_never_retried_and_their_neighbours_are() {
        for code in [0, 1, 63, 64, 70, 78, 79, 101] {
            let given_up = matches!(Restarts::default().died(&death(&Exit::Code(code), 1, 0), 0.0), Verdict::GiveUp(_));
            assert_eq!(given_up, (64..=78).contains(&code), "{code}");
        }
    }

    fn id(number: u8) -> JobId {
        JobId::from_random([0, 0, 0, 0, number])
    }

    /// Deaths as (second, job); the lengths of the pauses that they began.
    fn storms(deaths: &[(u64, u8)]) -> Vec<u64> {
        let start = Instant::now();
        let mut storm = Storm::default();
        let at = |second| start + Duration::from_secs(second);
        deaths.iter().filter_map(|(second, job)| Some(storm.died(id(*job), at(*second))?.as_secs())).collect()
    }

    #[test]
    fn five_different_jobs_within_thirty_seconds_pause_starts_once() {
        assert_eq!(storms(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]), [60]);
        assert_eq!(storms(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]), [] as [u64; 0]);
        assert_eq!(storms(&[(0, 1), (10, 2), (20, 3), (30, 4), (40, 5)]), [] as [u64; 0]);
    }

    #[test]
    fn a_storm_after_the_pause_pauses_twice_as_long_up_to_a_quarter_of_an_hour() {
        let deaths: Vec<_> = (0..7u64).flat_map(|round| (0..5).map(move |job| (round * 1_000, job))).collect();
        assert_eq!(storms(&deaths), [60, 120, 240, 480, 900, 900, 900]);
    }

    #[test]
    fn progress_makes_the_next_pause_short_again() {
        let mut storm = Storm::default();
        let start = Instant::now();
        let round = |storm: &mut Storm, second| {
            (0..5).filter_map(|job| storm.died(id(job), start + Duration::from_secs(second))).next()
        };
        assert_eq!(round(&mut storm, 0), Some(PAUSE_FIRST));
        storm.progressed();
        assert_eq!(round(&mut storm, 100), Some(PAUSE_FIRST));
    }

    proptest! {
        #[test]
        fn a_delay_is_never_under_its_step_nor_a_quarter_above(deaths in 1usize..12, jitter in 0.0f64..1.0) {
            let mut restarts = Restarts::default();
            let exit = Exit::Signal(9);
            for n in 0..deaths {
                let Verdict::Again { after } = restarts.died(&death(&exit, 1, 0), jitter) else { panic!("given up") };
                let step = Duration::from_secs((1u64 << n.min(6)).min(60));
                prop_assert!(after >= step && after <= step.mul_f64(1.25));
            }
        }
    }
}
