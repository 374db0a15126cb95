//! Follows jobs at a supervisor to their ends: what happens to them, what they say, one exit code.
//!
//! The supervisor may be another process or our own; both are spoken to by the socket, so that there is one road. How
//! jobs stand is the fold of their records here too: nothing is asked for that was told. A listener that was too slow, or
//! whose connection broke, asks again for what came after the last record that it saw of each job.

mod next;
pub(crate) mod question;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use ukai_protocol::command::quoted;
use ukai_protocol::control::{
    Decision, DeniedCall, Filter, Happened, JobResult, JobRow, Request, Response, Seen, Selection,
};
use ukai_protocol::event::Event;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{JobSpec, JobStatus, Limits};
use ukai_protocol::policy::Source;
use ukai_protocol::run_state::Progress;

use self::question::Questions;
use self::view::View;
use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{offline, worktree};
use crate::allow;
use crate::resume;
use crate::store::spec_file::{self, Loaded};
use crate::worktree::CLOSE_MAX;

/// A job may end without a record that says so (its disk refuses, its log is quarantined): now and then, ask.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a supervisor may be away (it re-executes itself for an upgrade) before it counts as gone.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// Flags that one line still shows.
const FLAGS_SHOWN_MAX: usize = 5;
const RECONNECT_EVERY: Duration = Duration::from_millis(100);

/// What someone who watches may still want to say.
pub(crate) enum Wish {
    /// End these jobs.
    Cancel,
    /// Never mind the rest.
    Leave,
}

/// How the following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub code: u8,
    /// Somebody left before the jobs had ended.
    pub left: bool,
}

const INTERRUPTED: u8 = 130;

/// A list's jobs are looked at together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub id: BatchId,
    pub name: String,
    /// Jobs that were queued just now; the others were known.
    pub added: u64,
}

pub(crate) struct Follow<'a> {
    context: &'a Context,
    jobs: BTreeMap<JobId, Watched>,
    order: Vec<JobId>,
    /// Of them, those whose end is not known.
    open: usize,
    /// They have ended, and what they left in their worktrees is being committed, since then.
    closing: BTreeMap<JobId, Instant>,
    /// What is told now happens now. Before, an end may be followed by a person's word that the job goes on.
    live: bool,
    view: View,
    questions: Questions,
}

#[derive(Default)]
struct Watched {
    /// The fold of what was told.
    progress: Progress,
    /// Shown from when a person has let it go on so often; before that is the story of an earlier end.
    shown_from: u32,
    /// What it waits for, as last told.
    note: String,
    /// Its last record said for how long it waits.
    waits: bool,
    ended: Option<(JobRow, JobResult)>,
}

impl<'a> Follow<'a> {
    pub fn new(context: &'a Context, order: Vec<JobId>, batch: Option<Batch>) -> Self {
        let jobs: BTreeMap<_, _> = order.iter().map(|id| (id.clone(), Watched::default())).collect();
        let view = View::new(context.output, context.state.clone(), batch, jobs.len());
        let (questions, closing) = (Questions::new(), BTreeMap::new());
        Follow { context, open: jobs.len(), live: false, jobs, order, closing, view, questions }
    }

    /// Of jobs that a person lets go on: how often that had been before. What happened until then is not shown again.
    pub fn resumed(mut self, resumes: &HashMap<JobId, u32>) -> Self {
        for (id, job) in &mut self.jobs {
            job.shown_from = resumes.get(id).map_or(0, |before| before + 1);
        }
        self
    }

    /// Until all have ended, or someone leaves. `wish` is asked again and again, and dropped while it waits.
    pub async fn until_ended(mut self, mut wish: impl AsyncFnMut() -> Wish) -> Result<End, Failure> {
        // Not at once: most wait for a moment only, and what they wait for is told.
        let mut look = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut draw = tokio::time::interval(view::DRAW_EVERY);
        draw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.subscribe().await?;
        while self.open > 0 {
            self.put_question();
            tokio::select! {
                told = link.next() => match told {
                    Ok(Some(response)) => {
                        if self.told(response)? {
                            link = self.subscribe().await?;
                        }
                    }
                    Ok(None) => link = self.subscribe().await?,
                    Err(error) => {
                        tracing::debug!("the subscription broke: {error}");
                        link = self.subscribe().await?;
                    }
                },
                typed = self.questions.answer() => {
                    self.view.asked();
                    if let Some((job, call, decision)) = typed {
                        self.decide(&job, &call, decision).await?;
                    }
                }
                _ = draw.tick() => {
                    self.close();
                    self.draw();
                }
                _ = look.tick() => self.look().await?,
                wished = wish() => match wished {
                    Wish::Cancel => self.cancel().await?,
                    Wish::Leave => {
                        self.view.clear();
                        return Ok(End { code: INTERRUPTED, left: true });
                    }
                },
            }
        }
        Ok(self.results())
    }

