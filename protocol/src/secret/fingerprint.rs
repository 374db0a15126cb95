//! How a worker can keep a secret out of what it records without being told the secret.
//!
//! A key that a model repeats, or that stands in a file which a tool reads, must not come to stand in the log, which is
//! kept for ever and shown to many. But only the supervisor knows all secrets, and only the worker can mask them before
//! they are history: what is recorded, sent back to the provider and shown must be one text. To hand every worker every
//! key would undo that a lease lends one. So the worker gets fingerprints: a keyed hash of each, and 12 bits of its
//! beginning, by which the few places of a text are found where hashing is worth the while.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Secret;
use crate::json::Json;

/// What stands where a secret stood.
pub const MASK: &str = "[secret]";
/// What is shorter has no fingerprint: it is found in words.
pub const FINGERPRINT_BYTES_MIN: usize = 8;
/// A variable may hold a whole document; what is longer is none that could be typed, sent or guessed as a key.
const SECRET_BYTES_MAX: usize = 8 * 1024;
/// Fingerprints at most: an environment holds fewer secrets, and each has about ten forms.
const COUNT_MAX: usize = 8 * 1024;
const HEADS: usize = 1 << 12;

/// Of each secret, in each of its forms, enough to recognise it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fingerprints {
    /// Drawn anew by each supervisor, so that the hashes mean nothing elsewhere.
    salt: [u8; 32],
    known: Vec<Fingerprint>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fingerprint {
    bytes: u32,
    /// Below `HEADS`.
    head: u16,
    digest: [u8; 32],
}

impl Fingerprints {
    #[must_use]
    pub fn of<'a>(salt: [u8; 32], secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let forms = secrets.into_iter().flat_map(Secret::forms);
        let fits = |form: &String| (FINGERPRINT_BYTES_MIN..=SECRET_BYTES_MAX).contains(&form.len());
        let known = forms.filter(fits).take(COUNT_MAX).map(|form| Fingerprint {
            bytes: u32::try_from(form.len()).unwrap_or(u32::MAX),
            head: head(&salt, form.as_bytes()),
            digest: *blake3::keyed_hash(&salt, form.as_bytes()).as_bytes(),
        });
        let mut known: Vec<Fingerprint> = known.collect();
        // Of those that begin alike the longest is tried first.
        known.sort_by_key(|fingerprint| (fingerprint.head, std::cmp::Reverse(fingerprint.bytes)));
        known.dedup();
        Fingerprints { salt, known }
    }
}

/// Fingerprints, ready to be looked for.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    print: Fingerprints,
    /// Which heads occur, a bit for each: most of a text is passed over by a look at this.
    heads: Vec<u64>,
}

impl Mask {
    #[must_use]
    pub fn new(print: Fingerprints) -> Self {
        let mut heads = vec![0; if print.known.is_empty() { 0 } else { HEADS / 64 }];
        for fingerprint in &print.known {
            // A head above its bound was made by no supervisor: it is never found.
            if let Some(word) = heads.get_mut(usize::from(fingerprint.head) / 64) {
                *word |= 1 << (fingerprint.head % 64);
            }
        }
        Mask { print, heads }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// `text` with [`MASK`] in the place of each secret.
    #[must_use]
    pub fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = String::new();
        let (mut at, mut done) = (0, 0);
        let bytes = text.as_bytes();
        while !self.is_empty() && at + FINGERPRINT_BYTES_MIN <= bytes.len() {
            match self.known_at(&bytes[at..]).filter(|len| text.is_char_boundary(at) && text.is_char_boundary(at + len))
            {
                None => at += 1,
                Some(len) => {
                    shown.push_str(&text[done..at]);
                    shown.push_str(MASK);
                    at += len;
                    done = at;
                }
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        shown.push_str(&text[done..]);
        Cow::Owned(shown)
    }

    pub fn mask(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.masked(text) {
            *text = masked;
        }
    }

    /// Every text in it, its keys among them.
    pub fn mask_json(&self, json: &mut Json) {
        self.mask_map(&mut json.0);
    }

    fn mask_map(&self, map: &mut Map<String, Value>) {
        if map.keys().any(|key| matches!(self.masked(key), Cow::Owned(_))) {
            let all = std::mem::take(map);
            *map = all.into_iter().map(|(key, value)| (self.masked(&key).into_owned(), value)).collect();
        }
        map.values_mut().for_each(|value| self.mask_value(value));
    }

    fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => self.mask_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// How long the secret is that `text` begins with.
    fn known_at(&self, text: &[u8]) -> Option<usize> {
        let Fingerprints { salt, known } = &self.print;
        let head = head(salt, text);
        if self.heads[usize::from(head) / 64] >> (head % 64) & 1 == 0 {
            return None;
        }
        let from = known.partition_point(|fingerprint| fingerprint.head < head);
        let alike = known[from..].iter().take_while(|fingerprint| fingerprint.head == head);
        let mut lengths = alike.filter_map(|fingerprint| {
            let of_this_length = text.get(..fingerprint.bytes as usize)?;
            // Compared in constant time by blake3's own Hash.
            (blake3::keyed_hash(salt, of_this_length) == blake3::Hash::from(fingerprint.digest))
                .then_some(of_this_length.len())
        });
        lengths.next()
    }
}

/// The first eight bytes as a number below `HEADS`. So small on purpose: it tells 12 bits of them to who reads it.
fn head(salt: &[u8; 32], text: &[u8]) -> u16 {
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let spread = (number(text) ^ number(&salt[8..])).wrapping_mul(number(salt) | 1);
    u16::try_from(spread >> (64 - HEADS.trailing_zeros())).unwrap_or_default()
}

/// Text that comes in pieces: what might be the beginning of a secret waits for what follows it.
///
/// Secrets are words of printable ASCII, so only the last such word waits, and never more of it than a secret is long.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    waiting: String,
}

impl Pieces {
    /// What can be shown now that `text` has come.
    pub fn push(&mut self, mask: &Mask, text: &str) -> String {
        if mask.is_empty() {
            return text.to_owned();
        }
        self.waiting.push_str(text);
        let word = self.waiting.bytes().rev().take(SECRET_BYTES_MAX).take_while(u8::is_ascii_graphic).count();
        let rest = self.waiting.split_off(self.waiting.len() - word);
        let shown = mask.masked(&self.waiting).into_owned();
        self.waiting = rest;
        shown
    }

