//! One JSON object per line; its keys are the fields.
//!
//! Values are taken as they are written, not as a reader understands them: a number of thirty digits would come out as
//! another one. What a line holds is never quoted in an error.

#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::items::{List, lines};
use crate::config::fault::Fault;

const NEXT: &str = "write one object like {\"name\": \"a\"} on it";

pub(super) fn read(text: &str, list: &mut List<'_>) -> Result<(), Fault> {
    for (number, line) in lines(text) {
        let Object(entries) = serde_json::from_str(line).map_err(|error| match error.classify() {
            Category::Data => list.fault(number, "it is no JSON object", NEXT),
            _ => list.fault(number, format!("it is no JSON: {}", told(&error)), NEXT),
        })?;
        let mut fields = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (key, value) in &entries {
            let key = key.trim();
            list.field(number, key)?;
            if !seen.insert(key) {
                return Err(list.fault(number, format!("the key `{key}` stands there twice"), "take one out"));
            }
            let bad = |error: serde_json::Error| {
                let why = format!("the value of `{key}` is no text: {}", told(&error));
                list.fault(number, why, "correct it there")
            };
            if let Some(text) = as_text(value.get()).map_err(bad)? {
                fields.insert(key.to_owned(), text);
            }
        }
        list.push(number, fields)?;
    }
    Ok(())
}

/// What is filled in for a value; None is null, which says that there is none.
fn as_text(json: &str) -> Result<Option<String>, serde_json::Error> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map(Some),
        Some(b'{' | b'[') => Ok(Some(compact(json))),
        Some(b'n') => Ok(None),
        _ => Ok(Some(json.to_owned())),
    }
}

/// Without the blanks between its parts.
fn compact(json: &str) -> String {
    let (mut text, mut escaped) = (false, false);
    let kept = |c: &char| {
        let keep = text || !c.is_ascii_whitespace();
        if *c == '"' && !escaped {
            text = !text;
        }
        escaped = *c == '\\' && !escaped;
        keep
    };
    json.chars().filter(kept).collect()
}

/// The reader's place is one within the line, and we have the line in front.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let why = text.split(" at line ").next().unwrap_or_default();
    format!("{why} (column {})", error.column())
}

/// All entries, a key that stands twice included.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
