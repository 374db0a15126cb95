//! Ceilings as people set them: each may be absent, a later source replaces an earlier one, a found file only lowers.

#![deny(clippy::disallowed_methods)]

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use ukai_protocol::job::Limits;

use super::duration::{self, Millis};
use super::fault::nearest;

/// `[limits]` of any file, and the sum of `--limit k=v` flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSet {
    pub steps: Option<u64>,
    pub tool_calls: Option<u64>,
    pub tokens: Option<u64>,
    pub run_time: Option<Millis>,
    pub max_wall: Option<Millis>,
    pub max_cost_usd: Option<Usd>,
}

const KEYS: [&str; 6] = ["steps", "tool_calls", "tokens", "run_time", "max_wall", "max_cost_usd"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLimit {
    #[error("`{0}` is no `KEY=VALUE`; write for instance `steps=10` or `run_time=5m`")]
    Shape(String),
    #[error("there is no limit `{0}`{1}; the limits are {list}", list = KEYS.join(", "))]
    Key(String, String),
    #[error("`{key}` is `{value}`: {why}")]
    Value { key: String, value: String, why: String },
}

impl LimitSet {
    /// One `KEY=VALUE` of the command line.
    pub fn set(&mut self, text: &str) -> Result<(), BadLimit> {
        let (key, value) = text.split_once('=').ok_or_else(|| BadLimit::Shape(text.to_owned()))?;
        let bad = |why: &dyn fmt::Display| BadLimit::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            why: why.to_string(),
        };
        let count = || value.parse::<u64>().map(Some).map_err(|_| bad(&"it is no whole number"));
        let time = || duration::parse(value).map(|ms| Some(Millis(ms))).map_err(|why| bad(&why));
        match key {
            "steps" => self.steps = count()?,
            "tool_calls" => self.tool_calls = count()?,
            "tokens" => self.tokens = count()?,
            "run_time" => self.run_time = time()?,
            "max_wall" => self.max_wall = time()?,
            "max_cost_usd" => {
                let usd = value.parse().ok().and_then(Usd::new);
                self.max_cost_usd = Some(usd.ok_or_else(|| bad(&Usd::EXPECTED))?);
            }
            _ => {
                let hint = nearest(key, KEYS.into_iter()).map(|like| format!(" (did you mean `{like}`?)"));
                return Err(BadLimit::Key(key.to_owned(), hint.unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// What is set here replaces what stands there.
    pub fn apply(&self, limits: &mut Limits) {
        let Limits { steps, tool_calls, tokens, run_time_ms, max_wall_ms, max_cost_usd } = limits;
        for (ours, theirs) in [
            (self.steps, steps),
            (self.tool_calls, tool_calls),
            (self.tokens, tokens),
            (self.run_time.map(|time| time.0), run_time_ms),
            (self.max_wall.map(|time| time.0), max_wall_ms),
        ] {
            *theirs = ours.unwrap_or(*theirs);
        }
        *max_cost_usd = self.max_cost_usd.map(|usd| usd.0).or(*max_cost_usd);
    }

    /// What is set here lowers what stands there, and never raises it.
    pub fn narrow(&self, limits: &mut Limits) {
        let before = *limits;
        self.apply(limits);
        limits.steps = limits.steps.min(before.steps);
        limits.tool_calls = limits.tool_calls.min(before.tool_calls);
        limits.tokens = limits.tokens.min(before.tokens);
        limits.run_time_ms = limits.run_time_ms.min(before.run_time_ms);
        limits.max_wall_ms = limits.max_wall_ms.min(before.max_wall_ms);
        if let (Some(after), Some(before)) = (limits.max_cost_usd, before.max_cost_usd) {
            limits.max_cost_usd = Some(after.min(before));
        }
    }
}

/// An amount of money that can be compared: finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usd(pub f64);

impl Usd {
    const EXPECTED: &'static str = "it is no amount of USD: write a number like 0.50, not below 0";

    #[must_use]
    pub fn new(amount: f64) -> Option<Self> {
        (amount.is_finite() && amount >= 0.0).then_some(Usd(amount))
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Usd;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of USD like 0.50")
            }
            fn visit_f64<E: Error>(self, amount: f64) -> Result<Usd, E> {
                Usd::new(amount).ok_or_else(|| E::custom(Usd::EXPECTED))
            }
            fn visit_i64<E: Error>(self, amount: i64) -> Result<Usd, E> {
                self.visit_f64(amount as f64)
            }
            fn visit_u64<E: Error>(self, amount: u64) -> Result<Usd, E> {
                self.visit_f64(amount as f64)
            }
        }
        deserializer.deserialize_f64(Amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_set_what_they_name() {
        let mut set = LimitSet::default();
        for flag in ["steps=3", "tool_calls=4", "tokens=5", "run_time=6s", "max_wall=7m", "max_cost_usd=0.5"] {
            set.set(flag).expect(flag);
        }
        let mut limits = Limits::default();
        set.apply(&mut limits);
        let expected = Limits {
            steps: 3,
            tool_calls: 4,
            tokens: 5,
            run_time_ms: 6_000,
            max_wall_ms: 420_000,
            max_cost_usd: Some(0.5),
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn a_bad_flag_is_named_with_what_would_be_right() {
        for (flag, parts) in [
            ("steps", ["KEY=VALUE", "steps=10"]),
            ("stpes=3", ["no limit `stpes`", "did you mean `steps`"]),
            ("zzz=3", ["no limit `zzz`", "max_wall"]),
            ("steps=many", ["`steps` is `many`", "no whole number"]),
            ("steps=-1", ["`steps` is `-1`", "no whole number"]),
            ("run_time=10", ["`run_time` is `10`", "like 250ms"]),
            ("max_cost_usd=-1", ["max_cost_usd", "not below 0"]),
            ("max_cost_usd=NaN", ["max_cost_usd", "no amount"]),
        ] {
            let error = LimitSet::default().set(flag).expect_err(flag).to_string();
            for part in parts {
                assert!(error.contains(part), "{flag}: {error}");
            }
        }
    }

    #[test]
    fn narrowing_lowers_and_never_raises() {
        let mut limits = Limits { steps: 10, tool_calls: 10, ..Limits::default() };
        let mut set = LimitSet::default();
        for flag in ["steps=5", "tool_calls=50", "max_wall=48h", "max_cost_usd=2"] {
            set.set(flag).expect(flag);
        }
        set.narrow(&mut limits);
        assert_eq!((limits.steps, limits.tool_calls, limits.max_cost_usd), (5, 10, Some(2.0)));
        assert_eq!(limits.max_wall_ms, Limits::default().max_wall_ms);
        let mut more = LimitSet::default();
        more.set("max_cost_usd=3").expect("a limit");
        more.narrow(&mut limits);
        assert_eq!(limits.max_cost_usd, Some(2.0));
    }
}
