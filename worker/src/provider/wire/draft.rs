//! A reply while it arrives, and what it is in the end. All wires fill one, so that the rules on calls stand once.
//!
//! Arguments are never mended (spec §3): what was cut, or is no object, is kept as it came and marked broken, and the
//! model is told. The pieces are kept as text until the end, since only the end tells whether they are whole.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

use ukai_protocol::json::Json;
use ukai_protocol::message::{Args, Call, Opaque, Stop, Usage};

use serde_json::{Map, Value};

use super::clean::{self, NotJson};
use super::ids::Ids;

/// All that one reply may hold: a hundred times a long answer, and nothing to a worker's memory.
pub const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// More calls in one reply are a model that runs in circles.
pub const REPLY_CALLS_MAX: usize = 128;
/// Spec §5: deeper arguments end the job; the object itself is level 1.
pub const ARGS_DEPTH_MAX: usize = 32;

/// What one attempt brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub text: String,
    pub calls: Vec<Call>,
    pub opaque: Vec<Opaque>,
    pub stop: Stop,
    pub usage: Reported,
    /// How much arrived: text, arguments and thinking.
    pub bytes: u64,
}

/// Tokens as the provider counted them; `None` where it said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// All of the input, and how much of it was cached.
    pub input: Option<(u64, u64)>,
    pub output: Option<u64>,
}

impl Reported {
    /// What is missing is estimated: a limit must not be escaped by a server that keeps silent about one half.
    #[must_use]
    pub fn or_estimated(self, input: u64, output: u64) -> Usage {
        let estimated = self.input.is_none() || (self.output.is_none() && output > 0);
        let (input, cached) = self.input.unwrap_or((input, 0));
        Usage { input, cached, output: self.output.unwrap_or(output), estimated }
    }
}

/// Why there is no reply although the provider answered 200.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("the stream ended before the reply did")]
    Cut,
    #[error("the answer could not be read: {0}")]
    Unreadable(String),
    /// An error told inside the stream; the value is what stood under `error`.
    #[error("the provider reported an error inside its answer")]
    Told(Value),
    #[error("the reply is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the reply holds more than {REPLY_CALLS_MAX} calls")]
    TooManyCalls,
    #[error("the arguments of `{tool}` nest {depth} levels deep; {ARGS_DEPTH_MAX} are allowed")]
    Depth { tool: String, depth: usize },
    #[error("the provider's content filter withheld the reply")]
    Filtered,
}

impl From<NotJson> for Trouble {
    fn from(error: NotJson) -> Self {
        match error {
            NotJson::Deep(depth) => Trouble::Depth { tool: "a call".to_owned(), depth },
            NotJson::Syntax(error) => Trouble::Unreadable(format!("an event is no JSON: {error}")),
        }
    }
}

/// One call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The place that the wire names for it.
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: String,
    pub args: String,
    /// The wire said that it is complete.
    pub closed: bool,
    /// Why it cannot be run whatever its arguments look like, where the wire itself said so.
    pub unusable: Option<&'static str>,
}

impl Slot {
    /// No proper beginning of an object is an object, so that nothing can follow this.
    pub fn is_whole(&self) -> bool {
        matches!(clean::parse(&self.args), Ok(Value::Object(_)))
    }
}

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub text: String,
    pub slots: Vec<Slot>,
    pub opaque: Vec<Map<String, Value>>,
    pub stop: Option<Stop>,
    pub usage: Tokens,
    /// The slot that was written to last, if nothing else came after it.
    open: Option<usize>,
    bytes: usize,
}

/// Usage as it is put together from several events: counts only grow.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub fresh: u64,
    pub cache_read: u64,
    pub cache_written: u64,
    pub output: u64,
}

impl Tokens {
    /// A count of nothing is no report: each call has an input, and what came shows whether there was an output.
    fn usage(&self) -> Reported {
        let input = self.fresh.saturating_add(self.cache_read).saturating_add(self.cache_written);
        Reported {
            input: (input > 0).then_some((input, self.cache_read)),
            output: (self.output > 0).then_some(self.output),
        }
    }
}

