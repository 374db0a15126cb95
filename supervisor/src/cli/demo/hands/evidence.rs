//! `artifacts/demo/<ISO8601>/`: for each job its prompt, result, diff, the tests' output and its log, and `checklist.md`, in
//! which a line is ticked by its observation and by nothing else. That is written last: where it stands, all stands.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ukai_protocol::disk;
use ukai_protocol::secret::Secret;

use super::story::{Fix, Job, Line, Story};
use crate::cli::failure::Failure;
use crate::cli::{json, worktree};
use crate::store::StateDir;
use crate::store::artifacts::{instant, new_folder, shown_line};

/// Of a log of some dozen records.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Files of a few jobs; more would be none of ours.
const FILES_MAX: usize = 10_000;

/// Where it stands, and what is not as it should be.
pub(super) struct Written {
    pub folder: PathBuf,
    pub wrong: Vec<String>,
}

/// `secrets`: to be found in none of it.
pub(super) fn write(state: &StateDir, at: Timestamp, story: &Story, secrets: &[Secret]) -> Result<Written, Failure> {
    let folder = new_folder(state, "demo", at)?;
    for fix in &story.fixes {
        let own = folder.join(&fix.job.row.name);
        job(state, &own, &fix.job, Some(fix))?;
        put(&own.join("diff.patch"), &ended(fix.diff.as_ref().unwrap_or_else(|why| why)))?;
        put(&own.join("tests.txt"), &ended(fix.tests.as_ref().unwrap_or_else(|why| why)))?;
    }
    for other in [&story.luck, &story.check] {
        job(state, &folder.join(&other.row.name), other, None)?;
    }
    let looked = match leaks(&[&state.runs(), &folder], secrets) {
        Ok(found) if found.is_empty() => Ok(secrets.len()),
        Ok(found) => Err(format!(
            "one stands in {}",
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        )),
        Err(why) => Err(format!("not all could be looked through: {why}")),
    };
    let mut sections = story.sections();
    sections.push(Story::secrets(looked));
    put(&folder.join("checklist.md"), &checklist(at, story, &sections))?;
    let wrong = sections.iter().flat_map(|(title, lines)| {
        lines.iter().filter_map(move |Line { what, seen }| Some(format!("{title}: {what}: {}", seen.as_ref().err()?)))
    });
    Ok(Written { wrong: wrong.collect(), folder })
}

fn job(state: &StateDir, folder: &Path, job: &Job, fix: Option<&Fix>) -> Result<(), Failure> {
    let run = state.run(&job.row.id);
    let read = |error| Failure::failed(format!("reading {}: {error}", run.log().display()));
    let log = disk::read_bounded(&run.log(), LOG_BYTES_MAX).map_err(read)?;
    let shown = fix.and_then(|fix| fix.worktree.as_ref()).map(worktree::shown);
    put(&folder.join("result.json"), &ended(&json::result(&job.row, &job.result, shown.as_ref())))?;
    put(&folder.join("prompt.txt"), &ended(&job.prompt))?;
    put(&folder.join("events.jsonl"), &String::from_utf8_lossy(&log))
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let written =
        disk::create_dir(path.parent().unwrap_or(path)).and_then(|()| disk::write_atomic(path, text.as_bytes()));
    written.map_err(|error| Failure::failed(format!("writing the demo's evidence {}: {error}", path.display())))
}

fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

fn checklist(at: Timestamp, story: &Story, sections: &[(String, Vec<Line>)]) -> String {
    let by = story.provider.as_deref().unwrap_or("a script");
    let mut text = format!("# Demo of {}, played by {by}\n", instant(at));
    let (mut all, mut open) = (0, 0);
    for (title, lines) in sections {
        text.push_str(&format!("\n## {title}\n\n"));
        for Line { what, seen } in lines {
            all += 1;
            open += usize::from(seen.is_err());
            let (mark, shown) = match seen {
                Ok(seen) => ("x", seen),
                Err(why) => (" ", why),
            };
            text.push_str(&format!("- [{mark}] {}: {}\n", shown_line(what), shown_line(shown)));
        }
    }
    let end = if open == 0 {
        "complete".to_owned()
    } else {
        format!("incomplete: {open} of {all} lines have no observation")
    };
    format!("{text}\n{end}\n")
}

/// Files below these folders in which one of the secrets stands.
fn leaks(folders: &[&Path], secrets: &[Secret]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut left: VecDeque<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let mut seen = 0;
    while let Some(path) = left.pop_front() {
        seen += 1;
        if seen > FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files"));
        }
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let kind = path.symlink_metadata().map_err(failed)?.file_type();
        if kind.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                left.push_back(entry.map_err(failed)?.path());
            }
        } else if kind.is_file() {
            let bytes = disk::read_bounded(&path, LOG_BYTES_MAX).map_err(failed)?;
            let holds = |secret: &Secret| {
                let secret = secret.expose().as_bytes();
                bytes.windows(secret.len()).any(|window| window == secret)
            };
            if secrets.iter().any(holds) {
                found.push(path);
            }
        }
    }
    Ok(found)
}
