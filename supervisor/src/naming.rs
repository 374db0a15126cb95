//! Which job or batch is meant by what was typed: the same answer from a server and without one.
//!
//! An id is meant before a name, and a name before a prefix. A prefix is one of ids only (spec §2): a name that merely
//! begins like what was typed may be another job, and the verb may be `cancel`.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use ukai_protocol::command::{command, quoted};
use ukai_protocol::event::BatchPlace;
use ukai_protocol::id::{BatchId, JobId};

/// How many candidates an ambiguous text is answered with.
const CANDIDATES_SHOWN_MAX: usize = 10;
/// Of each candidate's name.
const NAME_CHARS_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    #[error("there is no job or batch `{typed}`; {} lists the jobs that there are", quoted(&["ls"]))]
    Nobody { typed: String },
    #[error("`{typed}` could be any of {shown}; type the id of the one that you mean")]
    Several { typed: String, shown: String },
    #[error("{batch} is a batch; name one of its jobs, or type: {}", command(&["results", batch.as_str()]))]
    Batch { batch: BatchId },
    #[error("{job} is a job of no batch; type: {}", command(&["show", job.as_str()]))]
    Alone { job: JobId },
}

/// A job, or all jobs of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant<'a> {
    Job(&'a JobId),
    Batch(&'a BatchId),
}

/// What `typed` means, of all jobs and batches by id and name.
pub fn meant<'a>(
    jobs: impl Iterator<Item = (&'a JobId, &'a str)>,
    batches: impl Iterator<Item = (&'a BatchId, &'a str)>,
    typed: &str,
) -> Result<Meant<'a>, NotOne> {
    let jobs = jobs.map(|(id, name)| (id.as_str(), name, Meant::Job(id)));
    let batches = batches.map(|(id, name)| (id.as_str(), name, Meant::Batch(id)));
    let (mut named, mut begun) = (Vec::new(), Vec::new());
    for (id, name, meant) in jobs.chain(batches) {
        if id == typed {
            return Ok(meant);
        }
        if name == typed {
            named.push((id, name, meant));
        } else if id.starts_with(typed) {
            begun.push((id, name, meant));
        }
    }
    let mut found = if named.is_empty() { begun } else { named };
    match found.len() {
        _ if typed.is_empty() => Err(NotOne::Nobody { typed: String::new() }),
        0 => Err(NotOne::Nobody { typed: typed.to_owned() }),
        1 => Ok(found.remove(0).2),
        _ => Err(NotOne::Several { typed: typed.to_owned(), shown: shown(&found) }),
    }
}

/// Where only one job will do.
pub fn job_meant<'a>(
    jobs: impl Iterator<Item = (&'a JobId, &'a str)>,
    batches: impl Iterator<Item = (&'a BatchId, &'a str)>,
    typed: &str,
) -> Result<&'a JobId, NotOne> {
    match meant(jobs, batches, typed)? {
        Meant::Job(job) => Ok(job),
        Meant::Batch(batch) => Err(NotOne::Batch { batch: batch.clone() }),
    }
}

/// Where a batch is looked at: one of these first, and of several of a name the `latest`; else the one of which a job is
/// meant.
pub fn batch_meant<'a>(
    batches: impl Iterator<Item = (&'a BatchId, &'a str)> + Clone,
    latest: impl Fn(&BatchId) -> u64,
    jobs: impl Iterator<Item = (&'a JobId, &'a str, Option<&'a BatchPlace>)>,
    typed: &str,
) -> Result<&'a BatchId, NotOne> {
    let named = batches.clone().filter(|(_, name)| *name == typed).map(|(id, _)| id);
    if let Some(batch) = named.max_by_key(|id| latest(id)) {
        return Ok(batch);
    }
    match meant(std::iter::empty(), batches, typed) {
        Ok(Meant::Batch(batch)) => return Ok(batch),
        Ok(Meant::Job(_)) | Err(NotOne::Nobody { .. }) => {}
        Err(other) => return Err(other),
    }
    // What is typed for a batch is seldom the beginning of every job's id.
    let jobs = jobs.filter(|(_, name, _)| typed.len() > "j-".len() || *name == typed);
    let jobs: BTreeMap<&JobId, _> = jobs.map(|(id, name, place)| (id, (name, place))).collect();
    let names = jobs.iter().map(|(id, (name, _))| (*id, *name));
    let job = job_meant(names, std::iter::empty(), typed)?;
    let place = jobs.get(job).and_then(|(_, place)| *place);
    place.map(|place| &place.id).ok_or_else(|| NotOne::Alone { job: job.clone() })
}

