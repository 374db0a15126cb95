//! Which period a report is of, from what was typed, and the one before it.
//!
//! A date stands for a whole day, UTC: a period that ends with it holds all of that day. What cannot be shown as an
//! instant is refused, for a figure of nobody knows when says nothing.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::config::duration;

/// Two periods of the same length, half-open, the second right after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    pub before: SystemTime,
    pub from: SystemTime,
    pub until: SystemTime,
}

/// What was typed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typed<'a> {
    /// A duration; where the period does not begin at a time of its own.
    pub period: &'a str,
    pub since: Option<&'a str>,
    pub until: Option<&'a str>,
}

/// Each says which option is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPeriod {
    #[error("--{option} {typed}: it is no date and no instant; write one like 2026-11-30 or 2026-11-30T08:00:00Z")]
    NoTime { option: &'static str, typed: String },
    #[error("--period {typed}: {why}")]
    NoDuration { typed: String, why: duration::BadDuration },
    #[error("--period {typed}: a period without length holds nothing; name a longer one")]
    Empty { typed: String },
    #[error(
        "--since {since}: that is not before the end of the period, {until}; name an earlier time, or a later --until"
    )]
    Backwards { since: String, until: String },
    #[error(
        "--{option} {typed}: the period before it would begin earlier than any time that can be shown (the year -9999); \
         name a shorter one"
    )]
    TooLong { option: &'static str, typed: String },
}

impl Typed<'_> {
    pub fn periods(self, now: SystemTime) -> Result<Periods, BadPeriod> {
        let until = self.until.map_or(Ok(now), |typed| time("until", typed, Edge::End))?;
        let (from, option, typed) = match self.since {
            Some(typed) => (Some(time("since", typed, Edge::Begin)?), "since", typed),
            None => {
                let typed = self.period.to_owned();
                let period = match duration::parse(&typed) {
                    Ok(0) => return Err(BadPeriod::Empty { typed }),
                    Ok(period) => Duration::from_millis(period),
                    Err(why) => return Err(BadPeriod::NoDuration { typed, why }),
                };
                (until.checked_sub(period).filter(is_shown), "period", self.period)
            }
        };
        let too_long = || BadPeriod::TooLong { option, typed: typed.to_owned() };
        let from = from.ok_or_else(too_long)?;
        let length = until.duration_since(from).ok().filter(|length| !length.is_zero());
        let length = length.ok_or_else(|| BadPeriod::Backwards { since: typed.to_owned(), until: shown(until) })?;
        let before = from.checked_sub(length).filter(is_shown).ok_or_else(too_long)?;
        Ok(Periods { before, from, until })
    }
}

impl Periods {
    /// `before`, `from` and `until`, for people.
    #[must_use]
    pub fn shown(&self) -> [String; 3] {
        [self.before, self.from, self.until].map(shown)
    }
}

/// Which end of a day a date stands for.
#[derive(Clone, Copy)]
enum Edge {
    Begin,
    End,
}

fn time(option: &'static str, typed: &str, edge: Edge) -> Result<SystemTime, BadPeriod> {
    let of_day = |day: Date| {
        let day = match edge {
            Edge::Begin => day,
            Edge::End => day.tomorrow().ok()?,
        };
        TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()
    };
    let at = match typed.parse::<Timestamp>() {
        Ok(at) => Some(at),
        Err(_) if is_date(typed) => typed.parse::<Date>().ok().and_then(of_day),
        Err(_) => None,
    };
    let at = at.and_then(|at| SystemTime::try_from(at).ok());
    at.ok_or_else(|| BadPeriod::NoTime { option, typed: typed.to_owned() })
}

/// By its shape: of a time without its zone, jiff would take the date and drop the rest.
fn is_date(typed: &str) -> bool {
    typed.len() == "2026-11-30".len() && typed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn is_shown(at: &SystemTime) -> bool {
    Timestamp::try_from(*at).is_ok()
}

fn shown(at: SystemTime) -> String {
    Timestamp::try_from(at)
        .map_or_else(|_| "an unknown time".to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_two_periods_that_can_be_shown() {
        let now = "2026-11-30T07:30:00Z".parse::<Timestamp>().expect("a time");
        let now = SystemTime::try_from(now).expect("a time");
        let check = |period, since, until, expected: Result<[&str; 3], &str>| {
            let found = Typed { period, since, until }.periods(now);
            match (&found, expected) {
                (Ok(periods), Ok(expected)) => assert_eq!(periods.shown(), expected.map(str::to_owned)),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
                _ => panic!("{period} {since:?} {until:?}: {found:?}"),
            }
        };
        let week = ["2026-11-16T07:30:00Z", "2026-11-23T07:30:00Z", "2026-11-30T07:30:00Z"];
        check("168h", None, None, Ok(week));
        let days = ["2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"];
        check("24h", None, Some("2026-11-29"), Ok(days));
        check("24h", None, Some("2026-11-30T00:00:00Z"), Ok(days));
        check("24h", None, Some("2026-11-30T02:00:00+02:00"), Ok(days));
        check("168h", Some("2026-11-29"), Some("2026-11-29"), Ok(days));
        let since = ["2026-11-29T16:30:00Z", "2026-11-30T00:00:00Z", "2026-11-30T07:30:00Z"];
        check("168h", Some("2026-11-30"), None, Ok(since));
        check("168h", Some("2026-11-30T00:00:00Z"), None, Ok(since));

        for wrong in ["tomorrow", "2026-11-31", "2026-11-30T08:00:00", "26-11-30", "", "-2026-11-3", "9999-12-31"] {
            check("168h", None, Some(wrong), Err("--until"));
        }
        check("168h", Some("soon"), None, Err("--since soon: it is no date"));
        check("168h", Some("2026-12-01"), None, Err("not before the end of the period"));
        check("168h", Some("2026-11-30T08:00:00Z"), None, Err("not before the end of the period"));
        check("soon", None, None, Err("--period soon"));
        check("0s", None, None, Err("without length"));
        // 27,000 years, 12,000 years (whose period before cannot be shown), and more than a clock holds.
        for long in ["9861750d", "4383000d", "213503982334d"] {
            check(long, None, None, Err("name a shorter one"));
        }
        check("168h", Some("-009998-01-01T00:00:00Z"), None, Err("--since -009998-01-01T00:00:00Z: the period before"));
        check("99999999999999999d", None, None, Err("longer than ukai can count"));
    }
}
