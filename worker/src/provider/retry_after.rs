//! When a provider may be asked again, in its own words.
//!
//! Spec §5, **Retry-After**: everything that names an instant is read and the latest counts. A library that reads one
//! header and clips it is how clients end up asking five times in a second or sleeping for 24 days; here nothing is
//! clipped, and what cannot be read is taken for a minute, not for nothing.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ukai_protocol::lease::{LimitsSeen, Wait};

/// What stands for a header that names no instant (negative, NaN, empty, words).
const INVALID_MS: u64 = 60_000;
/// The floor: "now" and the past are a second away.
const FLOOR_MS: u64 = 1_000;

/// Milliseconds: OpenAI's libraries and Azure know the first, Azure's gateways the others.
const IN_MILLISECONDS: [&str; 3] = ["retry-after-ms", "x-ms-retry-after-ms", "x-retry-after-ms"];

/// The latest "not before" in the answer's headers, from the moment that it was read.
#[must_use]
pub fn wait(headers: &HeaderMap, received_at: SystemTime) -> Option<Wait> {
    let now = clock(headers, received_at);
    let in_ms = IN_MILLISECONDS.into_iter().flat_map(|name| headers.get_all(name));
    let named = in_ms.map(|value| number(value, 1).unwrap_or(INVALID));
    let named = named.chain(headers.get_all(http::header::RETRY_AFTER).iter().map(|value| retry_after(value, now)));
    let named = named.chain(exhausted(headers).map(|value| text(value).map_or(INVALID, |text| reset(text, now))));
    latest(named)
}

/// The provider's clock, against which its instants are read; ours where it shows none.
#[must_use]
pub fn clock(headers: &HeaderMap, received_at: SystemTime) -> SystemTime {
    headers.get(http::header::DATE).and_then(text).and_then(date).unwrap_or(received_at)
}

pub(super) fn latest(waits: impl IntoIterator<Item = Wait>) -> Option<Wait> {
    waits.into_iter().max_by_key(|wait| match wait {
        Wait::For(ms) => *ms,
        Wait::UntilReset => u64::MAX,
    })
}

/// What is left of the account's buckets.
#[must_use]
pub fn limits_seen(headers: &HeaderMap) -> LimitsSeen {
    let left = |name: &str| remaining(headers, name);
    let least = |names: &[&str]| names.iter().filter_map(|name| left(name)).min();
    LimitsSeen {
        requests_left: least(&["x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining"]),
        // Anthropic's `tokens` is by its own word the most restrictive of its token limits; the parts stand in for it.
        tokens_left: least(&["x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining"]).or_else(|| {
            least(&["anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining"])
        }),
    }
}

pub(super) const INVALID: Wait = Wait::For(INVALID_MS);

fn text(value: &HeaderValue) -> Option<&str> {
    Some(value.to_str().ok()?.trim())
}

fn retry_after(value: &HeaderValue, now: SystemTime) -> Wait {
    if let Some(wait) = number(value, 1_000) {
        return wait;
    }
    text(value).and_then(date).map_or(INVALID, |instant| until(instant, now))
}

/// RFC 9110 §5.6.7: IMF-fixdate, RFC 850, asctime.
fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// A number of units of `unit_ms`, rounded up to whole ones; `None` for what is no number or below zero.
fn number(value: &HeaderValue, unit_ms: u32) -> Option<Wait> {
    let text = text(value)?;
    if let Ok(whole) = text.parse::<u64>() {
        return Some(exact(u128::from(whole) * u128::from(unit_ms)));
    }
    // Rust reads "inf" and "nan" as numbers; a header that says so says nothing.
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // Digits without end are a number too large, not infinity.
    if number < 0.0 { None } else { Some(milliseconds(number.ceil() * f64::from(unit_ms))) }
}

/// Never clipped: what no i64 of milliseconds can hold is "until reset".
fn exact(ms: u128) -> Wait {
    match i64::try_from(ms) {
        Ok(ms) => Wait::For(ms.unsigned_abs().max(FLOOR_MS)),
        Err(_) => Wait::UntilReset,
    }
}

/// A float becomes a whole number, its own noise (a billionth of a second) not rounded up; beyond u128 it saturates.
fn milliseconds(ms: f64) -> Wait {
    exact((ms - 1e-6).ceil() as u128)
}

