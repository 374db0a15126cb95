//! A JSON object that is text on the socket and a plain object on disk.
//!
//! bincode cannot decode self-describing values, so between our processes an object travels as its text; wherever the
//! format is human-readable (the event log, `--output json`) it stands as the object it is.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Map, Value};

/// The arguments of a tool call, or any other object whose shape is not ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Json(pub Map<String, Value>);

impl Json {
    /// How deep the object nests; the object itself is level 1.
    #[must_use]
    pub fn depth(&self) -> usize {
        fn below(values: &mut dyn Iterator<Item = &Value>) -> usize {
            values.map(depth).max().unwrap_or(0)
        }
        fn depth(value: &Value) -> usize {
            match value {
                Value::Array(items) => 1 + below(&mut items.iter()),
                Value::Object(map) => 1 + below(&mut map.values()),
                _ => 0,
            }
        }
        1 + below(&mut self.0.values())
    }

    #[must_use]
    pub fn to_text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

impl From<Map<String, Value>> for Json {
    fn from(map: Map<String, Value>) -> Self {
        Json(map)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serde_json::to_string(&self.0).map_err(S::Error::custom)?.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Map::deserialize(deserializer).map(Json)
        } else {
            let text = String::deserialize(deserializer)?;
            serde_json::from_str(&text).map(Json).map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_the_object_itself_as_level_one() {
        for (text, depth) in [("{}", 1), (r#"{"a":1}"#, 1), (r#"{"a":[]}"#, 2), (r#"{"a":{"b":[{"c":1}]}}"#, 4)] {
            let json = Json(serde_json::from_str(text).expect("test data"));
            assert_eq!(json.depth(), depth, "{text}");
        }
    }
}
