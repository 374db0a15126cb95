//! The demo while it plays: a table that is redrawn in place on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use ukai_protocol::control::Happened;
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobStatus;
use ukai_protocol::run_state::Progress;

use crate::cli::print::{self, brief};
use crate::cli::progress::{Say, say};

/// Not to flicker, and not to spend the demo's time on drawing.
const REDRAW_EVERY: Duration = Duration::from_millis(40);
const COLUMNS_DEFAULT: usize = 80;

pub(super) struct Board {
    /// Of the first column.
    title: &'static str,
    rows: Vec<Row>,
    terminal: bool,
    drawn: Option<Instant>,
}

struct Row {
    id: JobId,
    word: &'static str,
    progress: Progress,
    now: String,
}

impl Board {
    pub fn new(title: &'static str, jobs: impl Iterator<Item = (JobId, &'static str)>) -> Self {
        let row = |(id, word)| Row { id, word, progress: Progress::default(), now: String::new() };
        Board { title, rows: jobs.map(row).collect(), terminal: io::stderr().is_terminal(), drawn: None }
    }

    pub fn happened(&mut self, happened: &Happened) {
        let Some(row) = self.rows.iter_mut().find(|row| row.id == happened.job) else { return };
        if let Err(illegal) = row.progress.apply(&happened.event) {
            tracing::error!(%illegal, job = %happened.job, "a record came out of order");
        }
        let text = match say(&happened.event) {
            Say::Line(text) | Say::Moment(text) => text,
            Say::Nothing => return,
        };
        let stays = matches!(
            happened.event,
            Event::Started { .. } | Event::Interrupted { .. } | Event::Replied { .. } | Event::Finished { .. }
        );
        self.tell(&happened.job, &text, stays);
    }

    /// Something that the demo itself did to a job.
    pub fn say(&mut self, job: &JobId, text: &str) {
        self.tell(job, text, true);
    }

    pub fn all_ended(&self) -> bool {
        self.rows.iter().all(|row| row.progress.status.is_ended())
    }

    /// The last state of the table stays on the screen.
    pub fn finish(&mut self) {
        if self.terminal {
            self.draw();
        }
    }

    fn tell(&mut self, job: &JobId, text: &str, stays: bool) {
        let Some(row) = self.rows.iter_mut().find(|row| row.id == *job) else { return };
        text.trim_start().clone_into(&mut row.now);
        if self.terminal {
            if self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_EVERY) {
                self.draw();
            }
        } else if stays {
            print::note(&format!("{:8} {} {}", row.word, row.id, text.trim_start()));
        }
    }

    fn draw(&mut self) {
        let columns =
            terminal_size::terminal_size_of(io::stderr()).map_or(COLUMNS_DEFAULT, |(width, _)| width.0.into());
        let mut text = String::new();
        if self.drawn.is_some() {
            text.push_str(&format!("\x1b[{}A", self.rows.len() + 1));
        }
        text.push_str(&line(&format!("{:8} STATUS       STEP  RESTARTS  NOW", self.title), columns));
        for row in &self.rows {
            let Progress { status, used, .. } = &row.progress;
            let step = used.steps + u64::from(matches!(status, JobStatus::Running | JobStatus::Waiting));
            let restarts = row.progress.restarts();
            let shown = format!("{:8} {status:11} {step:>5}  {restarts:>8}  {}", row.word, brief(&row.now, columns));
            text.push_str(&line(&shown, columns));
        }
        let mut stderr = io::stderr().lock();
        // As with `note`: without a reader there is nobody to tell.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        self.drawn = Some(Instant::now());
    }
}

fn line(text: &str, columns: usize) -> String {
    let cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("\x1b[2K{cut}\n")
}
