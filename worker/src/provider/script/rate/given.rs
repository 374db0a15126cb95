//! What `[rate]` in a script says. A size without the limit it belongs to, or no limit at all, is a slip.

#![deny(clippy::disallowed_methods)]

use std::num::NonZeroU32;

use serde::Deserialize;

/// A limit that counts, for the whole server. At least one of the two.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawRate")]
pub struct Rate {
    pub requests: Option<RequestRate>,
    pub tokens_per_minute: Option<NonZeroU32>,
}

#[derive(Clone, Copy, Debug)]
pub struct RequestRate {
    pub per_minute: NonZeroU32,
    /// So many at once from a full bucket.
    pub burst: NonZeroU32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRate {
    requests_per_minute: Option<NonZeroU32>,
    burst: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
}

impl TryFrom<RawRate> for Rate {
    type Error = &'static str;

    fn try_from(raw: RawRate) -> Result<Rate, &'static str> {
        let tokens_per_minute = raw.tokens_per_minute;
        match (raw.requests_per_minute, raw.burst) {
            (None, Some(_)) => Err("burst is the size of the bucket of requests; give requests_per_minute too"),
            (None, None) if tokens_per_minute.is_none() => {
                Err("[rate] limits nothing; give requests_per_minute, tokens_per_minute or both")
            }
            (None, None) => Ok(Rate { requests: None, tokens_per_minute }),
            (Some(per_minute), burst) => {
                let requests = RequestRate { per_minute, burst: burst.unwrap_or(per_minute) };
                Ok(Rate { requests: Some(requests), tokens_per_minute })
            }
        }
    }
}
