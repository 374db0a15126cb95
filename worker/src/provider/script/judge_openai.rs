//! The rules of OpenAI's Chat Completions, in its words where they are known.
//!
//! Fields: https://platform.openai.com/docs/api-reference/chat/create. Two rules are ours and stricter, since what breaks
//! them breaks elsewhere: arguments must be a JSON object, and ids are used once in a conversation.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

use serde_json::Value;

use super::judge::{is_plain_name, kind, unknown_key};
use super::judge_schema;
use super::refusal::Refusal;

/// The real one's own bounds.
const TOOLS_MAX: usize = 128;
const NAME_CHARS_MAX: usize = 64;
const CALL_ID_CHARS_MAX: usize = 40;

type Judged = Result<(), Refusal>;

pub fn judge(body: &Value, scripted: &dyn Fn(&str) -> bool) -> Judged {
    if !body.is_object() {
        return wrong("", format!("Invalid body: expected an object, but got {} instead.", kind(body)));
    }
    if let Some(key) = unknown_key(body, &KNOWN) {
        return wrong("", format!("Unrecognized request argument supplied: {key}"));
    }
    match &body["model"] {
        Value::String(model) if !model.is_empty() => {}
        _ => return wrong("model", "you must provide a model parameter".to_owned()),
    }
    options(body)?;
    let offered = tools(body)?;
    messages(body, &|tool: &str| offered.contains(tool) || scripted(tool))
}

const KNOWN: [&str; 36] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "seed",
    "user",
    "metadata",
    "store",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "reasoning_effort",
    "service_tier",
    "modalities",
    "audio",
    "prediction",
    "verbosity",
    "web_search_options",
    "functions",
    "function_call",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
];

fn options(body: &Value) -> Judged {
    if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
        return type_of("stream", "a boolean", &body["stream"]);
    }
    if !body["stream_options"].is_null() && body["stream"] != true {
        return wrong(
            "stream_options",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned(),
        );
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        match &body[name] {
            Value::Null => {}
            value if value.is_u64() && value != 0 => {}
            value if value.is_i64() || value == 0 => {
                return wrong(
                    name,
                    format!(
                        "Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value} instead."
                    ),
                );
            }
            value => return type_of(name, "an integer", value),
        }
    }
    if !body["max_tokens"].is_null() && !body["max_completion_tokens"].is_null() {
        return wrong(
            "max_tokens",
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.".to_owned(),
        );
    }
    match &body["temperature"] {
        Value::Null => Ok(()),
        value if value.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)) => Ok(()),
        value => wrong(
            "temperature",
            format!("Invalid 'temperature': expected a decimal from 0 to 2, but got {value} instead."),
        ),
    }
}

fn tools(body: &Value) -> Result<HashSet<&str>, Refusal> {
    let mut names = HashSet::new();
    let tools = match &body["tools"] {
        Value::Null => {
            for name in ["tool_choice", "parallel_tool_calls"] {
                if !body[name].is_null() {
                    let message =
                        format!("Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.");
                    return Err(Refusal::invalid(message).at(name));
                }
            }
            return Ok(names);
        }
        Value::Array(tools) if (1..=TOOLS_MAX).contains(&tools.len()) => tools,
        Value::Array(tools) => {
            let (size, bound) =
                if tools.is_empty() { ("short", "minimum length 1") } else { ("long", "maximum length 128") };
            let message = format!(
                "Invalid 'tools': array too {size}. Expected an array with {bound}, but got an array with length {} instead.",
                tools.len()
            );
            return Err(Refusal::invalid(message).at("tools"));
        }
        other => return type_of("tools", "an array of objects", other).map(|()| names),
    };
    for (at, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" {
            wrong(
                &format!("tools[{at}].type"),
                format!("Invalid value: {}. Supported values are: 'function'.", tool["type"]),
            )?;
        }
        let name = plain_name(&format!("tools[{at}].function.name"), &tool["function"]["name"])?;
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null()
            && let Some((place, why)) = judge_schema::fault(parameters)
        {
            let param = format!("tools[{at}].function.parameters{place}");
            return Err(Refusal::invalid(format!("Invalid schema for function '{name}': {why}."))
                .at(param)
                .coded("invalid_function_parameters"));
        }
        if !names.insert(name) {
            wrong(
                &format!("tools[{at}].function.name"),
                format!("Invalid 'tools': tool names must be unique, but '{name}' stands twice."),
            )?;
        }
    }
    Ok(names)
}

