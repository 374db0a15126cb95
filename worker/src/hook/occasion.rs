//! What a hook is told on its stdin: one JSON object in the shape of the public contract, which existing scripts read.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use ukai_protocol::hook::HookPoint;
use ukai_protocol::json::Json;

/// Something that hooks may have a say in.
#[derive(Clone, Debug, PartialEq)]
pub enum Occasion {
    SessionStart { resumed: bool },
    UserPromptSubmit { prompt: String },
    PreToolUse(Subject),
    PermissionRequest(Subject),
    PostToolUse { of: Subject, output: String },
    PostToolUseFailure { of: Subject, error: String },
    Notification { kind: &'static str, message: String },
    Stop { sent_back: bool, answer: String },
    SessionEnd { reason: String },
}

/// Kinds of notification: a call waits for a person; the job has ended and needs one.
pub const PERMISSION: &str = "permission_prompt";
pub const ATTENTION: &str = "attention";

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub call: String,
    pub tool: String,
    pub input: Json,
}

/// What is the same on all occasions of a job.
#[derive(Clone, Debug)]
pub struct About {
    pub job: String,
    pub workdir: PathBuf,
    /// The job's log.
    pub transcript: PathBuf,
}

impl Occasion {
    #[must_use]
    pub fn point(&self) -> HookPoint {
        match self {
            Occasion::SessionStart { .. } => HookPoint::SessionStart,
            Occasion::UserPromptSubmit { .. } => HookPoint::UserPromptSubmit,
            Occasion::PreToolUse(_) => HookPoint::PreToolUse,
            Occasion::PermissionRequest(_) => HookPoint::PermissionRequest,
            Occasion::PostToolUse { .. } => HookPoint::PostToolUse,
            Occasion::PostToolUseFailure { .. } => HookPoint::PostToolUseFailure,
            Occasion::Notification { .. } => HookPoint::Notification,
            Occasion::Stop { .. } => HookPoint::Stop,
            Occasion::SessionEnd { .. } => HookPoint::SessionEnd,
        }
    }

    /// What matchers are held against.
    pub(super) fn matched_on(&self) -> &str {
        match self {
            Occasion::SessionStart { resumed } => source(*resumed),
            Occasion::UserPromptSubmit { prompt } => prompt,
            Occasion::PreToolUse(of)
            | Occasion::PermissionRequest(of)
            | Occasion::PostToolUse { of, .. }
            | Occasion::PostToolUseFailure { of, .. } => &of.tool,
            Occasion::Notification { kind, .. } => kind,
            Occasion::SessionEnd { reason } => reason,
            Occasion::Stop { .. } => "",
        }
    }

    /// Whether a job's end waits for it.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        matches!(self, Occasion::SessionEnd { .. } | Occasion::Notification { .. })
    }

    /// The call that it is about, if it is about one.
    #[must_use]
    pub fn call(&self) -> Option<&str> {
        match self {
            Occasion::PreToolUse(of)
            | Occasion::PermissionRequest(of)
            | Occasion::PostToolUse { of, .. }
            | Occasion::PostToolUseFailure { of, .. } => Some(&of.call),
            _ => None,
        }
    }

    /// The bytes for stdin.
    pub(super) fn payload(&self, about: &About) -> Vec<u8> {
        let mut told = json!({
            "session_id": about.job,
            "transcript_path": about.transcript,
            "cwd": about.workdir,
            "permission_mode": "default",
            "hook_event_name": self.point().as_str(),
        });
        let own = match self {
            Occasion::SessionStart { resumed } => json!({"source": source(*resumed)}),
            Occasion::UserPromptSubmit { prompt } => json!({"prompt": prompt}),
            Occasion::PreToolUse(of) | Occasion::PermissionRequest(of) => of.told(),
            Occasion::PostToolUse { of, output } => with(of.told(), json!({"tool_response": of.response(output)})),
            Occasion::PostToolUseFailure { of, error } => {
                with(of.told(), json!({"error": error, "is_interrupt": false}))
            }
            Occasion::Notification { kind, message } => json!({"message": message, "notification_type": kind}),
            Occasion::Stop { sent_back, answer } => {
                json!({"stop_hook_active": sent_back, "last_assistant_message": answer})
            }
            Occasion::SessionEnd { reason } => json!({"reason": reason}),
        };
        told = with(told, own);
        let mut bytes = told.to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }
}

impl Subject {
    fn told(&self) -> Value {
        json!({"tool_name": self.tool, "tool_input": self.input.0, "tool_use_id": self.call})
    }

    /// A result in the shape that scripts know for this tool.
    fn response(&self, output: &str) -> Value {
        let path = self.input.0.get("file_path");
        match &*self.tool {
            "Bash" => json!({"stdout": output, "stderr": "", "interrupted": false, "isImage": false}),
            "Read" => json!({"type": "text", "file": {"filePath": path, "content": output}}),
            "Write" | "Edit" => json!({"filePath": path, "success": true, "content": output}),
            _ => json!({"content": output}),
        }
    }
}

