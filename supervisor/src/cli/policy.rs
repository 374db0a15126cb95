//! `ukai policy`: what holds for a job here, what it says of one call, and whether it says what its author meant.
//!
//! Files are read here, as for a job; rules are judged by the worker's program, as in a job. Nothing is run or changed.

mod cases;
mod check;
mod show;
mod test;

use std::path::{Path, PathBuf};

use ukai_protocol::one_shot::{Call, PolicyAnswer, PolicyRequest, RuleFault};
use ukai_protocol::policy::{Policy, Rule, RuleList};

use super::context::Context;
use super::failure::Failure;
use super::job::ground::Ground;
use super::job::{self, Flags};
use super::{one_shot, print};
use crate::policy_file::Traced;

/// The policy denies it, or is wrong.
const DENIED: u8 = 3;
/// A person would be asked.
const ASKED: u8 = 4;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say what becomes of one call: a JSON line, and exit code 0 allow, 4 ask, 3 deny
    Check(check::Args),
    /// Try the examples of every rule, and a file of cases: exit code 0, or 3 and what failed
    Test(test::Args),
}

/// Which policy is meant: that of a job with these flags.
#[derive(Debug, Default, clap::Args)]
struct Of {
    /// The policy [default: the user's tool_policy.yaml, else the shipped one]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Where the job would work [default: the current folder]
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// With this allow rule (may be repeated)
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// With this ask rule
    #[arg(long, value_name = "RULE")]
    ask: Vec<String>,
    /// With this deny rule
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
}

pub(crate) async fn policy(context: &Context, args: Args) -> Result<u8, Failure> {
    match args.verb {
        None => show::show(context, args.of).await,
        Some(Verb::Check(args)) => check::check(context, args).await,
        Some(Verb::Test(args)) => test::test(context, args).await,
    }
}

/// What holds for such a job, with what is to be said of it.
fn ground(context: &Context, of: Of) -> Result<(Ground, Vec<String>), Failure> {
    let Of { policy, workdir, allow, ask, deny } = of;
    let flags = Flags { policy, workdir, allow, ask, deny, ..Flags::default() };
    let mut notes = Vec::new();
    let ground = job::ground(context, &flags, &mut notes)?;
    Ok((ground, notes))
}

/// What the worker's program says of a policy, and of these calls.
async fn asked(context: &Context, workdir: &Path, policy: &Policy, calls: Vec<Call>) -> Result<PolicyAnswer, Failure> {
    // There is no job: its place is named as if it were called so.
    let outputs = context.state.root().join("runs/JOB/outputs");
    let request = PolicyRequest { policy: policy.clone(), workdir: workdir.to_owned(), outputs, calls };
    let answer: PolicyAnswer = one_shot::ask(&["policy", "check"], &request).await?;
    let (calls, verdicts) = (request.calls.len(), answer.verdicts.len());
    match verdicts == calls {
        true => Ok(answer),
        false => Err(Failure::failed(format!(
            "asking the worker's program about {calls} calls: {verdicts} answers came; run binaries of one build"
        ))),
    }
}

/// Everything that is wrong with a policy, each with its place.
fn faults(traced: &Traced, answer: &PolicyAnswer) -> Vec<String> {
    let placed = answer.faults.iter().map(|fault| match traced.origins.of(fault.list, fault.at) {
        Some(origin) => format!("{origin}: {}", of_rule(traced, fault)),
        None => of_rule(traced, fault),
    });
    let placed: Vec<String> = placed.collect();
    if placed.is_empty() { answer.broken.iter().cloned().collect() } else { placed }
}

/// What is wrong with a rule, named.
fn of_rule(traced: &Traced, fault: &RuleFault) -> String {
    let rule = rules(&traced.policy, fault.list).get(fault.at).map(|rule| &*rule.text).unwrap_or_default();
    format!("the {} rule `{rule}`: {}", fault.list.as_str(), fault.why)
}

/// In the order in which they are judged.
const LISTS: [RuleList; 3] = [RuleList::Deny, RuleList::Ask, RuleList::Allow];

fn rules(policy: &Policy, list: RuleList) -> &[Rule] {
    match list {
        RuleList::Deny => &policy.deny,
        RuleList::Ask => &policy.ask,
        RuleList::Allow => &policy.allow,
    }
}

fn say(notes: &[String]) {
    for note in notes {
        print::note(&format!("ukai: {note}"));
    }
}
