//! Who says what after whom: roles, parts, and every call with its response.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

use serde_json::Value;

use super::super::refusal::Refusal;
use super::declarations::plain_name;
use super::shape::DATA;
use super::{Judged, wrong};

pub struct Content<'a> {
    /// Counted from 0.
    pub at: usize,
    pub by_model: bool,
    pub parts: &'a [Value],
}

impl<'a> Content<'a> {
    pub fn of(&self, kind: &'static str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
        let parts = self.parts.iter().enumerate();
        parts.filter(move |(_, part)| !part[kind].is_null()).map(move |(n, part)| (n, &part[kind]))
    }

    pub fn calls(&self) -> bool {
        self.of("functionCall").next().is_some()
    }

    pub fn responds(&self) -> bool {
        self.of("functionResponse").next().is_some()
    }
}

pub fn judge<'a>(body: &'a Value, known: &dyn Fn(&str) -> bool) -> Result<Vec<Content<'a>>, Refusal> {
    let list = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        wrong("contents: contents is not specified")?;
    }
    let mut ids = HashSet::new();
    let mut contents = Vec::with_capacity(list.len());
    for (at, content) in list.iter().enumerate() {
        let by_model = match content["role"].as_str().unwrap_or("user") {
            "user" | "function" => false,
            "model" => true,
            _ => return Err(Refusal::invalid("Please use a valid role: user, model.")),
        };
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() {
            wrong(format!("contents[{at}].parts: contents.parts must not be empty."))?;
        }
        let content = Content { at, by_model, parts };
        for (n, part) in parts.iter().enumerate() {
            judge_part(&content, &format!("contents[{at}].parts[{n}]"), part, known, &mut ids)?;
        }
        contents.push(content);
    }
    if let Some(system) = body["systemInstruction"].as_object() {
        let texts = system.get("parts").and_then(Value::as_array).into_iter().flatten();
        if !texts.clone().any(|part| part["text"].as_str().is_some_and(|text| !text.is_empty())) {
            wrong("system_instruction.parts[0].data: required oneof field 'data' must have one initialized field")?;
        }
    }
    pairing(&contents)?;
    Ok(contents)
}

fn judge_part<'a>(
    content: &Content<'_>,
    place: &str,
    part: &'a Value,
    known: &dyn Fn(&str) -> bool,
    ids: &mut HashSet<&'a str>,
) -> Judged {
    let mut data = DATA.into_iter().filter(|kind| !part[*kind].is_null());
    let first = data.next();
    if let Some(second) = data.next() {
        return Err(Refusal::invalid(format!(
            "Invalid value at '{place}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
        )));
    }
    // A streamed reply ends with an empty text, and a client may give back what it got.
    let empty = part["text"] == "" && !content.by_model;
    let call = &part["functionCall"];
    let name = call["name"].as_str().unwrap_or_default();
    match first {
        None => wrong(format!("{place}.data: required oneof field 'data' must have one initialized field")),
        Some("text") if empty => {
            wrong(format!("{place}.data: required oneof field 'data' must have one initialized field"))
        }
        Some("functionCall") if !content.by_model => {
            wrong(format!("{place}: function_call parts belong into contents of the role 'model'"))
        }
        Some("functionResponse") if content.by_model => {
            wrong(format!("{place}: function_response parts belong into contents of the role 'user'"))
        }
        Some("functionCall") => {
            plain_name(&format!("{place}.function_call.name"), name)?;
            if !known(name) {
                return wrong(format!("{place}.function_call.name: no function '{name}' is declared"));
            }
            match call["id"].as_str().filter(|id| !id.is_empty()) {
                Some(id) if !ids.insert(id) => {
                    wrong(format!("{place}.function_call.id: the id '{id}' is used by an earlier call"))
                }
                _ => Ok(()),
            }
        }
        Some("functionResponse") => {
            let response = &part["functionResponse"];
            if response["response"].is_null() {
                return wrong(format!("{place}.function_response.response: required field is not set"));
            }
            plain_name(&format!("{place}.function_response.name"), response["name"].as_str().unwrap_or_default())
        }
        Some(_) => Ok(()),
    }
}

fn pairing(contents: &[Content<'_>]) -> Judged {
    const AFTER_CALL: &str = "function response turn comes immediately after a function call turn";
    let mut at = 0;
    while let Some(first) = contents.get(at) {
        if !first.by_model {
            let before = at.checked_sub(1).map(|before| &contents[before]);
            if first.responds() && before.is_none_or(|before| !before.by_model) {
                return must(AFTER_CALL);
            }
            at += 1;
            continue;
        }
        // What a stream brought before and after its calls may stand in contents of its own.
        let run = contents[at..].iter().take_while(|content| content.by_model).count();
        let (run, next) = (&contents[at..at + run], contents.get(at + run));
        let says = |part: &Value| part["text"] != "" || !part["thoughtSignature"].is_null();
        if !run.iter().flat_map(|content| content.parts).any(says) {
            return wrong(format!(
                "contents[{at}].parts[0].data: required oneof field 'data' must have one initialized field"
            ));
        }
        let mut calling = run.iter().filter(|content| content.calls());
        match (calling.next(), calling.next()) {
            (None, _) if next.is_some_and(Content::responds) => return must(AFTER_CALL),
            (None, _) => {}
            (Some(_), second) if second.is_some() || at == 0 => {
                return must(
                    "function call turn comes immediately after a user turn or after a function response turn",
                );
            }
            (Some(calls), _) => {
                let count = next.map_or(0, |answer| answer.of("functionResponse").count());
                if count != calls.of("functionCall").count() {
                    return must(
                        "the number of function response parts is equal to the number of function call parts of the \
                         function call turn",
                    );
                }
                next.map_or(Ok(()), |answer| answers(calls, answer))?;
            }
        }
        at += run.len();
    }
    Ok(())
}

fn must(what: &str) -> Judged {
    Err(Refusal::invalid(format!("Please ensure that {what}.")))
}

/// Each call has its own response; the order is free.
fn answers(calls: &Content<'_>, answer: &Content<'_>) -> Judged {
    let key = |value: &Value| {
        let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        (word("id"), word("name"))
    };
    let mut open: Vec<_> = calls.of("functionCall").map(|(_, call)| key(call)).collect();
    for (leading, (n, response)) in answer.of("functionResponse").enumerate() {
        let place = format!("contents[{}].parts[{n}]", answer.at);
        if leading != n {
            return wrong(format!("{place}: function_response parts come before any other part of their content"));
        }
        let (id, name) = key(response);
        match open.iter().position(|call| *call == (id.clone(), name.clone())) {
            Some(found) => drop(open.remove(found)),
            None => {
                return wrong(format!(
                    "{place}.function_response: there is no open function call `{name}` with the id '{id}' in the function \
                     call turn before it"
                ));
            }
        }
    }
    Ok(())
}