    /// Where no server listens: what their logs say. None: they have not all ended, and nothing goes on here.
    pub fn replay(mut self) -> Result<Option<End>, Failure> {
        for id in self.order.clone() {
            offline::records(&self.context.state, &id, |happened| {
                self.happened(&happened);
            })?;
        }
        self.view.clear();
        self.settle(false);
        Ok((self.open == 0).then(|| self.results()))
    }

    async fn subscribe(&mut self) -> Result<Client, Failure> {
        let since = Instant::now();
        self.live = false;
        let open: Vec<_> = self.jobs.iter().filter(|(_, job)| job.ended.is_none()).collect();
        let jobs = Selection::These(open.iter().map(|(id, _)| id.to_string()).collect());
        let of = open.iter().filter(|(_, job)| job.progress.seq > 0);
        let seen = Seen { all: 0, of: of.map(|(id, job)| ((*id).clone(), job.progress.seq)).collect() };
        let request = Request::Subscribe { filter: Filter { jobs, deltas: self.view.wants_deltas() }, seen };
        loop {
            let failure = match Client::connect(self.context).await {
                Ok(Some(mut client)) => match client.send(&request).await {
                    Ok(()) => return Ok(client),
                    Err(failure) => failure,
                },
                Ok(None) => Failure::failed(format!(
                    "the ukai server is gone; its jobs go on at its next start ({})",
                    quoted(&["serve"])
                )),
                Err(failure) => return Err(failure),
            };
            if since.elapsed() > AWAY_MAX {
                return Err(failure);
            }
            tokio::time::sleep(RECONNECT_EVERY).await;
        }
    }

    /// Takes one message; `true`: records were missed, subscribe again.
    fn told(&mut self, response: Response) -> Result<bool, Failure> {
        match response {
            Response::Happened(happened) => return Ok(self.happened(&happened)),
            Response::Delta { job, step, text } => self.view.delta(&job, step, &text),
            Response::Missed { .. } => return Ok(true),
            Response::Live => {
                self.settle(true);
                self.view.live();
                self.live = true;
            }
            Response::Refused { why, usage: true } => return Err(Failure::usage(why)),
            Response::Refused { why, usage: false } => return Err(Failure::failed(why)),
            other => return Err(unexpected(&other)),
        }
        Ok(false)
    }

    /// `true`: one before it is missing.
    fn happened(&mut self, happened: &Happened) -> bool {
        let Some(job) = self.jobs.get_mut(&happened.job) else { return false };
        if happened.seq <= job.progress.seq {
            return false;
        }
        if happened.seq > job.progress.seq + 1 {
            return true;
        }
        let was = job.progress.status;
        if let Err(illegal) = job.progress.apply(&happened.event) {
            // The supervisor thinks otherwise, and it is its log.
            tracing::warn!(job = %happened.job, %illegal, "a record is shown that does not fold");
            job.progress.seq = happened.seq;
        }
        match &happened.event {
            Event::AskOpened { call, .. } => {
                if let Some(ask) = job.progress.asks.iter().find(|ask| ask.call == *call) {
                    self.questions.opened(&happened.job, ask);
                }
            }
            Event::AskAnswered { call, .. } if self.questions.answered(&happened.job, call) => self.view.asked(),
            _ => {}
        }
        let pauses = self.live && job.progress.status == JobStatus::Paused && was != JobStatus::Paused;
        job.waits = matches!(happened.event, Event::Waiting { wait_ms: Some(_), .. });
        if job.progress.resumes >= job.shown_from {
            self.view.happened(happened);
        }
        if pauses {
            self.view.paused(&happened.job);
        }
        if job.progress.outcome.is_some() {
            let shown = self.questions.is_shown();
            self.questions.ended(&happened.job);
            if shown && !self.questions.is_shown() {
                self.view.asked();
            }
        }
        if self.live && job.is_over() && !is_closing(&mut self.closing, self.context, &happened.job) {
            job.end_as_told(&mut self.view, &happened.job);
            self.open -= 1;
        }
        false
    }

