//! What of a text file is no line of it and is kept by whoever writes it: its line ends and its byte order mark.
//!
//! A model is shown neither (Read leaves them out), so it cannot be expected to give them back. Line ends are kept where
//! they are the same throughout; of a file that mixes them nothing is guessed.

#![deny(clippy::disallowed_methods)]

use std::borrow::Cow;

pub const BOM: char = '\u{feff}';

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub bom: bool,
    /// It has line ends, and all of them are CRLF.
    pub crlf: bool,
}

impl Shape {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
        let some = ends.peek().is_some();
        let crlf = some && ends.all(|(at, _)| at > 0 && bytes[at - 1] == b'\r');
        Shape { bom: bytes.starts_with("\u{feff}".as_bytes()), crlf }
    }

    /// The text with the line ends of the file; itself where the file has no such habit.
    #[must_use]
    pub fn line_ends<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.crlf && text.contains('\n') {
            text.replace("\r\n", "\n").replace('\n', "\r\n").into()
        } else {
            text.into()
        }
    }

    /// A whole file of this shape that says `text`.
    #[must_use]
    pub fn whole(&self, text: &str) -> String {
        let body = self.line_ends(text);
        if self.bom && !body.starts_with(BOM) { format!("{BOM}{body}") } else { body.into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_one_that_has_no_exception() {
        for (bytes, bom, crlf) in [
            (&b""[..], false, false),
            (b"a", false, false),
            (b"a\n", false, false),
            (b"a\r", false, false),
            (b"a\r\n", false, true),
            (b"\r\n\r\nb", false, true),
            (b"a\r\nb\n", false, false),
            (b"\na\r\n", false, false),
            (b"a\rb\r\n", false, true),
            (b"\xef\xbb\xbfa\r\n", true, true),
            (b"\xef\xbb\xbf", true, false),
            (b"\xff\r\n", false, true),
        ] {
            assert_eq!(Shape::of(bytes), Shape { bom, crlf }, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_text_takes_the_shape_of_its_file() {
        let plain = Shape::default();
        let crlf = Shape { crlf: true, ..plain };
        let both = Shape { bom: true, crlf: true };
        for (shape, text, whole) in [
            (plain, "a\nb\r\n", "a\nb\r\n"),
            (crlf, "a\nb\r\nc", "a\r\nb\r\nc"),
            (crlf, "a\rb\n", "a\rb\r\n"),
            (both, "a\n", "\u{feff}a\r\n"),
            (both, "\u{feff}a", "\u{feff}a"),
        ] {
            assert_eq!(shape.whole(text), whole, "{shape:?} {text:?}");
        }
    }
}
