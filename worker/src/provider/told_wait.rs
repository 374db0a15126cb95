//! When a provider may be asked again, as the body of its error says it.
//!
//! Gemini sends no header at all: its "not before" is a `google.rpc.RetryInfo` among the details of the error. OpenRouter
//! puts the headers of whom it asked into the body; MiniMax and GLM write the instant into the sentence, and so does
//! anyone whose error comes inside a stream, where there are no headers any more. A client that reads only headers asks
//! again at once (spec §5: the latest of what is present). A sentence is read only where nothing structured stands beside
//! it: it is the same instant, rounded otherwise.

#![deny(clippy::disallowed_methods)]

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use ukai_protocol::lease::Wait;

use super::retry_after::{self, INVALID};

/// The latest "not before" in the error. `now`: the provider's clock.
pub(super) fn wait(error: &Value, message: &str, now: SystemTime) -> Option<Wait> {
    let structured = retry_infos(error).chain(retry_after::wait(&headers_within(error), now));
    retry_after::latest(structured).or_else(|| in_words(message, now))
}

/// Whether Google names a wait in its own, structured way.
pub(super) fn has_retry_info(error: &Value) -> bool {
    retry_infos(error).next().is_some()
}

fn retry_infos(error: &Value) -> impl Iterator<Item = Wait> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    details.filter_map(|detail| detail.get("retryDelay")).map(delay)
}

/// protobuf's JSON for a duration, `"3.5s"`; some gateways pass on the message's own fields.
fn delay(value: &Value) -> Wait {
    let read = match value {
        Value::String(text) => retry_after::duration(text.trim()),
        Value::Number(number) => retry_after::duration(&number.to_string()),
        Value::Object(fields) => {
            let field = |name: &str| fields.get(name).map_or(Some(0), number).unwrap_or(u64::MAX);
            let nanos = field("nanos");
            (nanos < 1_000_000_000).then(|| format!("{}.{nanos:09}s", field("seconds")))
        }
        .and_then(|text| retry_after::duration(&text)),
        _ => None,
    };
    read.unwrap_or(INVALID)
}

/// protobuf's JSON writes 64 bits as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// OpenRouter's `metadata.headers`.
fn headers_within(error: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let fields = error.pointer("/metadata/headers").and_then(Value::as_object);
    for (name, value) in fields.into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&text)) {
            headers.append(name, value);
        }
    }
    headers
}

/// What stands before a duration ("Please retry in 17.2s.", "try again in 6m0s", "retry after 20 seconds", "reset after
/// 5h59m59s").
const BEFORE_DURATION: [&str; 5] = ["retry in ", "try again in ", "retry after ", "try again after ", "reset after "];
/// What stands before an instant ("resets at 2026-05-15T15:00:00Z", "will reset at 2026-04-09 15:13:03", Anthropic's
/// "regain access on 2026-02-01 at 00:00 UTC").
const BEFORE_INSTANT: [&str; 3] = ["resets at ", "reset at ", "regain access on "];

fn in_words(message: &str, now: SystemTime) -> Option<Wait> {
    let message = message.to_ascii_lowercase();
    let after = |phrases: &[&'static str]| -> Vec<String> {
        phrases.iter().flat_map(|phrase| message.split(phrase).skip(1)).map(str::to_owned).collect()
    };
    let durations = after(&BEFORE_DURATION).into_iter().filter_map(|rest| duration_in_words(&rest));
    let instants = after(&BEFORE_INSTANT).into_iter().filter_map(|rest| instant_in_words(&rest, now));
    retry_after::latest(durations.chain(instants))
}