    /// All that was recorded has been told: what ended last has ended.
    fn settle(&mut self, served: bool) {
        for (id, job) in &mut self.jobs {
            // Where no server runs, nobody is at it.
            let waits = served && job.is_over() && is_closing(&mut self.closing, self.context, id);
            if job.is_over() && !waits {
                job.end_as_told(&mut self.view, id);
                self.open -= 1;
            } else if job.progress.status == JobStatus::Paused {
                self.view.paused(id);
            }
        }
    }

    /// Those whose worktrees are settled by now have ended.
    fn close(&mut self) {
        let settled =
            |id: &JobId, since: &Instant| since.elapsed() > CLOSE_MAX || !worktree::is_open(&self.context.state, id);
        let over: Vec<_> =
            self.closing.iter().filter(|(id, since)| settled(id, since)).map(|(id, _)| id.clone()).collect();
        for id in over {
            self.closing.remove(&id);
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.is_over()) else { continue };
            job.end_as_told(&mut self.view, &id);
            self.open -= 1;
        }
    }

    /// Asks how the open jobs stand, for what no record says.
    async fn look(&mut self) -> Result<(), Failure> {
        let open = self.jobs.iter().filter(|(_, job)| job.ended.is_none()).map(|(id, _)| id.to_string());
        let jobs = Selection::These(open.collect());
        let Some(client) = Client::connect(self.context).await? else { return Ok(()) };
        let (rows, _) = client.rows(jobs).await?;
        for row in rows {
            let Some(job) = self.jobs.get_mut(&row.id) else { continue };
            if row.status.is_ended() && is_closing(&mut self.closing, self.context, &row.id) {
                continue;
            }
            if row.status.is_ended() {
                let Some(client) = Client::connect(self.context).await? else { return Ok(()) };
                let (row, result) = client.shown(row.id.as_str()).await?;
                if job.ended.is_none() {
                    job.end(&mut self.view, row, result);
                    self.open -= 1;
                }
            } else if !job.waits
                && let Some(note) = waits(&row)
                && differs(&job.note, note)
            {
                note.clone_into(&mut job.note);
                self.view.waits(&row.id, row.status, note);
            }
        }
        Ok(())
    }

    /// What waits for the person here is put to them, one thing at a time.
    fn put_question(&mut self) {
        if !self.live {
            return;
        }
        if let Some((question, prompt)) = self.questions.next() {
            self.view.ask(&question, prompt);
        }
    }

    async fn decide(&mut self, job: &JobId, call: &str, decision: Decision) -> Result<(), Failure> {
        let what = format!("{job}/{call}");
        let Some(client) = Client::connect(self.context).await? else { return Ok(()) };
        match client.ask(&Request::Decide { what, decision }).await {
            Ok(Response::Decided(answered)) => {
                self.questions.taken();
                if let Some((rules, file)) = &answered.kept {
                    self.view.say(&format!("from now on by {} in {}", rules.join(", "), file.display()));
                }
            }
            Ok(other) => return Err(unexpected(&other)),
            // Somebody else was first, or it cannot be kept as a rule: the question stands, or goes with its record.
            Err(failure) => self.view.say(&failure.text),
        }
        Ok(())
    }

    fn draw(&mut self) {
        let jobs = &self.jobs;
        self.view.draw(|| {
            jobs.iter().map(|(id, job)| match &job.ended {
                Some((row, _)) => row.clone(),
                None => JobRow::of(id.clone(), &job.progress, String::new()),
            })
        });
    }

    async fn cancel(&mut self) -> Result<(), Failure> {
        self.view.say("cancelling; a second Ctrl-C ends everything here");
        let open = self.jobs.iter().filter(|(_, job)| job.ended.is_none()).map(|(id, _)| id.to_string()).collect();
        let Some(mut client) = Client::connect(self.context).await? else { return Ok(()) };
        // Not waited for: the ends arrive as records, and a second wish must be heard meanwhile.
        client.send(&Request::Cancel { jobs: Selection::These(open) }).await
    }

    fn results(mut self) -> End {
        let ended: Vec<_> = self.order.iter().filter_map(|id| self.jobs.get_mut(id)?.ended.take()).collect();
        let next = match self.view.batch() {
            Some(batch) => next::lines(batch, ended.iter().map(|(row, result)| (row, self.limits(row, result)))),
            None => ended.iter().flat_map(|(row, result)| self.to_allow(row, result)).collect(),
        };
        End { code: self.view.results(&ended, &next), left: false }
    }

    /// With which it ran, where it matters.
    fn limits(&self, row: &JobRow, result: &JobResult) -> Option<Limits> {
        if row.status != JobStatus::Aborted || result.limits.is_some() {
            return result.limits;
        }
        // Without it no raise is named, and `resume` says what it lacks.
        self.spec(&row.id).map(|spec| spec.limits)
    }

    /// What to add so that what was denied with nobody to ask is allowed.
    fn to_allow(&self, row: &JobRow, result: &JobResult) -> Option<String> {
        let nobody = |denied: &&DeniedCall| denied.source == Source::NoOneToAsk;
        result.denied.iter().find(nobody)?;
        let worktree = worktree::of(&self.context.state, &row.id).map(|record| record.workdir);
        let workdir = worktree.or_else(|| Some(self.spec(&row.id)?.workdir));
        let mut flags = allow::flags(&result.denied, workdir.as_deref());
        let more = if flags.len() > FLAGS_SHOWN_MAX { " …" } else { "" };
        flags.truncate(FLAGS_SHOWN_MAX);
        let what = "was denied what nobody was there to be asked about; to allow it, run it with";
        (!flags.is_empty()).then(|| format!("ukai: {} {what} {}{more}", row.id, flags.join(" ")))
    }

    fn spec(&self, id: &JobId) -> Option<Box<JobSpec>> {
        match spec_file::load(&self.context.state.run(id).spec()) {
            Ok(Loaded::Sound(spec)) => Some(spec),
            Ok(Loaded::Missing | Loaded::Bad(_)) | Err(_) => None,
        }
    }
}

