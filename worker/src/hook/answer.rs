//! What one run of a hook says, by the public contract: its exit code, and JSON or text on its stdout.
//!
//! Exit 0 is heard, 2 blocks with the reason on stderr, anything else is a failure. Where a hook decides beforehand, a
//! failure blocks, and so does what cannot be understood: there the contract lets a broken guard pass, and we do not.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value};
use ukai_protocol::event::HookSaid;
use ukai_protocol::hook::HookPoint;
use ukai_protocol::json::Json;

use crate::launcher::{Caught, Ended, Ran};
use crate::tool::output;

/// Of a reason or a message: it stands in a log, and in a result beside the tool's own.
pub(super) const REASON_CHARS_MAX: usize = 2_000;
/// Of what is added to the conversation at once.
pub(super) const CONTEXT_CHARS_MAX: usize = 10_000;

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub said: HookSaid,
    /// For a person, and the reason where there is one.
    pub detail: String,
    /// In the place of the call's.
    pub input: Option<Json>,
    /// For the model.
    pub context: String,
    /// In the place of the tool's.
    pub output: Option<Value>,
}

impl Answer {
    fn of(said: HookSaid, detail: impl AsRef<str>) -> Self {
        let detail = cut(detail.as_ref(), REASON_CHARS_MAX);
        Answer { said, detail, input: None, context: String::new(), output: None }
    }

    /// It came to nothing.
    pub(super) fn failed(on: HookPoint, why: &str, fails_open: bool) -> Self {
        let closed = on.fails_closed() && !fails_open;
        Answer::of(if closed { HookSaid::FailedClosed } else { HookSaid::FailedOpen }, why)
    }

    /// `fails_open`: its owner wants no failure of it to count.
    pub(super) fn read(on: HookPoint, ran: &Ran, fails_open: bool) -> Self {
        understood(on, ran).unwrap_or_else(|why| Answer::failed(on, &why, fails_open))
    }
}

fn understood(on: HookPoint, ran: &Ran) -> Result<Answer, String> {
    let complaint = shown(&ran.stderr);
    match &ran.ended {
        Ended::Code(0) => said(on, &ran.stdout),
        Ended::Code(2) if may_block(on) && complaint.is_empty() => Ok(Answer::of(HookSaid::Blocked, NO_REASON)),
        Ended::Code(2) if may_block(on) => Ok(Answer::of(HookSaid::Blocked, complaint)),
        Ended::Code(code) => Err(match complaint.is_empty() {
            true => format!("it exited {code}"),
            false => format!("it exited {code}: {complaint}"),
        }),
        Ended::Signal(signal) => Err(format!("it was ended by signal {signal}")),
        Ended::TimedOut => Err("it, or what it started, had not ended at its timeout, and was killed".to_owned()),
        Ended::Cancelled => Err("it was cancelled".to_owned()),
        Ended::NotStarted(why) => Err(format!("it could not be started: {why}")),
    }
}

/// Exit 0.
fn said(on: HookPoint, stdout: &Caught) -> Result<Answer, String> {
    if stdout.cut {
        return Err(format!("it wrote more than {} bytes to stdout", crate::launcher::CAUGHT_BYTES_MAX));
    }
    let text = std::str::from_utf8(&stdout.bytes).map_err(|_| "what it wrote to stdout is not UTF-8".to_owned())?;
    let text = text.trim();
    if text.starts_with('{') {
        let read: Map<String, Value> = serde_json::from_str(text).map_err(|error| format!("{NOT_JSON}: {error}"))?;
        return Said(read).answer(on);
    }
    match on {
        _ if text.is_empty() => Ok(Answer::of(HookSaid::Passed, "")),
        HookPoint::UserPromptSubmit | HookPoint::SessionStart => {
            Ok(Answer { context: cut(text, CONTEXT_CHARS_MAX), ..Answer::of(HookSaid::Passed, "") })
        }
        _ if on.fails_closed() => Err(format!("{NOT_JSON}: {}", cut(text, 100))),
        _ => Ok(Answer::of(HookSaid::Passed, text)),
    }
}

const NOT_JSON: &str = "what it wrote to stdout is no JSON object of the contract";
const NO_REASON: &str = "it gave no reason";

/// Whether a hook can speak against something here.
fn may_block(on: HookPoint) -> bool {
    match on {
        HookPoint::PreToolUse
        | HookPoint::PermissionRequest
        | HookPoint::UserPromptSubmit
        | HookPoint::PostToolUse
        | HookPoint::PostToolUseFailure
        | HookPoint::Stop => true,
        HookPoint::SessionStart | HookPoint::PreCompact | HookPoint::Notification | HookPoint::SessionEnd => false,
    }
}

/// The object on stdout.
struct Said(Map<String, Value>);

