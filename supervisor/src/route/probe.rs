//! What a probe asks for: as little as shows whether the last failure is over, and as much as that takes.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::lease::AnswerClass;
use ukai_protocol::probe::Shape;

use super::account::LastFailure;

/// A word or two; some models take no fewer.
const OUTPUT_TOKENS_MIN: u64 = 16;
/// Of a reply long enough to be streamed in pieces.
const OUTPUT_TOKENS_STREAM: u64 = 128;
/// Of a prompt, in bytes: a sentence.
const INPUT_BYTES_MIN: u64 = 32;

/// The signature of the last failure says which part of a call went wrong: where it was the stream, the reply is long
/// enough to have pieces; tools are offered as jobs offer them, unless the key or the money was refused.
#[must_use]
pub fn shape(last: Option<&LastFailure>, supports_tools: Option<bool>) -> Shape {
    let streamed = last.is_some_and(|last| last.signature.starts_with("stream") || last.signature == "timeout:idle");
    let closed = last.is_some_and(|last| last.class == AnswerClass::Closed);
    Shape {
        tools: !closed && supports_tools != Some(false),
        output_tokens: if streamed { OUTPUT_TOKENS_STREAM } else { OUTPUT_TOKENS_MIN },
        input_bytes: INPUT_BYTES_MIN,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn check(class: AnswerClass, signature: &str, supports_tools: Option<bool>, tools: bool, output_tokens: u64) {
        let last = LastFailure { provider: "a".into(), class, signature: signature.to_owned(), at: Instant::now() };
        let expected = Shape { tools, output_tokens, input_bytes: INPUT_BYTES_MIN };
        assert_eq!(shape(Some(&last), supports_tools), expected, "{signature}");
    }

    #[test]
    fn the_last_failure_shapes_it() {
        use AnswerClass::{Closed, RateLimited, Timeout, Unavailable};
        check(RateLimited, "http:429", None, true, OUTPUT_TOKENS_MIN);
        check(Unavailable, "http:503", Some(false), false, OUTPUT_TOKENS_MIN);
        check(Unavailable, "stream:cut", Some(true), true, OUTPUT_TOKENS_STREAM);
        check(Timeout, "timeout:idle", None, true, OUTPUT_TOKENS_STREAM);
        check(Closed, "http:401", None, false, OUTPUT_TOKENS_MIN);
    }
}
