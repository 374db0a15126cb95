//! What stopped each try: a rule, before it began, or the kernel, on the way.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::event::ToolStatus;
use ukai_protocol::policy::{Judgement, Source, Verdict};

use super::tries::{Kind, Try};
use crate::cli::demo::hands::acts::Act;
use crate::cli::print::brief;
use crate::cli::progress::argument;
use crate::cli::words;

/// Of a reason.
const WHY_CHARS_MAX: usize = 72;
/// The shell's word for what it did not find: then nothing was tried.
const NOT_FOUND: &str = "[exit code 127]";
/// In the environment of each command, and in no worker's.
const OF_A_COMMAND: &str = "UKAI_JOB=";

#[derive(Clone, Debug)]
pub(in crate::cli::demo::hands) struct Refusal {
    pub what: &'static str,
    pub tool: &'static str,
    /// What of its input tells most.
    pub tried: String,
    /// By whom; an error says that it was not, or that it is not known.
    pub stopped: Result<String, String>,
    /// The record that shows it: its name and number.
    pub event: Option<(&'static str, u64)>,
}

/// `acts`: those of the job behind its first; `survived`: its worker, to the end.
pub(super) fn refusals(tries: &[Try], acts: &[Act], survived: bool) -> Vec<Refusal> {
    let mut acts = acts.iter();
    let one = |one: &Try| {
        let act = acts.next().filter(|act| act.tool == one.tool);
        let (stopped, event) =
            act.map_or((Err("it was not tried".to_owned()), None), |act| stopped(one, act, survived));
        let tried = act.map_or_else(String::new, |act| argument(&act.input));
        Refusal { what: one.what, tool: one.tool, tried, stopped, event }
    };
    tries.iter().map(one).collect()
}

fn stopped(one: &Try, act: &Act, survived: bool) -> (Result<String, String>, Option<(&'static str, u64)>) {
    if let Some((seq, judgement @ Judgement { verdict: Verdict::Deny, .. })) = &act.judged {
        let name = if act.asked.is_some() { "AskAnswered" } else { "Judged" };
        return (Ok(by_rule(judgement)), Some((name, *seq)));
    }
    let Some((seq, status, output)) = &act.finished else {
        return (Err("nothing tells how it ended".to_owned()), None);
    };
    let event = Some(("ToolFinished", *seq));
    let why = match (status, one.kind) {
        (_, Kind::Signal) if !survived => Err("the worker did not survive it".to_owned()),
        (ToolStatus::Failed, _) if output.contains(NOT_FOUND) => Err(format!("it was not tried: {}", said(output))),
        (ToolStatus::Failed, _) => Ok(format!("the kernel: {}", said(output))),
        // Where commands have numbers of their own for processes, that of the worker may be one of theirs.
        (ToolStatus::Ok, Kind::Signal) => Ok("the kernel: that number is another process there".to_owned()),
        (ToolStatus::Ok, Kind::Environment) if output.contains(OF_A_COMMAND) => {
            Ok("the kernel: that number is another process there".to_owned())
        }
        (ToolStatus::Ok, _) => Err("nothing stopped it".to_owned()),
        (other, _) => Err(format!("it was not tried to its end: {other:?}")),
    };
    (why, event)
}

fn by_rule(Judgement { source, why, .. }: &Judgement) -> String {
    match source {
        Source::Rule { rule, .. } => format!("the rule {rule}"),
        Source::Default => format!("ukai: it {}", brief(without_place(why), WHY_CHARS_MAX)),
        other => words::source(other),
    }
}

/// The first sentence, which begins with the place that was meant.
fn without_place(why: &str) -> &str {
    let why = why.find("leads outside").map_or(why, |at| &why[at..]);
    why.split_once(". ").map_or(why, |(first, _)| first)
}

/// Why, in the last words of the command before its exit code; they begin with whose words they are.
fn said(output: &str) -> String {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("[exit code"));
    let line = lines.next_back().unwrap_or("it failed without a word");
    brief(line.rsplit_once(": ").map_or(line, |(_, why)| why), WHY_CHARS_MAX)
}