/// The text of a result that a hook put in the place of the tool's: in the shape of [`Subject::response`], or plain. What
/// has another shape is shown as the JSON it is, for the original was to be replaced.
#[must_use]
pub fn text_of(response: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let found = match response {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => match (text(map.get("stdout")), text(map.get("stderr"))) {
            (Some(stdout), Some(stderr)) if !stderr.is_empty() => Some(format!("{stdout}\n{stderr}")),
            (Some(stdout), _) => Some(stdout),
            (None, _) => text(map.get("content"))
                .or_else(|| text(response.pointer("/file/content")))
                .or_else(|| text(map.get("text"))),
        },
        _ => None,
    };
    found.unwrap_or_else(|| response.to_string())
}

/// Paths as scripts expect them, absolute: a guard that looks at the beginning of one is not to be got past by another
/// way of writing it.
#[must_use]
pub fn with_absolute_path(tool: &str, mut input: Json, resolve: impl Fn(&Path) -> Option<PathBuf>) -> Json {
    let key = match tool {
        "Read" | "Write" | "Edit" => "file_path",
        "Glob" | "Grep" => "path",
        _ => return input,
    };
    if let Some(Value::String(path)) = input.0.get_mut(key)
        && let Some(resolved) = resolve(Path::new(path.as_str()))
        && let Some(resolved) = resolved.to_str()
    {
        resolved.clone_into(path);
    }
    input
}

fn source(resumed: bool) -> &'static str {
    if resumed { "resume" } else { "startup" }
}

fn with(mut told: Value, more: Value) -> Value {
    if let (Value::Object(told), Value::Object(more)) = (&mut told, more) {
        told.extend(more);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(occasion: &Occasion) -> Value {
        let about = About {
            job: "j-abcdefgh".to_owned(),
            workdir: "/w".into(),
            transcript: "/s/runs/j-abcdefgh/events.jsonl".into(),
        };
        serde_json::from_slice(&occasion.payload(&about)).expect("JSON")
    }

    fn of(tool: &str, input: Value) -> Subject {
        let input = Json(input.as_object().cloned().expect("an object"));
        Subject { call: "c-1".to_owned(), tool: tool.to_owned(), input }
    }

    #[test]
    fn scripts_find_what_they_look_for() {
        let bash = || of("Bash", json!({"command": "ls"}));
        let edit = of("Edit", json!({"file_path": "/w/a"}));
        for (occasion, pointer, expected) in [
            (Occasion::PreToolUse(bash()), "/hook_event_name", json!("PreToolUse")),
            (Occasion::PreToolUse(bash()), "/session_id", json!("j-abcdefgh")),
            (Occasion::PreToolUse(bash()), "/transcript_path", json!("/s/runs/j-abcdefgh/events.jsonl")),
            (Occasion::PreToolUse(bash()), "/cwd", json!("/w")),
            (Occasion::PreToolUse(bash()), "/tool_name", json!("Bash")),
            (Occasion::PreToolUse(bash()), "/tool_input/command", json!("ls")),
            (Occasion::PermissionRequest(bash()), "/tool_use_id", json!("c-1")),
            (Occasion::PostToolUse { of: bash(), output: "o".to_owned() }, "/tool_response/stdout", json!("o")),
            (Occasion::PostToolUse { of: edit, output: "o".to_owned() }, "/tool_response/filePath", json!("/w/a")),
            (Occasion::PostToolUseFailure { of: bash(), error: "e".to_owned() }, "/error", json!("e")),
            (Occasion::UserPromptSubmit { prompt: "go".to_owned() }, "/prompt", json!("go")),
            (Occasion::SessionStart { resumed: true }, "/source", json!("resume")),
            (Occasion::Stop { sent_back: true, answer: "a".to_owned() }, "/stop_hook_active", json!(true)),
            (Occasion::Notification { kind: PERMISSION, message: "m".to_owned() }, "/message", json!("m")),
            (Occasion::SessionEnd { reason: "completed".to_owned() }, "/reason", json!("completed")),
        ] {
            let told = told(&occasion);
            assert_eq!(told.pointer(pointer), Some(&expected), "{told}");
        }
    }

    #[test]
    fn a_result_in_the_shape_that_was_told_is_read_back() {
        for tool in ["Bash", "Read", "Write", "Grep"] {
            let response = of(tool, json!({"file_path": "/w/a"})).response("text");
            assert_eq!(text_of(&response), "text", "{tool}");
        }
    }

    #[test]
    fn paths_are_told_whole() {
        let resolve = |path: &Path| Some(Path::new("/w").join(path));
        for (tool, key, expected) in [("Edit", "file_path", "/w/a"), ("Grep", "path", "/w/a"), ("Bash", "command", "a")]
        {
            let input = of(tool, json!({(key): "a"})).input;
            assert_eq!(with_absolute_path(tool, input, resolve).0[key], expected, "{tool}");
        }
    }
}
