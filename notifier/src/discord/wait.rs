//! How long Discord wants to be left alone, of all that its 429 says of that.
//!
//! It may name the ends of two limits, and both hold: the later one counts (Developer Docs, Rate Limits). What is no time
//! is a minute, and what is no wait is a second (spec §5): whoever names 0 at every answer would else be asked without a
//! pause. From above nothing is clipped.

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use serde_json::Value;

/// The least that is waited after a 429, whatever it names.
pub const FLOOR: Duration = Duration::from_secs(1);
/// For a 429 that does not say how long, or says no time.
const DEFAULT: Duration = Duration::from_secs(60);
/// What a clock can hold, far beyond the life of any process: a wait is not clipped, and does not overflow.
const MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// `json`: the body; null where it is none. `retry_after` and `reset_after`: those headers. Without the floor.
#[must_use]
pub fn of_429(json: &Value, retry_after: Option<&str>, reset_after: Option<&str>) -> Duration {
    let body = match &json["retry_after"] {
        Value::Null => None,
        named => Some(named.as_f64().and_then(duration).unwrap_or(DEFAULT)),
    };
    let header = retry_after.map(|text| seconds(text).unwrap_or(DEFAULT));
    body.max(header).max(reset_after.and_then(seconds)).unwrap_or(DEFAULT)
}

/// None: it is no time.
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().and_then(duration)
}

fn duration(seconds: f64) -> Option<Duration> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX).min(MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absurd_times_are_none_or_for_ever() {
        for (text, expected) in [
            ("1.5", Some(Duration::from_millis(1_500))),
            (" 2 ", Some(Duration::from_secs(2))),
            ("0", Some(Duration::ZERO)),
            ("1e300", Some(MAX)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("-inf", None),
            ("infinity", None),
            ("1e999", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn the_latest_of_what_is_named_counts_and_nonsense_is_a_minute() {
        for (quirk, body, retry_after, reset_after, expected_s) in [
            ("nothing", json!(null), None, None, 60.0),
            ("a page", json!(null), Some("7"), None, 7.0),
            ("the body", json!({"retry_after": 2.5}), None, None, 2.5),
            ("the body is later", json!({"retry_after": 90_000.5}), Some("3"), Some("4"), 90_000.5),
            ("the header is later", json!({"retry_after": 2.5}), Some("3"), Some("1"), 3.0),
            ("the bucket is later", json!({"retry_after": 2.5}), Some("3"), Some("4.5"), 4.5),
            ("no wait", json!({"retry_after": 0}), Some("0"), Some("0"), 0.0),
            ("without end", json!(null), Some("inf"), None, 60.0),
            ("words", json!(null), Some("soon"), None, 60.0),
            ("words in the body", json!({"retry_after": "soon"}), None, None, 60.0),
            ("before now", json!({"retry_after": -5}), Some("2"), None, 60.0),
            ("nonsense beside a time", json!({"retry_after": 300}), Some("NaN"), Some("inf"), 300.0),
            ("a bucket's nonsense says nothing", json!({"retry_after": 2}), None, Some("inf"), 2.0),
        ] {
            let wait = of_429(&body, retry_after, reset_after);
            assert_eq!(wait, Duration::from_secs_f64(expected_s), "{quirk}");
        }
    }
}
