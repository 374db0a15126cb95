//! What may be shown of a text in which a provider repeats the key.
//!
//! A detail and a signature are cut at a bound, so not only every piece of the key is masked, wherever it stands, but a
//! shorter one too where a text was cut.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::secret::fragment::{self, Fragments, PIECE_CHARS};

/// What stands at the end of a text that was cut.
pub(super) const CUT: char = '…';
const MASK: &str = "[key]";
/// At a cut the rest of the key is missing, and fewer give it away; below this they are any word's beginning.
const BEGINNING_CHARS: usize = 4;

/// `text` without `key` or pieces of it. `is_cut`: the end of the text may be the beginning of the key.
pub(super) fn masked(text: &str, key: &str, is_cut: bool) -> String {
    let key = key.trim();
    let text: Vec<char> = text.chars().collect();
    let mut is_of_key = Fragments::of([key]).found(&text);
    if is_cut {
        mark_beginning(&text, key, &mut is_of_key);
    }
    fragment::shown(&text, &is_of_key, MASK)
}

/// Where a text was cut, fewer characters of the key are a piece of it.
fn mark_beginning(text: &[char], key: &str, is_of_key: &mut [bool]) {
    let key: Vec<char> = key.chars().collect();
    let end = text.strip_suffix(&[CUT]).unwrap_or(text);
    let longest = PIECE_CHARS.min(key.len());
    if let Some(chars) = (BEGINNING_CHARS..longest).rev().find(|chars| end.ends_with(&key[..*chars])) {
        is_of_key[end.len() - chars..end.len()].fill(true);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::provider::classify::refused;

    #[test]
    fn a_key_is_masked_whole_or_in_pieces() {
        const KEY: &str = "sk-0123456789";
        for (quirk, text, key, is_cut, expected) in [
            ("whole", "key sk-0123456789 is wrong", KEY, false, "key [key] is wrong"),
            ("blanks around the key", "sk-0123456789", " sk-0123456789\n", false, "[key]"),
            ("twice, touching", "sk-0123456789sk-0123456789", KEY, false, "[key]"),
            ("its end missing", "key sk-01234 is", KEY, false, "key [key] is"),
            ("its beginning missing", "key …23456789", KEY, false, "key …[key]"),
            ("shortened by the provider", "sk-01***789", KEY, false, "sk-01***789"),
            ("overlapping itself", "abcdefghabcdefghabcdefgh", "abcdefghabcdefgh", false, "[key]"),
            ("a short key", "key abc.", "abc", false, "key [key]."),
            ("a short key's beginning", "key abcd…", "abcdef", true, "key [key]…"),
            ("no key", "text", "  ", true, "text"),
            ("at a cut", "key sk-0…", KEY, true, "key [key]…"),
            ("at a cut without its mark", "code=sk-0123", KEY, true, "code=[key]"),
            ("at a cut, too few", "key sk-…", KEY, true, "key sk-…"),
            ("at the end of what was not cut", "begins with sk-0", KEY, false, "begins with sk-0"),
            ("letters that are not ASCII", "鵜鵜sk-0123456789鵜", KEY, false, "鵜鵜[key]鵜"),
        ] {
            assert_eq!(masked(text, key, is_cut), expected, "{quirk}");
        }
    }

    proptest! {
        #[test]
        fn no_piece_of_any_key_is_left_anywhere(
            key in "[A-Za-z0-9_.-]{8,90}",
            kind in "[a-z_]{0,64}",
            before in "\\PC{0,40}",
            padding in 0_usize..520,
            after in "\\PC{0,600}",
        ) {
            let message = format!("{before}{}{key}{after}", "=".repeat(padding));
            let now = std::time::SystemTime::UNIX_EPOCH;
            let body = json!({"error": {"type": kind, "code": key, "message": message}}).to_string();
            for body in [&body, &message] {
                let failure = refused(401, &HeaderMap::new(), body, now).without(Some(&key));
                for piece in key.as_bytes().windows(8) {
                    let piece = str::from_utf8(piece).expect("ASCII");
                    prop_assert!(!failure.detail.contains(piece), "{piece} of {key} in {}", failure.detail);
                    prop_assert!(!failure.signature.contains(piece), "{piece} of {key} in {}", failure.signature);
                }
            }
        }
    }
}