fn until(instant: SystemTime, now: SystemTime) -> Wait {
    let ahead = instant.duration_since(now).unwrap_or(Duration::ZERO);
    exact(ahead.as_nanos().div_ceil(1_000_000))
}

/// The reset headers of those buckets of which nothing is left.
fn exhausted(headers: &HeaderMap) -> impl Iterator<Item = &HeaderValue> {
    const PAIRS: [(&str, &str); 7] = [
        ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        // OpenRouter, Moonshot.
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
        ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
        ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
        ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ];
    // The windows of a Claude subscription tell no count but a verdict.
    const VERDICTS: [(&str, &str); 3] = [
        ("anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset"),
        ("anthropic-ratelimit-unified-5h-status", "anthropic-ratelimit-unified-5h-reset"),
        ("anthropic-ratelimit-unified-7d-status", "anthropic-ratelimit-unified-7d-reset"),
    ];
    let is_rejected = |name: &str| headers.get(name).and_then(text) == Some("rejected");
    let counted = PAIRS.into_iter().filter(|(left, _)| remaining(headers, left) == Some(0));
    let judged = VERDICTS.into_iter().filter(move |(status, _)| is_rejected(status));
    counted.chain(judged).flat_map(|(_, reset)| headers.get_all(reset))
}

/// A bucket in debt (below zero) has nothing left; Azure writes -1 of -1 for a bucket that it does not count.
fn remaining(headers: &HeaderMap, name: &str) -> Option<u64> {
    let number = |name: &str| headers.get(name).and_then(text)?.parse::<f64>().ok();
    let left = number(name).filter(|left| left.is_finite())?;
    let is_uncounted = left < 0.0 && number(&name.replace("remaining", "limit")).is_some_and(|limit| limit < 0.0);
    (!is_uncounted).then_some(left.max(0.0) as u64)
}

/// As numbers of seconds these would be decades, as seconds and milliseconds since 1970 they are dates of this century.
const EPOCH_SECONDS_MIN: f64 = 1e9;
const EPOCH_MILLISECONDS_MIN: f64 = 1e12;

/// OpenAI writes a duration (`6m0s`, `120ms`), Anthropic an instant (RFC 3339, for subscriptions in seconds since 1970),
/// OpenRouter milliseconds since 1970.
pub(super) fn reset(text: &str, now: SystemTime) -> Wait {
    if let Some(since_1970) = text.parse::<f64>().ok().filter(|number| *number >= EPOCH_SECONDS_MIN) {
        let ms = if since_1970 >= EPOCH_MILLISECONDS_MIN { since_1970 } else { since_1970 * 1_000.0 };
        let passed = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        return milliseconds(ms - passed.as_millis() as f64);
    }
    duration(text).or_else(|| instant(text, now)).unwrap_or(INVALID)
}

/// `6m0s`, `17.2s`, `120ms`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Option<Wait> {
    go_duration_ms(text).map(milliseconds)
}

/// RFC 3339, or a date and a time of day without a zone (GLM). Without one it is read as UTC: east of Greenwich, where those
/// live who leave it out, that is hours too late and never too early.
pub(super) fn instant(text: &str, now: SystemTime) -> Option<Wait> {
    let utc = |local: DateTime| TimeZone::UTC.to_timestamp(local).ok();
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(|| text.parse().ok().and_then(utc))?;
    SystemTime::try_from(instant).ok().map(|instant| until(instant, now))
}

