//! The functions that a request offers.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

use serde_json::Value;

use super::super::judge_schema;
use super::super::refusal::Refusal;
use super::{Judged, wrong};

/// The API's own bound.
const NAME_CHARS_MAX: usize = 128;

pub fn judge(body: &Value) -> Result<HashSet<&str>, Refusal> {
    let mut names = HashSet::new();
    for (t, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        for (n, declaration) in tool["functionDeclarations"].as_array().into_iter().flatten().enumerate() {
            let place = format!("tools[{t}].function_declarations[{n}]");
            let name = declaration["name"].as_str().unwrap_or_default();
            plain_name(&format!("{place}.name"), name)?;
            if !names.insert(name) {
                return Err(Refusal::invalid(format!("Duplicate function declaration found: {name}")));
            }
            match (&declaration["parameters"], &declaration["parametersJsonSchema"]) {
                (Value::Null, Value::Null) => {}
                (Value::Null, schema) => {
                    if let Some((below, why)) = judge_schema::fault(schema) {
                        wrong(format!("{place}.parameters_json_schema{below}: {why}"))?;
                    }
                }
                (schema, Value::Null) => {
                    if !schema["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("object")) {
                        wrong(format!("{place}.parameters: schema should be of type OBJECT"))?;
                    }
                    open_api(&format!("{place}.parameters"), schema)?;
                }
                _ => wrong(format!("{place}: parameters and parameters_json_schema are mutually exclusive"))?,
            }
        }
    }
    Ok(names)
}

/// What the subset of OpenAPI wants beyond its fields.
fn open_api(place: &str, schema: &Value) -> Judged {
    let is = |kind: &str| schema["type"].as_str().is_some_and(|of| of.eq_ignore_ascii_case(kind));
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
    if is("OBJECT") && properties.is_none() {
        return wrong(format!("{place}.properties: should be non-empty for OBJECT type"));
    }
    if is("ARRAY") && schema["items"].is_null() {
        return wrong(format!("{place}.items: missing field."));
    }
    for (n, name) in schema["required"].as_array().into_iter().flatten().enumerate() {
        let known = properties.is_some_and(|known| name.as_str().is_some_and(|name| known.contains_key(name)));
        if !known {
            return wrong(format!("{place}.required[{n}]: property is not defined"));
        }
    }
    for (name, below) in properties.into_iter().flatten() {
        open_api(&format!("{place}.properties[{name}]"), below)?;
    }
    for (n, below) in schema["anyOf"].as_array().into_iter().flatten().enumerate() {
        open_api(&format!("{place}.any_of[{n}]"), below)?;
    }
    if schema["items"].is_null() { Ok(()) } else { open_api(&format!("{place}.items"), &schema["items"]) }
}

/// Of a declaration as of a call.
pub fn plain_name(place: &str, name: &str) -> Judged {
    if name.is_empty() {
        return wrong(format!("{place}: Name cannot be empty."));
    }
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    if begins && plain && name.len() <= NAME_CHARS_MAX {
        return Ok(());
    }
    wrong(format!(
        "{place}: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), \
         underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of {NAME_CHARS_MAX}."
    ))
}
