//! `ukai policy test`: does a policy say what its author meant? Its rules are read, their examples tried, and a file of
//! cases judged.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use ukai_protocol::one_shot::{Answer, PolicyAnswer, RuleFault};
use ukai_protocol::policy::{Rule, RuleList};

use super::cases::{self, Case};
use super::{DENIED, LISTS, Of, asked, ground, rules, say};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::job::ground::readable_folder;
use crate::cli::{Output, print, table};
use crate::config::load;
use crate::policy_file::{self, Traced, sandbox};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policies, each by itself [default: what holds for a job here]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Calls to judge, a line each: {"tool":"Bash","input":{"command":"ls"},"decision":"allow"}
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Where a job would work [default: the current folder]
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
}

pub(super) async fn test(context: &Context, args: Args) -> Result<u8, Failure> {
    let Args { files, cases, workdir } = args;
    let cases = cases.map(|file| read(context, &file)).transpose()?.unwrap_or_default();
    let mut tested = Vec::new();
    for (traced, workdir) in policies(context, &files, workdir).await? {
        let calls = cases.iter().map(|case| case.call.clone()).collect();
        let answer = asked(context, &workdir, &traced.policy, calls).await?;
        tested.push(Tested::new(traced, answer, &cases));
    }
    match context.output {
        Output::Text => print::out(&tested.iter().map(|tested| tested.text(cases.len())).collect::<String>()),
        Output::Json | Output::StreamJson => {
            let ok = tested.iter().all(Tested::is_sound);
            let policies: Vec<_> = tested.iter().map(|tested| tested.as_json(cases.len())).collect();
            print::out(&format!("{}\n", json!({ "type": "policy_test", "ok": ok, "policies": policies })))
        }
    };
    Ok(if tested.iter().all(Tested::is_sound) { 0 } else { DENIED })
}

fn read(context: &Context, file: &Path) -> Result<Vec<Case>, Failure> {
    let text = load::read_text(&context.current_folder.join(file)).map_err(|error| {
        Failure::usage(format!("reading the cases {}: {error}; name a file that exists", file.display()))
    })?;
    cases::parse(&text, file).map_err(|fault| Failure::usage(format!("the cases could not be used: {fault}")))
}

/// Each with the folder in which it is tried.
async fn policies(
    context: &Context,
    files: &[PathBuf],
    workdir: Option<PathBuf>,
) -> Result<Vec<(Traced, PathBuf)>, Failure> {
    if files.is_empty() {
        let (ground, notes) = ground(context, Of { workdir, ..Of::default() }).await?;
        say(&notes);
        return Ok(vec![(ground.traced, ground.workdir)]);
    }
    let (workdir, said_by) = match workdir {
        Some(named) => (context.current_folder.join(named), "--workdir"),
        None => (context.current_folder.clone(), "the current folder"),
    };
    let workdir = readable_folder(&workdir, said_by)?;
    // What does not load is told with the rest.
    let load = |file: &PathBuf| policy_file::load(Some(&context.current_folder.join(file)), &mut Vec::new());
    Ok(files.iter().map(|file| (load(file), workdir.clone())).collect())
}

/// What came of one policy.
struct Tested {
    traced: Traced,
    /// What is wrong with no single rule: it does not load.
    broken: Option<String>,
    faults: Vec<RuleFault>,
    failed: Vec<Failed>,
}

/// A case that did not go as it should.
struct Failed {
    line: usize,
    call: String,
    wanted: &'static str,
    found: &'static str,
    why: String,
}

impl Tested {
    fn new(traced: Traced, answer: PolicyAnswer, cases: &[Case]) -> Self {
        let PolicyAnswer { broken, faults, verdicts } = answer;
        let failed = cases.iter().zip(verdicts).filter_map(|(case, answer)| failed(case, answer)).collect();
        let broken = broken.filter(|_| faults.is_empty());
        Tested { traced, broken, faults, failed }
    }

    fn is_sound(&self) -> bool {
        self.broken.is_none() && self.faults.is_empty() && self.failed.is_empty()
    }

    fn shown(&self) -> String {
        self.traced.file.as_ref().map_or_else(|| "the shipped policy".to_owned(), |file| file.display().to_string())
    }

    fn rules(&self) -> impl Iterator<Item = (RuleList, usize, &Rule)> {
        LISTS.into_iter().flat_map(|list| {
            rules(&self.traced.policy, list).iter().enumerate().map(move |(at, rule)| (list, at, rule))
        })
    }

    fn faults_of(&self, list: RuleList, at: usize) -> Vec<&str> {
        let of = self.faults.iter().filter(|fault| fault.list == list && fault.at == at);
        of.map(|fault| &*fault.why).collect()
    }

    fn text(&self, cases: usize) -> String {
        let mut text = format!("{}\n", self.shown());
        if let Some(why) = &self.broken {
            text.push_str(&format!("FAILED  {why}\n"));
        }
        for gone in sandbox::missing(&self.traced.policy.sandbox) {
            text.push_str(&format!("note    {gone}\n"));
        }
        let rows = self.rules().map(|(list, at, rule)| {
            let faults = self.faults_of(list, at);
            let place = self.traced.origins.of(list, at).map(ToString::to_string).unwrap_or_default();
            let examples = rule.match_examples.len() + rule.not_match_examples.len();
            let (mark, last) = match (faults.is_empty(), examples) {
                (false, _) => ("FAILED", format!("{place}: {}", faults.join("; "))),
                (true, 0) => ("ok", place),
                (true, 1) => ("ok", format!("{place}, 1 example")),
                (true, count) => ("ok", format!("{place}, {count} examples")),
            };
            [mark.to_owned(), list.as_str().to_owned(), rule.text.clone(), last]
        });
        text.push_str(&table::columns(&rows.collect::<Vec<_>>()));
        for Failed { line, call, wanted, found, why } in &self.failed {
            text.push_str(&format!("FAILED  case of line {line}, {call}: {found} and not {wanted}: {why}\n"));
        }
        if cases > 0 {
            text.push_str(&format!("{} of {cases} cases as they should be\n", cases - self.failed.len()));
        }
        print::clean(&text)
    }

    fn as_json(&self, cases: usize) -> Value {
        let rules = self.rules().map(|(list, at, rule)| {
            let origin = self.traced.origins.of(list, at);
            let (from, line) = (origin.map(|origin| &origin.said_by), origin.and_then(|origin| origin.line));
            let faults = self.faults_of(list, at);
            json!({ "list": list.as_str(), "rule": rule.text, "from": from, "line": line, "faults": faults })
        });
        let failed = self.failed.iter().map(|Failed { line, call, wanted, found, why }| {
            json!({ "line": line, "call": call, "wanted": wanted, "found": found, "why": why })
        });
        json!({
            "file": self.traced.file,
            "ok": self.is_sound(),
            "broken": self.broken,
            "rules": rules.collect::<Vec<_>>(),
            "cases": cases,
            "failed_cases": failed.collect::<Vec<_>>(),
        })
    }
}

/// None: it went as it should.
fn failed(case: &Case, answer: Answer) -> Option<Failed> {
    const CALL_CHARS_MAX: usize = 200;
    let (found, why) = match answer {
        Answer::Judged(verdict) if verdict.decision == case.decision => return None,
        Answer::Judged(verdict) => (verdict.decision.as_str(), verdict.rule.unwrap_or(verdict.why)),
        Answer::NoCall { why } => ("no call", why),
    };
    let call = print::brief(&format!("{} {}", case.call.tool, case.call.input.to_text()), CALL_CHARS_MAX);
    Some(Failed { line: case.line, call, wanted: case.decision.as_str(), found, why })
}