/// Numbers with units, largest first or not: `1h2m3.5s`, `120ms`. A bare number is seconds.
fn go_duration_ms(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_ms = match &rest[..letters] {
            "d" => 86_400_000.0,
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1_000.0,
            "" if total == 0.0 => 1_000.0,
            "ms" => 1.0,
            "us" | "µs" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        rest = &rest[letters..];
        total += number * unit_ms;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fri, 15 May 2026 15:34:21 GMT.
    const NOW: u64 = 1_778_859_261;
    const DATE: (&str, &str) = ("date", "Fri, 15 May 2026 15:34:21 GMT");

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name: http::HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        map
    }

    fn check(quirk: &str, pairs: &[(&str, &str)], expected: Option<Wait>) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        assert_eq!(wait(&headers(pairs), now), expected, "{quirk}: {pairs:?}");
    }

    const fn seconds(seconds: u64) -> Option<Wait> {
        Some(Wait::For(seconds * 1_000))
    }

    #[test]
    fn retry_after_as_a_number() {
        let check = |quirk, value, expected| check(quirk, &[("retry-after", value)], expected);
        check("whole", "17", seconds(17));
        check("a float is rounded up", "17.2", seconds(18));
        check("blanks around it", " \t 5  ", seconds(5));
        check("a sign", "+5", seconds(5));
        check("an exponent", "1e3", seconds(1_000));
        check("now is a second away", "0", seconds(1));
        check("minus nothing is nothing", "-0", seconds(1));
        check("less than the floor", "0.001", seconds(1));
        check("negative", "-1", seconds(60));
        check("not a number", "NaN", seconds(60));
        check("infinity is a word", "inf", seconds(60));
        check("a sign before a word", "+inf", seconds(60));
        check("empty", "", seconds(60));
        check("words", "soon", seconds(60));
        check("two numbers", "5, 6", seconds(60));
        check("hexadecimal", "0x10", seconds(60));
        check("not ASCII", "五", seconds(60));
        check("24 days are not clipped", "2073600", seconds(2_073_600));
        check("a century is not clipped", "3153600000", seconds(3_153_600_000));
        check("the last that fits", "9223372036854775", seconds(9_223_372_036_854_775));
        check("a float too large", "9223372036854775808.5", Some(Wait::UntilReset));
        check("too large for i64", "9223372036854775808", Some(Wait::UntilReset));
        check("too large for a float", &"9".repeat(400), Some(Wait::UntilReset));
    }

    #[test]
    fn retry_after_as_a_date() {
        let at = |quirk, value, expected| check(quirk, &[DATE, ("retry-after", value)], expected);
        at("IMF-fixdate", "Fri, 15 May 2026 15:35:21 GMT", seconds(60));
        at("RFC 850", "Friday, 15-May-26 15:35:21 GMT", seconds(60));
        at("asctime", "Fri May 15 15:35:21 2026", seconds(60));
        at("past", "Fri, 15 May 2020 15:34:21 GMT", seconds(1));
        at("the same instant", "Fri, 15 May 2026 15:34:21 GMT", seconds(1));
        at("no such day", "Fri, 32 May 2026 15:34:21 GMT", seconds(60));
        at("the end of days is not clipped", "Fri, 31 Dec 9999 23:59:59 GMT", seconds(251_623_441_538));
        let ahead = ("retry-after", "Fri, 15 May 2026 15:35:21 GMT");
        check("counted from the provider's clock", &[("date", "Fri, 15 May 2026 15:35:01 GMT"), ahead], seconds(20));
        check("without Date from ours", &[ahead], seconds(60));
        check("a Date that is none", &[("date", "today"), ahead], seconds(60));
    }

    #[test]
    fn the_latest_of_what_is_present() {
        check("absent", &[DATE], None);
        check("milliseconds", &[("retry-after-ms", "2500")], Some(Wait::For(2_500)));
        check("milliseconds are rounded up", &[("retry-after-ms", "2500.1")], Some(Wait::For(2_501)));
        check("the floor holds for milliseconds", &[("retry-after-ms", "20")], seconds(1));
        check("invalid milliseconds", &[("retry-after-ms", "x")], seconds(60));
        check(
            "Azure's milliseconds",
            &[("x-ms-retry-after-ms", "7123"), ("retry-after-ms", "7000")],
            Some(Wait::For(7_123)),
        );
        check("both, seconds later", &[("retry-after-ms", "1500"), ("retry-after", "2")], seconds(2));
        check("both, milliseconds later", &[("retry-after-ms", "9000"), ("retry-after", "2")], seconds(9));
        check("two of a name", &[("retry-after", "5"), ("retry-after", "90")], seconds(90));
        check(
            "until reset is later than any",
            &[("retry-after", "1e30"), ("retry-after", "90")],
            Some(Wait::UntilReset),
        );
    }

    #[test]
    fn the_reset_of_an_exhausted_bucket() {
        let openai = |quirk, left, reset, expected| {
            let pairs = [("x-ratelimit-remaining-tokens", left), ("x-ratelimit-reset-tokens", reset)];
            check(quirk, &pairs, expected);
        };
        openai("minutes", "0", "6m0s", seconds(360));
        openai("milliseconds below the floor", "0", "120ms", seconds(1));
        openai("a fraction", "0", "7.66s", Some(Wait::For(7_660)));
        openai("hours", "0", "1h2m3.5s", Some(Wait::For(3_723_500)));
        openai("a bare number is seconds", "0", "12", seconds(12));
        openai("debt", "-20", "6m0s", seconds(360));
        openai("words", "0", "later", seconds(60));
        openai("no unit known", "0", "5y", seconds(60));
        openai("seconds since 1970", "0", "1778859381", seconds(120));
        openai("milliseconds since 1970", "0", "1778859381500", Some(Wait::For(120_500)));
        openai("since 1970 and past", "0", "1778859000", seconds(1));
        openai("before all clocks", "0", "1e300", Some(Wait::UntilReset));
        openai("not exhausted", "1", "6m0s", None);
        openai("unknown", "?", "6m0s", None);
        let anthropic = |quirk, left, reset, expected| {
            let pairs = [
                DATE,
                ("anthropic-ratelimit-input-tokens-remaining", left),
                ("anthropic-ratelimit-input-tokens-reset", reset),
            ];
            check(quirk, &pairs, expected);
        };
        anthropic("RFC 3339", "0", "2026-05-15T15:36:21Z", seconds(120));
        anthropic("RFC 3339 with offset and fraction", "0", "2026-05-15T17:36:21.5+02:00", Some(Wait::For(120_500)));
        anthropic("past", "0", "2020-01-01T00:00:00Z", seconds(1));
        anthropic("words", "0", "tomorrow", seconds(60));
        anthropic("not exhausted", "1000", "2026-05-15T15:36:21Z", None);
        let unnamed = |quirk, left, reset, expected| {
            check(quirk, &[("x-ratelimit-remaining", left), ("x-ratelimit-reset", reset)], expected);
        };
        unnamed("OpenRouter's one bucket", "0", "1778859381000", seconds(120));
        unnamed("OpenRouter's one bucket, not exhausted", "3", "1778859381000", None);
        let judged = |quirk, status, reset, expected| {
            let pairs = [("anthropic-ratelimit-unified-status", status), ("anthropic-ratelimit-unified-reset", reset)];
            check(quirk, &pairs, expected);
        };
        judged("a subscription's window is spent", "rejected", "1778866461", seconds(7_200));
        judged("a subscription's window is nearly spent", "allowed_warning", "1778866461", None);
        check(
            "the later of a subscription's windows",
            &[
                ("anthropic-ratelimit-unified-5h-status", "rejected"),
                ("anthropic-ratelimit-unified-5h-reset", "1778859321"),
                ("anthropic-ratelimit-unified-7d-status", "rejected"),
                ("anthropic-ratelimit-unified-7d-reset", "1778859381"),
            ],
            seconds(120),
        );
        check(
            "Azure does not count this bucket",
            &[
                ("x-ratelimit-limit-tokens", "-1"),
                ("x-ratelimit-remaining-tokens", "-1"),
                ("x-ratelimit-reset-tokens", "0"),
            ],
            None,
        );
        check(
            "the later of bucket and retry-after",
            &[("retry-after", "5"), ("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20s")],
            seconds(20),
        );
    }

    #[test]
    fn what_is_left_is_read_from_either_wire() {
        let seen = |pairs: &[(&str, &str)]| limits_seen(&headers(pairs));
        let left = |requests_left, tokens_left| LimitsSeen { requests_left, tokens_left };
        for (pairs, expected) in [
            (&[][..], left(None, None)),
            (
                &[("x-ratelimit-remaining-requests", "59"), ("x-ratelimit-remaining-tokens", "149984")],
                left(Some(59), Some(149_984)),
            ),
            (
                &[
                    ("anthropic-ratelimit-tokens-remaining", "8000"),
                    ("anthropic-ratelimit-output-tokens-remaining", "90"),
                ],
                left(None, Some(8_000)),
            ),
            (
                &[
                    ("anthropic-ratelimit-input-tokens-remaining", "70"),
                    ("anthropic-ratelimit-output-tokens-remaining", "90"),
                ],
                left(None, Some(70)),
            ),
            (
                &[("x-ratelimit-remaining-requests", "many"), ("x-ratelimit-remaining-tokens", "-4")],
                left(None, Some(0)),
            ),
        ] {
            assert_eq!(seen(pairs), expected, "{pairs:?}");
        }
    }
}
