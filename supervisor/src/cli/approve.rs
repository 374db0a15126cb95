//! `ukai approve JOB[/CALL] [--always]`: lets a call pass that waits for a person.

use ukai_protocol::command::quoted;
use ukai_protocol::control::{Answered, Decision, Request, Response};
use ukai_protocol::policy::Verdict;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{Output, print};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JOB/CALL as `ukai ls` shows it, or a job that asks one thing
    #[arg(value_name = "JOB[/CALL]")]
    ask: String,
    /// And its like from now on: keeps a rule in your own tool policy
    #[arg(long)]
    always: bool,
}

pub(crate) async fn approve(context: &Context, args: Args) -> Result<u8, Failure> {
    decide(context, args.ask, Decision::Approve { always: args.always }).await
}

pub(super) async fn decide(context: &Context, what: String, decision: Decision) -> Result<u8, Failure> {
    let no_server = format!("what waits for you goes on to wait; start one with {}, then answer", quoted(&["serve"]));
    let client = Client::connect_or_say(context, &no_server).await?;
    match client.ask(&Request::Decide { what, decision }).await? {
        Response::Decided(answered) => {
            print::out(&said(&answered, context.output));
            Ok(0)
        }
        other => Err(unexpected(&other)),
    }
}

fn said(answered: &Answered, output: Output) -> String {
    let Answered { job, call, tool, verdict, kept } = answered;
    let word = match verdict {
        Verdict::Allow => "allowed",
        Verdict::Deny => "denied",
    };
    let kept = kept.as_ref();
    match output {
        Output::Text => {
            let kept = kept.map(|(rules, file)| format!("; from now on by {} in {}", rules.join(", "), file.display()));
            format!("{job}/{call}: {tool} {word}{}\n", kept.unwrap_or_default())
        }
        Output::Json | Output::StreamJson => {
            let rules = kept.map(|(rules, _)| rules);
            let ask_id = format!("{job}/{call}");
            let value =
                serde_json::json!({ "job_id": job, "ask_id": ask_id, "tool": tool, "decision": word, "rules": rules });
            format!("{value}\n")
        }
    }
}
