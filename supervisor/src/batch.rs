//! Which jobs make up a batch, which lines are known, and when a batch is done.
//!
//! A job says itself, in the first record of its log, which line of which list it was made of; this is those records put
//! together. So a batch cannot disagree with its jobs, and survives what they survive. Two things the logs cannot say,
//! and a small file per batch does (`store/batch_file.rs`): that a submission was broken off before all of it was
//! durable, so that those of its jobs that exist were never promised to anybody (they are *void*); and that the owner
//! has been told of the end.
//!
//! A known line is not added again, whatever became of its job (spec §2), unless somebody asks for that. Lines that are
//! new join the batch that the others of their list are in: a list that grew is one batch, and `ukai results` shows all
//! of it, each line by its latest job.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ukai_protocol::control::Again;
use ukai_protocol::event::{BatchPlace, Line};
use ukai_protocol::id::{BatchId, JobId};

#[derive(Debug, Default)]
pub struct Batches {
    batches: BTreeMap<BatchId, Batch>,
    /// The latest job of each line.
    keys: HashMap<String, (BatchId, JobId)>,
    entered: u64,
}

#[derive(Debug)]
pub struct Batch {
    pub name: String,
    /// In the order of their lines, then of their coming.
    jobs: BTreeMap<(u64, u64), JobId>,
    /// Where the job of each line stands there.
    places: HashMap<String, (u64, u64)>,
    /// That have not ended.
    open: BTreeSet<JobId>,
    /// When its last job came, among all that came.
    latest: u64,
    /// Jobs that were never promised to anybody.
    pub void: BTreeSet<JobId>,
    /// The owner has been told that it is done.
    pub told: bool,
}

/// What a list comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The batch that its new lines join; None: one of their own.
    pub join: Option<BatchId>,
    /// The job of each line, where it is known.
    pub known: Vec<Option<JobId>>,
}

