//! What a record says to someone who watches: a line that stays, something for the moment, or nothing.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;
use ukai_protocol::event::{Event, HookSaid, ToolStatus, WaitingFor, Why};
use ukai_protocol::job::Outcome;
use ukai_protocol::json::Json;
use ukai_protocol::policy::Verdict;

use super::print::{brief, visible};
use super::words::source;

const ARGUMENT_CHARS_MAX: usize = 60;
const DETAIL_CHARS_MAX: usize = 200;
/// It is told once, and whole.
const NOTICE_CHARS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    Line(String),
    Moment(String),
    Nothing,
}

#[must_use]
pub fn say(event: &Event) -> Say {
    let detail = |text: &str| brief(text, DETAIL_CHARS_MAX);
    Say::Line(match event {
        Event::Submitted { name, .. } => format!("submitted as {name}"),
        Event::Started { attempt: 1, .. } => return Say::Moment("started".to_owned()),
        Event::Started { attempt, .. } => format!("started again (attempt {attempt})"),
        Event::Interrupted { stopped: true, how, .. } => format!("its worker has gone: {}", detail(how)),
        Event::Interrupted { how, .. } => format!("its worker ended: {}; a new one carries it on", detail(how)),
        Event::Leased { step, provider, model, .. } => {
            return Say::Moment(format!("step {step}: asking {provider} ({model})"));
        }
        Event::Paused {} => "is paused by a person; a call under way ends first".to_owned(),
        Event::Unpaused {} => "may go on".to_owned(),
        // How long it then waits, if it does, is told by what follows.
        Event::AttemptFailed { step, provider, detail: why, .. } => {
            format!("step {step}: {provider}: {}", detail(why))
        }
        Event::Waiting { why, wait_ms } => {
            let what = match why {
                WaitingFor::Lease => "its turn at a provider",
                WaitingFor::Provider => "a provider",
            };
            match wait_ms {
                Some(ms) => format!("waits for {what}, {} s", ms.div_ceil(1_000)),
                None => return Say::Moment(format!("waits for {what}")),
            }
        }
        Event::Replied { step, calls, usage, .. } => {
            let tokens = usage.input.saturating_add(usage.output);
            let calls = match calls.len() {
                0 => String::new(),
                1 => ", 1 call".to_owned(),
                count => format!(", {count} calls"),
            };
            format!("step {step}: {tokens} tokens{calls}")
        }
        Event::Judged { tool, input, judgement, .. } => match judgement.verdict {
            Verdict::Allow => format!("  {tool} {}", argument(input)),
            Verdict::Deny => format!("  {tool} {} was denied: {}", argument(input), detail(&judgement.why)),
        },
        Event::AskOpened { tool, input, why, .. } => {
            format!("  {tool} {} waits for you: {}", argument(input), detail(why))
        }
        Event::AskAnswered { tool, judgement, .. } => match judgement.verdict {
            Verdict::Allow => format!("  {tool} was allowed ({})", source(&judgement.source)),
            Verdict::Deny => format!("  {tool} was denied: {}", detail(&judgement.why)),
        },
        Event::HookRan { hook, said: HookSaid::Passed | HookSaid::Allowed | HookSaid::Asked, detail: said, .. } => {
            match said.is_empty() {
                true => return Say::Nothing,
                false => format!("  the hook {}: {}", brief(hook, ARGUMENT_CHARS_MAX), detail(said)),
            }
        }
        Event::HookRan { hook, said, detail: why, .. } => {
            let what = match said {
                HookSaid::Stopped => "ends the job",
                HookSaid::FailedOpen => "failed, and may",
                HookSaid::FailedClosed => "failed, and blocks",
                _ => "blocks",
            };
            format!("  the hook {} {what}: {}", brief(hook, ARGUMENT_CHARS_MAX), detail(why))
        }
        Event::ToolFinished { tool, status: ToolStatus::Failed | ToolStatus::Invalid, output, .. } => {
            format!("  {tool} failed: {}", detail(output))
        }
        Event::ToolFinished { tool, status: ToolStatus::NotFinished | ToolStatus::NotRun, .. } => {
            format!("  {tool}: a limit came first")
        }
        Event::ToolFinished { tool, status: ToolStatus::Unknown, .. } => format!("  {tool}: its outcome is unknown"),
        Event::ToolFinished { status: ToolStatus::Ok | ToolStatus::Denied | ToolStatus::Cancelled, .. } => {
            return Say::Nothing;
        }
        Event::LimitWarned { limit, used, max } => {
            format!("{limit}: {} of {} used", limit.amount(*used), limit.amount(*max))
        }
        Event::Recovered { torn_bytes } => format!("{torn_bytes} bytes of an unfinished record were cut off its log"),
        Event::Acked {} => "a person has seen it".to_owned(),
        Event::Resumed { .. } => "is resumed by a person".to_owned(),
        Event::Attention { why } => format!("needs attention: {}", detail(why)),
        Event::Finished { outcome: Outcome::Completed { .. }, .. } => "completed".to_owned(),
        Event::Finished { outcome: outcome @ Outcome::Ended(cause), .. } => {
            format!("{}: {}({}): {}", outcome.status(), cause.kind.reason(), cause.kind, detail(&cause.detail))
        }
        Event::Injected { why: Why::Alarm, text } => format!("needs attention: {}", brief(text, NOTICE_CHARS_MAX)),
        Event::Injected { why: Why::Notice, text } => format!("note: {}", brief(text, NOTICE_CHARS_MAX)),
        Event::Injected { why: Why::System | Why::Lost | Why::Hook, .. } | Event::ToolStarted { .. } => {
            return Say::Nothing;
        }
    })
}

/// The argument that tells most of a call: its first text.
#[must_use]
pub fn argument(input: &Json) -> String {
    let named = ["file_path", "pattern", "command", "path"].iter().find_map(|key| input.0.get(*key)?.as_str());
    let first = || input.0.values().find_map(Value::as_str);
    // A second line is seen to be one, and so is what would have been hidden: a person decides by this.
    brief(&visible(named.or_else(first).unwrap_or_default()).replace('\n', " ⏎ "), ARGUMENT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use ukai_protocol::policy::{Judgement, Source};

    use super::*;

    #[test]
    fn a_wait_stays_where_its_end_is_known() {
        let waiting = |wait_ms| say(&Event::Waiting { why: WaitingFor::Provider, wait_ms });
        assert_eq!(waiting(Some(4_001)), Say::Line("waits for a provider, 5 s".to_owned()));
        assert_eq!(waiting(None), Say::Moment("waits for a provider".to_owned()));
    }

    #[test]
    fn a_judged_call_is_told_by_what_it_is_about() {
        let judged = |json: &str, judgement| Event::Judged {
            call: "c".into(),
            tool: "Read".into(),
            input: serde_json::from_str(json).expect("an object"),
            read_only: true,
            judgement,
        };
        let allow = Judgement::allow(Source::Default);
        let line = |text: &str| Say::Line(text.to_owned());
        assert_eq!(say(&judged(r#"{"offset":1,"file_path":"src/a.rs"}"#, allow.clone())), line("  Read src/a.rs"));
        assert_eq!(say(&judged(r#"{"x":"a\u001b[31m"}"#, allow)), line("  Read a\u{fffd}[31m"));
        let deny = Judgement::deny(Source::Default, "outside");
        assert_eq!(say(&judged(r#"{"file_path":"/etc"}"#, deny)), line("  Read /etc was denied: outside"));
    }
}
