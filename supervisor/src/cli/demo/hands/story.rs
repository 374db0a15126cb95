//! What the demo shows, line by line: each with the observation that shows it, or with why there is none.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::control::{JobResult, JobRow};
use ukai_protocol::event::ToolStatus;
use ukai_protocol::job::JobStatus;
use ukai_protocol::policy::{Source, Verdict};

use super::acts::Act;
use super::luck::Refusal;
use super::project::Module;
use crate::cli::print::brief;
use crate::cli::table;
use crate::worktree::record::Record;

const TEXT_CHARS_MAX: usize = 160;

/// All of it, as it lay on disk afterwards.
pub(super) struct Story {
    /// The real provider that corrected; None: the player did.
    pub provider: Option<String>,
    pub fixes: Vec<Fix>,
    pub luck: Job,
    pub refusals: Vec<Refusal>,
    /// What reached a canary.
    pub reached: Vec<String>,
    pub check: Job,
}

/// A job at its end.
pub(super) struct Job {
    pub prompt: String,
    pub row: JobRow,
    pub result: JobResult,
    pub acts: Vec<Act>,
}

/// One that corrected a module.
pub(super) struct Fix {
    pub module: Module,
    pub job: Job,
    pub worktree: Option<Record>,
    /// From the commit that it began at to the one that it left.
    pub diff: Result<String, String>,
    /// What the tests said of that.
    pub tests: Result<String, String>,
}

/// One thing that must have been seen.
pub(super) struct Line {
    pub what: String,
    pub seen: Result<String, String>,
}

impl Story {
    /// A title and its lines.
    pub fn sections(&self) -> Vec<(String, Vec<Line>)> {
        let fixes = self.fixes.iter().map(|fix| (fix.job.row.name.clone(), fix.lines(self.provider.is_none())));
        fixes.chain([(self.luck.row.name.clone(), self.luck_lines())]).collect()
    }

    /// The end of the list, when no file that was written holds a secret.
    pub fn secrets(looked: Result<usize, String>) -> (String, Vec<Line>) {
        let seen =
            looked.map(|secrets| format!("{secrets} keys and secrets were looked for in every log and file here"));
        ("keys".to_owned(), vec![line("none was written anywhere", seen)])
    }

    fn luck_lines(&self) -> Vec<Line> {
        let refused = self.refusals.iter().map(|refusal| {
            let event = refusal.event.map(|(name, seq)| format!("; {name}, record {seq}")).unwrap_or_default();
            let seen = refusal.stopped.as_ref().map(|by| format!("stopped by {by}{event}"));
            line(&format!("{}: {} {}", refusal.what, refusal.tool, refusal.tried), seen.map_err(Clone::clone))
        });
        let reached = match &*self.reached {
            [] => Ok("every file is as it was, every listener heard nothing".to_owned()),
            reached => Err(reached.join("; ")),
        };
        refused.chain([line("nothing was reached", reached), completed(&self.luck)]).collect()
    }
}

impl Fix {
    fn lines(&self, played: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        if played {
            lines.push(line("its tests were run, and were red", self.red()));
        }
        lines.push(line("its edit was asked, and the demo's approver allowed it", self.approved()));
        lines.push(line("what it left changes its part of the project alone", self.changed(played)));
        let green = self.tests.as_ref().map(|said| brief(said, TEXT_CHARS_MAX)).map_err(Clone::clone);
        lines.push(line("the tests of that are green", green));
        lines.push(completed(&self.job));
        lines
    }

    fn red(&self) -> Result<String, String> {
        let mut runs = self.job.acts.iter().filter(|act| act.tool == "Bash").filter_map(|act| act.finished.as_ref());
        let (seq, _, output) =
            runs.find(|(_, status, _)| *status == ToolStatus::Failed).ok_or("no run of them failed")?;
        let red = output.lines().find(|line| line.starts_with("red: ")).ok_or("what failed was no test")?;
        Ok(format!("{red}; ToolFinished, record {seq}"))
    }

    fn approved(&self) -> Result<String, String> {
        let allowed = |act: &Act| {
            let (asked, (answered, judgement)) = (act.asked?, act.judged.as_ref()?);
            let by_a_person = judgement.verdict == Verdict::Allow && matches!(judgement.source, Source::User(_));
            let done = matches!(act.finished, Some((_, ToolStatus::Ok, _)));
            (by_a_person && done && act.tool == "Edit")
                .then(|| format!("AskOpened, record {asked}; AskAnswered, record {answered}"))
        };
        self.job.acts.iter().find_map(allowed).ok_or_else(|| "no edit was asked, allowed and carried out".to_owned())
    }

    fn changed(&self, played: bool) -> Result<String, String> {
        let diff = self.diff.as_ref().map_err(Clone::clone)?;
        let files: Vec<&str> = diff.lines().filter_map(|line| line.strip_prefix("diff --git a/")).collect();
        let own = format!("{0} b/{0}", self.module.file);
        match (&*files, played) {
            ([], _) => Err("it left nothing".to_owned()),
            ([file], true) if *file == own => Ok(format!("{} lines of {}", short(diff).len(), self.module.file)),
            (files, false) if files.iter().all(|file| file.starts_with("lib/")) => {
                Ok(format!("{} lines of {} files below lib/", short(diff).len(), files.len()))
            }
            (files, _) => Err(format!("it changes {}", files.join(", "))),
        }
    }
}

/// Of a diff, the lines that changed.
pub(super) fn short(diff: &str) -> Vec<&str> {
    let in_hunks = diff.lines().skip_while(|line| !line.starts_with("@@"));
    let changed = in_hunks.filter(|line| line.starts_with(['-', '+']));
    changed.filter(|line| !line.starts_with("--- ") && !line.starts_with("+++ ")).collect()
}

fn completed(job: &Job) -> Line {
    let seen = match job.row.status {
        JobStatus::Completed => Ok(brief(&job.result.text, TEXT_CHARS_MAX)),
        status => Err(format!("it is {status}: {}", table::why(&job.row))),
    };
    line("it completed", seen)
}

fn line(what: &str, seen: Result<String, String>) -> Line {
    Line { what: what.to_owned(), seen }
}
