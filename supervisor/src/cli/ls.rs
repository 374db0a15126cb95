//! `ukai ls`: all jobs, from the server or, where none listens, from their logs.

use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::Selection;

use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::{Output, json, offline, print, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these: ids, names or unique beginnings of ids, of jobs or batches
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
}

pub(crate) async fn ls(context: &Context, args: Args) -> Result<u8, Failure> {
    let jobs = if args.jobs.is_empty() { Selection::All } else { Selection::These(args.jobs.clone()) };
    let (rows, left_out) = match Client::connect(context).await? {
        Some(client) => client.rows(jobs).await?,
        None if args.jobs.is_empty() => (offline::rows(&context.state)?, 0),
        None => (offline::select(&context.state, offline::rows(&context.state)?, &args.jobs)?, 0),
    };
    if left_out > 0 {
        print::note(&format!(
            "ukai: {left_out} older jobs are not listed; {} shows each of them",
            quoted(&["show", "ID"])
        ));
    }
    let text = match context.output {
        Output::Json => format!("[{}]\n", rows.iter().map(json::row).collect::<Vec<_>>().join(",")),
        Output::StreamJson => rows.iter().map(|row| json::row(row) + "\n").collect(),
        Output::Text if rows.is_empty() => {
            print::note(&format!("ukai: there are no jobs yet; type: {}", command(&["run", "what is to be done"])));
            String::new()
        }
        Output::Text => table::jobs(&rows, print::columns()),
    };
    print::out(&text);
    Ok(0)
}
