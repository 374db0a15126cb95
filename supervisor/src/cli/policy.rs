//! `ukai policy`: what holds for a job here, what it says of one call, and whether it says what its author meant.
//!
//! Files are read here, as for a job; rules are judged by the worker's program, as in a job. Nothing is run or changed.

mod cases;
mod check;
mod show;
mod test;

use std::path::{Path, PathBuf};

use ukai_protocol::command::quoted;
use ukai_protocol::job::JobSpec;
use ukai_protocol::one_shot::{Call, PolicyAnswer, PolicyRequest, RuleFault};
use ukai_protocol::policy::{Policy, Rule, RuleList};

use super::context::Context;
use super::failure::Failure;
use super::job::ground::Ground;
use super::job::{self, Flags};
use super::{one_shot, print};
use crate::policy_file::{self, Traced, sandbox};

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
async fn ground(context: &Context, of: Of) -> Result<(Ground, Vec<String>), Failure> {
    let Of { policy, workdir, allow, ask, deny } = of;
    let flags = Flags { policy, workdir, allow, ask, deny, ..Flags::default() };
    check_flags(context, &flags).await?;
    let mut notes = Vec::new();
    let ground = job::ground(context, &flags, &mut notes)?;
    Ok((ground, notes))
}

/// What the worker's program says of a policy, and of these calls.
pub(super) async fn asked(
    context: &Context,
    workdir: &Path,
    policy: &Policy,
    calls: Vec<Call>,
) -> Result<PolicyAnswer, Failure> {
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

/// A rule of a flag that cannot be read is wrong usage, told before anything is queued: in a job it would deny every call.
pub(super) async fn check_flags(context: &Context, flags: &Flags) -> Result<(), Failure> {
    let base = &context.current_folder;
    let rules = |texts: &[String]| texts.iter().map(|text| Rule::new(text, base)).collect();
    let (allow, ask, deny) = (rules(&flags.allow), rules(&flags.ask), rules(&flags.deny));
    let policy = Policy { allow, ask, deny, ..Policy::default() };
    if LISTS.iter().all(|list| self::rules(&policy, *list).is_empty()) {
        return Ok(());
    }
    let answer = asked(context, base, &policy, Vec::new()).await?;
    let told = answer.faults.iter().map(|fault| {
        let rule = self::rules(&policy, fault.list).get(fault.at).map(|rule| &*rule.text).unwrap_or_default();
        format!("--{} '{rule}': {}", fault.list.as_str(), fault.why)
    });
    let whole = answer.broken.iter().filter(|_| answer.faults.is_empty()).cloned();
    let told = told.chain(whole).collect::<Vec<_>>();
    if told.is_empty() { Ok(()) } else { Err(Failure::usage(told.join("; "))) }
}

/// What a person should know of the policies of jobs that are about to be queued: a job would meet it and go on.
pub(super) async fn notes(context: &Context, specs: impl Iterator<Item = &JobSpec>) -> Result<Vec<String>, Failure> {
    let mut seen: Vec<(&Policy, &JobSpec)> = Vec::new();
    for spec in specs {
        // One that could not be read has been told as it was read.
        let known = spec.policy.broken.is_some() || seen.iter().any(|(policy, _)| **policy == spec.policy);
        if !known && seen.len() < POLICIES_MAX {
            seen.push((&spec.policy, spec));
        }
    }
    let mut notes = Vec::new();
    for (policy, spec) in seen {
        notes.extend(sandbox::missing(&policy.sandbox));
        if *policy == policy_file::shipped() {
            continue;
        }
        let answer = asked(context, &spec.workdir, policy, Vec::new()).await?;
        let traced = Traced { policy: policy.clone(), ..Traced::default() };
        let where_ = quoted(&["policy", "test"]);
        let faults = faults(&traced, &answer).into_iter();
        notes.extend(faults.map(|fault| format!("every tool call is denied: {fault}; {where_} says in which line")));
    }
    Ok(notes)
}

/// Of one submission those that are looked at: the lines of a list may work in many folders that narrow.
const POLICIES_MAX: usize = 20;

/// Everything that is wrong with a policy, each with its place.
pub(super) fn faults(traced: &Traced, answer: &PolicyAnswer) -> Vec<String> {
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
