//! Pieces of a secret, wherever they stand: for texts that were cut, shortened or wrapped by somebody else.
//!
//! To look for whole secrets is not enough there: providers shorten what they repeat, a detail is cut at a bound, and most
//! of a key is as good as all of it to whoever guesses the rest.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;

/// So many characters of a secret in a row are a piece of it; fewer are found in words too.
pub const PIECE_CHARS: usize = 8;

/// Secrets, known by their pieces.
#[derive(Clone, Default)]
pub struct Fragments {
    pieces: HashSet<[char; PIECE_CHARS]>,
    /// Those that are no longer than a piece.
    short: Vec<Vec<char>>,
}

impl Fragments {
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = Fragments::default();
        for secret in secrets {
            let secret: Vec<char> = secret.chars().collect();
            match secret.len() {
                0 => {}
                1..PIECE_CHARS => known.short.push(secret),
                _ => known
                    .pieces
                    .extend(secret.windows(PIECE_CHARS).filter_map(|p| <[char; PIECE_CHARS]>::try_from(p).ok())),
            }
        }
        known
    }

    /// Which of these characters belong to a secret.
    #[must_use]
    pub fn found(&self, text: &[char]) -> Vec<bool> {
        let mut is_secret = vec![false; text.len()];
        for (at, piece) in text.windows(PIECE_CHARS).enumerate() {
            if <[char; PIECE_CHARS]>::try_from(piece).is_ok_and(|piece| self.pieces.contains(&piece)) {
                is_secret[at..at + PIECE_CHARS].fill(true);
            }
        }
        for secret in &self.short {
            for (at, piece) in text.windows(secret.len()).enumerate() {
                if piece == secret.as_slice() {
                    is_secret[at..at + secret.len()].fill(true);
                }
            }
        }
        is_secret
    }
}

/// `text` with one `mask` in the place of each run of what is secret.
#[must_use]
pub fn shown(text: &[char], is_secret: &[bool], mask: &str) -> String {
    let mut shown = String::new();
    for (at, c) in text.iter().enumerate() {
        if !is_secret[at] {
            shown.push(*c);
        } else if at == 0 || !is_secret[at - 1] {
            shown.push_str(mask);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_found_wherever_it_stands() {
        for (quirk, secret, text, expected) in [
            ("whole", "hunter2-hunter2", "it is hunter2-hunter2!", "it is [s]!"),
            ("its end is cut", "hunter2-hunter2", "it is hunter2-hu…", "it is [s]…"),
            ("too little of it", "hunter2-hunter2", "it is hunter2", "it is hunter2"),
            ("a short one", "abc", "xabcabcx", "x[s]x"),
            ("longer than the text", "abc", "ab", "ab"),
            ("nothing", "", "text", "text"),
        ] {
            let text: Vec<char> = text.chars().collect();
            assert_eq!(shown(&text, &Fragments::of([secret]).found(&text), "[s]"), expected, "{quirk}");
        }
    }
}