fn messages(body: &Value, known: &dyn Fn(&str) -> bool) -> Judged {
    let messages = match &body["messages"] {
        Value::Array(messages) if !messages.is_empty() => messages,
        Value::Array(_) => {
            return wrong("messages", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.".to_owned());
        }
        Value::Null => return wrong("messages", "Missing required parameter: 'messages'.".to_owned()),
        other => return type_of("messages", "an array of objects", other),
    };
    let mut ids: HashSet<&str> = HashSet::new();
    // Calls of the assistant message before, which still wait for their result, and those which have it.
    let (mut open, mut closed): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            unanswered(&open, at)?;
            open.clear();
            closed.clear();
        }
        content(at, role, message)?;
        match role {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if id.is_empty() {
                    return wrong(
                        &format!("messages[{at}].tool_call_id"),
                        format!("Missing required parameter: 'messages[{at}].tool_call_id'."),
                    );
                }
                let Some(place) = open.iter().position(|open| *open == id) else {
                    let message = if closed.contains(&id) {
                        format!("Invalid parameter: messages[{at}] is a second result for the tool_call_id '{id}'.")
                    } else {
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                         'tool_calls'."
                            .to_owned()
                    };
                    return wrong(&format!("messages.[{at}].role"), message);
                };
                closed.push(open.remove(place));
            }
            "assistant" => calls(at, message, known, &mut ids, &mut open)?,
            _ => {}
        }
    }
    unanswered(&open, messages.len())
}

fn content(at: usize, role: &str, message: &Value) -> Judged {
    let allowed: &[&str] = match role {
        "system" | "developer" | "user" => &["role", "content", "name"],
        // The two before the last are what compatible servers send and take back; `parsed` is what OpenAI's own library
        // adds to a streamed message that is then sent back.
        "assistant" => &[
            "role",
            "content",
            "name",
            "tool_calls",
            "refusal",
            "audio",
            "annotations",
            "reasoning_content",
            "reasoning",
            "parsed",
        ],
        "tool" => &["role", "content", "tool_call_id", "name"],
        _ => {
            return wrong(
                &format!("messages[{at}].role"),
                format!(
                    "Invalid value: {}. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.",
                    message["role"]
                ),
            );
        }
    };
    if let Some(key) = unknown_key(message, allowed) {
        return wrong(&format!("messages[{at}].{key}"), format!("Unknown parameter: 'messages[{at}].{key}'."));
    }
    let place = format!("messages[{at}].content");
    let has_calls = !message["tool_calls"].is_null();
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Null if role == "assistant" && has_calls => Ok(()),
        Value::Null => wrong(&place, "Invalid value for 'content': expected a string, got null.".to_owned()),
        Value::Array(parts) if parts.is_empty() => wrong(
            &place,
            format!(
                "Invalid '{place}': empty array. Expected an array with minimum length 1, but got an empty array instead."
            ),
        ),
        Value::Array(parts) => parts.iter().enumerate().try_for_each(|(n, part)| {
            let place = format!("{place}[{n}]");
            match part["type"].as_str() {
                Some("text") if part["text"].is_string() => Ok(()),
                Some("text") => type_of(&format!("{place}.text"), "a string", &part["text"]),
                Some("image_url" | "input_audio" | "file") if role == "user" => Ok(()),
                Some("refusal") if role == "assistant" => Ok(()),
                _ => wrong(
                    &format!("{place}.type"),
                    format!("Invalid value: {}. Supported values are: 'text'.", part["type"]),
                ),
            }
        }),
        other => type_of(&place, "a string or array of objects", other),
    }
}

