//! How many tokens a text will be, roughly: before a call nobody knows better, after it the provider says.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::message::{Args, Message};

/// English and code come to about four bytes a token in all of today's tokenizers.
const BYTES_PER_TOKEN: u64 = 4;
/// Roles, ids and separators around each entry.
const TOKENS_PER_MESSAGE: u64 = 4;

#[must_use]
pub fn of_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

#[must_use]
pub fn of_message(message: &Message) -> u64 {
    let content = match message {
        Message::User { text } | Message::Result { text, .. } => of_text(text),
        Message::Assistant { text, calls, opaque } => {
            let calls = calls.iter().map(|call| {
                let args = match &call.args {
                    Args::Whole(json) => of_text(&json.to_text()),
                    Args::Broken { .. } => 1,
                };
                of_text(&call.tool) + args + TOKENS_PER_MESSAGE
            });
            let opaque = opaque.iter().map(|opaque| of_text(&opaque.data.to_text()));
            of_text(text) + calls.sum::<u64>() + opaque.sum::<u64>()
        }
    };
    content + TOKENS_PER_MESSAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_text_is_never_fewer_tokens() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("鵜飼", 2)] {
            assert_eq!(of_text(text), tokens, "{text}");
        }
    }
}
