//! Identities of tool calls.
//!
//! A provider's id is kept where it can be. Models and gateways send none, empty ones, the same one each turn or in
//! one reply, or text that another wire refuses; each call still needs its own, or its result answers another one.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;
use std::collections::HashSet;

/// What every wire accepts (`^[a-zA-Z0-9_-]{1,64}$`).
pub const ID_CHARS_MAX: usize = 64;
/// 64 bits in hexadecimal.
const DIGEST_CHARS: usize = 16;

/// Hands out ids that are unique in the conversation.
pub struct Ids<'a> {
    used: &'a HashSet<&'a str>,
    given: HashSet<String>,
    fresh: &'a mut dyn FnMut() -> String,
}

impl<'a> Ids<'a> {
    /// `used`: every id in the conversation. `fresh`: a new one (a UUID v4), where the provider sent none.
    pub fn new(used: &'a HashSet<&'a str>, fresh: &'a mut dyn FnMut() -> String) -> Self {
        Ids { used, given: HashSet::new(), fresh }
    }

    /// The id of one call: the provider's where it fits, with `-2`, `-3`, … where it is taken.
    pub fn assign(&mut self, raw: Option<&str>) -> String {
        let base = match raw {
            Some(raw) if !raw.trim().is_empty() => sanitize(raw),
            _ => sanitize(&(self.fresh)()),
        };
        let mut id = base.clone();
        let mut n = 2_u64;
        while self.used.contains(id.as_str()) || self.given.contains(&id) {
            let suffix = format!("-{n}");
            let kept = base.len().min(ID_CHARS_MAX - suffix.len());
            id = format!("{}{suffix}", &base[..kept]);
            n += 1;
        }
        self.given.insert(id.clone());
        id
    }
}

/// The id in at most `chars_max` characters, for a wire that takes no more: the same one for the same id, so that a call
/// and its result still meet, and another one for another, since a digest of all of it stands at the end.
pub fn shortened(id: &str, chars_max: usize) -> Cow<'_, str> {
    // Ids are ASCII; one that is not would be refused however short.
    match id.get(..chars_max.saturating_sub(DIGEST_CHARS)) {
        Some(kept) if id.len() > chars_max => Cow::Owned(format!("{kept}{:016x}", fnv1a(id))),
        _ => Cow::Borrowed(id),
    }
}

/// Fixed by its definition (RFC 9923), where the standard library's hashes may change with the compiler.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn sanitize(raw: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    raw.chars().take(ID_CHARS_MAX).map(|c| if fits(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_id_is_one_and_the_same_and_no_other() {
        let long = |last: &str| format!("toolu_{}{last}", "x".repeat(40));
        for (id, expected) in [
            ("call_1", "call_1"),
            (&"x".repeat(40), &"x".repeat(40)),
            ("", ""),
            (&long("a"), "toolu_xxxxxxxxxxxxxxxxxx018d031e098e2c1e"),
            (&long("b"), "toolu_xxxxxxxxxxxxxxxxxx018d021e098e2a6b"),
        ] {
            assert_eq!(shortened(id, 40), expected, "{id}");
        }
    }

    #[test]
    fn every_call_gets_its_own_id() {
        let long = "x".repeat(80);
        let cut = "x".repeat(64);
        let suffixed = format!("{}-2", "x".repeat(62));
        type Case<'a> = (&'a str, &'a [&'a str], &'a [Option<&'a str>], &'a [&'a str]);
        #[rustfmt::skip]
        let cases: [Case<'_>; 9] = [
            ("kept", &[], &[Some("call_1")], &["call_1"]),
            ("missing, empty, blank", &[], &[None, Some(""), Some(" ")], &["new-1", "new-2", "new-3"]),
            ("twice in one reply", &[], &[Some("a"), Some("a"), Some("a")], &["a", "a-2", "a-3"]),
            ("used in an earlier turn", &["a"], &[Some("a")], &["a-2"]),
            ("the suffixed one is used too", &["a", "a-2"], &[Some("a")], &["a-3"]),
            ("sanitized", &[], &[Some("call.1/鵜")], &["call_1__"]),
            ("clash after sanitizing", &[], &[Some("a.1"), Some("a/1")], &["a_1", "a_1-2"]),
            ("too long", &[], &[Some(&long)], &[&cut]),
            ("too long and taken", &[&cut], &[Some(&long)], &[&suffixed]),
        ];
        for (quirk, used, raw, expected) in cases {
            let used: HashSet<&str> = used.iter().copied().collect();
            let mut n = 0;
            let mut fresh = || {
                n += 1;
                format!("new-{n}")
            };
            let mut ids = Ids::new(&used, &mut fresh);
            let given: Vec<String> = raw.iter().map(|raw| ids.assign(*raw)).collect();
            assert_eq!(given, expected, "{quirk}");
        }
    }
}