/// Numbers with their units, summed: `1h2m3.5s`, "1 hour 30 minutes", "1 day, 2 hours and 5 minutes". Each unit is
/// smaller than the one before; one that is not begins another thought ("in 5 seconds, 60 seconds being the window").
fn duration_in_words(rest: &str) -> Option<Wait> {
    let mut rest = rest.trim_start();
    let (mut total_ms, mut smallest_ms) = (0.0, f64::INFINITY);
    while let Some((number, unit_ms, behind)) = part(rest).filter(|(_, unit_ms, _)| *unit_ms < smallest_ms) {
        total_ms += number * unit_ms;
        smallest_ms = unit_ms;
        let behind = behind.trim_start();
        let behind = behind.strip_prefix(',').unwrap_or(behind).trim_start();
        rest = behind.strip_prefix("and ").unwrap_or(behind).trim_start();
    }
    smallest_ms.is_finite().then(|| retry_after::milliseconds(total_ms))
}

/// A number, what its unit is worth, and what stands behind; a number without a unit could be of anything.
fn part(text: &str) -> Option<(f64, f64, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, behind) = text.split_at(number_end);
    let behind = behind.trim_start();
    let unit_end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
    let (unit, behind) = behind.split_at(unit_end);
    let unit_ms = match unit {
        "nanoseconds" | "nanosecond" | "ns" => 0.000_001,
        "microseconds" | "microsecond" | "us" | "µs" => 0.001,
        "milliseconds" | "millisecond" | "ms" => 1.0,
        "seconds" | "second" | "secs" | "sec" | "s" => 1_000.0,
        "minutes" | "minute" | "mins" | "min" | "m" => 60_000.0,
        "hours" | "hour" | "hrs" | "hr" | "h" => 3_600_000.0,
        "days" | "day" | "d" => 86_400_000.0,
        _ => return None,
    };
    Some((number.parse().ok()?, unit_ms, behind))
}

fn instant_in_words(rest: &str, now: SystemTime) -> Option<Wait> {
    let mut words = rest.split_whitespace();
    let date = words.next()?.trim_end_matches(is_stop).to_ascii_uppercase();
    if let Some(wait) = date.contains('T').then(|| retry_after::instant(&date, now)).flatten() {
        return Some(wait);
    }
    let time = words.find(|word| *word != "at").unwrap_or_default().trim_end_matches(is_stop);
    retry_after::instant(&format!("{date}T{time}"), now)
}

