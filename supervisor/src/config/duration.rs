//! Durations as people write them: `250ms 5s 10m 24h 30d`. One number, one unit: `1h30m` has two readings too many.

#![deny(clippy::disallowed_methods)]

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    #[error("it is no duration: write a whole number and a unit, like 250ms, 5s, 10m, 24h or 30d")]
    Shape,
    #[error("it is longer than ukai can count")]
    TooLong,
}

/// Milliseconds.
pub fn parse(text: &str) -> Result<u64, BadDuration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(BadDuration::Shape),
    };
    if number.is_empty() {
        return Err(BadDuration::Shape);
    }
    let number: u64 = number.parse().map_err(|_| BadDuration::TooLong)?;
    number.checked_mul(unit_ms).ok_or(BadDuration::TooLong)
}

/// The shortest exact way to write it.
#[must_use]
pub fn show(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit_ms, _)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms)) {
        Some((unit_ms, unit)) => format!("{}{unit}", ms / unit_ms),
        None => format!("{ms}ms"),
    }
}

/// A duration in a file: a string, in any of the formats that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub u64);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Millis;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like \"10m\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Millis, E> {
                parse(text).map(Millis).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_and_one_unit() {
        let cases: &[(&str, Result<u64, BadDuration>)] = &[
            ("250ms", Ok(250)),
            ("5s", Ok(5_000)),
            ("10m", Ok(600_000)),
            ("24h", Ok(86_400_000)),
            ("30d", Ok(2_592_000_000)),
            ("0s", Ok(0)),
            ("", Err(BadDuration::Shape)),
            ("10", Err(BadDuration::Shape)),
            ("s", Err(BadDuration::Shape)),
            ("1.5s", Err(BadDuration::Shape)),
            ("-5s", Err(BadDuration::Shape)),
            ("1h30m", Err(BadDuration::Shape)),
            ("5 s", Err(BadDuration::Shape)),
            ("5S", Err(BadDuration::Shape)),
            ("99999999999999999999s", Err(BadDuration::TooLong)),
            ("9999999999999999d", Err(BadDuration::TooLong)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), *expected, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for (ms, text) in
            [(0, "0ms"), (250, "250ms"), (1_500, "1500ms"), (60_000, "1m"), (90_000, "90s"), (86_400_000, "1d")]
        {
            assert_eq!(show(ms), text);
            assert_eq!(parse(text), Ok(ms));
        }
    }
}
