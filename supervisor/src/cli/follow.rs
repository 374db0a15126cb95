//! Follows jobs at a supervisor to their ends: progress, deltas, results, one exit code.
//!
//! The supervisor may be another process or our own; both are spoken to by the socket, so that there is one road.
//! A listener that was too slow, or whose connection broke, asks again for what came after the last record it saw.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use ukai_protocol::control::{Filter, Happened, JobResult, JobRow, Request, Response, Seen, Selection};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobStatus;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::print::{self, Screen};
use super::progress::{Say, say};
use super::{Output, json, table};

/// A job may end without a record that says so (its disk refuses, its log is quarantined): now and then, ask.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a supervisor may be away (it re-executes itself for an upgrade) before it counts as gone.
const AWAY_MAX: Duration = Duration::from_secs(10);
const RECONNECT_EVERY: Duration = Duration::from_millis(100);
const DELTA_CHARS_SHOWN: usize = 200;

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

pub(crate) struct Follow<'a> {
    context: &'a Context,
    jobs: BTreeMap<JobId, Watched>,
    order: Vec<JobId>,
    screen: Screen,
    /// Nobody reads stdout any more: the jobs go on all the same.
    stdout_closed: bool,
}

#[derive(Default)]
struct Watched {
    seq: u64,
    delta: String,
    /// What it waits for, as last told.
    note: String,
    /// Its last record said for how long it waits.
    waits: bool,
    ended: Option<(JobRow, JobResult)>,
}

impl<'a> Follow<'a> {
    pub fn new(context: &'a Context, order: Vec<JobId>) -> Self {
        let jobs = order.iter().map(|id| (id.clone(), Watched::default())).collect();
        Follow { context, jobs, order, screen: Screen::new(), stdout_closed: false }
    }

    /// Until all have ended, or someone leaves. `wish` is asked again and again, and dropped while it waits.
    pub async fn until_ended(mut self, mut wish: impl AsyncFnMut() -> Wish) -> Result<End, Failure> {
        // Not at once: most wait for a moment only, and what they wait for is told.
        let mut look = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.subscribe().await?;
        while self.jobs.values().any(|seen| seen.ended.is_none()) {
            tokio::select! {
                told = link.next() => match told {
                    Ok(Some(response)) => {
                        if self.told(response).await? {
                            link = self.subscribe().await?;
                        }
                    }
                    Ok(None) => link = self.subscribe().await?,
                    Err(error) => {
                        tracing::debug!("the subscription broke: {error}");
                        link = self.subscribe().await?;
                    }
                },
                _ = look.tick() => self.look().await?,
                wished = wish() => match wished {
                    Wish::Cancel => self.cancel().await?,
                    Wish::Leave => {
                        self.screen.clear();
                        return Ok(End { code: INTERRUPTED, left: true });
                    }
                },
            }
        }
        self.screen.clear();
        Ok(End { code: self.results(), left: false })
    }

    async fn subscribe(&mut self) -> Result<Client, Failure> {
        let since = Instant::now();
        let open = |seen: &&Watched| seen.ended.is_none();
        let jobs = self.order.iter().map(ToString::to_string).collect();
        let after = self.jobs.values().filter(open).map(|seen| seen.seq).min().unwrap_or(0);
        let deltas = self.context.output == Output::StreamJson || self.screen.is_terminal();
        let seen = Seen { all: after, of: Vec::new() };
        let request = Request::Subscribe { filter: Filter { jobs: Selection::These(jobs), deltas }, seen };
        loop {
            let failure = match Client::connect(self.context).await {
                Ok(Some(mut client)) => match client.send(&request).await {
                    Ok(()) => return Ok(client),
                    Err(failure) => failure,
                },
                Ok(None) => Failure::failed("the ukai server is gone; its jobs go on at its next start (`ukai serve`)"),
                Err(failure) => return Err(failure),
            };
            if since.elapsed() > AWAY_MAX {
                return Err(failure);
            }
            tokio::time::sleep(RECONNECT_EVERY).await;
        }
    }

    /// Takes one message; `true`: records were missed, subscribe again.
    async fn told(&mut self, response: Response) -> Result<bool, Failure> {
        match response {
            Response::Happened(happened) => self.happened(*happened).await?,
            Response::Delta { job, step, text } => self.delta(&job, step, &text),
            Response::Missed { .. } => return Ok(true),
            Response::Live => {}
            Response::Refused { why, usage: true } => return Err(Failure::usage(why)),
            Response::Refused { why, usage: false } => return Err(Failure::failed(why)),
            other => return Err(unexpected(&other)),
        }
        Ok(false)
    }

