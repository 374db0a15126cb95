//! Arguments against the schema that a tool was declared with.
//!
//! Not a crate for all of JSON Schema: those bring a megabyte into each worker. The words that are checked are a list
//! that the supervisor knows, too, and it refuses a declaration that uses others.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value};
use ukai_protocol::json::Json;

use crate::tool::registry::kind_of;

/// More of them help nobody.
const FAULTS_MAX: usize = 8;

/// What is wrong with these arguments, in words for the model.
pub fn validate(tool: &str, schema: &Json, input: &Json) -> Result<(), String> {
    let mut faults = Vec::new();
    object(&schema.0, &input.0, "", &mut faults);
    if faults.is_empty() {
        return Ok(());
    }
    let shown = faults.iter().take(FAULTS_MAX).cloned().collect::<Vec<_>>().join("; ");
    let keys = schema.0.get("properties").and_then(Value::as_object);
    let keys: Vec<&str> = keys.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let takes =
        if keys.is_empty() { "It takes none".to_owned() } else { format!("Its parameters are {}", keys.join(", ")) };
    Err(format!("{tool} was not run: {shown}. {takes}."))
}

/// `at`: where in the arguments, as `a.b[0]`; nothing for all of them.
fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => return,
        _ => return faults.push(format!("{} may not be there", named(at))),
    };
    if let Some(kinds) = schema.get("type")
        && !kinds_of(kinds).any(|kind| is_of(value, kind))
    {
        let kinds = kinds_of(kinds).collect::<Vec<_>>().join(" or ");
        return faults.push(format!("{} must be of type {kinds}, not {}", named(at), kind_of(value)));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let allowed = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        faults.push(format!("{} must be one of {allowed}, not {value}", named(at)));
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        faults.push(format!("{} must be {only}, not {value}", named(at)));
    }
    match value {
        Value::Object(map) => object(schema, map, at, faults),
        Value::Array(items) => array(schema, items, at, faults),
        Value::String(text) => {
            let chars = text.chars().count() as f64;
            within(schema, "minLength", "maxLength", chars, &format!("the length of {}", named(at)), faults);
            if text.contains('\0') {
                faults.push(format!("{} holds a NUL character", named(at)));
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            within(schema, "minimum", "maximum", number, &named(at), faults);
            let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
            if let Some(min) = limit("exclusiveMinimum").filter(|min| number <= *min) {
                faults.push(format!("{} must be more than {min}", named(at)));
            }
            if let Some(max) = limit("exclusiveMaximum").filter(|max| number >= *max) {
                faults.push(format!("{} must be less than {max}", named(at)));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    combined(schema, value, at, faults);
}

fn object(schema: &Map<String, Value>, map: &Map<String, Value>, at: &str, faults: &mut Vec<String>) {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    let required = schema.get("required").and_then(Value::as_array);
    for key in required.into_iter().flatten().filter_map(Value::as_str).filter(|key| !map.contains_key(*key)) {
        faults.push(format!("`{}` is missing", below(key)));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, value) in map {
        match (properties.and_then(|properties| properties.get(key)), schema.get("additionalProperties")) {
            (Some(schema), _) => check(schema, value, &below(key), faults),
            (None, Some(Value::Bool(false))) => faults.push(format!("there is no `{}`", below(key).escape_debug())),
            (None, Some(schema)) => check(schema, value, &below(key), faults),
            (None, None) => {}
        }
    }
}

fn array(schema: &Map<String, Value>, items: &[Value], at: &str, faults: &mut Vec<String>) {
    within(schema, "minItems", "maxItems", items.len() as f64, &format!("the length of {}", named(at)), faults);
    let Some(schema) = schema.get("items") else { return };
    for (place, item) in items.iter().enumerate() {
        if faults.len() > FAULTS_MAX {
            return;
        }
        check(schema, item, &format!("{at}[{place}]"), faults);
    }
}

fn combined(schema: &Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
    let fits = |schema: &Value| {
        let mut found = Vec::new();
        check(schema, value, at, &mut found);
        found.is_empty()
    };
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    for schema in list("allOf").into_iter().flatten() {
        check(schema, value, at, faults);
    }
    if list("anyOf").is_some_and(|any| !any.iter().any(fits)) {
        faults.push(format!("{} fits none of what it may be", named(at)));
    }
    if list("oneOf").is_some_and(|one| one.iter().filter(|schema| fits(schema)).count() != 1) {
        faults.push(format!("{} must fit exactly one of what it may be", named(at)));
    }
    if schema.get("not").is_some_and(fits) {
        faults.push(format!("{} is what it must not be", named(at)));
    }
}

fn within(schema: &Map<String, Value>, min: &str, max: &str, found: f64, what: &str, faults: &mut Vec<String>) {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(min) = limit(min).filter(|min| found < *min) {
        faults.push(format!("{what} must be at least {min}, not {found}"));
    }
    if let Some(max) = limit(max).filter(|max| found > *max) {
        faults.push(format!("{what} must be at most {max}, not {found}"));
    }
}

fn kinds_of(kinds: &Value) -> impl Iterator<Item = &str> {
    let many = kinds.as_array().into_iter().flatten().filter_map(Value::as_str);
    kinds.as_str().into_iter().chain(many)
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn named(at: &str) -> String {
    format!("`{at}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(quirk: &str, schema: &str, input: &str, fault: Option<&str>) {
        let json = |text: &str| serde_json::from_str::<Json>(text).expect("test data");
        let found = validate("deploy", &json(schema), &json(input));
        match fault {
            None => assert_eq!(found, Ok(()), "{quirk}"),
            Some(fault) => assert!(found.as_ref().is_err_and(|why| why.contains(fault)), "{quirk}: {found:?}"),
        }
    }

    #[test]
    fn arguments_are_held_to_their_schema() {
        let to = r#"{"type":"object","properties":{"to":{"type":"string","enum":["test","live"]},"n":{"type":"integer","minimum":1,"maximum":9},
            "tags":{"type":"array","maxItems":2,"items":{"type":"string","minLength":1}},"who":{"type":["string","null"]}},
            "required":["to"],"additionalProperties":false}"#;
        for (quirk, input, fault) in [
            ("as it should be", r#"{"to":"test","n":3,"tags":["a"],"who":null}"#, None),
            ("missing", "{}", Some("`to` is missing")),
            ("of another type", r#"{"to":1}"#, Some("`to` must be of type string, not a number")),
            ("none of the list", r#"{"to":"prod"}"#, Some(r#"`to` must be one of "test", "live", not "prod""#)),
            ("too small", r#"{"to":"test","n":0}"#, Some("`n` must be at least 1, not 0")),
            ("no whole number", r#"{"to":"test","n":1.5}"#, Some("`n` must be of type integer")),
            ("a whole number as others write it", r#"{"to":"test","n":2.0}"#, None),
            ("too many", r#"{"to":"test","tags":["a","b","c"]}"#, Some("the length of `tags` must be at most 2")),
            ("deep within", r#"{"to":"test","tags":["a",""]}"#, Some("the length of `tags[1]` must be at least 1")),
            ("one of two types", r#"{"to":"test","who":2}"#, Some("string or null")),
            ("another key", r#"{"to":"test","x":1}"#, Some("there is no `x`. Its parameters are to, n, tags, who")),
        ] {
            check(quirk, to, input, fault);
        }
        let either = r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer","exclusiveMinimum":0}]},
            "b":{"not":{"const":"x"}},"c":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}"#;
        for (input, fault) in [
            (r#"{"a":"x","b":"y","c":1.5,"other":true}"#, None),
            (r#"{"a":0}"#, Some("`a` fits none")),
            (r#"{"b":"x"}"#, Some("`b` is what it must not be")),
            (r#"{"c":1}"#, Some("exactly one")),
            (r#"{"a":"x\u0000"}"#, Some("fits none")),
        ] {
            check(input, either, input, fault);
        }
        check("nothing said", "{}", r#"{"anything":[1]}"#, None);
    }
}
