//! The demo when it is over: what was changed, what the tests say of it, what was refused, and how to look at it oneself.

use serde_json::{Value, json};
use ukai_protocol::command::{command, word_of};

use super::evidence::Written;
use super::luck::Refusal;
use super::story::{Fix, Story, short};
use crate::cli::context::Context;
use crate::cli::failure::FAILED;
use crate::cli::{Output, print, table, worktree};

/// Of a diff; all of it is kept.
const DIFF_LINES_MAX: usize = 12;

/// Prints to stdout; the exit code is 0 if all went as told.
pub(super) fn tell(context: &Context, story: &Story, written: &Written) -> u8 {
    let next = next(story);
    print::out(&match context.output {
        Output::Text => text(story, written, &next),
        Output::Json | Output::StreamJson => format!("{}\n", line(context, story, written, &next)),
    });
    if written.wrong.is_empty() { 0 } else { FAILED }
}

fn text(story: &Story, written: &Written, next: &[String]) -> String {
    let mut text = String::new();
    for fix in &story.fixes {
        let branch = fix.worktree.as_ref().map_or("no branch", |record| record.branch.as_str());
        text.push_str(&format!("{}: {} on {branch}\n", fix.job.row.name, fix.module.file));
        match &fix.diff {
            Ok(diff) => {
                let lines = short(diff);
                lines.iter().take(DIFF_LINES_MAX).for_each(|line| text.push_str(&format!("  {line}\n")));
                let more = lines.len().saturating_sub(DIFF_LINES_MAX);
                if more > 0 {
                    text.push_str(&format!("  … and {more} more\n"));
                }
            }
            Err(why) => text.push_str(&format!("  {why}\n")),
        }
    }
    text.push_str("\nIts tests, on what was committed:\n");
    for fix in &story.fixes {
        text.push_str(&match &fix.tests {
            Ok(said) => format!("  {}\n", said.trim()),
            Err(why) => format!("  not green: {}: {why}\n", fix.module.name),
        });
    }
    text.push_str("\nWhat one job tried that it may not:\n");
    let mut cells = vec![["WHAT", "TRIED", "STOPPED BY", "RECORD"].map(str::to_owned)];
    cells.extend(story.refusals.iter().map(|refusal| {
        let Refusal { what, tool, tried, stopped, event } = refusal;
        let by = stopped.as_ref().map_or_else(|why| format!("NOT STOPPED: {why}"), Clone::clone);
        let event = event.map_or_else(|| "-".to_owned(), |(name, seq)| format!("{seq} {name}"));
        [(*what).to_owned(), format!("{tool} {}", print::brief(tried, 40)), by, event]
    }));
    let columns = print::columns().unwrap_or(usize::MAX);
    table::columns(&cells).lines().for_each(|line| text.push_str(&(print::cut(line.to_owned(), columns) + "\n")));
    text.push_str(&format!("\nthe evidence, with a checklist: {}\n", written.folder.display()));
    text.push_str("look at it yourself:\n");
    next.iter().for_each(|command| text.push_str(&format!("  {command}\n")));
    match &*written.wrong {
        [] => text.push_str("all of it went as told: each edit was asked, all tests are green, nothing else passed\n"),
        wrong => {
            text.push_str("it did not go as told:\n");
            wrong.iter().for_each(|why| text.push_str(&format!("  {why}\n")));
        }
    }
    text
}

fn line(context: &Context, story: &Story, written: &Written, next: &[String]) -> Value {
    let fix = |fix: &Fix| {
        json!({"module": fix.module.name, "job_id": fix.job.row.id, "status": fix.job.row.status,
            "worktree": fix.worktree.as_ref().map(worktree::shown), "diff": fix.diff.as_ref().ok(),
            "tests": {"green": fix.tests.is_ok(), "said": fix.tests.as_ref().unwrap_or_else(|why| why).trim()}})
    };
    let refusal = |refusal: &Refusal| {
        let by = refusal.stopped.as_ref();
        json!({"what": refusal.what, "tool": refusal.tool, "tried": refusal.tried, "stopped": by.is_ok(),
            "by": by.unwrap_or_else(|why| why), "event": refusal.event.map(|(name, _)| name),
            "seq": refusal.event.map(|(_, seq)| seq)})
    };
    json!({
        "type": "hands_result",
        "as_told": written.wrong.is_empty(),
        "wrong": written.wrong,
        "provider": story.provider,
        "fixes": story.fixes.iter().map(fix).collect::<Vec<_>>(),
        "luck": story.luck.row.id,
        "refusals": story.refusals.iter().map(refusal).collect::<Vec<_>>(),
        "reached": story.reached,
        "state_dir": context.state.root().display().to_string(),
        "evidence": written.folder.display().to_string(),
        "next": next,
    })
}

/// What one would type now.
fn next(story: &Story) -> Vec<String> {
    let merge = story.fixes.iter().filter_map(|fix| fix.worktree.as_ref()).map(|record| {
        let (repository, branch) = (record.repository.display().to_string(), word_of(&record.branch));
        format!("git -C {} merge {branch}", word_of(&repository))
    });
    let shown = [story.fixes.first().map(|fix| &fix.job.row.id), Some(&story.luck.row.id)];
    let shown = shown.into_iter().flatten().map(|id| command(&["show", id.as_str()]));
    let log = command(&["logs", story.luck.row.id.as_str()]);
    merge.take(1).chain(shown).chain([log]).collect()
}
