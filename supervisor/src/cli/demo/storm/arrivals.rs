//! Who came to a provider, and when: its own record, held against what it had asked for.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};
use ukai_protocol::disk;

use crate::cli::failure::Failure;

/// A few dozen lines of some 200 bytes; more than this is another file.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;
pub(super) const TOO_MANY: u16 = 429;
pub(super) const WELL: u16 = 200;

/// A wait that a provider named, as the log of a job has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// When it was on disk.
    pub at: Timestamp,
    pub wait_ms: u64,
}

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
        told: Vec<Told>,
    ) -> Result<Self, Failure> {
        let failed =
            |why: String| Failure::failed(format!("reading who came to {provider}, {}: {why}", record.display()));
        let bytes = disk::read_bounded(record, RECORD_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(serde_json::from_slice).collect::<Result<Vec<Line>, _>>();
        let lines = lines.map_err(|error| failed(error.to_string()))?;
        Ok(Visits::of(provider, record, lines, prompts, told))
    }

    fn of(
        provider: &str,
        record: &Path,
        mut lines: Vec<Line>,
        prompts: &HashMap<String, String>,
        told: Vec<Told>,
    ) -> Self {
        let until = |told: &Told| {
            let wait = SignedDuration::from_millis(i64::try_from(told.wait_ms).unwrap_or(i64::MAX));
            told.at.checked_add(wait).unwrap_or(Timestamp::MAX)
        };
        let closed = told.iter().map(|told| told.at).min().zip(told.iter().map(until).max());
        let closed = closed.map(|(from, until)| Closed { from, until });
        // Written as they are answered, which is nearly as they came.
        lines.sort_by_key(|line| line.at);
        let mut refused = HashSet::new();
        let mut all = Vec::with_capacity(lines.len());
        for Line { at, prompt, step, status } in lines {
            let job = prompt.and_then(|prompt| prompts.get(&prompt).cloned());
            // Others may be on their way while the first answer is; who was refused itself knows.
            let knew = refused.contains(&job) || closed.is_some_and(|closed| at > closed.from);
            let early = knew && closed.is_some_and(|closed| at < closed.until);
            if status == Some(TOO_MANY) {
                refused.insert(job.clone());
            }
            all.push(Visit { at, job, step: step.unwrap_or_default(), status, early });
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

    fn check(visits: &[(i64, &str, u16)], told: &[(i64, u64)], early: &[i64], case: &str) {
        let prompts = ["a", "b", "c"].map(|name| (format!("prompt {name}"), name.to_owned())).into();
        let line = |(at, job, status): &(i64, &str, u16)| Line {
            at: ms(*at),
            prompt: Some(format!("prompt {job}")),
            step: Some(1),
            status: Some(*status),
        };
        let told = told.iter().map(|(at, wait_ms)| Told { at: ms(*at), wait_ms: *wait_ms }).collect();
        let visits = Visits::of("p", Path::new("r"), visits.iter().map(line).collect(), &prompts, told);
        let found: Vec<i64> = visits.early().map(|visit| visits.ms(visit.at)).collect();
        assert_eq!(found, early, "{case}");
    }

    #[test]
    fn who_comes_before_the_time_is_found() {
        let told = [(510, 1_000), (520, 990)];
        check(&[(0, "a", 429), (9, "b", 429)], &told, &[], "on their way together");
        check(&[(0, "a", 429), (505, "b", 429)], &told, &[], "crossed with the first answer");
        check(&[(0, "a", 429), (511, "b", 429)], &told, &[511], "left after it");
        check(&[(0, "a", 429), (505, "a", 429)], &told, &[505], "the job that was refused itself");
        check(&[(0, "a", 429), (1_509, "a", 200)], &told, &[1_509], "a millisecond before the time");
        check(&[(0, "a", 429), (1_510, "a", 200)], &told, &[], "at the time");
        check(&[(511, "b", 429), (0, "a", 429)], &told, &[511], "written out of order");
        check(&[(0, "a", 200), (5, "a", 200)], &[], &[], "nothing was asked for");
    }
}