impl Batches {
    /// What to do with these lines. `stands`: whether a job goes on or has completed.
    #[must_use]
    pub fn plan<'a>(
        &self,
        lines: impl IntoIterator<Item = &'a Line>,
        again: Again,
        stands: impl Fn(&JobId) -> bool,
    ) -> Plan {
        let found = |line: &Line| self.keys.get(&line.key).filter(|_| again != Again::Always);
        let found: Vec<_> = lines.into_iter().map(found).collect();
        let latest = |batch: &&BatchId| self.latest(batch);
        let join = found.iter().flatten().map(|(batch, _)| batch).max_by_key(latest).cloned();
        let known = |job: &&JobId| again == Again::Never || stands(job);
        Plan { join, known: found.into_iter().map(|found| found.map(|(_, job)| job).filter(known).cloned()).collect() }
    }

    /// When the last of its jobs came, among all that came.
    #[must_use]
    pub fn latest(&self, id: &BatchId) -> u64 {
        self.batches.get(id).map_or(0, |batch| batch.latest)
    }

    #[must_use]
    pub fn get(&self, id: &BatchId) -> Option<&Batch> {
        self.batches.get(id)
    }

    #[must_use]
    pub fn contains(&self, id: &BatchId) -> bool {
        self.batches.contains_key(id)
    }

    /// Those that have a job: one whose only submission was broken off is none.
    pub fn names(&self) -> impl Iterator<Item = (&BatchId, &str)> + Clone {
        self.batches.iter().filter(|(_, batch)| !batch.jobs.is_empty()).map(|(id, batch)| (id, &*batch.name))
    }

    /// What its file said. Before its jobs enter.
    pub fn recall(&mut self, id: BatchId, name: String, void: BTreeSet<JobId>, told: bool) {
        let batch = self.batches.entry(id).or_insert_with(|| Batch::new(name));
        (batch.void, batch.told) = (void, told);
    }

    /// A submission was broken off: nobody was told of these.
    pub fn void(&mut self, id: &BatchId, name: &str, jobs: impl Iterator<Item = JobId>) {
        let batch = self.batches.entry(id.clone()).or_insert_with(|| Batch::new(name.to_owned()));
        batch.void.extend(jobs);
    }

    /// A job is there. `false`: it is void, and not of the batch.
    pub fn enter(&mut self, place: &BatchPlace, job: &JobId, ended: bool) -> bool {
        let batch = self.batches.entry(place.id.clone()).or_insert_with(|| Batch::new(place.name.clone()));
        if batch.void.contains(job) {
            return false;
        }
        self.entered += 1;
        batch.latest = self.entered;
        let at = (place.line.number, self.entered);
        batch.jobs.insert(at, job.clone());
        if let Some(earlier) = batch.places.insert(place.line.key.clone(), at) {
            // That one did not complete, and this one was asked for in its place.
            batch.jobs.remove(&earlier);
        }
        if !ended {
            batch.open.insert(job.clone());
            batch.told = false;
        }
        self.keys.insert(place.line.key.clone(), (place.id.clone(), job.clone()));
        true
    }

    /// The job of that line, before another takes its place.
    #[must_use]
    pub fn job_of(&self, place: &BatchPlace) -> Option<&JobId> {
        self.keys.get(&place.line.key).filter(|(batch, _)| *batch == place.id).map(|(_, job)| job)
    }

    /// A person lets it go on. `false`: it is not of the batch any more.
    pub fn reopen(&mut self, id: &BatchId, job: &JobId) -> bool {
        let Some(batch) = self.batches.get_mut(id).filter(|batch| batch.jobs.values().any(|known| known == job)) else {
            return false;
        };
        batch.open.insert(job.clone());
        batch.told = false;
        true
    }

    /// `true`: it was the last.
    pub fn ended(&mut self, id: &BatchId, job: &JobId) -> bool {
        self.batches.get_mut(id).is_some_and(|batch| batch.open.remove(job) && batch.open.is_empty())
    }

    /// Those whose end nobody has been told of.
    pub fn done(&self) -> impl Iterator<Item = &BatchId> {
        let done = |batch: &Batch| batch.open.is_empty() && !batch.jobs.is_empty() && !batch.told;
        self.batches.iter().filter(move |(_, batch)| done(batch)).map(|(id, _)| id)
    }

    /// It was never promised to anybody.
    #[must_use]
    pub fn is_void(&self, place: &BatchPlace, job: &JobId) -> bool {
        self.batches.get(&place.id).is_some_and(|batch| batch.void.contains(job))
    }

    pub fn told(&mut self, id: &BatchId) {
        if let Some(batch) = self.batches.get_mut(id) {
            batch.told = true;
        }
    }
}

/// The jobs of a list are written side by side, so that times do not tell which came first; their lines do. In the order
/// of submission otherwise.
pub fn in_line_order<T>(jobs: &mut [T], place: impl Fn(&T) -> Option<&BatchPlace>) {
    let batch = |job: &T| place(job).map(|place| place.id.clone());
    for of_one in jobs.chunk_by_mut(|a, b| batch(a) == batch(b)) {
        of_one.sort_by_key(|job| place(job).map(|place| place.line.number));
    }
}

impl Batch {
    fn new(name: String) -> Self {
        let (jobs, places) = (BTreeMap::new(), HashMap::new());
        Batch { name, jobs, places, open: BTreeSet::new(), latest: 0, void: BTreeSet::new(), told: false }
    }

    /// In the order of their lines.
    pub fn jobs(&self) -> impl Iterator<Item = &JobId> {
        self.jobs.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u8) -> BatchId {
        BatchId::from_random([0, 0, 0, 0, number])
    }

    fn job(number: u8) -> JobId {
        JobId::from_random([0, 0, 0, 0, number])
    }

    fn line(number: u64, key: &str) -> Line {
        Line { number, key: key.to_owned() }
    }

