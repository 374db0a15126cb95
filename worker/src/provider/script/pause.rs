//! A duration as a script writes it: `"250ms"`, `"2s"`, `"1m 30s"`.

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use serde::Deserialize;

/// Longer than any timeout a client could be tested with; a larger number is a slip of the pen.
const PAUSE_SECONDS_MAX: u64 = 24 * 60 * 60;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pause(pub Duration);

impl TryFrom<String> for Pause {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).map(Pause)
    }
}

pub fn parse(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|why| format!("'{text}' is no duration such as \"250ms\", \"2s\" or \"1m\": {why}"))?;
    let duration = Duration::try_from(signed).map_err(|_| format!("'{text}' is negative; a pause is zero or more"))?;
    if duration.as_secs() > PAUSE_SECONDS_MAX {
        return Err(format!("'{text}' is longer than the longest pause, {PAUSE_SECONDS_MAX} s"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_written_and_nonsense_is_refused() {
        for (text, millis) in [("0s", Some(0)), ("250ms", Some(250)), ("2s", Some(2_000)), ("1m 30s", Some(90_000))] {
            assert_eq!(parse(text).ok().map(|d| d.as_millis()), millis, "{text}");
        }
        for text in ["", "2", "-1s", "soon", "25h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
