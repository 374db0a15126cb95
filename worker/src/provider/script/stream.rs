//! A reply as a row of server-sent events, each marked with what it is to the stream, so that faults can be put into any
//! wire's stream without knowing the wire.

#![deny(clippy::disallowed_methods)]

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Opens the message or a block; carries nothing the model said.
    Open,
    /// A piece of what the model said: so many characters.
    Said(usize),
    Close,
    /// Says why the model stopped.
    Finish,
    /// What only a whole stream has at its end.
    Terminal,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub part: Part,
    pub text: String,
}

/// Pieces of so many characters; one empty piece for an empty text.
pub fn pieces(text: &str, chars: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((at, _)) = rest.char_indices().nth(chars) {
        found.push(&rest[..at]);
        rest = &rest[at..];
    }
    found.push(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_end_between_characters_and_lose_none() {
        for (text, chars, expected) in [
            ("", 3, vec![""]),
            ("abc", 3, vec!["abc"]),
            ("äbcd", 3, vec!["äbc", "d"]),
            ("日本語", 1, vec!["日", "本", "語"]),
        ] {
            assert_eq!(pieces(text, chars), expected, "{text}");
        }
    }
}