    fn place(id: u8, number: u64, key: &str) -> BatchPlace {
        BatchPlace { id: batch(id), name: "survey".to_owned(), line: line(number, key) }
    }

    #[test]
    fn a_list_that_grew_joins_its_batch_and_adds_only_what_is_new() {
        let mut batches = Batches::default();
        let lines = [line(1, "a"), line(2, "b")];
        assert_eq!(batches.plan(&lines, Again::Never, |_| true), Plan { join: None, known: vec![None, None] });
        assert!(batches.enter(&place(1, 2, "b"), &job(2), false) && batches.enter(&place(1, 1, "a"), &job(1), true));
        let grown = [line(1, "new"), line(2, "a"), line(3, "b")];
        let known = vec![None, Some(job(1)), Some(job(2))];
        assert_eq!(batches.plan(&grown, Again::Never, |_| true), Plan { join: Some(batch(1)), known });
        assert_eq!(batches.plan(&grown, Again::Always, |_| true), Plan { join: None, known: vec![None; 3] });
        let order: Vec<_> = batches.get(&batch(1)).expect("it is there").jobs().cloned().collect();
        assert_eq!(order, [job(1), job(2)]);
    }

    #[test]
    fn forced_lines_are_known_by_their_latest_job_in_the_latest_batch() {
        let mut batches = Batches::default();
        batches.enter(&place(2, 1, "a"), &job(1), true);
        batches.enter(&place(1, 1, "a"), &job(2), true);
        batches.enter(&place(2, 2, "b"), &job(3), true);
        let plan = batches.plan(&[line(1, "a"), line(2, "b")], Again::Never, |_| true);
        assert_eq!(plan, Plan { join: Some(batch(2)), known: vec![Some(job(2)), Some(job(3))] });
    }

    #[test]
    fn lines_that_did_not_complete_are_made_again_in_their_place() {
        let mut batches = Batches::default();
        for number in [1, 2, 3] {
            batches.enter(&place(1, number.into(), &number.to_string()), &job(number), true);
        }
        let lines = [line(1, "1"), line(2, "2"), line(3, "3")];
        let known = vec![Some(job(1)), None, Some(job(3))];
        let plan = batches.plan(&lines, Again::Unfinished, |id| *id != job(2));
        assert_eq!(plan, Plan { join: Some(batch(1)), known });
        batches.enter(&place(1, 2, "2"), &job(9), false);
        let order: Vec<_> = batches.get(&batch(1)).expect("it is there").jobs().cloned().collect();
        assert_eq!(order, [job(1), job(9), job(3)]);
        assert!(batches.ended(&batch(1), &job(9)));
    }

    #[test]
    fn what_was_never_promised_is_not_known() {
        let mut batches = Batches::default();
        batches.recall(batch(1), "survey".to_owned(), [job(1)].into(), false);
        assert!(!batches.enter(&place(1, 1, "a"), &job(1), false));
        assert_eq!(batches.plan(&[line(1, "a")], Again::Never, |_| true), Plan { join: None, known: vec![None] });
        assert_eq!(batches.done().next(), None, "nothing of it is there");
    }

    #[test]
    fn the_end_is_told_once_and_again_when_lines_were_added() {
        let mut batches = Batches::default();
        for number in [1, 2] {
            batches.enter(&place(1, number.into(), &number.to_string()), &job(number), false);
        }
        assert!(!batches.ended(&batch(1), &job(1)) && !batches.ended(&batch(1), &job(1)));
        assert_eq!(batches.done().next(), None);
        assert!(batches.ended(&batch(1), &job(2)));
        assert_eq!(batches.done().next(), Some(&batch(1)));
        batches.told(&batch(1));
        assert_eq!(batches.done().next(), None);
        batches.enter(&place(1, 3, "3"), &job(3), false);
        assert!(batches.ended(&batch(1), &job(3)));
        assert_eq!(batches.done().next(), Some(&batch(1)));
    }
}