fn shown(found: &[(&str, &str, Meant<'_>)]) -> String {
    let one = |(id, name, _): &(&str, &str, Meant<'_>)| match name.chars().take(NAME_CHARS_MAX).collect::<String>() {
        name if name.is_empty() => (*id).to_owned(),
        name => format!("{id} ({name})"),
    };
    let some: Vec<_> = found.iter().take(CANDIDATES_SHOWN_MAX).map(one).collect();
    match found.len().saturating_sub(CANDIDATES_SHOWN_MAX) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::event::Line;

    use super::*;

    fn job(text: &str) -> JobId {
        text.parse().expect("an id")
    }

    #[test]
    fn an_id_before_a_name_before_a_prefix_of_an_id() {
        let jobs = [("j-aaaaaaaa", "one"), ("j-aaaaaaab", "two"), ("j-bbbbbbbb", "two"), ("j-cccccccc", "j-aaaaaaaa")];
        let jobs = jobs.map(|(id, name)| (job(id), name));
        let batches = [("b-aaaaaaaa", "survey"), ("b-aaaaaaab", "one")];
        let batches = batches.map(|(id, name)| (id.parse::<BatchId>().expect("an id"), name));
        for (typed, expected) in [
            ("j-aaaaaaaa", Ok("j-aaaaaaaa")),
            ("survey", Ok("b-aaaaaaaa")),
            ("j-b", Ok("j-bbbbbbbb")),
            ("b-aaaaaaab", Ok("b-aaaaaaab")),
            ("one", Err("any of j-aaaaaaaa (one), b-aaaaaaab (one);")),
            ("j-aaaa", Err("any of j-aaaaaaaa (one), j-aaaaaaab (two);")),
            ("two", Err("any of j-aaaaaaab (two), j-bbbbbbbb (two);")),
            ("tw", Err("no job or batch `tw`")),
            ("x", Err("no job or batch `x`")),
            ("", Err("no job or batch ``")),
        ] {
            let jobs = jobs.iter().map(|(id, name)| (id, *name));
            let found = meant(jobs, batches.iter().map(|(id, name)| (id, *name)), typed).map(|meant| match meant {
                Meant::Job(id) => id.as_str(),
                Meant::Batch(id) => id.as_str(),
            });
            match (found, expected) {
                (Ok(id), Ok(expected)) => assert_eq!(id, expected, "{typed}"),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{typed}: {why}"),
                (found, _) => panic!("{typed}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_batch_is_meant_by_its_own_name_or_by_one_of_its_jobs() {
        let batches = [("b-aaaaaaaa", "survey"), ("b-bbbbbbbb", "survey"), ("b-cccccccc", "fix")];
        let batches = batches.map(|(id, name)| (id.parse::<BatchId>().expect("an id"), name));
        let line = Line { number: 1, key: String::new() };
        let place = BatchPlace { id: batches[2].0.clone(), name: "fix".to_owned(), line };
        let jobs = [("j-aaaaaaaa", "fix", Some(&place)), ("j-bbbbbbbb", "alone", None)];
        let jobs = jobs.map(|(id, name, place)| (job(id), name, place));
        for (typed, expected) in [
            ("fix", Ok("b-cccccccc")),
            ("b-c", Ok("b-cccccccc")),
            ("j-a", Ok("b-cccccccc")),
            ("survey", Ok("b-bbbbbbbb")),
            ("b-", Err("any of b-aaaaaaaa (survey), b-bbbbbbbb (survey), b-cccccccc (fix);")),
            ("alone", Err("j-bbbbbbbb is a job of no batch")),
            ("x", Err("no job or batch `x`")),
        ] {
            let jobs = jobs.iter().map(|(id, name, place)| (id, *name, *place));
            let latest = |id: &BatchId| u64::from(*id == batches[1].0);
            match (batch_meant(batches.iter().map(|(id, name)| (id, *name)), latest, jobs, typed), expected) {
                (Ok(id), Ok(expected)) => assert_eq!(id.as_str(), expected, "{typed}"),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{typed}: {why}"),
                (found, _) => panic!("{typed}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_crowd_of_candidates_is_cut_and_counted() {
        let ids: Vec<JobId> = (0..13).map(|number| JobId::from_random([0, 0, 0, 0, number])).collect();
        let why = meant(ids.iter().map(|id| (id, "")), std::iter::empty(), "j-").expect_err("thirteen");
        assert!(why.to_string().contains(" and 3 more;"), "{why}");
    }
}