fn is_stop(c: char) -> bool {
    matches!(c, '.' | ',' | ';' | ':' | '!' | ')' | '"' | '\'')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// Fri, 15 May 2026 15:34:21 GMT.
    const NOW: u64 = 1_778_859_261;

    fn check(quirk: &str, error: Value, expected: Option<Wait>) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(wait(&error, message, now), expected, "{quirk}: {error}");
    }

    const fn ms(ms: u64) -> Option<Wait> {
        Some(Wait::For(ms))
    }

    #[test]
    fn retry_info() {
        let check = |quirk, delay: Value, expected| {
            let details = json!([
                {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
            ]);
            check(quirk, json!({"message": "Please retry in 900s.", "details": details}), expected);
        };
        check("whole seconds", json!("17s"), ms(17_000));
        check("a fraction", json!("3.5s"), ms(3_500));
        check("nanoseconds are rounded up", json!("36.429760048s"), ms(36_430));
        check("now is a second away", json!("0s"), ms(1_000));
        check("less than the floor", json!("0.2s"), ms(1_000));
        check("milliseconds", json!("900ms"), ms(1_000));
        check("hours are not clipped", json!("21599.960323804s"), ms(21_599_961));
        check("a year is not clipped", json!("31536000s"), ms(31_536_000_000));
        check("too large", json!("99999999999999999999s"), Some(Wait::UntilReset));
        check("negative", json!("-3s"), ms(60_000));
        check("words", json!("soon"), ms(60_000));
        check("empty", json!(""), ms(60_000));
        check("null", json!(null), ms(60_000));
        check("the message's own fields", json!({"seconds": "17", "nanos": 500_000_000}), ms(17_500));
        check("seconds alone", json!({"seconds": 17}), ms(17_000));
        check("fields that are none", json!({"seconds": "x"}), Some(Wait::UntilReset));
    }

    #[test]
    fn two_retry_infos_are_the_later() {
        check("two", json!({"details": [{"retryDelay": "5s"}, {"retryDelay": "9s"}]}), ms(9_000));
    }

    #[test]
    fn headers_in_the_body() {
        let of =
            |headers: Value| json!({"message": "Rate limit exceeded", "code": 429, "metadata": {"headers": headers}});
        let reset = "1778859381000";
        #[rustfmt::skip]
        let cases = [
            ("spent", json!({"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}), ms(120_000)),
            ("as numbers", json!({"X-RateLimit-Remaining": 0, "X-RateLimit-Reset": 1_778_859_381_000_u64}), ms(120_000)),
            ("something is left", json!({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": reset}), None),
            ("what is left is not said", json!({"X-RateLimit-Reset": reset}), None),
            ("retry-after", json!({"Retry-After": "7"}), ms(7_000)),
            ("no headers", json!(["x"]), None),
            ("a name that is none", json!({"a b": "1", "retry-after": "3"}), ms(3_000)),
        ];
        for (quirk, headers, expected) in cases {
            check(quirk, of(headers), expected);
        }
    }

    #[test]
    fn a_sentence() {
        let check = |quirk, message: &str, expected| check(quirk, json!({"message": message}), expected);
        check("Gemini", "Quota exceeded for metric: x, limit: 20\nPlease retry in 17.2s.", ms(17_200));
        check(
            "OpenAI",
            "Rate limit reached for gpt-4o on requests per day. Please try again in 6m0s. Visit x",
            ms(360_000),
        );
        check("OpenAI, milliseconds", "Please try again in 120ms.", ms(1_000));
        check("Groq", "Limit 6000, Used 5900. Please try again in 1m26.4s.", ms(86_400));
        check("Azure", "Please retry after 20 seconds. Please go here", ms(20_000));
        check("Moonshot", "reached max request: 3, please try again after 4 seconds", ms(4_000));
        check("Code Assist", "Your quota will reset after 5h59m59s.", ms(21_599_000));
        check("MiniMax", "usage limit exceeded (0/0 used), resets at 2026-05-15T16:34:21Z (2056)", ms(3_600_000));
        check("MiniMax, with an offset", "resets at 2026-05-16T00:34:21+08:00 (2056)", ms(3_600_000));
        check("GLM, no zone", "Your limit will reset at 2026-05-15 16:34:21", ms(3_600_000));
        check("Anthropic", "You will regain access on 2026-05-15 at 16:34 UTC.", ms(3_579_000));
        check("past", "resets at 2020-05-15T16:34:21Z", ms(1_000));
        check("the later of two", "try again in 5s or retry after 9 seconds", ms(9_000));
        check("hours and minutes", "try again in 1 hour 30 minutes.", ms(5_400_000));
        check("joined by a word", "Please retry in 6 minutes and 30 seconds.", ms(390_000));
        check("letters apart", "try again in 1h 5m", ms(3_900_000));
        check("letters without a blank", "try again in 2h5m3s", ms(7_503_000));
        check("joined by a comma", "retry after 1 day, 2 hours", ms(93_600_000));
        check("joined by both", "retry after 1 day, 2 hours, and 5.5 seconds", ms(93_605_500));
        check("a unit that touches its number", "retry after 90seconds", ms(90_000));
        check("the sentence ends", "try again in 2 minutes. 30 seconds are not enough", ms(120_000));
        check("another number follows", "try again in 2 minutes, 3 requests are left", ms(120_000));
        check("another duration follows", "try again in 5 seconds, 60 seconds being the window", ms(5_000));
        check("the same unit twice", "try again in 5s 7s", ms(5_000));
        check("a day too many", "try again in 99999999999999999999 days 3 hours", Some(Wait::UntilReset));
        check("a number of nothing", "try again in 5 ways", None);
        check("a number and the end", "try again in 5", None);
        check("no number", "try again in .s", None);
        check("a word", "Please try again in a moment.", None);
        check("no time of day", "Your limit will reset at midnight", None);
        check("nothing", "Please try again later.", None);
    }
}
