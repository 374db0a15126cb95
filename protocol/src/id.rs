//! Names of jobs and batches: `j-` or `b-` and eight characters of base32, short enough to type and long enough not to
//! clash (40 bits).

#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// RFC 4648 base32 in lower case: no 0, 1, 8 or 9 to be mistaken for a letter.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DIGITS: usize = 8;

/// The identity of one job for ever: `j-abcdefgh`.
pub type JobId = Id<'j'>;
/// The identity of one batch for ever: `b-abcdefgh`.
pub type BatchId = Id<'b'>;

/// An identity of one kind, which its first letter tells.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id<const KIND: char>(Box<str>);

impl<const KIND: char> Id<KIND> {
    /// Five random bytes (40 bits) become eight digits. The caller owns the randomness.
    #[must_use]
    pub fn from_random(bytes: [u8; 5]) -> Self {
        let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let digits = (0..DIGITS).rev().map(|digit| ALPHABET[(bits >> (5 * digit) & 31) as usize] as char);
        Id(format!("{KIND}-{}", digits.collect::<String>()).into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{text}` is no id: one is `{kind}-` and eight of a-z, 2-7")]
pub struct NotAnId {
    text: String,
    kind: char,
}

impl<const KIND: char> FromStr for Id<KIND> {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits = text.strip_prefix(KIND).and_then(|rest| rest.strip_prefix('-'));
        match digits {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(|byte| ALPHABET.contains(&byte)) => {
                Ok(Id(text.into()))
            }
            _ => Err(NotAnId { text: text.to_owned(), kind: KIND }),
        }
    }
}

impl<const KIND: char> TryFrom<String> for Id<KIND> {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        text.parse()
    }
}

impl<const KIND: char> From<Id<KIND>> for String {
    fn from(id: Id<KIND>) -> String {
        id.0.into()
    }
}

impl<const KIND: char> fmt::Display for Id<KIND> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<const KIND: char> fmt::Debug for Id<KIND> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_bits_become_eight_digits_and_read_back() {
        for (bytes, text) in [([0; 5], "j-aaaaaaaa"), ([255; 5], "j-77777777"), ([0, 0, 0, 0, 1], "j-aaaaaaab")] {
            let id = JobId::from_random(bytes);
            assert_eq!(id.as_str(), text);
            assert_eq!(text.parse::<JobId>().expect("reads back"), id);
        }
    }

    #[test]
    fn what_is_no_id_is_refused_by_name() {
        for text in ["", "j-", "j-AAAAAAAA", "j-aaaaaaa", "j-aaaaaaaaa", "b-aaaaaaaa", "j-aaaaaaa1", "../../etc"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }
}
