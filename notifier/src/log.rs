//! The sink that is always there: lines of the log.

use std::time::SystemTime;

use ukai_protocol::command::quoted;

use crate::alert::{Alert, What};

/// Its name in cursors and counts.
pub const NAME: &str = "log";

pub fn tell(Alert { what, at, late, .. }: &Alert) {
    let late = if *late { format!(" (late, from {})", time(*at)) } else { String::new() };
    if what.is_urgent() {
        tracing::error!(target: "ukai::alert", "{what}{late}");
    } else if let What::BatchDone { other: 0, .. } | What::Test = what {
        tracing::info!(target: "ukai::alert", "{what}{late}");
    } else {
        tracing::warn!(target: "ukai::alert", "{what}{late}");
    }
}

pub fn tell_lost(count: u64) {
    tracing::error!(target: "ukai::alert", "{count} alerts found no room and were lost; {} shows what they were about", quoted(&["ls"]));
}

/// Hours and minutes, UTC: it is a day old at most.
fn time(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map_or_else(|_| "an unknown time".to_owned(), |at| at.strftime("%H:%M UTC").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_late_line_says_from_when() {
        assert_eq!(super::time(UNIX_EPOCH + Duration::from_secs(2 * 3600 + 14 * 60)), "02:14 UTC");
    }
}