fn calls<'a>(
    at: usize,
    message: &'a Value,
    known: &dyn Fn(&str) -> bool,
    ids: &mut HashSet<&'a str>,
    open: &mut Vec<&'a str>,
) -> Judged {
    let calls = match &message["tool_calls"] {
        Value::Null => return Ok(()),
        Value::Array(calls) if !calls.is_empty() => calls,
        Value::Array(_) => {
            return wrong(
                &format!("messages[{at}].tool_calls"),
                format!(
                    "Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead."
                ),
            );
        }
        other => return type_of(&format!("messages[{at}].tool_calls"), "an array of objects", other),
    };
    for (n, call) in calls.iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{n}]");
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() {
            return wrong(&format!("{place}.id"), format!("Missing required parameter: '{place}.id'."));
        }
        let chars = id.chars().count();
        if chars > CALL_ID_CHARS_MAX {
            return Err(Refusal::invalid(format!(
                "Invalid '{place}.id': string too long. Expected a string with maximum length {CALL_ID_CHARS_MAX}, but got a string with length {chars} instead."
            ))
            .at(format!("{place}.id"))
            .coded("string_above_max_length"));
        }
        if !ids.insert(id) {
            return wrong(
                &format!("{place}.id"),
                format!("Invalid '{place}.id': the id '{id}' is used by an earlier call; ids must be unique."),
            );
        }
        if call["type"] != "function" {
            return wrong(
                &format!("{place}.type"),
                format!("Invalid value: {}. Supported values are: 'function'.", call["type"]),
            );
        }
        let name = plain_name(&format!("{place}.function.name"), &call["function"]["name"])?;
        if !known(name) {
            return wrong(
                &format!("{place}.function.name"),
                format!("Invalid '{place}.function.name': no tool '{name}' is offered."),
            );
        }
        let arguments = &call["function"]["arguments"];
        let Some(text) = arguments.as_str() else {
            return type_of(&format!("{place}.function.arguments"), "a string", arguments);
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(_)) => {}
            Ok(other) => {
                return wrong(
                    &format!("{place}.function.arguments"),
                    format!(
                        "Invalid '{place}.function.arguments': expected the JSON of an object, but got that of {}.",
                        kind(&other)
                    ),
                );
            }
            Err(why) => {
                return wrong(
                    &format!("{place}.function.arguments"),
                    format!(
                        "Invalid '{place}.function.arguments': expected the JSON of an object, but it does not parse: {why}."
                    ),
                );
            }
        }
        open.push(id);
    }
    Ok(())
}

fn unanswered(open: &[&str], at: usize) -> Judged {
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    wrong(&format!("messages.[{at}].role"), message)
}

fn plain_name<'a>(place: &str, name: &'a Value) -> Result<&'a str, Refusal> {
    let Some(name) = name.as_str() else {
        return Err(Refusal::invalid(format!("Missing required parameter: '{place}'.")).at(place));
    };
    if is_plain_name(name, NAME_CHARS_MAX) {
        return Ok(name);
    }
    let message = format!(
        "Invalid '{place}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]{{1,64}}$'."
    );
    Err(Refusal::invalid(message).at(place).coded("invalid_value"))
}

fn type_of(place: &str, wanted: &str, got: &Value) -> Judged {
    Err(Refusal::invalid(format!("Invalid type for '{place}': expected {wanted}, but got {} instead.", kind(got)))
        .at(place)
        .coded("invalid_type"))
}

fn wrong(place: &str, message: String) -> Judged {
    let refusal = Refusal::invalid(message);
    Err(if place.is_empty() { refusal } else { refusal.at(place) })
}

#[cfg(test)]
mod tests;
