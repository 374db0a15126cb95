//! `ukai logs JOB|BATCH`: what happened, record by record, as far as it has come.

use super::context::Context;
use super::failure::Failure;
use super::progress::{Say, say};
use super::records::records;
use super::{Output, attach, json, print};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids, names or unique beginnings of ids, of jobs or batches
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
}

pub(crate) async fn logs(context: &Context, args: &Args) -> Result<u8, Failure> {
    let ids: Vec<_> = attach::select(context, &args.jobs).await?.into_iter().map(|row| row.id).collect();
    records(context, &ids, |happened| {
        if context.output != Output::Text {
            return print::out(&format!("{}\n", json::event(happened)));
        }
        match say(&happened.event) {
            Say::Line(text) | Say::Moment(text) => {
                print::out(&format!("{}  {}  {}\n", happened.at, happened.job, print::clean(&text)))
            }
            Say::Nothing => true,
        }
    })
    .await?;
    Ok(0)
}
