//! Whether each field of a request exists and has its type, in the words of the API's JSON reader.
//!
//! All faults are told at once, as there: `message` has one line for each, and a `BadRequest` repeats them by field.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value, json};

use super::super::refusal::Refusal;
use super::shape::Shape;

const TYPES: &str = "type.googleapis.com/google.ai.generativelanguage.v1beta";

/// The value with the names of its fields in `camelCase`; what is not the API's own (arguments, schemas) stays as it is.
pub fn read(shape: &Shape, value: &Value) -> Result<Value, Refusal> {
    let mut reader = Reader::default();
    let read = reader.value(shape, value, "");
    if reader.faults.is_empty() {
        return Ok(read);
    }
    let lines: Vec<_> = reader.faults.iter().map(|(_, line)| line.as_str()).collect();
    let violations = reader.faults.iter().map(|(field, line)| match field.as_str() {
        "" => json!({"description": line}),
        field => json!({"field": field, "description": line}),
    });
    let violations: Vec<_> = violations.collect();
    Err(Refusal::invalid(lines.join("\n")).with(json!({
        "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations,
    })))
}

#[derive(Default)]
struct Reader {
    /// Where, and the line that says what.
    faults: Vec<(String, String)>,
}

impl Reader {
    fn value(&mut self, shape: &Shape, value: &Value, at: &str) -> Value {
        let right = match (shape, value) {
            (_, Value::Null) | (Shape::Free, _) => true,
            (Shape::Same(shape), _) => return self.value(shape, value, at),
            (Shape::Message(_, fields), Value::Object(object)) => return self.message(fields, object, at),
            (Shape::List(of), Value::Array(items)) => {
                let items = items.iter().enumerate().map(|(n, item)| self.value(of, item, &format!("{at}[{n}]")));
                return items.collect();
            }
            (Shape::Map(of), Value::Object(object)) => {
                let pairs = object.iter().enumerate();
                let pairs =
                    pairs.map(|(n, (name, value))| (name.clone(), self.value(of, value, &format!("{at}[{n}].value"))));
                return Value::Object(pairs.collect());
            }
            (Shape::List(_), _) => false,
            (_, Value::Array(_)) => {
                let (parent, name) = at.rsplit_once('.').unwrap_or(("", at));
                self.unknown(name, parent, "Proto field is not repeating, cannot start list.");
                return Value::Null;
            }
            (Shape::Text, value) => value.is_string(),
            (Shape::Bool, value) => value.is_boolean(),
            (Shape::Integer, value) => whole(value),
            (Shape::Number, value) => number(value),
            (Shape::Struct, value) => value.is_object(),
            (Shape::Word(_, words), value) => {
                // Of a type, the lower case of JSON Schema is taken too.
                value.as_str().is_some_and(|word| words.contains(&word.to_ascii_uppercase().as_str()))
            }
            (Shape::Bytes, Value::String(text)) => {
                if !base64(text) {
                    let why = format!("Invalid value at '{at}' (TYPE_BYTES), Base64 decoding failed for \"{text}\"");
                    self.faults.push((at.to_owned(), why));
                }
                return value.clone();
            }
            (Shape::Bytes | Shape::Message(..) | Shape::Map(_), _) => false,
        };
        if !right {
            self.faults.push((at.to_owned(), format!("Invalid value at '{at}' ({}), {value}", kind(shape))));
        }
        value.clone()
    }

    fn message(&mut self, fields: &[(&str, Shape)], object: &Map<String, Value>, at: &str) -> Value {
        let mut read = Map::new();
        for (key, value) in object {
            match fields.iter().find(|(name, _)| name == key || snake(name) == *key) {
                Some((name, shape)) => {
                    let below = if at.is_empty() { snake(name) } else { format!("{at}.{}", snake(name)) };
                    read.insert((*name).to_owned(), self.value(shape, value, &below));
                }
                None => self.unknown(key, at, "Cannot find field."),
            }
        }
        Value::Object(read)
    }

    fn unknown(&mut self, name: &str, at: &str, why: &str) {
        let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
        self.faults
            .push((at.to_owned(), format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: {why}")));
    }
}

fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Text => "TYPE_STRING".to_owned(),
        Shape::Bool => "TYPE_BOOL".to_owned(),
        Shape::Integer => "TYPE_INT32".to_owned(),
        Shape::Number => "TYPE_DOUBLE".to_owned(),
        Shape::Bytes => "TYPE_BYTES".to_owned(),
        Shape::Struct => "type.googleapis.com/google.protobuf.Struct".to_owned(),
        Shape::Message(name, _) | Shape::Word(name, _) => format!("{TYPES}.{name}"),
        Shape::List(of) | Shape::Map(of) | Shape::Same(of) => kind(of),
        Shape::Free => "google.protobuf.Value".to_owned(),
    }
}

/// Numbers may stand in quotes.
fn number(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.parse::<f64>().is_ok())
}

fn whole(value: &Value) -> bool {
    let float = value.as_f64().is_some_and(|n| n.fract() == 0.0);
    float || value.as_str().is_some_and(|text| text.parse::<i64>().is_ok())
}

/// Either alphabet, padded or not.
fn base64(text: &str) -> bool {
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b"+/-_".contains(&b);
    bare.len() % 4 != 1 && bare.bytes().all(alphabet) && (bare.len() == text.len() || text.len().is_multiple_of(4))
}

fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
