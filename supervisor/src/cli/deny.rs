//! `ukai deny JOB[/CALL] [--because TEXT]`: a no to a call that waits for a person. The model is told, and goes on.

use ukai_protocol::control::Decision;

use super::approve::decide;
use super::context::Context;
use super::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JOB/CALL as `ukai ls` shows it, or a job that asks one thing
    #[arg(value_name = "JOB[/CALL]")]
    ask: String,
    /// What the model is told
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

pub(crate) async fn deny(context: &Context, args: Args) -> Result<u8, Failure> {
    decide(context, args.ask, Decision::Deny { because: args.because }).await
}
