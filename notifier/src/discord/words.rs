//! What Discord says of a request that it did not take, on one line for the log.
//!
//! Of a body that it refuses it names every field and what is wrong with it (Developer Docs, Error Messages): a tree of
//! fields with `_errors` at its leaves. That is the only road to a fault of ours, so it is kept. What it says may quote what
//! we sent: it is redacted, and only then cut.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

use crate::redact::Redactor;

/// Of its sentence, and of all that it says about fields.
const SENTENCE_CHARS_MAX: usize = 300;
const FIELDS_CHARS_MAX: usize = 600;
/// Fields of which it complains; ten embeds with a fault each.
const FIELDS_MAX: usize = 10;
/// `embeds.0.fields.0.value` is five deep.
const DEPTH_MAX: usize = 8;

/// In Discord's own words where it has some; of a page, nothing. `json`: the body; null where it is none.
#[must_use]
pub fn words(status: u16, json: &Value, redactor: &Redactor) -> String {
    let code = json["code"].as_i64().map(|code| format!(" (code {code})")).unwrap_or_default();
    let mut fields = Vec::new();
    flatten(&json["errors"], &mut Vec::new(), &mut fields);
    let said = |text: &str, chars: usize| shortened(&redactor.redacted(&printable(text)), chars);
    let sentence = said(json["message"].as_str().unwrap_or_default(), SENTENCE_CHARS_MAX);
    let fields = said(&fields.join("; "), FIELDS_CHARS_MAX);
    let parts: Vec<_> = [sentence, fields].into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { format!("HTTP {status}{code}") } else { format!("HTTP {status}{code}: {}", parts.join(": ")) }
}

/// `embeds.0.title: Must be 256 or fewer in length.`
fn flatten<'a>(errors: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<String>) {
    let Value::Object(fields) = errors else { return };
    for (name, value) in fields {
        if found.len() >= FIELDS_MAX || path.len() >= DEPTH_MAX {
            return;
        }
        match value {
            Value::Array(said) if name == "_errors" => {
                let said: Vec<_> = said.iter().filter_map(|error| error["message"].as_str()).collect();
                let field = if path.is_empty() { String::new() } else { format!("{}: ", path.join(".")) };
                found.push(format!("{field}{}", said.join(", ")));
            }
            _ => {
                path.push(name);
                flatten(value, path, found);
                path.pop();
            }
        }
    }
}

/// Before it is redacted: a key with something invisible in it is none that is known.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use ukai_protocol::secret::Secret;

    use super::*;

    fn leaf(message: &str) -> Value {
        json!({"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": message}]})
    }

    fn check(quirk: &str, json: &Value, expected: &str) {
        let redactor = Redactor::new(vec![Secret::new("hunter2-hunter2".to_owned())]);
        assert_eq!(words(400, json, &redactor), expected, "{quirk}");
    }

    #[test]
    fn what_it_says_of_each_field_is_kept_and_what_is_secret_is_not() {
        let title = json!({"embeds": {"0": {"title": leaf("Must be 256 or fewer in length.")}}});
        let two = json!({"content": leaf("Required."), "embeds": {"1": {"url": leaf("Not well formed.")}}});
        for (quirk, json, expected) in [
            ("nothing", json!(null), "HTTP 400"),
            ("a list", json!([1]), "HTTP 400"),
            ("a sentence", json!({"message": "Bad\nRequest", "code": 0}), "HTTP 400 (code 0): BadRequest"),
            (
                "a field",
                json!({"message": "Invalid Form Body", "code": 50035, "errors": title}),
                "HTTP 400 (code 50035): Invalid Form Body: embeds.0.title: Must be 256 or fewer in length.",
            ),
            (
                "two fields",
                json!({"message": "Invalid Form Body", "errors": two}),
                "HTTP 400: Invalid Form Body: content: Required.; embeds.1.url: Not well formed.",
            ),
            ("the body as a whole", json!({"errors": leaf("Empty.")}), "HTTP 400: Empty."),
            (
                "two faults of one field",
                json!({"errors": {"a": {"_errors": [{"message": "One."}, {"message": "Two."}, {"code": 3}, 4]}}}),
                "HTTP 400: a: One., Two.",
            ),
            (
                "a secret in it",
                json!({"message": "no hunter2-hun\u{0}ter2", "errors": {"hunter2-hunter2": leaf("is hunter2-hunter2")}}),
                "HTTP 400: no [secret]: [secret]: is [secret]",
            ),
            ("other shapes", json!({"message": 7, "code": "x", "errors": {"a": "b", "_errors": {}}}), "HTTP 400"),
        ] {
            check(quirk, &json, expected);
        }
    }

    #[test]
    fn nothing_of_it_is_without_end() {
        let mut deep = leaf("deep");
        for _ in 0..100 {
            deep = json!({ "a": deep });
        }
        check("too deep", &json!({ "errors": deep }), "HTTP 400");
        let wide: serde_json::Map<_, _> = (0..1_000).map(|n| (n.to_string(), leaf(&"x".repeat(1_000)))).collect();
        let text = words(400, &json!({"message": "y".repeat(9_000), "errors": wide}), &Redactor::default());
        assert!(text.chars().count() <= 1_000 && text.contains("y…: 0: x"), "{}", text.len());
        // A key at the cut is masked as a whole.
        let redactor = Redactor::new(vec![Secret::new("hunter2-hunter2".to_owned())]);
        let text = words(400, &json!({"message": format!("{}hunter2-hunter2", "y".repeat(294))}), &redactor);
        assert!(!text.contains("hun"), "{text}");
    }
}
