//! The `[schema]` of a tool: a JSON Schema of an object, in the words that arguments are held to.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value, json};
use toml::Spanned;
use ukai_protocol::declared::{SCHEMA_CHECKED, SCHEMA_TOLD};
use ukai_protocol::json::Json;

use crate::config::fault::{Fault, Source, nearest};

/// Travels with every request of every job.
pub const SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Deeper arguments than 32 levels end a job (spec §5), and each level takes two of its schema.
pub const SCHEMA_DEPTH_MAX: usize = 16;

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Without one a tool takes no arguments.
pub(super) fn checked(source: Source<'_>, table: Option<&Spanned<toml::Table>>) -> Result<Json, Fault> {
    let Some(table) = table else {
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        return Ok(Json(none.as_object().cloned().unwrap_or_default()));
    };
    let start = table.span().start;
    let fault = |why: &str, next: &str| source.fault(start, "schema", why, next);
    let Some(Value::Object(mut schema)) = value(&toml::Value::Table(table.get_ref().clone())) else {
        return Err(fault("JSON has no dates and no such numbers", "write them as strings"));
    };
    schema.entry("type").or_insert_with(|| "object".into());
    if schema["type"] != "object" {
        return Err(source.at_key("type", "the arguments of a tool are an object", "write type = \"object\""));
    }
    let schema = Json(schema);
    if schema.depth() > SCHEMA_DEPTH_MAX || schema.to_text().len() > SCHEMA_BYTES_MAX {
        let why = format!("it is larger than {SCHEMA_BYTES_MAX} bytes, or nests deeper than {SCHEMA_DEPTH_MAX} levels");
        return Err(fault(&why, "ask for less"));
    }
    words(&schema.0).map_err(|Wrong { key, why, next }| source.at_key(&key, why, next))?;
    Ok(schema)
}

struct Wrong {
    key: String,
    why: String,
    next: String,
}

/// Each word is one that something comes of, and has what it takes.
fn words(schema: &Map<String, Value>) -> Result<(), Wrong> {
    for (key, value) in schema {
        let wrong = |why: &str, next: &str| Err(Wrong { key: key.clone(), why: why.into(), next: next.into() });
        match key.as_str() {
            "type" => {
                let kinds: Vec<&Value> = value.as_array().map_or_else(|| vec![value], |kinds| kinds.iter().collect());
                let known = |kind: &&Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
                if kinds.is_empty() || !kinds.iter().all(known) {
                    return wrong("it is no type of JSON", &format!("write one of {}", TYPES.join(", ")));
                }
            }
            "properties" => {
                let Some(map) = value.as_object() else { return wrong("it is no table", "name the arguments in it") };
                map.values().try_for_each(|schema| below(key, schema))?;
            }
            "items" | "not" | "additionalProperties" => below(key, value)?,
            "anyOf" | "oneOf" | "allOf" => {
                let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
                    return wrong("it is no list of schemas", "write [{…}, {…}]");
                };
                list.iter().try_for_each(|schema| below(key, schema))?;
            }
            "required" => {
                if !value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) {
                    return wrong("it is no list of names", "write for instance [\"to\"]");
                }
            }
            "enum" if !value.is_array() => return wrong("it is no list", "write the values that may be"),
            "minItems" | "maxItems" | "minLength" | "maxLength" if !value.is_u64() => {
                return wrong("it is no whole number from 0", "write one");
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                return wrong("it is no number", "write one");
            }
            known if SCHEMA_CHECKED.contains(&known) || SCHEMA_TOLD.contains(&known) => {}
            unknown => {
                let next = match nearest(unknown, SCHEMA_CHECKED.into_iter().chain(SCHEMA_TOLD)) {
                    Some(near) => format!("did you mean `{near}`? Else let the tool see to it"),
                    None => "let the tool see to it".to_owned(),
                };
                return wrong("no arguments are held to this word of a schema here", &next);
            }
        }
    }
    Ok(())
}

fn below(key: &str, schema: &Value) -> Result<(), Wrong> {
    match schema {
        Value::Object(schema) => words(schema),
        Value::Bool(_) => Ok(()),
        _ => Err(Wrong {
            key: key.to_owned(),
            why: "what stands there is no schema".to_owned(),
            next: "write for instance {type = \"string\"}".to_owned(),
        }),
    }
}

/// None: JSON cannot say it.
fn value(value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => Value::String(text.clone()),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => Value::Number(serde_json::Number::from_f64(*number)?),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(_) => return None,
        toml::Value::Array(items) => Value::Array(items.iter().map(self::value).collect::<Option<_>>()?),
        toml::Value::Table(table) => {
            let below = table.iter().map(|(key, below)| Some((key.clone(), self::value(below)?)));
            Value::Object(below.collect::<Option<_>>()?)
        }
    })
}
