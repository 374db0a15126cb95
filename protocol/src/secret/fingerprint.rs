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
pub const SECRET_BYTES_MAX: usize = 8 * 1024;
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
    /// Of printable ASCII without a blank.
    is_word: bool,
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
            is_word: form.bytes().all(|byte| byte.is_ascii_graphic()),
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
    /// Of the longest.
    bytes_max: usize,
    has_other_than_words: bool,
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
        let bytes_max = print.known.iter().map(|known| known.bytes as usize).max().unwrap_or(0);
        let has_other_than_words = print.known.iter().any(|known| !known.is_word);
        Mask { print, heads, bytes_max, has_other_than_words }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// `text` with [`MASK`] in the place of each secret.
    #[must_use]
    pub fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_known = |at| text.is_char_boundary(at) && self.known_at(&text.as_bytes()[at..]).is_some();
        if self.is_empty() || !(0..text.len()).any(is_known) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.masked_until(text, text.len()).0)
    }

    /// The same for what begins before `end`; how much of the text that was. `end` is between two characters.
    fn masked_until(&self, text: &str, end: usize) -> (String, usize) {
        let (mut shown, mut at, mut done) = (String::new(), 0, 0);
        while at < end {
            let known = if text.is_char_boundary(at) { self.known_at(&text.as_bytes()[at..]) } else { None };
            match known.filter(|len| text.is_char_boundary(at + len)) {
                None => at += 1,
                Some(len) => {
                    shown.push_str(&text[done..at]);
                    shown.push_str(MASK);
                    at += len;
                    done = at;
                }
            }
        }
        shown.push_str(&text[done..at]);
        (shown, at)
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

    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => self.mask_map(map),
            // One that is written in digits stays a text: the value is gone either way.
            Value::Number(number) => {
                if let Cow::Owned(masked) = self.masked(&number.to_string()) {
                    *value = Value::String(masked);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// How long the secret is that `text` begins with.
    fn known_at(&self, text: &[u8]) -> Option<usize> {
        let Fingerprints { salt, known } = &self.print;
        if self.is_empty() || text.len() < FINGERPRINT_BYTES_MIN {
            return None;
        }
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
/// As a rule secrets are words of printable ASCII; then only the last such word waits. Where one has a blank or a letter
/// in it that is not ASCII, as much waits as it is long.
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
        let longest = mask.bytes_max - 1;
        let word = self.waiting.bytes().rev().take(longest).take_while(u8::is_ascii_graphic).count();
        let held = if mask.has_other_than_words { longest } else { word };
        let safe = self.waiting.floor_char_boundary(self.waiting.len().saturating_sub(held));
        let (shown, taken) = mask.masked_until(&self.waiting, safe);
        self.waiting.drain(..taken);
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
        let Value::Object(map) = json!({"limit": 998877665544332211_u64}) else { return };
        let mut json = Json(map);
        mask(&["998877665544332211"]).mask_json(&mut json);
        assert_eq!(Value::Object(json.0), json!({"limit": "[secret]"}));
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
        fn nor_in_words_without_end_or_where_it_has_blanks(
            secret in "[a-zé]{3,9}[ ß][!-~]{12,40}|[!-~]{12,40}",
            filler in "[a-z]{1,400}",
            cuts in proptest::collection::vec(1_usize..9_000, 1..40),
        ) {
            prop_assume!(!secret.contains("://"));
            let mask = mask(&[&secret]);
            let text: Vec<char> = format!("{filler}{secret}").repeat(40).chars().collect();
            let (mut pieces, mut shown, mut at) = (Pieces::default(), String::new(), 0);
            for cut in cuts.into_iter().cycle() {
                let end = (at + cut).min(text.len());
                shown.push_str(&pieces.push(&mask, &text[at..end].iter().collect::<String>()));
                at = end;
                if at == text.len() {
                    break;
                }
            }
            shown.push_str(&pieces.finish(&mask));
            let whole: String = text.iter().collect();
            let masked = mask.masked(&whole);
            prop_assert_eq!(shown.as_str(), masked.as_ref());
            prop_assert!(!shown.contains(&secret));
        }

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
