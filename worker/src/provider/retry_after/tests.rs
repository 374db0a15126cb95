//! Headers that name an instant, well and badly.

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
    check("two headers that a proxy joined", "100, 120", seconds(120));
    check("joined without a blank, the later first", "120,100.5", seconds(120));
    check("joined, one until reset", "5, 1e30", Some(Wait::UntilReset));
    check("joined, one negative", "5, -6", seconds(60));
    check("joined, one empty", "5,", seconds(60));
    check("joined, one a word", "100, soon", seconds(60));
    check("joined, one a date", "100, Fri, 15 May 2026 15:44:21 GMT", seconds(60));
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
    check("milliseconds that a proxy joined", &[("retry-after-ms", "2500, 7000")], seconds(7));
    check("invalid milliseconds", &[("retry-after-ms", "x")], seconds(60));
    check(
        "Azure's milliseconds",
        &[("x-ms-retry-after-ms", "7123"), ("retry-after-ms", "7000")],
        Some(Wait::For(7_123)),
    );
    check("both, seconds later", &[("retry-after-ms", "1500"), ("retry-after", "2")], seconds(2));
    check("both, milliseconds later", &[("retry-after-ms", "9000"), ("retry-after", "2")], seconds(9));
    check("two of a name", &[("retry-after", "5"), ("retry-after", "90")], seconds(90));
    check("until reset is later than any", &[("retry-after", "1e30"), ("retry-after", "90")], Some(Wait::UntilReset));
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
fn what_is_left_of_a_wait() {
    for (quirk, wait, passed_us, expected) in [
        ("nothing has passed", Wait::For(17_000), 0, seconds(17)),
        ("a part has passed", Wait::For(17_000), 4_000_000, seconds(13)),
        ("a part of a millisecond is no time", Wait::For(17_000), 999, seconds(17)),
        ("less than the floor may be left", Wait::For(1_000), 999_000, Some(Wait::For(1))),
        ("over to the instant", Wait::For(17_000), 17_000_000, None),
        ("long over", Wait::For(1_000), u64::MAX, None),
        ("a reset is no matter of time", Wait::UntilReset, u64::MAX, Some(Wait::UntilReset)),
    ] {
        assert_eq!(left(wait, Duration::from_micros(passed_us)), expected, "{quirk}");
    }
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
            &[("anthropic-ratelimit-tokens-remaining", "8000"), ("anthropic-ratelimit-output-tokens-remaining", "90")],
            left(None, Some(8_000)),
        ),
        (
            &[
                ("anthropic-ratelimit-input-tokens-remaining", "70"),
                ("anthropic-ratelimit-output-tokens-remaining", "90"),
            ],
            left(None, Some(70)),
        ),
        (&[("x-ratelimit-remaining-requests", "many"), ("x-ratelimit-remaining-tokens", "-4")], left(None, Some(0))),
    ] {
        assert_eq!(seen(pairs), expected, "{pairs:?}");
    }
}
