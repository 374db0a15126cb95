//! What the parts of a Gemini reply were, beside the one text and the calls that they became.
//!
//! Kept as one opaque object, `{"parts": […]}`, in the order in which the parts came: `{"text": n}` for the next n bytes
//! of the text, `{"call": n}` for the call at place n, each with its `thoughtSignature` if it had one and `"id": true` if
//! the model named the call; a signed thought is kept whole. A text that was changed since (a folded window) no longer
//! fits: its parts are then one text and the calls, and each call still has the signature that it came with.

#![deny(clippy::disallowed_methods)]

use serde_json::{Map, Value};

pub(super) const SIGNATURE: &str = "thoughtSignature";

/// One part on its way back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Bytes of the text.
    Text {
        from: usize,
        to: usize,
        signature: Option<&'a str>,
    },
    Call {
        place: usize,
        signature: Option<&'a str>,
        has_id: bool,
    },
    Thought(&'a Map<String, Value>),
}

#[derive(Debug)]
pub(super) struct Layout<'a>(Vec<Piece<'a>>);

impl<'a> Layout<'a> {
    /// `own`: the opaque data of this provider.
    pub fn read(mut own: impl Iterator<Item = &'a Map<String, Value>>, text: &str, calls: usize) -> Self {
        let kept = own.find_map(|data| data.get("parts")?.as_array());
        let pieces = kept.map(|kept| pieces(kept)).unwrap_or_default();
        if fits(&pieces, text, calls) {
            return Layout(pieces);
        }
        let call = |place: usize| {
            let same = |piece: &&Piece<'a>| matches!(piece, Piece::Call { place: at, .. } if *at == place);
            let known = pieces.iter().find(same).copied();
            known.unwrap_or(Piece::Call { place, signature: None, has_id: false })
        };
        let text = Piece::Text { from: 0, to: text.len(), signature: None };
        Layout([text].into_iter().chain((0..calls).map(call)).collect())
    }

    pub fn pieces(&self) -> &[Piece<'a>] {
        &self.0
    }

    pub fn has_id(&self, call: usize) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Call { place, has_id: true, .. } if *place == call))
    }
}

fn pieces(kept: &[Value]) -> Vec<Piece<'_>> {
    let mut at = 0_usize;
    let count = |part: &Value, key: &str| part.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let piece = |part| {
        let signature = part_signature(part);
        if let Some(place) = count(part, "call") {
            let has_id = part.get("id").and_then(Value::as_bool).unwrap_or(false);
            return Some(Piece::Call { place, signature, has_id });
        }
        if let Some(length) = count(part, "text") {
            let from = at;
            at = at.saturating_add(length);
            return Some(Piece::Text { from, to: at, signature });
        }
        part.get("thought")?.as_object().map(Piece::Thought)
    };
    kept.iter().filter_map(piece).collect()
}

/// Whether the pieces are all of the text and each call once.
fn fits(pieces: &[Piece<'_>], text: &str, calls: usize) -> bool {
    let mut end = 0;
    let mut called = vec![false; calls];
    for piece in pieces {
        match *piece {
            Piece::Text { from, to, .. } if text.get(from..to).is_some() => end = to,
            Piece::Text { .. } => return false,
            Piece::Call { place, .. } => match called.get_mut(place) {
                Some(seen) if !*seen => *seen = true,
                _ => return false,
            },
            Piece::Thought(_) => {}
        }
    }
    end == text.len() && called.into_iter().all(|seen| seen)
}

/// The signature in a part, as the wire spells it and as some gateways do.
pub(super) fn part_signature(part: &Value) -> Option<&str> {
    let found = part.get(SIGNATURE).or_else(|| part.get("thought_signature"))?;
    found.as_str().filter(|signature| !signature.is_empty())
}

/// The parts of a reply as they come, to be kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parts: Vec<Map<String, Value>>,
    /// Something is among them that text and calls alone would lose.
    matters: bool,
}

impl Kept {
    /// Pieces of one unsigned text are one part: a stream cuts anywhere.
    pub fn text(&mut self, bytes: usize, signature: Option<&str>) {
        if signature.is_none() && bytes == 0 {
            return;
        }
        let open = self.parts.last_mut().filter(|last| signature.is_none() && !last.contains_key(SIGNATURE));
        if let Some(length) = open.and_then(|last| last.get_mut("text"))
            && let Some(known) = length.as_u64()
        {
            *length = (known + bytes as u64).into();
            return;
        }
        self.push("text", bytes.into(), signature);
    }

    pub fn call(&mut self, place: usize, signature: Option<&str>, has_id: bool) {
        self.push("call", place.into(), signature);
        if let Some(part) = self.parts.last_mut().filter(|_| has_id) {
            part.insert("id".to_owned(), true.into());
            self.matters = true;
        }
    }

    pub fn thought(&mut self, part: Value) {
        self.push("thought", part, None);
        self.matters = true;
    }

    fn push(&mut self, what: &str, value: Value, signature: Option<&str>) {
        let mut part = Map::from_iter([(what.to_owned(), value)]);
        if let Some(signature) = signature {
            part.insert(SIGNATURE.to_owned(), signature.into());
            self.matters = true;
        }
        self.parts.push(part);
    }

    pub fn into_opaque(self) -> Option<Map<String, Value>> {
        let parts: Value = self.parts.into_iter().map(Value::Object).collect();
        self.matters.then(|| Map::from_iter([("parts".to_owned(), parts)]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_layout_that_does_not_fit_still_gives_calls_their_signatures() {
        let call = |place, signature, has_id| Piece::Call { place, signature, has_id };
        let text = |from, to, signature| Piece::Text { from, to, signature };
        let whole = json!([{"text": 3}, {"text": 0, "thoughtSignature": "t"}, {"call": 0, "thoughtSignature": "s", "id": true}]);
        let as_kept = vec![text(0, 3, None), text(3, 3, Some("t")), call(0, Some("s"), true)];
        #[rustfmt::skip]
        let cases = [
            ("as it came", whole.clone(), "鵜", 1, as_kept),
            ("the text has changed", whole.clone(), "longer", 1, vec![text(0, 6, None), call(0, Some("s"), true)]),
            ("a length within a character", json!([{"text": 1}, {"text": 2}]), "鵜", 0, vec![text(0, 3, None)]),
            ("a call more than was kept", whole, "鵜", 2, vec![text(0, 3, None), call(0, Some("s"), true), call(1, None, false)]),
            ("a call twice", json!([{"call": 0}, {"call": 0}]), "", 1, vec![text(0, 0, None), call(0, None, false)]),
            ("none", json!([]), "ab", 0, vec![text(0, 2, None)]),
            ("no list", json!("x"), "ab", 1, vec![text(0, 2, None), call(0, None, false)]),
        ];
        for (quirk, kept, said, calls, expected) in cases {
            let data = Map::from_iter([("parts".to_owned(), kept)]);
            assert_eq!(Layout::read([&data].into_iter(), said, calls).pieces(), expected, "{quirk}");
        }
    }
}
