//! The signatures that Gemini puts on parts and wants back: each says by itself which part it may stand on.
//!
//! https://ai.google.dev/gemini-api/docs/thought-signatures: they are bytes in base64, so a client that decodes, trims or
//! escapes one breaks it. One that holds its own proof lets the judge find that without remembering anything.

#![deny(clippy::disallowed_methods)]

use super::conversation::digest;

/// What the API takes on calls that no Gemini made.
pub const TAKEN_UNSEEN: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// Both characters that base64 has and its alphabet for addresses has not.
const HEAD: &str = "CiQB+/ukai/sc";
/// With the padding, which some decoders want and some clients lose.
const TAIL: &str = "g==";
const MARK_CHARS: usize = 8;
const PROOF_CHARS: usize = 24;

/// `of`: the name of the function called; empty on a text.
pub fn sign(mark: &str, of: &str) -> String {
    let proof = &digest(&["thought", mark, of])[..PROOF_CHARS];
    format!("{HEAD}{mark}{proof}{TAIL}")
}

/// Whether it is one of ours, for a part of this kind, to the last byte.
pub fn holds(signature: &str, of: &str) -> bool {
    let mark = signature.strip_prefix(HEAD).and_then(|rest| rest.get(..MARK_CHARS));
    mark.is_some_and(|mark| sign(mark, of) == signature)
}

/// Gemini 3 and later sign every call; those before it may think without it.
pub fn always_signs(model: &str) -> bool {
    let number = model.strip_prefix("gemini-").and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    number.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|number| number >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_base64_and_holds_for_its_part_alone() {
        let signature = sign("0123abcd", "Read");
        assert_eq!((signature.len() % 4, signature.ends_with("==")), (0, true), "{signature}");
        for (given, of, expected) in [
            (signature.as_str(), "Read", true),
            (&signature, "Grep", false),
            (&signature, "", false),
            (&signature[..signature.len() - 2], "Read", false),
            (&signature.replace('+', "-"), "Read", false),
            (&signature.replace("0123abcd", "0123abce"), "Read", false),
            (TAKEN_UNSEEN[0], "Read", false),
            ("", "", false),
        ] {
            assert_eq!(holds(given, of), expected, "{given} on {of}");
        }
    }

    #[test]
    fn models_say_by_their_number_whether_they_sign() {
        for (model, signs) in [
            ("gemini-3.8-flash", true),
            ("gemini-10-pro", true),
            ("gemini-2.5-pro", false),
            ("gemini-flash-latest", false),
            ("lab-3", false),
        ] {
            assert_eq!(always_signs(model), signs, "{model}");
        }
    }
}
