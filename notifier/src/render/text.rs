//! Other people's text on its way to a sink: what is invisible or steers goes, and what does not fit is cut where a reader
//! would cut it.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

/// Joins two emoji to one that is shown: a family, a flag, a profession.
const JOINER: char = '\u{200D}';

/// On one line, without what steers a terminal, turns the direction of writing or hides.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut kept = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let shown = match c {
            JOINER => joins(&kept) && chars.peek().is_some_and(|next| is_emoji(*next)),
            _ => !is_invisible(c),
        };
        if shown {
            kept.push(if c.is_control() { ' ' } else { c });
        }
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether it ends in an emoji, as it is or in another colour.
fn joins(text: &str) -> bool {
    text.chars().rev().find(|c| !is_style(*c)).is_some_and(is_emoji)
}

/// Which of its forms an emoji takes (Unicode Technical Standard 51): as a picture, as text.
fn is_style(c: char) -> bool {
    matches!(c, '\u{FE0E}' | '\u{FE0F}')
}

/// Blocks of what joins to an emoji; letters are in none of them.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}')
}

/// Format characters and blanks that take no room (Unicode, Default_Ignorable_Code_Point), but for what styles an emoji.
fn is_invisible(c: char) -> bool {
    let is_selector = matches!(c, '\u{FE00}'..='\u{FE0F}') && !is_style(c);
    is_selector
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

/// At most so many UTF-16 units, no grapheme split.
#[must_use]
pub fn cut(text: &str, units: usize) -> String {
    cut_as(text, units, Cow::Borrowed)
}

/// The same of what `shown` makes of each grapheme, which is shown as a whole or not at all.
#[must_use]
pub fn cut_as<'a>(text: &'a str, units: usize, shown: impl Fn(&'a str) -> Cow<'a, str>) -> String {
    let (mut kept, mut used) = (String::new(), 0);
    // Up to where there is room for the sign that more follows.
    let mut with_sign = 0;
    for grapheme in text.graphemes(true) {
        let piece = shown(grapheme);
        used += piece.encode_utf16().count();
        if used > units {
            kept.truncate(with_sign);
            kept.push('…');
            return kept;
        }
        kept.push_str(&piece);
        if used < units {
            with_sign = kept.len();
        }
    }
    kept
}

/// For the markup that servers of notifications take (Desktop Notifications 1.2).
#[must_use]
pub fn escaped(grapheme: &str) -> Cow<'_, str> {
    if !grapheme.contains(['&', '<', '>']) {
        return Cow::Borrowed(grapheme);
    }
    Cow::Owned(grapheme.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_invisible_goes_and_joined_emoji_stay() {
        for (quirk, text, expected) in [
            ("a family", "x 👨\u{200D}👩\u{200D}👧 y", "x 👨\u{200D}👩\u{200D}👧 y"),
            ("in a colour", "👩🏽\u{200D}💻", "👩🏽\u{200D}💻"),
            (
                "styled",
                "❤\u{FE0F}\u{200D}🔥 🏳\u{FE0F}\u{200D}⚧\u{FE0F}",
                "❤\u{FE0F}\u{200D}🔥 🏳\u{FE0F}\u{200D}⚧\u{FE0F}",
            ),
            ("between letters", "a\u{200D}b", "ab"),
            ("at an end", "\u{200D}👩\u{200D}", "👩"),
            ("before a letter", "👩\u{200D}a", "👩a"),
            ("twice", "👩\u{200D}\u{200D}💻", "👩\u{200D}💻"),
            ("around another control", "👩\u{200D}\u{202E}💻", "👩💻"),
            ("direction", "a\u{202E}b\u{2066}c\u{61C}d\u{200F}e", "abcde"),
            ("no width", "a\u{200B}b\u{FEFF}c\u{2060}d\u{AD}e\u{180E}f", "abcdef"),
            ("tags", "a\u{E0041}\u{E007F}b\u{E0100}", "ab"),
            ("fillers", "a\u{3164}b\u{115F}c\u{FFA0}", "abc"),
            ("lines", "a\nb\u{2028}c\td\u{1b}[0m", "a b c d [0m"),
        ] {
            assert_eq!(clean(text), expected, "{quirk}");
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_between_graphemes_and_entities() {
        for (quirk, text, units, expected) in [
            ("fits", "abc", 3, "abc"),
            ("does not", "abcd", 3, "ab…"),
            ("nothing fits", "abcd", 1, "…"),
            ("an entity at the end fits", "ab&", 7, "ab&amp;"),
            ("an entity at the end does not", "ab&c", 7, "ab…"),
            ("an accent stays with its letter", "abe\u{301}d", 4, "ab…"),
            ("a family", "a👨\u{200D}👩\u{200D}👧b", 9, "a…"),
            ("a family that fits", "a👨\u{200D}👩\u{200D}👧bc", 10, "a👨\u{200D}👩\u{200D}👧…"),
            ("two flags", "🇩🇪🇫🇷🇮🇹", 9, "🇩🇪🇫🇷…"),
            ("a letter without end", &"\u{301}".repeat(99), 9, "…"),
        ] {
            assert_eq!(cut_as(text, units, escaped), expected, "{quirk}");
        }
    }
}
