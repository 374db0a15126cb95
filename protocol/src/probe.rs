//! A probe: one short exchange with a provider that belongs to no job, asked of a worker process of its own.
//!
//! The supervisor never speaks to a provider, and a job's worker speaks for its job alone. So whoever wants to know
//! whether a provider answers again, or takes tools, starts a process for that one question, and gets back what a job's
//! attempt would have reported, with the evidence.

#![deny(clippy::disallowed_methods)]

use crate::secret::fingerprint::Fingerprints;
use serde::{Deserialize, Serialize};

use crate::lease::{Grant, Report};
use crate::message::Usage;

/// A key of 16 KiB is the longest that is read, and a URL and some names stand beside it.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Two requests and what came, each at its bound (see the worker's `probe/observe.rs`), with room for what escapes cost.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What a probe is to find out, and with which right. The key is in the grant, in memory only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeRequest {
    pub grant: Grant,
    pub kind: ProbeKind,
    /// From when the request was read; then the answer is a timeout.
    pub deadline_ms: u64,
    /// What no observation may hold, besides the key of the grant.
    pub secrets: Fingerprints,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Whether it answers again: one request, like the one that failed.
    Health(Shape),
    /// Whether it takes tools: offer one, get a call, echo the result, get a text.
    Capability,
}

/// What about a request may have made it fail, as far as a small one can be like it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Offer a tool, as jobs do.
    pub tools: bool,
    /// The longest reply that is asked for.
    pub output_tokens: u64,
    /// About as long as this is what is sent.
    pub input_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// As an attempt of a job would report it: of the last request that was made, with the tokens of all.
    pub report: Report,
    /// For a person: what came of it, in one line without the key.
    pub detail: String,
    /// Whether the model takes tools, where this probe could tell.
    pub tools: Option<bool>,
    /// In the order in which it was seen.
    pub observations: Vec<Observation>,
}

/// One thing that was seen, and at which request of the probe, from 1. No text in it holds the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub request: u32,
    pub seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The request's body. Its headers, and the key in them, are not kept.
    Sent {
        body: String,
    },
    /// The body offers this tool.
    ToolOffered {
        tool: String,
    },
    /// The body answers the call with this.
    ResultSent {
        call: String,
        text: String,
    },
    Answered {
        status: u16,
        content_type: String,
    },
    /// Headers that tell of limits, as they came; none is an observation too.
    LimitHeaders {
        headers: Vec<(String, String)>,
    },
    /// The beginning of what came, as it came.
    Came {
        text: String,
    },
    /// It came in so many events.
    Streamed {
        events: u64,
    },
    /// It came as one body, though a stream was asked for.
    Whole,
    /// The provider's own name for who answered.
    ModelNamed {
        model: String,
    },
    /// `arguments`: the object as JSON; `None` where what came is none. `given`: the id is the provider's own.
    Called {
        id: String,
        given: bool,
        tool: String,
        arguments: Option<String>,
    },
    Text {
        text: String,
    },
    UsageReported {
        usage: Usage,
    },
    /// What said that the reply is complete.
    Terminal {
        what: String,
    },
    Failed {
        why: String,
    },
}