    /// The rest: nothing follows it.
    pub fn finish(&mut self, mask: &Mask) -> String {
        mask.masked(&std::mem::take(&mut self.waiting)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn prints(secrets: &[&str]) -> Fingerprints {
        let secrets: Vec<Secret> = secrets.iter().map(|secret| Secret::new((*secret).to_owned())).collect();
        Fingerprints::of([7; 32], &secrets)
    }

    fn mask(secrets: &[&str]) -> Mask {
        Mask::new(prints(secrets))
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let mask = mask(&["sk-0123456789", "sk-0123456789-longer", "short"]);
        for (quirk, text, expected) in [
            ("inside", "the key sk-0123456789 is", "the key [secret] is"),
            ("at both ends, touching", "sk-0123456789sk-0123456789", "[secret][secret]"),
            ("the longer of two", "sk-0123456789-longer!", "[secret]!"),
            ("beside letters that are not ASCII", "鵜sk-0123456789飼", "鵜[secret]飼"),
            ("in hex", "736b2d30313233343536373839", "[secret]"),
            ("a part of it", "sk-01234567", "sk-01234567"),
            ("too short to be told from words", "short", "short"),
            ("nothing", "", ""),
        ] {
            assert_eq!(mask.masked(text), expected, "{quirk}");
        }
        assert_eq!(Mask::default().masked("sk-0123456789"), "sk-0123456789");
    }

    #[test]
    fn an_object_is_masked_in_values_and_keys() {
        let Value::Object(map) = json!({"a": ["x sk-0123456789", {"sk-0123456789": 1}], "n": 5}) else { return };
        let mut json = Json(map);
        mask(&["sk-0123456789"]).mask_json(&mut json);
        assert_eq!(Value::Object(json.0), json!({"a": ["x [secret]", {"[secret]": 1}], "n": 5}));
    }

    #[test]
    fn nothing_of_the_secret_is_in_what_travels() {
        let known = prints(&["sk-0123456789"]);
        let travels = crate::codec::encode(&known).expect("it encodes");
        assert!(!travels.windows(4).any(|window| window == b"0123"));
        assert!(!format!("{known:?}").contains("0123"));
    }

    proptest! {
        #[test]
        fn no_secret_is_left_however_its_text_is_cut_into_pieces(
            secret in "[!-~]{12,60}",
            before in "\\PC{0,30}",
            after in "\\PC{0,30}",
            cuts in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            let mask = mask(&[&secret]);
            let text: Vec<char> = format!("{before}{secret}{after}").chars().collect();
            let (mut pieces, mut shown, mut at) = (Pieces::default(), String::new(), 0);
            for cut in cuts {
                let end = (at + cut).min(text.len());
                shown.push_str(&pieces.push(&mask, &text[at..end].iter().collect::<String>()));
                at = end;
            }
            shown.push_str(&pieces.push(&mask, &text[at..].iter().collect::<String>()));
            shown.push_str(&pieces.finish(&mask));
            let text: String = text.iter().collect();
            if secret.contains("://") {
                return Ok(());
            }
            prop_assert!(!shown.contains(&secret), "{shown}");
            let whole = mask.masked(&text);
            prop_assert_eq!(shown.as_str(), whole.as_ref());
        }
    }
}