impl Draft {
    /// Counts bytes that are kept.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES_MAX { Err(Trouble::TooLarge(REPLY_BYTES_MAX)) } else { Ok(()) }
    }

    /// Appends text and returns it as it may be shown.
    pub fn add_text(&mut self, text: &str) -> Result<String, Trouble> {
        if text.is_empty() {
            return Ok(String::new());
        }
        self.grow(text.len())?;
        self.open = None;
        let text = clean::text(text).into_owned();
        self.text.push_str(&text);
        Ok(text)
    }

    /// Begins a call and returns its place.
    pub fn add_slot(&mut self, slot: Slot) -> Result<usize, Trouble> {
        if self.slots.len() == REPLY_CALLS_MAX {
            return Err(Trouble::TooManyCalls);
        }
        let id = slot.id.as_ref().map_or(0, String::len);
        self.grow(id + slot.name.len() + slot.args.len())?;
        self.slots.push(slot);
        let place = self.slots.len() - 1;
        self.open = Some(place);
        Ok(place)
    }

    pub fn add_args(&mut self, place: usize, piece: &str) -> Result<(), Trouble> {
        self.grow(piece.len())?;
        if let Some(slot) = self.slots.get_mut(place) {
            slot.args.push_str(piece);
            self.open = Some(place);
        }
        Ok(())
    }

    /// Something other than a call came: what came before it is not the part that a limit cut.
    pub fn leave_call(&mut self) {
        self.open = None;
    }

    /// The reply. `provider` marks what only it may get back.
    pub fn finish(self, provider: &str, ids: &mut Ids<'_>) -> Result<Reply, Trouble> {
        let stop = self.stop.unwrap_or(Stop::Unknown);
        if stop == Stop::Filter && self.slots.is_empty() {
            return Err(Trouble::Filtered);
        }
        let cut = if matches!(stop, Stop::Length | Stop::Filter) { self.open } else { None };
        let usage = self.usage.usage();
        let mut calls = Vec::with_capacity(self.slots.len());
        for (place, slot) in self.slots.into_iter().enumerate() {
            let id = ids.assign(slot.id.as_deref());
            let tool = clean::text(&slot.name).into_owned();
            let broken = slot.unusable.or((cut == Some(place)).then_some(CUT));
            let args = arguments(&tool, slot.args, slot.closed, broken)?;
            calls.push(Call { id, tool, args });
        }
        let opaque = self.opaque.into_iter();
        let opaque = opaque.map(|data| Opaque { provider: provider.to_owned(), data: Json(data) }).collect();
        Ok(Reply { text: self.text, calls, opaque, stop, usage, bytes: self.bytes as u64 })
    }
}

const CUT: &str = "the reply was cut before its arguments ended";

/// `broken`: why they are not to be used, whatever they are.
fn arguments(tool: &str, text: String, closed: bool, broken: Option<&str>) -> Result<Args, Trouble> {
    let depth = clean::depth(&text);
    if depth > ARGS_DEPTH_MAX {
        return Err(Trouble::Depth { tool: tool.to_owned(), depth });
    }
    let kept = |text: String, why: String| Args::Broken { text: clean::text(&text).into_owned(), why };
    if let Some(why) = broken {
        return Ok(kept(text, why.to_owned()));
    }
    if text.trim().is_empty() {
        // A call without arguments is spelled so; a call that was cut before its first one looks the same.
        return Ok(match closed {
            true => Args::Whole(Json::default()),
            false => kept(text, "its arguments never came".to_owned()),
        });
    }
    Ok(match clean::parse(&text) {
        Ok(Value::Object(map)) => Args::Whole(Json(clean::object(Cow::Owned(map)).into_owned())),
        Ok(_) => kept(text, "its arguments are no JSON object".to_owned()),
        Err(error) => kept(text, format!("its arguments are no JSON: {error}")),
    })
}
