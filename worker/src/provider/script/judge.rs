//! Whether a request is one that the real provider would take. Pure: headers and body in, a refusal or nothing out.
//!
//! A mock that answers anything hides the very bugs that kill sessions: a call without its result, an id used twice, a
//! text between call and result. So every request is judged, on every rule, before the script is asked; the words are
//! those which the real ones use, so that whoever reads a log knows them.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

use super::conversation::Wire;
use super::file::Script;
use super::place::Place;
use super::refusal::Refusal;
use super::{judge_anthropic, judge_gemini, judge_openai};

/// The key, and the body as JSON.
pub fn judge(place: &Place, script: &Script, headers: &[(String, String)], body: &[u8]) -> Result<Value, Refusal> {
    let wire = place.wire;
    let header = |name: &str| headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
    let bearer = header("authorization").map(|value| value.strip_prefix("Bearer ").unwrap_or_default().trim());
    let key = match wire {
        Wire::Openai => bearer,
        Wire::Anthropic => header("x-api-key").or(bearer),
        Wire::Gemini => header("x-goog-api-key").or(place.key.as_deref()).or(bearer),
    };
    judge_key(wire, script, key)?;
    if !header("content-type").is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json")) {
        return Err(Refusal::invalid("content-type: expected application/json").coded("unsupported_content_type"));
    }
    if wire == Wire::Anthropic {
        judge_anthropic::version(header("anthropic-version"))?;
    }
    let body: Value = serde_json::from_slice(body)
        .map_err(|why| Refusal::invalid(format!("We could not parse the JSON body of your request: {why}")))?;
    // A name which the script itself calls, though nobody offers it, comes back in the history and is no fault of it.
    let scripted = |tool: &str| {
        let calls = script.rules.iter().filter_map(|rule| rule.reply.as_ref()).flat_map(|reply| &reply.calls);
        calls.into_iter().any(|call| call.tool.may_return_as(tool))
    };
    match wire {
        Wire::Openai => judge_openai::judge(&body, &scripted)?,
        Wire::Anthropic => judge_anthropic::judge(&body, &scripted)?,
        Wire::Gemini => return judge_gemini::judge(&body, place.model.as_deref().unwrap_or_default(), &scripted),
    }
    Ok(body)
}

fn judge_key(wire: Wire, script: &Script, key: Option<&str>) -> Result<(), Refusal> {
    if !script.require_key && script.key.is_none() {
        return Ok(());
    }
    match key.filter(|key| !key.is_empty()) {
        None => {
            let message = match wire {
                Wire::Openai => {
                    "You didn't provide an API key. You need to provide your API key in an Authorization header using \
                     Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
                }
                Wire::Anthropic => "x-api-key header is required",
                Wire::Gemini => {
                    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key \
                     or other form of API consumer identity to call this API."
                }
            };
            let status = if wire == Wire::Gemini { 403 } else { 401 };
            Err(Refusal { message: message.to_owned(), ..Refusal::of_status(wire, status) })
        }
        Some(key) if script.key.as_deref().is_some_and(|wanted| wanted != key) => Err(match wire {
            Wire::Gemini => Refusal::bad_gemini_key(),
            Wire::Openai | Wire::Anthropic => Refusal::of_status(wire, 401),
        }),
        Some(_) => Ok(()),
    }
}

/// `^[a-zA-Z0-9_-]{1,most}$`
pub fn is_plain_name(name: &str, most: usize) -> bool {
    (1..=most).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// How a refusal names the type of what it got.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The first key of an object that is none of the known ones.
pub fn unknown_key<'a>(value: &'a Value, known: &[&str]) -> Option<&'a str> {
    value.as_object()?.keys().map(String::as_str).find(|key| !known.contains(key))
}

#[cfg(test)]
mod tests {
    use super::super::conversation::tests::{example, place};
    use super::*;

