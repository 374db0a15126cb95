//! The storm when it is over: who came when, what became of the jobs, and how to look at it oneself.

use std::path::Path;

use serde_json::{Value, json};
use ukai_notifier::Untold;
use ukai_protocol::command::command;
use ukai_protocol::control::{JobRow, ProviderRow};
use ukai_protocol::job::JobStatus;

use super::arrivals::Visits;
use super::verdict::Story;
use crate::cli::context::Context;
use crate::cli::failure::FAILED;
use crate::cli::{Output, print, providers, table};

/// Prints to stdout; the exit code is 0 if all went as told. `untold`: sinks of alerts where its message did not arrive,
/// which is nothing of the storm's.
pub(super) fn tell(context: &Context, config: &Path, story: &Story, untold: &Untold) -> u8 {
    let wrong = story.wrong();
    let next = next(config, story);
    let text = match context.output {
        Output::Text => text(context, story, &wrong, &next, untold),
        Output::Json | Output::StreamJson => format!("{}\n", line(context, config, story, &wrong, &next, untold)),
    };
    print::out(&text);
    if wrong.is_empty() { 0 } else { FAILED }
}

fn text(context: &Context, story: &Story, wrong: &[String], next: &[String], untold: &Untold) -> String {
    let mut text = String::new();
    for visits in &story.visits {
        text.push_str(&format!("Who came to `{}`, in ms since its first request:\n", visits.provider));
        let mut cells = vec![["MS", "JOB", "STEP", "STATUS"].map(str::to_owned)];
        cells.extend(visits.all.iter().map(|visit| {
            let status = visit.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
            let early = if visit.early { " (too early)" } else { "" };
            let job = visit.job.clone().unwrap_or_else(|| "-".to_owned());
            [format!("{:>5}", visits.ms(visit.at)), job, visit.step.to_string(), status + early]
        }));
        text.push_str(&table::columns(&cells));
        text.push_str(&format!("{}\n\n", asked_to_wait(visits)));
    }
    text.push_str(&providers::table_of(&story.providers));
    let (completed, aborted, queued) = (story.completed(), story.aborted(), story.queued());
    text.push_str(&format!(
        "\n{completed} completed, {aborted} aborted with their state saved, {queued} still queued, of {}\n",
        story.watched.ids.len()
    ));
    text.push_str(&format!("the logs, one line per event: {}/*/events.jsonl\n", context.state.runs().display()));
    for visits in &story.visits {
        text.push_str(&format!("the record of `{}`: {}\n", visits.provider, visits.record.display()));
    }
    text.push_str("look at it yourself:\n");
    next.iter().for_each(|command| text.push_str(&format!("  {command}\n")));
    for (sink, why) in untold {
        text.push_str(&format!("its message did not arrive ({sink}): {}\n", print::clean(why)));
    }
    match wrong {
        [] => text.push_str("all of it went as told: nobody came early, nothing was lost\n"),
        wrong => {
            text.push_str("it did not go as told:\n");
            wrong.iter().for_each(|why| text.push_str(&format!("  {why}\n")));
        }
    }
    text
}

/// From the record, not from what was meant to happen.
fn asked_to_wait(visits: &Visits) -> String {
    let Some(closed) = visits.closed else { return "it never asked anybody to wait".to_owned() };
    let (from, until) = (visits.ms(closed.from), visits.ms(closed.until));
    let came = match visits.early().count() {
        0 => "and nobody asked in between".to_owned(),
        early => format!("and {early} asked in between"),
    };
    format!("at {from} ms it was known that it is to be left alone until {until} ms ({:.3}), {came}", closed.until)
}

fn line(context: &Context, config: &Path, story: &Story, wrong: &[String], next: &[String], untold: &Untold) -> Value {
    let provider = |(visits, row): (&Visits, &ProviderRow)| {
        let arrivals = visits.all.iter().map(|visit| {
            json!({"ms": visits.ms(visit.at), "job": visit.job, "step": visit.step, "status": visit.status,
                "early": visit.early})
        });
        let closed = visits.closed.map(|closed| {
            json!({"from_ms": visits.ms(closed.from), "until_ms": visits.ms(closed.until),
                "until": format!("{:.3}", closed.until)})
        });
        json!({"id": visits.provider, "arrivals": arrivals.collect::<Vec<_>>(), "left_alone": closed,
            "early": visits.early().count(), "record": visits.record.display().to_string(), "standing": row})
    };
    let job = |row: &JobRow| {
        json!({"job_id": row.id, "name": row.name, "status": row.status, "steps": row.used.steps,
            "provider": row.provider, "why": table::why(row)})
    };
    json!({
        "type": "storm_result",
        "as_told": wrong.is_empty(),
        "wrong": wrong,
        "completed": story.completed(),
        "aborted": story.aborted(),
        "queued": story.queued(),
        "moves": story.watched.moves,
        "providers": story.visits.iter().zip(&story.providers).map(provider).collect::<Vec<_>>(),
        "jobs": story.rows.iter().map(job).collect::<Vec<_>>(),
        "state_dir": context.state.root().display().to_string(),
        "config": config.display().to_string(),
        "logs": context.state.runs().display().to_string(),
        "next": next,
        "untold": untold.iter().map(|(sink, why)| json!({"sink": sink, "why": why})).collect::<Vec<_>>(),
    })
}

/// What one would type now.
fn next(config: &Path, story: &Story) -> Vec<String> {
    let mut next = vec![
        // Which providers there are stands in a configuration, and this demo has its own.
        command(&["providers", "--config", &config.display().to_string()]),
        command(&["ls"]),
    ];
    let aborted = story.rows.iter().find(|row| row.status == JobStatus::Aborted);
    next.extend(aborted.map(|row| command(&["show", row.id.as_str()])));
    next
}
