//! What someone who follows jobs sees: each record of a few jobs, or one line for a whole batch and what stands out.
//!
//! Two hundred jobs that each say all they do would hide the one that failed. Of a batch there is told what a person may
//! want to act upon; where stderr is no terminal, each end is told too, so that a log shows how far it came.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use ukai_protocol::command::command;
use ukai_protocol::control::{Happened, JobResult, JobRow};
use ukai_protocol::event::Event;
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::JobStatus;

use super::Batch;
use crate::cli::print::{self, Screen};
use crate::cli::progress::{Say, say};
use crate::cli::tally::Tally;
use crate::cli::{Output, json, table, worktree};
use crate::store::StateDir;

/// Faster than that nobody reads.
pub(super) const DRAW_EVERY: Duration = Duration::from_millis(100);
const DELTA_CHARS_SHOWN: usize = 200;
const NAME_CHARS_SHOWN: usize = 64;

pub(super) struct View {
    output: Output,
    batch: Option<Batch>,
    state: StateDir,
    screen: Screen,
    /// Nobody reads stdout any more: the jobs go on all the same.
    stdout_closed: bool,
    since: Instant,
    /// Provisional text of the step that each job is at.
    deltas: BTreeMap<JobId, String>,
    ended: u64,
    jobs: usize,
    /// What is told from now on happens now.
    live: bool,
    /// Something happened that the line of a batch does not show yet.
    stale: bool,
}

impl View {
    pub fn new(output: Output, state: StateDir, batch: Option<Batch>, jobs: usize) -> Self {
        let (screen, since) = (Screen::new(), Instant::now());
        let deltas = BTreeMap::new();
        View {
            output,
            batch,
            state,
            screen,
            stdout_closed: false,
            since,
            deltas,
            ended: 0,
            jobs,
            live: false,
            stale: true,
        }
    }

    pub fn is_of_batch(&self) -> bool {
        self.batch.is_some()
    }

    pub fn batch(&self) -> Option<&BatchId> {
        self.batch.as_ref().map(|batch| &batch.id)
    }

    pub fn wants_deltas(&self) -> bool {
        self.output == Output::StreamJson || (self.batch.is_none() && self.screen.is_terminal())
    }

    pub fn live(&mut self) {
        self.live = true;
    }

    pub fn clear(&mut self) {
        self.screen.clear();
    }

    pub fn say(&mut self, text: &str) {
        self.screen.line(&format!("ukai: {text}"));
    }

    /// Shows a question, and what its answer is typed behind.
    pub fn ask(&mut self, question: &str, prompt: &'static str) {
        self.screen.line(question);
        self.screen.ask(Some(prompt));
    }

    /// No answer is waited for.
    pub fn asked(&mut self) {
        self.screen.ask(None);
    }

    pub fn happened(&mut self, happened: &Happened) {
        self.stale = true;
        self.deltas.remove(&happened.job);
        let Happened { job, event, .. } = happened;
        if self.output == Output::StreamJson {
            return self.out(&json::event(happened));
        }
        match say(event) {
            _ if self.batch.is_some() && !stands_out(event) => {}
            Say::Line(text) => self.screen.line(&format!("{job}  {text}")),
            Say::Moment(text) => self.screen.moment(&format!("{job}  {text}")),
            Say::Nothing => {}
        }
    }

    pub fn delta(&mut self, job: &JobId, step: u64, text: &str) {
        if self.output == Output::StreamJson {
            return self.out(&json::delta(job, step, text));
        }
        let delta = self.deltas.entry(job.clone()).or_default();
        delta.push_str(text);
        let keep = delta.char_indices().rev().nth(DELTA_CHARS_SHOWN).map_or(0, |(at, _)| at);
        delta.drain(..keep);
        self.screen.moment(&format!("{job}  step {step}: {delta}"));
    }

    pub fn waits(&mut self, job: &JobId, status: JobStatus, note: &str) {
        if self.batch.is_none() {
            self.screen.line(&format!("{job}  {status}: {note}"));
        }
    }

    pub fn paused(&mut self, job: &JobId) {
        self.waits(job, JobStatus::Paused, &format!("type: {}", command(&["unpause", job.as_str()])));
    }

