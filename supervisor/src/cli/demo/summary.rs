//! What the demo's jobs found, what it took, and where to look.

use std::path::Path;

use serde_json::json;
use ukai_protocol::command::word_of;
use ukai_protocol::control::{JobResult, JobRow};
use ukai_protocol::job::{JobStatus, Outcome};

use super::cast::WORDS;
use crate::cli::context::Context;
use crate::cli::print::{self, brief};
use crate::cli::{Output, json};

/// Prints to stdout; the exit code is 0 if all completed.
pub(super) fn tell(output: Output, context: &Context, folder: &Path, ended: &[(JobRow, JobResult)]) -> u8 {
    let completed = ended.iter().filter(|(row, _)| row.status == JobStatus::Completed).count();
    let restarted = ended.iter().filter(|(row, _)| row.restarts > 0).count();
    let code = ended.iter().map(|(row, _)| row.outcome.as_ref().map_or(1, Outcome::exit_code)).find(|code| *code != 0);
    let code = code.unwrap_or(0);
    let runs = context.state.root().join("runs");
    let mut text = String::new();
    if output == Output::Text {
        text.push_str(&format!("{:8} {:>8} {:>5} {:>7} {:>7}  FOUND\n", "WORD", "RESTARTS", "STEPS", "TOKENS", "TIME"));
        for (word, (row, result)) in WORDS.iter().zip(ended) {
            let seconds = result.duration_ms as f64 / 1_000.0;
            let found = match row.status {
                JobStatus::Completed => brief(&result.text, 200),
                status => format!("{status}: {}", crate::cli::table::why(row)),
            };
            let (restarts, steps, tokens) = (row.restarts, row.used.steps, row.used.tokens());
            text.push_str(&format!("{word:8} {restarts:>8} {steps:>5} {tokens:>7} {seconds:>6.1}s  {found}\n"));
        }
        text.push_str(&format!("\n{completed} completed, {restarted} restarted, in {}\n", folder.display()));
        text.push_str(&format!("check a count: {}\n", check(folder)));
        text.push_str(&format!("the logs, one line per event: {}/*/events.jsonl\n", runs.display()));
    } else {
        for (row, result) in ended {
            text.push_str(&json::result(row, result, None));
            text.push('\n');
        }
        let jobs: Vec<_> =
            WORDS.iter().zip(ended).map(|(word, (row, _))| json!({"word": word, "job_id": row.id})).collect();
        let demo = json!({"type": "demo_result", "completed": completed, "restarted": restarted,
            "folder": folder.display().to_string(), "logs": runs.display().to_string(), "check": check(folder),
            "jobs": jobs});
        text.push_str(&format!("{demo}\n"));
    }
    print::out(&text);
    code
}

/// How to see the same counts without ukai, from wherever the reader stands: files as the jobs saw them, without those
/// that the shipped policy keeps from them.
fn check(folder: &Path) -> String {
    let place = word_of(&folder.display().to_string());
    // A `.git` that holds no repository is none to the jobs either.
    let is_top = |top: &Path| top.join(".git").is_file() || top.join(".git/HEAD").exists();
    if folder.ancestors().any(is_top) {
        let env = "':(exclude,icase).env*' ':(exclude,icase)*/.env*'";
        format!("git -C {place} grep -cI --untracked TODO -- {env}")
    } else {
        let env = "'.[Ee][Nn][Vv]*'";
        let exclude = format!("--exclude-dir=.git --exclude-dir={env} --exclude={env}");
        format!("(cd {place} && LC_ALL=C grep -rcI {exclude} TODO . | grep -av ':0$')")
    }
}