impl Watched {
    fn is_over(&self) -> bool {
        self.progress.outcome.is_some() && self.ended.is_none()
    }

    fn end_as_told(&mut self, view: &mut View, id: &JobId) {
        let row = JobRow::of(id.clone(), &self.progress, String::new());
        self.end(view, row, resume::result(id, &self.progress));
    }

    fn end(&mut self, view: &mut View, row: JobRow, result: JobResult) {
        view.ended(&row, &result);
        // Of a batch only rows are wanted at the end, and it may be large.
        let result =
            if view.is_of_batch() { JobResult { limits: result.limits, ..JobResult::default() } } else { result };
        self.progress.text = String::new();
        self.ended = Some((row, result));
    }
}

/// Whether what a job left in its worktree is still being committed; from now on it is looked for.
fn is_closing(closing: &mut BTreeMap<JobId, Instant>, context: &Context, id: &JobId) -> bool {
    let open = worktree::is_open(&context.state, id);
    if open {
        closing.entry(id.clone()).or_insert_with(Instant::now);
    }
    open
}

/// What someone who sees nothing happen wants to know.
fn waits(row: &JobRow) -> Option<&str> {
    let waits = matches!(row.status, JobStatus::Queued | JobStatus::Waiting | JobStatus::Paused);
    (waits && !row.note.is_empty()).then_some(&*row.note)
}

/// Whether it says something else, and not the same with fewer seconds to go.
fn differs(before: &str, note: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(before) != words(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_told_once_and_not_counted_down() {
        for (before, note, told) in [
            ("", "no provider may be asked for another 40 s", true),
            ("no provider may be asked for another 40 s", "no provider may be asked for another 8 s", false),
            ("no provider may be asked for another 40 s", "0 before it", true),
        ] {
            assert_eq!(differs(before, note), told, "{before:?}, {note:?}");
        }
    }
}
