//! Text that may stand in history and leave on a wire.
//!
//! One lone surrogate or NUL in the history, and a provider answers 400 to every later request: the session is dead
//! (spec §5, "nothing invalid leaves"). Rust's strings cannot hold a surrogate, but JSON's escapes can spell one, and
//! serde_json then refuses the whole document; so the escapes are mended and the document is read.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Stands where something invalid stood.
const REPLACEMENT: &str = "\u{FFFD}";
/// Deeper documents serde_json refuses to read.
const JSON_DEPTH_MAX: usize = 127;
/// Providers refuse longer names of tools.
pub const NAME_CHARS_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum NotJson {
    #[error("it nests {0} levels deep")]
    Deep(usize),
    #[error("{0}")]
    Syntax(serde_json::Error),
}

/// The text without NUL.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', REPLACEMENT)) } else { Cow::Borrowed(text) }
}

/// The object without NUL, in keys too.
#[must_use]
pub fn object(map: Cow<'_, Map<String, Value>>) -> Cow<'_, Map<String, Value>> {
    if is_clean(&map) { map } else { Cow::Owned(mended(map.into_owned())) }
}

fn is_clean(map: &Map<String, Value>) -> bool {
    fn is_clean_value(value: &Value) -> bool {
        match value {
            Value::String(text) => !text.contains('\0'),
            Value::Array(items) => items.iter().all(is_clean_value),
            Value::Object(map) => is_clean(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }
    map.iter().all(|(key, value)| !key.contains('\0') && is_clean_value(value))
}

fn mended(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter().map(|(key, value)| (text(&key).into_owned(), self::value(value))).collect()
}

fn value(value: Value) -> Value {
    match value {
        Value::String(string) if string.contains('\0') => Value::String(string.replace('\0', REPLACEMENT)),
        Value::Array(items) => Value::Array(items.into_iter().map(self::value).collect()),
        Value::Object(map) => Value::Object(mended(map)),
        other => other,
    }
}

/// The name as the wires accept it: a model can ask for a tool by any text, and the reply that did so is sent back.
#[must_use]
pub fn name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mended: String = name.chars().take(NAME_CHARS_MAX).map(|c| if fits(c) { c } else { '_' }).collect();
    Cow::Owned(if mended.is_empty() { "unnamed".to_owned() } else { mended })
}

/// Reads a JSON document, lone surrogates replaced.
pub fn parse(text: &str) -> Result<Value, NotJson> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(first) => {
            let levels = depth(text);
            if levels > JSON_DEPTH_MAX {
                return Err(NotJson::Deep(levels));
            }
            match mend_surrogates(text) {
                Some(mended) => serde_json::from_str(&mended).map_err(NotJson::Syntax),
                None => Err(NotJson::Syntax(first)),
            }
        }
    }
}

/// How deep brackets nest outside of strings, whether or not the rest is JSON.
#[must_use]
pub fn depth(text: &str) -> usize {
    let (mut deepest, mut depth) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The document with each unpaired `\uD800`…`\uDFFF` made `\uFFFD`; `None` if there is none.
fn mend_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        let length = match escaped_unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(escaped_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&text[copied..at]);
                mended.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            Some(_) => 6,
            // Another escape: two bytes, of which the second may be a backslash.
            None => 2,
        };
        at = (at + length).min(bytes.len());
    }
    if mended.is_empty() {
        return None;
    }
    mended.push_str(&text[copied..]);
    Some(mended)
}

/// The UTF-16 unit that `\uXXXX` at this place spells.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_kept() {
        for (json, expected) in [
            (r#""a\ud83d""#, "a\u{FFFD}"),
            (r#""\ude42b""#, "\u{FFFD}b"),
            (r#""\ud83d\ude42""#, "🙂"),
            (r#""\ud83d\ud83d\ude42""#, "\u{FFFD}🙂"),
            (r#""\ud83d\n""#, "\u{FFFD}\n"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d""#, "\\\u{FFFD}"),
            (r#""鵜\uD83D飼""#, "鵜\u{FFFD}飼"),
        ] {
            assert_eq!(parse(json).expect("mended"), Value::String(expected.to_owned()), "{json}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in ["", "{", r#"{"a":"#, r#""\ud83d"#, r#""\"#, r#""\ud8"#, "nul"] {
            assert!(matches!(parse(text), Err(NotJson::Syntax(_))), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(parse(&deep), Err(NotJson::Deep(200))));
    }

    #[test]
    fn brackets_in_strings_are_no_depth() {
        for (text, levels) in [("{}", 1), (r#"{"a":[{}]}"#, 3), (r#"{"a":"[[[\"[["}"#, 1), ("[[", 2), ("", 0)] {
            assert_eq!(depth(text), levels, "{text}");
        }
    }

    #[test]
    fn names_fit_every_wire() {
        let long = "x".repeat(100);
        for (name, expected) in [
            ("Read", "Read"),
            ("functions.read", "functions_read"),
            ("", "unnamed"),
            ("読む", "__"),
            (long.as_str(), &long[..64]),
        ] {
            assert_eq!(super::name(name), expected);
        }
    }

    #[test]
    fn nul_leaves_text_keys_and_values() {
        for (object, expected) in [
            (serde_json::json!({"a\0": ["b\0", {"c": "\0"}], "d": 1}), r#"{"a~":["b~",{"c":"~"}],"d":1}"#),
            (serde_json::json!({"a": [{"b\0": null}]}), r#"{"a":[{"b~":null}]}"#),
            (serde_json::json!({"a": ["b", {"c": ""}], "d": 1}), r#"{"a":["b",{"c":""}],"d":1}"#),
        ] {
            let Value::Object(map) = object else { panic!("an object") };
            let cleaned = Value::Object(super::object(Cow::Borrowed(&map)).into_owned()).to_string();
            assert_eq!(cleaned, expected.replace('~', REPLACEMENT));
        }
        assert_eq!(text("a\0b"), "a\u{FFFD}b");
    }
}