    async fn happened(&mut self, happened: Happened) -> Result<(), Failure> {
        let Some(seen) = self.jobs.get_mut(&happened.job) else { return Ok(()) };
        if happened.seq <= seen.seq {
            return Ok(());
        }
        seen.seq = happened.seq;
        seen.delta.clear();
        seen.waits = matches!(happened.event, Event::Waiting { wait_ms: Some(_), .. });
        match self.context.output {
            Output::StreamJson => self.out(&json::event(&happened)),
            Output::Text | Output::Json => match say(&happened.event) {
                Say::Line(text) => self.screen.line(&format!("{}  {text}", happened.job)),
                Say::Moment(text) => self.screen.moment(&format!("{}  {text}", happened.job)),
                Say::Nothing => {}
            },
        }
        if matches!(happened.event, Event::Finished { .. }) {
            self.look().await?;
        }
        Ok(())
    }

    fn delta(&mut self, job: &JobId, step: u64, text: &str) {
        if self.context.output == Output::StreamJson {
            return self.out(&json::delta(job, step, text));
        }
        let Some(seen) = self.jobs.get_mut(job) else { return };
        seen.delta.push_str(text);
        let keep = seen.delta.char_indices().rev().nth(DELTA_CHARS_SHOWN).map_or(0, |(at, _)| at);
        seen.delta.drain(..keep);
        self.screen.moment(&format!("{job}  step {step}: {}", seen.delta));
    }

    /// Asks how the open jobs stand, and keeps the results of those that have ended.
    async fn look(&mut self) -> Result<(), Failure> {
        let open: Vec<_> =
            self.jobs.iter().filter(|(_, seen)| seen.ended.is_none()).map(|(id, _)| id.clone()).collect();
        for id in open {
            let Some(client) = Client::connect(self.context).await? else { return Ok(()) };
            let (row, result) = client.shown(id.as_str()).await?;
            let Some(seen) = self.jobs.get_mut(&id) else { continue };
            if row.status.is_ended() {
                seen.ended = Some((row, result));
            } else if !seen.waits
                && let Some(note) = waits(&row)
                && differs(&seen.note, note)
            {
                note.clone_into(&mut seen.note);
                self.screen.line(&format!("{id}  {}: {note}", row.status));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Failure> {
        self.screen.line("ukai: cancelling; a second Ctrl-C ends everything here");
        let open = self.jobs.iter().filter(|(_, seen)| seen.ended.is_none()).map(|(id, _)| id.to_string()).collect();
        let Some(mut client) = Client::connect(self.context).await? else { return Ok(()) };
        // Not waited for: the ends arrive as records, and a second wish must be heard meanwhile.
        client.send(&Request::Cancel { jobs: Selection::These(open) }).await
    }

    fn out(&mut self, line: &str) {
        if !self.stdout_closed {
            self.stdout_closed = !print::out(&format!("{line}\n"));
        }
    }

    fn results(mut self) -> u8 {
        let ended: Vec<_> = self.order.iter().filter_map(|id| self.jobs.get_mut(id)?.ended.take()).collect();
        let several = ended.len() > 1;
        let mut codes = Vec::new();
        for (row, result) in &ended {
            match self.context.output {
                Output::Json | Output::StreamJson => self.out(&json::result(row, result)),
                Output::Text => {
                    let text = print::clean(result.text.trim_end());
                    let title = if several {
                        format!("== {} ({})\n", print::brief(&row.name, 64), row.id)
                    } else {
                        String::new()
                    };
                    if several || !text.is_empty() {
                        self.out(&format!("{title}{text}"));
                    }
                    let why = table::why(row);
                    if !why.is_empty() {
                        print::note(&format!("ukai: {} {}: {why}; type: ukai show {}", row.id, row.status, row.id));
                    }
                }
            }
            codes.push(row.outcome.as_ref().map_or(super::failure::FAILED, ukai_protocol::job::Outcome::exit_code));
        }
        worst(&codes)
    }
}

/// What someone who sees nothing happen wants to know.
fn waits(row: &JobRow) -> Option<&str> {
    let waits = matches!(row.status, JobStatus::Queued | JobStatus::Waiting);
    (waits && !row.note.is_empty()).then_some(&*row.note)
}

/// Whether it says something else, and not the same with fewer seconds to go.
fn differs(before: &str, note: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(before) != words(note)
}

/// The exit code of several jobs (spec §14): 0 if all completed, else the worst.
fn worst(codes: &[u8]) -> u8 {
    [6, 1, 5, 4, 3, 130, 7].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
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

    #[test]
    fn the_worst_end_is_the_exit_code() {
        for (codes, code) in [(&[0, 0][..], 0), (&[0, 7], 7), (&[7, 130, 4], 4), (&[1, 6], 6), (&[3, 5], 5), (&[], 0)] {
            assert_eq!(worst(codes), code, "{codes:?}");
        }
    }
}
