//! The conversation in our own words. Each wire converts from and to these by hand, in one file of the worker.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::Json;

/// One entry of the conversation. The system prompt is no entry: it stands apart and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    User {
        text: String,
    },
    Assistant {
        text: String,
        calls: Vec<Call>,
        opaque: Vec<Opaque>,
    },
    /// Directly follows the assistant entry whose call it answers, in the order of the calls.
    Result {
        call: String,
        tool: String,
        ok: bool,
        text: String,
    },
}

/// A tool call as the model asked for it. `id` matches `^[a-zA-Z0-9_-]{1,64}$` and is unique in the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub args: Args,
}

/// Arguments as they arrived. What was cut or is no object is kept as it came, and never run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Args {
    Whole(Json),
    /// `text` is what arrived, `why` tells the model what was wrong with it.
    Broken {
        text: String,
        why: String,
    },
}

impl Args {
    /// What a wire may send back: the object, or an empty one where the original was no JSON object.
    #[must_use]
    pub fn object(&self) -> Cow<'_, Map<String, Value>> {
        match self {
            Args::Whole(json) => Cow::Borrowed(&json.0),
            Args::Broken { .. } => Cow::Owned(Map::new()),
        }
    }
}

/// Data that a provider wants back byte for byte (a thinking block with its signature). Never sent to another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    pub provider: String,
    pub data: Json,
}

/// What a provider reported (or, where it did not, what we estimated) for one reply, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All of the input, cached included.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub estimated: bool,
}

/// Why the model stopped, as far as the stream can be believed. It decides nothing but recovery (spec §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    End,
    Calls,
    /// Cut at the output limit.
    Length,
    /// Refused by the provider's content filter.
    Filter,
    Unknown,
}
