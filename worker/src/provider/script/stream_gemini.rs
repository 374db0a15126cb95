//! A reply on the Gemini wire: chunks that are each a whole response, as events, as one JSON array, or one alone.
//!
//! https://ai.google.dev/api/generate-content: there is no end marker, the last chunk is the one with a finish reason.
//! Calls come whole, all in one chunk; the first of them bears the signature, a text has it on an empty part at its end.
//! Arguments that are no JSON cannot be said: the model's own finish reason for them stands in their place.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};

use super::place::Form;
use super::reply::{Spoken, Stop, mark_of};
use super::stream::{Event, Part, pieces};
use super::thought_signature::{always_signs, sign};

pub fn events(spoken: &Spoken, form: Form, chunk_chars: usize) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |part: Part, chunk: &Value| events.push(Event { part, text: event(form, chunk) });
    if form == Form::Array {
        events_open(&mut add, spoken);
    }
    for (text, thought) in [(&spoken.reasoning, true), (&spoken.text, false)] {
        for piece in pieces(text, chunk_chars).into_iter().filter(|piece| !piece.is_empty()) {
            let part = if thought { json!({"text": piece, "thought": true}) } else { json!({"text": piece}) };
            add(Part::Said(piece.chars().count()), &chunk(spoken, &[part], None));
        }
    }
    let calls = calls(spoken);
    if !calls.is_empty() {
        let chars = spoken.calls.iter().map(|call| call.arguments.chars().count()).sum();
        add(Part::Said(chars), &chunk(spoken, &calls, None));
    }
    // The last chunk of a reply that said something says nothing, in so many words.
    let said = !(spoken.text.is_empty() && spoken.reasoning.is_empty() && calls.is_empty());
    let mut last = said.then(|| json!({"text": ""}));
    let signature = signature(spoken, "").filter(|_| calls.is_empty() && !spoken.text.is_empty());
    if let (Some(part), Some(signature)) = (&mut last, signature) {
        part["thoughtSignature"] = json!(signature);
    }
    add(Part::Finish, &chunk(spoken, last.as_slice(), Some(finish_reason(spoken))));
    if form == Form::Array {
        events.push(Event { part: Part::Terminal, text: "]".to_owned() });
    }
    events
}

/// An array is opened by a chunk that says nothing, so that each other one may begin with its comma.
fn events_open(add: &mut dyn FnMut(Part, &Value), spoken: &Spoken) {
    let mut opening = head(spoken);
    opening["usageMetadata"] = json!({"promptTokenCount": spoken.usage.input, "totalTokenCount": spoken.usage.input});
    add(Part::Open, &opening);
}

pub fn whole(spoken: &Spoken) -> Value {
    let mut parts = Vec::new();
    if !spoken.reasoning.is_empty() {
        parts.push(json!({"text": spoken.reasoning, "thought": true}));
    }
    let calls = calls(spoken);
    if !spoken.text.is_empty() {
        let mut part = json!({"text": spoken.text});
        if let Some(signature) = signature(spoken, "").filter(|_| calls.is_empty()) {
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    parts.extend(calls);
    chunk(spoken, &parts, Some(finish_reason(spoken)))
}

/// A prompt that the filter stopped: no candidate, and no error either.
pub fn blocked(model: &str, form: Form, input_tokens: u64) -> String {
    let chunk = json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": input_tokens, "totalTokenCount": input_tokens},
        "modelVersion": model,
    });
    let end = if form == Form::Array { "]" } else { "" };
    event(form, &chunk) + end
}

/// One chunk in the form of the stream. The opening one of an array has no candidates.
pub fn event(form: Form, chunk: &Value) -> String {
    match form {
        Form::Whole => chunk.to_string(),
        Form::Events => format!("data: {chunk}\r\n\r\n"),
        // Nothing comes after an error, so it closes the array.
        Form::Array if chunk.get("error").is_some() => format!("\n,\r\n{chunk}\n]"),
        Form::Array if chunk.get("candidates").is_none() => format!("[{chunk}"),
        Form::Array => format!("\n,\r\n{chunk}"),
    }
}

fn chunk(spoken: &Spoken, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0});
    if !parts.is_empty() || finish.is_none() {
        candidate["content"] = json!({"parts": parts, "role": "model"});
    }
    if let Some(reason) = finish {
        candidate["finishReason"] = json!(reason);
        if reason == MALFORMED {
            let all = spoken.calls.iter().map(|call| format!("call:{}{}", call.tool, call.arguments));
            let text = format!("Malformed function call: {}", all.collect::<Vec<_>>().join("\n"));
            candidate["finishMessage"] = json!(text);
        }
    }
    let mut chunk = head(spoken);
    chunk["candidates"] = json!([candidate]);
    chunk["usageMetadata"] = usage(spoken, finish.is_some());
    chunk
}

fn head(spoken: &Spoken) -> Value {
    json!({"modelVersion": spoken.model, "responseId": spoken.id})
}

/// The last chunk has the whole count; those before it know the input alone.
fn usage(spoken: &Spoken, last: bool) -> Value {
    let (input, output) = (spoken.usage.input, spoken.usage.output);
    let mut usage = json!({
        "promptTokenCount": input,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": input}],
        "totalTokenCount": if last { input.saturating_add(output) } else { input },
    });
    if spoken.usage.cached > 0 {
        usage["cachedContentTokenCount"] = json!(spoken.usage.cached);
    }
    if last {
        // What was thought and what was said are counted apart, and billed together.
        let thought = if spoken.reasoning.is_empty() { 0 } else { output / 2 };
        usage["candidatesTokenCount"] = json!(output - thought);
        if thought > 0 {
            usage["thoughtsTokenCount"] = json!(thought);
        }
    }
    usage
}

fn calls(spoken: &Spoken) -> Vec<Value> {
    let mut parts = Vec::new();
    for call in &spoken.calls {
        let Ok(args) = serde_json::from_str::<Value>(&call.arguments) else { return Vec::new() };
        let mut part = json!({"functionCall": {"name": call.tool, "args": args}});
        if !call.id.is_empty() {
            part["functionCall"]["id"] = json!(call.id);
        }
        if let Some(signature) = signature(spoken, &call.tool).filter(|_| parts.is_empty()) {
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    parts
}

fn signature(spoken: &Spoken, of: &str) -> Option<String> {
    let signs = !spoken.reasoning.is_empty() || always_signs(&spoken.model);
    signs.then(|| sign(&mark_of(&spoken.reasoning), of))
}

const MALFORMED: &str = "MALFORMED_FUNCTION_CALL";

fn finish_reason(spoken: &Spoken) -> &str {
    match &spoken.stop {
        Stop::Calls if !spoken.calls.is_empty() && calls(spoken).is_empty() => MALFORMED,
        Stop::End | Stop::Calls => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Filter => "SAFETY",
        Stop::Other(word) => word,
    }
}