    pub fn ended(&mut self, row: &JobRow, result: &JobResult) {
        self.ended += 1;
        if self.batch.is_none() {
            return;
        }
        if self.output == Output::StreamJson {
            self.out(&self.json(row, result));
        }
        let why = table::why(row);
        if self.live && (!why.is_empty() || !self.screen.is_terminal()) {
            let (name, why) = (print::brief(&row.name, NAME_CHARS_SHOWN), print::brief(&why, DELTA_CHARS_SHOWN));
            let why = if why.is_empty() { why } else { format!(": {why}") };
            let (ended, jobs) = (self.ended, self.jobs);
            self.screen.line(&format!("{}  {name}: {}{why} ({ended} of {jobs})", row.id, row.status));
        }
    }

    /// The line of a batch, where something has changed and somebody sees it.
    pub fn draw<Rows: Iterator<Item = JobRow>>(&mut self, rows: impl FnOnce() -> Rows) {
        let Some(batch) = &self.batch else { return };
        if !self.screen.is_terminal() || !self.stale {
            return;
        }
        self.stale = false;
        let mut tally = Tally::default();
        rows().for_each(|row| tally.add(&row));
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (done, jobs, standing, time) = (tally.ended(), tally.jobs, tally.standing(), table::time(elapsed));
        let tokens = tally.used.tokens();
        self.screen.moment(&format!("{}  {done}/{jobs} in {time}: {standing}; {tokens} tokens", batch.name));
    }

    /// The exit code. `next`: what to type where a list did not all complete, or a job was denied something.
    pub fn results(&mut self, ended: &[(JobRow, JobResult)], next: &[String]) -> u8 {
        self.screen.clear();
        let tally = Tally::of(ended.iter().map(|(row, _)| row));
        match &self.batch {
            Some(batch) => self.out(&match self.output {
                Output::Json | Output::StreamJson => json::batch_result(batch, &tally),
                Output::Text => summary(batch, &tally, next),
            }),
            None => {
                ended.iter().for_each(|(row, result)| self.result(row, result, ended.len() > 1));
                next.iter().for_each(|line| print::note(line));
            }
        }
        tally.exit_code()
    }

    fn result(&mut self, row: &JobRow, result: &JobResult, several: bool) {
        if self.output != Output::Text {
            return self.out(&self.json(row, result));
        }
        let text = print::clean(result.text.trim_end());
        let title = match several {
            true => format!("== {} ({})\n", print::brief(&row.name, NAME_CHARS_SHOWN), row.id),
            false => String::new(),
        };
        if several || !text.is_empty() {
            self.out(&format!("{title}{text}"));
        }
        let why = table::why(row);
        if !why.is_empty() {
            let show = command(&["show", row.id.as_str()]);
            print::note(&format!("ukai: {} {}: {why}; type: {show}", row.id, row.status));
        }
        let left = worktree::of(&self.state, &row.id).and_then(|record| worktree::said(&row.id, &record));
        left.iter().for_each(|left| print::note(left));
    }

    fn json(&self, row: &JobRow, result: &JobResult) -> String {
        let worktree = worktree::of(&self.state, &row.id).map(|record| worktree::shown(&record));
        json::result(row, result, worktree.as_ref())
    }

    fn out(&mut self, line: &str) {
        if !self.stdout_closed {
            self.stdout_closed = !print::out(&format!("{line}\n"));
        }
    }
}

/// Of a batch: what a person may want to act upon. Its ends are told apart.
fn stands_out(event: &Event) -> bool {
    matches!(
        event,
        Event::Interrupted { .. } | Event::Attention { .. } | Event::Recovered { .. } | Event::AskOpened { .. }
    )
}

fn summary(batch: &Batch, tally: &Tally, next: &[String]) -> String {
    let Batch { id, name, .. } = batch;
    let mut lines = vec![
        format!("batch {id} ({}): {} jobs", print::clean(name), tally.jobs),
        format!("  {}", tally.standing()),
        format!("  {}", tally.spent()),
    ];
    lines.extend(tally.causes.iter().map(|(cause, count)| format!("  {count} ended by {cause}")));
    lines.extend(next.iter().cloned());
    lines.push(format!("type: {}", command(&["results", id.as_str()])));
    lines.join("\n")
}
