//! A lease is the right to make one attempt at one provider. It is waited for, not called: the answer comes when it comes.

#![deny(clippy::disallowed_methods)]

use serde::{Deserialize, Serialize};

use crate::job::Cause;
use crate::message::Usage;
use crate::secret::Secret;

/// A worker asks for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The step this attempt belongs to.
    pub call: u64,
    /// How many attempts at this call came before.
    pub attempt: u32,
    /// Whether the request offers tools.
    pub tools: bool,
    /// Estimated input, in tokens.
    pub window: u64,
    /// 0 = what the provider offers.
    pub max_output: u64,
    pub priority: u8,
}

/// The supervisor's word on an [`Ask`]: any number of `Wait`, then one of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// `until_ms`: milliseconds from now, where known.
    Wait {
        why: WaitWhy,
        until_ms: Option<u64>,
    },
    Grant(Box<Grant>),
    /// Nobody can be asked for long: stop, the state is kept.
    Park,
    Refuse {
        cause: Cause,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitWhy {
    /// The provider said "not before".
    NotBefore,
    /// Backing off after a failure.
    Backoff,
    /// The account's concurrency is used up.
    Concurrency,
    /// A bucket of the account is too low.
    Rate,
    /// The account's breaker is not CLOSED, and a probe is to say whether it will be.
    Breaker,
}

/// Everything that one attempt needs. The key lives in the worker's memory only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub lease: u64,
    /// Changes whenever the account's state does; a report of an older one changes nothing.
    pub generation: u64,
    pub provider: String,
    pub account: String,
    pub wire: Wire,
    pub url: String,
    pub model: String,
    pub key: Option<Secret>,
    pub timeouts: Timeouts,
    /// Input + output, tokens.
    pub context_window: u64,
    pub max_output: u64,
    pub prices: Option<Prices>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Chat Completions.
    Openai,
    /// Messages.
    Anthropic,
    /// generateContent.
    Gemini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    pub connect_ms: u64,
    /// Until the first content of the reply; comments and pings do not count.
    pub first_content_ms: u64,
    /// Between any two bytes.
    pub idle_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect_ms: 10_000, first_content_ms: 300_000, idle_ms: 60_000 }
    }
}

/// USD per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    pub cached: f64,
}

impl Prices {
    /// USD for one reply; cached input is priced apart.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached) as f64;
        (fresh * self.input + usage.cached as f64 * self.cached + usage.output as f64 * self.output) / 1e6
    }
}

/// The signature of an attempt that met a kept connection which was closed: nobody failed, and the request may have been
/// read all the same.
pub const STALE: &str = "stale";

/// What came of a lease. Not answered; one that names a wait is sent again to a supervisor that takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub lease: u64,
    pub generation: u64,
    /// For a supervisor that does not know the lease: whom the wait binds.
    pub account: String,
    pub class: AnswerClass,
    /// The provider's "not before", as a duration: a clock is no common ground.
    pub wait: Option<Wait>,
    pub limits_seen: LimitsSeen,
    pub usage: Option<Usage>,
    /// What it showed: `true`, the reply holds a call; `false`, tools were refused.
    pub tools: Option<bool>,
    /// Enough of the failure to shape a probe by, never text of the conversation.
    pub signature: String,
}

/// The rows of the table in spec §5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerClass {
    Success,
    /// 429.
    RateLimited,
    /// 408, 5xx, 529, refused, reset, broken stream, error in a 200 stream, no terminal event, no stream at all.
    Unavailable,
    Timeout,
    /// 401, 402, 403, quota, billing: until a person or a named instant resets it.
    Closed,
    /// The input is too long for the model.
    ContextOverflow,
    /// Any other 4xx, or the content filter.
    Rejected,
    /// Given up by us: neither success nor failure.
    #[default]
    Withdrawn,
    /// The model takes no tools; another may.
    NoTools,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Milliseconds from the moment the answer was read.
    For(u64),
    /// Too far to be a duration.
    UntilReset,
}

/// What the response's headers say is left; they may only lower what we believe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsSeen {
    pub requests_left: Option<u64>,
    pub tokens_left: Option<u64>,
}
