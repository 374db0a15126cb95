//! `ukai results BATCH`: one row for each job of a list, in the order of its lines, whether it has ended or not.

use clap::ValueEnum;
use ukai_protocol::control::{BatchRow, JobResult, JobRow, Request, Response};
use ukai_protocol::job::Outcome;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::tally::Tally;
use super::{Output, json, offline, print, table, worktree};
use crate::store::StateDir;

/// Of a text, in a table for a terminal.
const TEXT_CHARS_SHOWN: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id, its name (that of the job file), or one of its jobs
    batch: String,
    /// What to print [default: table; with --output json, jsonl]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A result object a line, as `ukai run --output json` prints it, with the line of the list
    Jsonl,
    /// With a header; quoted as RFC 4180 wants it
    Csv,
    /// For people
    Table,
}

pub(crate) async fn results(context: &Context, args: &Args) -> Result<u8, Failure> {
    let format = args.format.unwrap_or(match context.output {
        Output::Text => Format::Table,
        Output::Json | Output::StreamJson => Format::Jsonl,
    });
    let mut printer = Printer::new(format, &context.state);
    let mut tally = Tally::default();
    let batch = each(context, &args.batch, |row, result| {
        tally.add(row);
        printer.row(row, result)
    })
    .await?;
    printer.finish();
    print::note(&format!("ukai: batch {} ({}): {} jobs: {}", batch.id, batch.name, tally.jobs, tally.standing()));
    Ok(0)
}

/// One after another: a batch may hold more text than memory.
async fn each(
    context: &Context,
    typed: &str,
    mut each: impl FnMut(&JobRow, &JobResult) -> Result<(), Failure>,
) -> Result<BatchRow, Failure> {
    let Some(mut client) = Client::connect(context).await? else {
        let (batch, rows) = offline::batch_of(&context.state, typed)?;
        for row in rows {
            each(&row, &offline::result(&context.state, &row.id))?;
        }
        return Ok(batch);
    };
    let batch = match client.put(&Request::Results { batch: typed.to_owned() }).await? {
        Response::Batch(batch) => *batch,
        other => return Err(unexpected(&other)),
    };
    for _ in 0..batch.jobs {
        match client.more().await? {
            Response::Shown { row, result } => each(&row, &result)?,
            other => return Err(unexpected(&other)),
        }
    }
    Ok(batch)
}

enum Printer {
    Jsonl(StateDir),
    Csv { header_is_out: bool },
    Table(Vec<JobRow>, Vec<String>),
}

const CSV_HEADER: [&str; 16] = [
    "line",
    "job_id",
    "name",
    "status",
    "reason",
    "cause",
    "detail",
    "attention",
    "steps",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "duration_ms",
    "restarts",
    "text",
];

impl Printer {
    fn new(format: Format, state: &StateDir) -> Self {
        match format {
            Format::Jsonl => Printer::Jsonl(state.clone()),
            Format::Csv => Printer::Csv { header_is_out: false },
            Format::Table => Printer::Table(Vec::new(), Vec::new()),
        }
    }

    fn row(&mut self, row: &JobRow, result: &JobResult) -> Result<(), Failure> {
        match self {
            Printer::Jsonl(state) => {
                let worktree = worktree::of(state, &row.id).map(|record| worktree::shown(&record));
                print::out(&format!("{}\n", json::result(row, result, worktree.as_ref())));
            }
            Printer::Csv { header_is_out } => {
                if !std::mem::replace(header_is_out, true) {
                    print::data(&csv(&CSV_HEADER)?);
                }
                print::data(&csv(&cells(row, result))?);
            }
            Printer::Table(rows, texts) => {
                rows.push(row.clone());
                texts.push(print::brief(&result.text, TEXT_CHARS_SHOWN));
            }
        }
        Ok(())
    }

    fn finish(self) {
        if let Printer::Table(rows, texts) = self {
            print::out(&table::results(&rows, &texts, print::columns()));
        }
    }
}

fn cells(row: &JobRow, result: &JobResult) -> [String; 16] {
    let cause = match &row.outcome {
        Some(Outcome::Ended(cause)) => Some(cause),
        Some(Outcome::Completed { .. }) | None => None,
    };
    let of_cause = |text: fn(&ukai_protocol::job::Cause) -> String| cause.map(text).unwrap_or_default();
    [
        row.batch.as_ref().map(|place| place.line.number.to_string()).unwrap_or_default(),
        row.id.to_string(),
        row.name.clone(),
        row.status.to_string(),
        of_cause(|cause| cause.kind.reason().to_string()),
        of_cause(|cause| cause.kind.to_string()),
        of_cause(|cause| cause.detail.clone()),
        row.attention.to_string(),
        row.used.steps.to_string(),
        row.used.tool_calls.to_string(),
        row.used.input_tokens.to_string(),
        row.used.output_tokens.to_string(),
        row.used.cost_usd.to_string(),
        result.duration_ms.to_string(),
        row.restarts.to_string(),
        result.text.clone(),
    ]
}

fn csv<T: AsRef<[u8]>>(cells: &[T]) -> Result<String, Failure> {
    let fault = |error: &dyn std::fmt::Display| Failure::failed(format!("writing a row of CSV: {error}"));
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).map_err(|error| fault(&error))?;
    let bytes = writer.into_inner().map_err(|error| fault(&error.into_error()))?;
    String::from_utf8(bytes).map_err(|error| fault(&error))
}