    fn check(wire: Wire, script: &str, headers: &[(&str, &str)], body: &str, expected: Result<(), (u16, &str)>) {
        let script = format!("{script}\n[[rule]]\nreply = {{ text = 'x', calls = [{{ tool = 'Odd' }}] }}");
        let script = Script::parse(&script).expect("test data");
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let judged = judge(&place(wire), &script, &headers, body.as_bytes());
        match (judged, expected) {
            (Ok(_), Ok(())) => {}
            (Err(refusal), Err((status, part))) => {
                assert_eq!(refusal.status, status, "{refusal:?}");
                assert!(refusal.message.contains(part), "{refusal:?}");
            }
            (judged, expected) => panic!("{judged:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_key_may_stand_in_the_query_of_gemini_alone() {
        let script = Script::parse("key = 'k'\n[[rule]]\nreply = { text = 'x' }").expect("test data");
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        let body = example(Wire::Gemini).to_string();
        for (query, passes) in [("alt=sse&key=k", true), ("key=x", false), ("apikey=k", false)] {
            let place = Place::of("/v1beta/models/m:streamGenerateContent", Some(query)).expect("it is served");
            assert_eq!(judge(&place, &script, &headers, body.as_bytes()).is_ok(), passes, "{query}");
        }
    }

    #[test]
    fn keys_versions_and_json_are_judged_before_anything_else() {
        const JSON: (&str, &str) = ("content-type", "application/json");
        const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
        let openai = &example(Wire::Openai).to_string();
        let anthropic = &example(Wire::Anthropic).to_string();
        let gemini = &example(Wire::Gemini).to_string();
        for (wire, script, headers, body, expected) in [
            (Wire::Openai, "", &[JSON][..], openai.as_str(), Ok(())),
            (Wire::Openai, "require_key = true", &[JSON], openai, Err((401, "didn't provide an API key"))),
            (Wire::Openai, "require_key = true", &[JSON, ("authorization", "Bearer ")], openai, Err((401, "didn't"))),
            (Wire::Openai, "require_key = true", &[JSON, ("authorization", "Basic x")], openai, Err((401, "didn't"))),
            (Wire::Openai, "require_key = true", &[JSON, ("authorization", "Bearer k")], openai, Ok(())),
            (Wire::Openai, "key = 'k'", &[JSON, ("authorization", "Bearer x")], openai, Err((401, "Incorrect"))),
            (Wire::Anthropic, "key = 'k'", &[JSON, VERSION, ("x-api-key", "k")], anthropic, Ok(())),
            (Wire::Anthropic, "key = 'k'", &[JSON, VERSION], anthropic, Err((401, "x-api-key header is required"))),
            (
                Wire::Anthropic,
                "key = 'k'",
                &[JSON, VERSION, ("x-api-key", "x")],
                anthropic,
                Err((401, "invalid x-api-key")),
            ),
            (Wire::Anthropic, "", &[JSON], anthropic, Err((400, "anthropic-version: header is required"))),
            (Wire::Anthropic, "", &[JSON, ("anthropic-version", "2026-10-21")], anthropic, Ok(())),
            (Wire::Anthropic, "", &[JSON, ("anthropic-version", "1")], anthropic, Err((400, "is not a valid version"))),
            (Wire::Gemini, "key = 'k'", &[JSON, ("x-goog-api-key", "k")], gemini, Ok(())),
            (Wire::Gemini, "key = 'k'", &[JSON, ("authorization", "Bearer k")], gemini, Ok(())),
            (Wire::Gemini, "key = 'k'", &[JSON], gemini, Err((403, "unregistered callers"))),
            (Wire::Gemini, "key = 'k'", &[JSON, ("x-goog-api-key", "x")], gemini, Err((400, "API key not valid"))),
            (Wire::Openai, "", &[], openai, Err((400, "content-type"))),
            (Wire::Openai, "", &[JSON], "{", Err((400, "could not parse"))),
            (Wire::Openai, "", &[JSON], r#"{"model":"\ud800"}"#, Err((400, "could not parse"))),
            (Wire::Openai, "", &[JSON], "[]", Err((400, "object"))),
        ] {
            check(wire, script, headers, body, expected);
        }
    }
}