impl Said {
    fn answer(&self, on: HookPoint) -> Result<Answer, String> {
        if let Some(named) = self.text("hookEventName")?.filter(|named| named != on.as_str()) {
            return Err(format!("its answer is for {named}, and it was asked for {}", on.as_str()));
        }
        let message = self.text("systemMessage")?.unwrap_or_default();
        let ends = matches!(on, HookPoint::SessionEnd | HookPoint::Notification);
        if self.flag("continue")? == Some(false) && !ends {
            let why = self.text("stopReason")?.unwrap_or_else(|| "a hook ended the job".to_owned());
            return Ok(Answer::of(HookSaid::Stopped, why));
        }
        let (said, reason) = match on {
            HookPoint::PreToolUse => self.permission()?,
            HookPoint::PermissionRequest => self.behavior()?,
            _ if may_block(on) => self.block()?,
            _ => (HookSaid::Passed, None),
        };
        let detail = match reason.filter(|reason| !reason.trim().is_empty()) {
            Some(reason) => reason,
            None if said == HookSaid::Blocked && message.is_empty() => NO_REASON.to_owned(),
            None => message,
        };
        let input = match on {
            HookPoint::PreToolUse => self.object("updatedInput")?,
            HookPoint::PermissionRequest => self.decided()?.map_or(Ok(None), |said| said.object("updatedInput"))?,
            _ => None,
        };
        let context = self.text("additionalContext")?.unwrap_or_default();
        let output = self.get("updatedToolOutput").or_else(|| self.get("updatedMCPToolOutput")).cloned();
        Ok(Answer {
            input: input.map(Json),
            context: cut(&context, CONTEXT_CHARS_MAX),
            output: output.filter(|_| on == HookPoint::PostToolUse),
            ..Answer::of(said, detail)
        })
    }

    fn permission(&self) -> Result<(HookSaid, Option<String>), String> {
        let reason = self.text("permissionDecisionReason")?.or(self.text("reason")?);
        let said = match self.text("permissionDecision")?.as_deref() {
            Some("allow") => HookSaid::Allowed,
            Some("deny") => HookSaid::Blocked,
            // Left to others: a person is one.
            Some("ask" | "defer") => HookSaid::Asked,
            Some(other) => return Err(format!("there is no permissionDecision `{}`", cut(other, 50))),
            None => match self.top_text("decision")?.as_deref() {
                None => HookSaid::Passed,
                Some("approve") => HookSaid::Allowed,
                Some("block") => HookSaid::Blocked,
                Some(other) => return Err(format!("there is no decision `{}`", cut(other, 50))),
            },
        };
        Ok((said, reason))
    }

    fn behavior(&self) -> Result<(HookSaid, Option<String>), String> {
        let Some(decided) = self.decided()? else { return self.permission() };
        let said = match decided.text("behavior")?.as_deref() {
            Some("allow") => HookSaid::Allowed,
            Some("deny") if decided.flag("interrupt")? == Some(true) => HookSaid::Stopped,
            Some("deny") => HookSaid::Blocked,
            other => return Err(format!("there is no behavior `{}`", cut(other.unwrap_or_default(), 50))),
        };
        Ok((said, decided.text("message")?))
    }

    fn block(&self) -> Result<(HookSaid, Option<String>), String> {
        let said = match self.top_text("decision")?.as_deref() {
            None | Some("approve") => HookSaid::Passed,
            Some("block") => HookSaid::Blocked,
            Some(other) => return Err(format!("there is no decision `{}`", cut(other, 50))),
        };
        Ok((said, self.text("reason")?))
    }

    /// The decision of a PermissionRequest.
    fn decided(&self) -> Result<Option<Said>, String> {
        match self.get("decision") {
            Some(Value::Object(decision)) => Ok(Some(Said(decision.clone()))),
            _ => Ok(None),
        }
    }

    /// From where the contract puts it, else from the top: what a guard says in the wrong place it says all the same.
    fn get(&self, key: &str) -> Option<&Value> {
        let specific = self.0.get("hookSpecificOutput").and_then(|specific| specific.get(key));
        specific.or_else(|| self.0.get(key)).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.get(key).map(|value| as_text(key, value)).transpose()
    }

    fn top_text(&self, key: &str) -> Result<Option<String>, String> {
        self.0.get(key).filter(|value| !value.is_null()).map(|value| as_text(key, value)).transpose()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        let read = |value: &Value| value.as_bool().ok_or_else(|| format!("`{key}` is neither true nor false"));
        self.get(key).map(read).transpose()
    }

    fn object(&self, key: &str) -> Result<Option<Map<String, Value>>, String> {
        let read = |value: &Value| value.as_object().cloned().ok_or_else(|| format!("`{key}` is no object"));
        self.get(key).map(read).transpose()
    }
}

fn as_text(key: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` is no text"))
}

/// What it complained of, for a person and the model.
fn shown(stderr: &Caught) -> String {
    cut(output::clean(&stderr.bytes).trim(), REASON_CHARS_MAX)
}

/// At most so many characters; what is left out is said.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… [cut at {chars_max} characters]", &text[..at]),
    }
}

#[cfg(test)]
#[path = "answer/tests.rs"]
mod tests;
