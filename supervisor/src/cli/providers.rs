//! `ukai providers`: how they stand, why a call went where it went, to ask them, to believe in one again.
//!
//! A running server is asked. Without one the same is done here, from what the last one left, with the same router.

mod alone;
mod why;

use ukai_protocol::control::{BreakerState, ProbeRow, ProviderRow, Request, Response};
use ukai_protocol::lease::AnswerClass;

use super::client::{Client, Who, server_or, unexpected};
use super::context::Context;
use super::failure::{FAILED, Failure};
use super::{Output, print, table};
use crate::host::StartError;
use crate::store::Lock;
use alone::Held;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Ask providers whether they answer and take tools; what they did is written down
    Probe {
        /// Ids [default: all that are configured]
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
    /// Forget whether these take tools, and ask them again
    Refresh {
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Explain where the last call of a job went, candidate by candidate
    Why {
        /// An id, a name or a unique beginning of an id
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Believe in these again: their breakers close
    Reset {
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Also ask before the instant that the provider named
        #[arg(long)]
        forget_wait: bool,
    },
}

pub(crate) async fn providers(context: &Context, args: Args) -> Result<u8, Failure> {
    match args.verb {
        None => list(context).await,
        Some(Verb::Why { job }) => why::why(context, &job).await,
        Some(Verb::Reset { ids, forget_wait }) => reset(context, ids, forget_wait).await,
        Some(Verb::Probe { ids }) => probe(context, ids, false).await,
        Some(Verb::Refresh { ids }) => probe(context, ids, true).await,
    }
}

async fn list(context: &Context) -> Result<u8, Failure> {
    let rows = match Client::connect(context).await? {
        Some(client) => rows_of(client.ask(&Request::Providers).await?)?,
        None => remembered(context)?,
    };
    print_rows(context, &rows)?;
    Ok(0)
}

/// Without a server: as the last one left them.
pub(super) fn remembered(context: &Context) -> Result<Vec<ProviderRow>, Failure> {
    alone::rows(context)
}

fn hold(context: &Context) -> Result<Lock, StartError> {
    context.state.create()?;
    Ok(Lock::take(&context.state)?)
}

fn rows_of(response: Response) -> Result<Vec<ProviderRow>, Failure> {
    match response {
        Response::Providers { rows } => Ok(rows),
        other => Err(unexpected(&other)),
    }
}

async fn reset(context: &Context, ids: Vec<String>, forget_wait: bool) -> Result<u8, Failure> {
    let rows = match server_or(context, async || hold(context)).await? {
        Who::Server(client) => rows_of(client.ask(&Request::ResetProviders { ids, forget_wait }).await?)?,
        Who::Here(lock) => Held::read(context, lock)?.reset(&ids, forget_wait)?,
    };
    print_rows(context, &rows)?;
    for row in rows.iter().filter(|row| row.not_before_ms.is_some()) {
        print::note(&format!(
            "ukai: {} is still not asked for {}, as it asked itself; --forget-wait overrides that",
            row.id,
            table::time(row.not_before_ms.unwrap_or_default())
        ));
    }
    Ok(0)
}

async fn probe(context: &Context, ids: Vec<String>, refresh: bool) -> Result<u8, Failure> {
    let (rows, evidence) = match server_or(context, async || hold(context)).await? {
        Who::Server(client) => match client.ask(&Request::ProbeProviders { ids, refresh }).await? {
            Response::Probed { rows, evidence } => (rows, evidence),
            other => return Err(unexpected(&other)),
        },
        Who::Here(lock) => {
            let examined = Held::read(context, lock)?.probe(&ids, refresh).await?;
            (examined.rows, examined.evidence)
        }
    };
    let json = |row: &ProbeRow| {
        let ProbeRow { id, class, tools, detail } = row;
        let evidence = evidence.as_ref().map(|path| path.display().to_string());
        serde_json::json!({ "provider": id, "class": class, "tools": tools, "detail": detail, "evidence": evidence })
    };
    let text = match context.output {
        Output::Json => format!("{}\n", serde_json::Value::from_iter(rows.iter().map(json))),
        Output::StreamJson => rows.iter().map(|row| format!("{}\n", json(row))).collect(),
        Output::Text => {
            let mut cells = vec![["PROVIDER", "ANSWER", "TOOLS", "DETAIL"].map(str::to_owned)];
            cells.extend(rows.iter().map(|row| {
                let answer = row.class.map_or_else(|| "not asked".to_owned(), class);
                [row.id.clone(), answer, tools(row.tools), print::brief(&row.detail, usize::MAX)]
            }));
            fit(table::columns(&cells))
        }
    };
    print::out(&text);
    if let Some(evidence) = evidence.filter(|_| context.output == Output::Text) {
        print::note(&format!("ukai: what was seen is written down in {}", evidence.display()));
    }
    Ok(if rows.iter().all(|row| row.class == Some(AnswerClass::Success)) { 0 } else { FAILED })
}

fn print_rows(context: &Context, rows: &[ProviderRow]) -> Result<(), Failure> {
    let json = |row: &ProviderRow| {
        let failed = |error| Failure::failed(format!("writing {} as JSON: {error}", row.id));
        serde_json::to_string(row).map_err(failed)
    };
    let lines = || rows.iter().map(json).collect::<Result<Vec<_>, _>>();
    let text = match context.output {
        Output::Json => format!("[{}]\n", lines()?.join(",")),
        Output::StreamJson => lines()?.into_iter().map(|line| line + "\n").collect(),
        Output::Text => table_of(rows),
    };
    print::out(&text);
    Ok(())
}

pub(super) fn table_of(rows: &[ProviderRow]) -> String {
    fit(table::columns(&cells(rows)))
}

fn fit(text: String) -> String {
    match print::columns() {
        Some(columns) => text.lines().map(|line| print::cut(line.to_owned(), columns) + "\n").collect(),
        None => text,
    }
}

fn cells(rows: &[ProviderRow]) -> Vec<Vec<String>> {
    let titles = ["PROVIDER", "STATE", "NOT BEFORE", "ASKING", "REQUESTS", "TOKENS", "TOOLS", "LAST FAILURE", "MODEL"];
    let mut cells = vec![titles.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        let id = if row.account == row.id { row.id.clone() } else { format!("{} ({})", row.id, row.account) };
        let level = |level: Option<(f64, f64)>| {
            level.map_or_else(|| "-".to_owned(), |(left, holds)| format!("{:.0}/{holds:.0}", left.floor()))
        };
        let failure = row.last_failure.as_ref();
        vec![
            id,
            state(row),
            row.not_before_ms.map_or_else(|| "-".to_owned(), |ms| format!("in {}", table::time(ms))),
            format!("{}/{}", row.in_flight, row.in_flight_max),
            level(row.requests),
            level(row.tokens),
            tools(row.tools),
            failure.map_or_else(|| "-".to_owned(), |f| format!("{}, {} ago", f.signature, table::time(f.ago_ms))),
            row.model.clone(),
        ]
    }));
    cells
}

pub(super) fn state(row: &ProviderRow) -> String {
    let why = row.why.as_deref().unwrap_or_default();
    match (row.breaker, row.open_ms) {
        (BreakerState::Closed, _) => "CLOSED".to_owned(),
        (BreakerState::HalfOpen, _) => "HALF_OPEN".to_owned(),
        (BreakerState::Open, Some(ms)) => format!("OPEN for {}: {why}", table::time(ms)),
        (BreakerState::Open, None) => format!("OPEN until reset: {why}"),
    }
}

fn tools(tools: Option<bool>) -> String {
    match tools {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_owned()
}

fn class(class: AnswerClass) -> String {
    match class {
        AnswerClass::Success => "well",
        AnswerClass::RateLimited => "rate limited",
        AnswerClass::Unavailable => "unavailable",
        AnswerClass::Timeout => "timed out",
        AnswerClass::Closed => "refused",
        AnswerClass::ContextOverflow => "too long",
        AnswerClass::Rejected => "rejected",
        AnswerClass::Withdrawn => "given up",
        AnswerClass::NoTools => "no tools",
    }
    .to_owned()
}
