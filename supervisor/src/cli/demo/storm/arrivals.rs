//! Who came to a provider, and when: its own record, held against what it had asked for.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};
use ukai_protocol::disk;

use super::logs::{Logs, Told};
use crate::cli::failure::Failure;

/// A few dozen lines of some 200 bytes; more than this is another file.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;
pub(super) const TOO_MANY: u16 = 429;
pub(super) const WELL: u16 = 200;

/// All of one provider's requests, in their order.
#[derive(Debug)]
pub(super) struct Visits {
    pub provider: String,
    pub record: PathBuf,
    pub all: Vec<Visit>,
    /// From when to when it was to be left alone. None: it never said so.
    pub closed: Option<Closed>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// The first answer that said so was on disk.
    pub from: Timestamp,
    /// The latest instant that any of them named.
    pub until: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub at: Timestamp,
    /// The name of the job; None: it is none of ours.
    pub job: Option<String>,
    pub step: u64,
    pub status: Option<u16>,
    /// It came although it had been asked not to.
    pub early: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(deserialize_with = "instant")]
    at: Timestamp,
    /// Its beginning; all of ours are shorter than what is kept.
    prompt: Option<String>,
    step: Option<u64>,
    status: Option<u16>,
}

fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl Visits {
    /// `prompts`: the name of the job with this prompt.
    pub fn read(
        provider: &str,
        record: &Path,
        prompts: &HashMap<String, String>,
        logs: &Logs,
    ) -> Result<Self, Failure> {
        let failed =
            |why: String| Failure::failed(format!("reading who came to {provider}, {}: {why}", record.display()));
        let bytes = disk::read_bounded(record, RECORD_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(serde_json::from_slice).collect::<Result<Vec<Line>, _>>();
        let lines = lines.map_err(|error| failed(error.to_string()))?;
        Ok(Visits::of(provider, record, lines, prompts, logs))
    }

    fn of(provider: &str, record: &Path, mut lines: Vec<Line>, prompts: &HashMap<String, String>, logs: &Logs) -> Self {
        let until = |told: &Told| {
            let wait = SignedDuration::from_millis(i64::try_from(told.wait_ms).unwrap_or(i64::MAX));
            told.at.checked_add(wait).unwrap_or(Timestamp::MAX)
        };
        let told = || logs.told.get(provider).into_iter().flatten();
        let closed = told().map(|told| told.at).min().zip(told().map(until).max());
        let closed = closed.map(|(from, until)| Closed { from, until });
        // Written as they are answered, which is nearly as they came.
        lines.sort_by_key(|line| line.at);
        let mut refused = HashSet::new();
        let mut all = Vec::with_capacity(lines.len());
        for Line { at, prompt, step, status } in lines {
            let job = prompt.and_then(|prompt| prompts.get(&prompt).cloned());
            let step = step.unwrap_or_default();
            // What was asked for before the answer was known may cross it on the way; who was refused itself knows.
            let begun = job.as_ref().and_then(|job| logs.begun.get(&(job.clone(), step))).unwrap_or(&at);
            let knew = refused.contains(&job) || closed.is_some_and(|closed| *begun > closed.from);
            let early = knew && closed.is_some_and(|closed| at < closed.until);
            if status == Some(TOO_MANY) {
                refused.insert(job.clone());
            }
            all.push(Visit { at, job, step, status, early });
        }
        Visits { provider: provider.to_owned(), record: record.to_owned(), all, closed }
    }

    /// Milliseconds since its first request.
    pub fn ms(&self, at: Timestamp) -> i64 {
        let first = self.all.first().map_or(at, |visit| visit.at);
        at.as_millisecond() - first.as_millisecond()
    }

    pub fn early(&self) -> impl Iterator<Item = &Visit> {
        self.all.iter().filter(|visit| visit.early)
    }

    pub fn count(&self, status: u16) -> usize {
        self.all.iter().filter(|visit| visit.status == Some(status)).count()
    }

    /// Replies to this job.
    pub fn replies_to(&self, job: &str) -> usize {
        let of_job = self.all.iter().filter(|visit| visit.job.as_deref() == Some(job));
        of_job.filter(|visit| visit.status == Some(WELL)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).expect("a time")
    }

    /// `visits`: when, who, answered with what, and since when that step could be asked for.
    fn check(visits: &[(i64, &str, u16, i64)], told: &[(i64, u64)], early: &[i64], case: &str) {
        let prompts = ["a", "b", "c"].map(|name| (format!("prompt {name}"), name.to_owned())).into();
        let mut logs = Logs::default();
        logs.told
            .insert("p".to_owned(), told.iter().map(|(at, wait_ms)| Told { at: ms(*at), wait_ms: *wait_ms }).collect());
        let lines = visits.iter().zip(1..).map(|((at, job, status, begun), step)| {
            logs.begun.insert(((*job).to_owned(), step), ms(*begun));
            Line { at: ms(*at), prompt: Some(format!("prompt {job}")), step: Some(step), status: Some(*status) }
        });
        let lines = lines.collect();
        let visits = Visits::of("p", Path::new("r"), lines, &prompts, &logs);
        let found: Vec<i64> = visits.early().map(|visit| visits.ms(visit.at)).collect();
        assert_eq!(found, early, "{case}");
    }

    #[test]
    fn who_comes_before_the_time_is_found() {
        let told = [(510, 1_000), (520, 990)];
        let a = (0, "a", 429, -9);
        check(&[a, (9, "b", 429, -9)], &told, &[], "on their way together");
        check(&[a, (900, "b", 429, 509)], &told, &[], "asked for before it was known, and slow");
        check(&[a, (512, "b", 429, 511)], &told, &[512], "asked for when it was known");
        check(&[a, (505, "a", 429, -9)], &told, &[505], "the job that was refused itself");
        check(&[a, (1_509, "a", 200, -9)], &told, &[1_509], "a millisecond before the time");
        check(&[a, (1_510, "a", 200, 600)], &told, &[], "at the time");
        check(&[(512, "b", 429, 511), a], &told, &[512], "written out of order");
        check(&[(0, "a", 200, -9), (5, "a", 200, 1)], &[], &[], "nothing was asked for");
    }

    #[test]
    fn a_stranger_is_judged_by_when_it_came() {
        let mut logs = Logs::default();
        logs.told.insert("p".to_owned(), vec![Told { at: ms(510), wait_ms: 1_000 }]);
        let line = |at| Line { at: ms(at), prompt: None, step: None, status: Some(400) };
        let visits = Visits::of("p", Path::new("r"), vec![line(0), line(511)], &HashMap::new(), &logs);
        assert_eq!(visits.early().map(|visit| visits.ms(visit.at)).collect::<Vec<_>>(), [511]);
    }
}
