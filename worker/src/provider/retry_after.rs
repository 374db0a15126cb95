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
    let named = in_ms.map(|value| text(value).and_then(|text| numbers(text, 1)).unwrap_or(INVALID));
    let named = named.chain(headers.get_all(http::header::RETRY_AFTER).iter().map(|value| retry_after(value, now)));
    let named = named.chain(exhausted(headers).map(|value| text(value).map_or(INVALID, |text| reset(text, now))));
    latest(named)
}

/// The provider's clock, against which its instants are read; ours where it shows none.
#[must_use]
pub fn clock(headers: &HeaderMap, received_at: SystemTime) -> SystemTime {
    headers.get(http::header::DATE).and_then(text).and_then(date).unwrap_or(received_at)
}

/// What is left of a wait when so much time has passed since it was named; rounded in favour of the provider.
#[must_use]
pub fn left(wait: Wait, passed: Duration) -> Option<Wait> {
    match wait {
        Wait::For(ms) => {
            let left = ms.saturating_sub(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
            (left > 0).then_some(Wait::For(left))
        }
        Wait::UntilReset => Some(Wait::UntilReset),
    }
}

/// The later of two words on when, or the only one.
#[must_use]
pub fn latest(waits: impl IntoIterator<Item = Wait>) -> Option<Wait> {
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
    let Some(text) = text(value) else { return INVALID };
    numbers(text, 1_000).or_else(|| date(text).map(|instant| until(instant, now))).unwrap_or(INVALID)
}

/// RFC 9110 §5.6.7: IMF-fixdate, RFC 850, asctime.
fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// One number, or several in a row: a proxy joins two headers of one name into one line (RFC 9110 §5.3), and the later
/// of them holds as if they stood apart.
fn numbers(text: &str, unit_ms: u32) -> Option<Wait> {
    let numbers: Option<Vec<Wait>> = text.split(',').map(|text| number(text.trim(), unit_ms)).collect();
    latest(numbers?)
}

/// A number of units of `unit_ms`, rounded up to whole ones; `None` for what is no number or below zero.
fn number(text: &str, unit_ms: u32) -> Option<Wait> {
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
pub(super) fn milliseconds(ms: f64) -> Wait {
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
mod tests;
