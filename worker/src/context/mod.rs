//! What the model sees of the conversation: one trait, a strategy per file.

mod keep_all;
pub mod project;
pub mod tokens;

use std::borrow::Cow;
use std::sync::Arc;

use ukai_protocol::job::ContextStrategy;
use ukai_protocol::message::Message;

/// The part of the conversation that goes into one model call.
pub struct Window<'a> {
    pub messages: Cow<'a, [Arc<Message>]>,
    /// Estimated size, without system prompt and tool list.
    pub tokens: u64,
}

/// A context strategy. It is asked anew at every step and may remember what it has counted.
pub trait Context: Send {
    /// The window onto `messages`, which only ever grow.
    fn window<'a>(&mut self, messages: &'a [Arc<Message>]) -> Window<'a>;
}

#[must_use]
pub fn strategy(of: ContextStrategy) -> Box<dyn Context> {
    match of {
        ContextStrategy::KeepAll => Box::new(keep_all::KeepAll::default()),
    }
}
