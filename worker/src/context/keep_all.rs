//! Everything stays. The strategy to compare the others with, and the right one for short jobs.

use std::borrow::Cow;
use std::sync::Arc;

use ukai_protocol::message::Message;

use super::{Context, Window, tokens};

/// Counts each message once, so that a step costs the same however long the run is.
#[derive(Default)]
pub(super) struct KeepAll {
    counted: usize,
    tokens: u64,
}

impl Context for KeepAll {
    fn window<'a>(&mut self, messages: &'a [Arc<Message>]) -> Window<'a> {
        let fresh = messages.get(self.counted..).unwrap_or_default();
        self.tokens += fresh.iter().map(|message| tokens::estimate_message(message)).sum::<u64>();
        self.counted = self.counted.max(messages.len());
        Window { messages: Cow::Borrowed(messages), tokens: self.tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_conversation_is_shown_and_counted_once() {
        let message = |text: &str| Arc::new(Message::User { text: text.to_owned() });
        let mut context = KeepAll::default();
        let mut messages = vec![message("first question")];
        let first = context.window(&messages).tokens;
        assert_eq!(context.window(&messages).tokens, first);
        messages.push(message("first question"));
        let window = context.window(&messages);
        assert_eq!((window.tokens, window.messages.len()), (2 * first, 2));
    }
}
