//! The part of a tool's schema that both providers look at: an object, with properties that are schemas themselves.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

/// Where and why it is no schema of an object; the place is a dotted path below the schema.
pub fn fault(schema: &Value) -> Option<(String, String)> {
    if !schema.is_object() {
        return Some((String::new(), "schema must be an object".to_owned()));
    }
    if schema["type"] != "object" {
        let got = schema["type"].as_str().unwrap_or("None");
        return Some((
            ".type".to_owned(),
            format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{got}\"'"),
        ));
    }
    nested("", schema)
}

fn nested(at: &str, schema: &Value) -> Option<(String, String)> {
    let wrong = |at: String, why: &str| Some((at, why.to_owned()));
    match schema {
        Value::Bool(_) => return None,
        Value::Object(_) => {}
        _ => return wrong(at.to_owned(), "is no schema"),
    }
    match &schema["type"] {
        Value::Null => {}
        Value::Array(types) if types.iter().all(Value::is_string) => {}
        Value::String(kind) if KINDS.contains(&kind.as_str()) => {}
        other => return wrong(format!("{at}.type"), &format!("{other} is no type of a JSON Schema")),
    }
    if schema["type"] == "array" && schema.get("items").is_none() {
        return wrong(at.to_owned(), "array schema missing items");
    }
    if let Some(required) = schema.get("required")
        && !required.as_array().is_some_and(|names| names.iter().all(Value::is_string))
    {
        return wrong(format!("{at}.required"), "is no array of strings");
    }
    if let Some(items) = schema.get("items")
        && let Some(found) = nested(&format!("{at}.items"), items)
    {
        return Some(found);
    }
    match schema.get("properties") {
        None => None,
        Some(Value::Object(properties)) => {
            properties.iter().find_map(|(name, schema)| nested(&format!("{at}.properties.{name}"), schema))
        }
        Some(_) => wrong(format!("{at}.properties"), "is no object"),
    }
}

const KINDS: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemas_of_objects_pass() {
        for (schema, place) in [
            (r#"{"type":"object"}"#, None),
            (
                r#"{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"enum":[1]}},"required":["a"]}"#,
                None,
            ),
            (r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}"#, None),
            ("null", Some("")),
            ("{}", Some(".type")),
            (r#"{"type":"string"}"#, Some(".type")),
            (r#"{"type":"object","properties":[]}"#, Some(".properties")),
            (r#"{"type":"object","properties":{"a":{"type":"text"}}}"#, Some(".properties.a.type")),
            (r#"{"type":"object","properties":{"a":{"type":"array"}}}"#, Some(".properties.a")),
            (r#"{"type":"object","required":"a"}"#, Some(".required")),
        ] {
            let found = fault(&serde_json::from_str(schema).expect("test data"));
            assert_eq!(found.as_ref().map(|(at, _)| at.as_str()), place, "{schema}");
        }
    }
}
