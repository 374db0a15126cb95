//! One text in another, replaced: in the one place where it stands, in all, or not at all.

#![deny(clippy::disallowed_methods)]

use std::ops::Range;

use crate::tool::look::WHOLE_BYTES_MAX;

/// Line numbers that a refusal names, and places that a result shows.
const PLACES_NAMED_MAX: usize = 10;
const PLACES_SHOWN_MAX: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// How many places were changed.
    pub count: usize,
    /// Where the first of them are now, in bytes.
    pub places: Vec<Range<usize>>,
}

/// Why nothing was changed, in words that follow the file's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("old_string and new_string are the same, so there is nothing to change")]
    Same,
    #[error("old_string is empty, and the file is not. Give the text that is to be replaced, or use Write")]
    Empty,
    #[error("old_string is not in the file")]
    Missing,
    #[error(
        "old_string stands in {count} places (lines {}{}). Give more of the text around the one you mean, or set \
         replace_all",
        .lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        if .count > &.lines.len() { ", …" } else { "" }
    )]
    Several { count: usize, lines: Vec<usize> },
    #[error("the file would have {bytes} bytes, more than the {WHOLE_BYTES_MAX} that Edit takes")]
    TooLarge { bytes: u128 },
}

impl Refused {
    /// Whether a look around may tell what was meant.
    pub fn is_missing(&self) -> bool {
        matches!(self, Refused::Missing)
    }
}

/// `old` becomes `new` in `text`. An empty `old` is the whole of an empty text.
pub fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Edited, Refused> {
    if old == new {
        return Err(Refused::Same);
    }
    if old.is_empty() {
        return match text {
            "" => Ok(Edited { text: new.to_owned(), count: 1, places: std::iter::once(0..new.len()).collect() }),
            _ => Err(Refused::Empty),
        };
    }
    let first = text.find(old).ok_or(Refused::Missing)?;
    if !all {
        refuse_several(text, old, first)?;
    }
    let count = if all { text.matches(old).count() } else { 1 };
    let bytes = (text.len() - count * old.len()) as u128 + count as u128 * new.len() as u128;
    if bytes > u128::from(WHOLE_BYTES_MAX) {
        return Err(Refused::TooLarge { bytes });
    }
    let places = text.match_indices(old).take(count.min(PLACES_SHOWN_MAX)).enumerate().map(|(nth, (at, _))| {
        let start = at - nth * old.len() + nth * new.len();
        start..start + new.len()
    });
    Ok(Edited { places: places.collect(), text: text.replacen(old, new, count), count })
}

/// Also places that overlap are several: which of them was meant cannot be told.
fn refuse_several(text: &str, old: &str, first: usize) -> Result<(), Refused> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let Some(second) = text[first + step..].find(old).map(|at| first + step + at) else { return Ok(()) };
    let mut places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).take(PLACES_NAMED_MAX).collect();
    let mut count = text.matches(old).count();
    if count == 1 {
        places.push(second);
        count = 2;
    }
    let (mut line, mut from) = (1, 0);
    let lines = places.into_iter().map(|at| {
        line += text[from..at].matches('\n').count();
        from = at;
        line
    });
    Err(Refused::Several { count, lines: lines.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_all_places_or_none() {
        type Expected<'a> = Result<(&'a str, usize, Range<usize>), &'a str>;
        let check = |text: &str, old: &str, new: &str, all: bool, expected: Expected<'_>| {
            let found = replace(text, old, new, all);
            match (&found, expected) {
                (Ok(edited), Ok((text, count, place))) => {
                    assert_eq!((edited.text.as_str(), edited.count), (text, count), "{old} in {text}");
                    assert_eq!(edited.places.last(), Some(&place), "{old} in {text}");
                }
                (Err(refused), Err(why)) => assert!(refused.to_string().contains(why), "{refused}"),
                _ => panic!("{old} in {text}: {found:?}"),
            }
        };
        check("a b c", "b", "xx", false, Ok(("a xx c", 1, 2..4)));
        check("a b c", "b ", "", false, Ok(("a c", 1, 2..2)));
        check("ä b", "ä", "é", false, Ok(("é b", 1, 0..2)));
        check("a\nb\na\n", "a\n", "x\n", true, Ok(("x\nb\nx\n", 2, 4..6)));
        check("aXaXa", "a", "", true, Ok(("XX", 3, 2..2)));
        check("aaaa", "aa", "b", true, Ok(("bb", 2, 1..2)));
        check("", "", "new", false, Ok(("new", 1, 0..3)));
        check("a", "a", "a", false, Err("the same"));
        check("", "", "", false, Err("the same"));
        check("a", "", "b", true, Err("is empty"));
        check("a", "A", "b", false, Err("is not in the file"));
        check("a", "A", "b", true, Err("is not in the file"));
        check("x\na\na", "a", "b", false, Err("stands in 2 places (lines 2, 3)"));
        check("aaa", "aa", "b", false, Err("stands in 2 places (lines 1, 1)"));
        check("ääää", "äää", "b", false, Err("stands in 2 places"));
        check(&"a\n".repeat(12), "a", "b", false, Err("12 places (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)"));
    }

    #[test]
    fn no_edit_fills_the_memory() {
        let million = "x".repeat(1_000_000);
        let refused = replace(&"a".repeat(1_000_000), "a", &million, true).expect_err("too large");
        assert_eq!(refused, Refused::TooLarge { bytes: 1_000_000_000_000 });
    }

    #[test]
    fn a_long_text_of_one_letter_is_no_trouble() {
        let text = "a".repeat(4_000_000);
        let refused = replace(&text, &"a".repeat(1_000_000), "b", false).expect_err("several");
        assert!(matches!(refused, Refused::Several { count: 4, .. }), "{refused}");
    }
}
