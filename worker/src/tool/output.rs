//! What of a tool's output the model gets to see: clean text up to a cap, its head and its tail, and what is missing.
//!
//! The tail is kept because the result of a long output stands at its end (totals, the last error). Text is fed in
//! pieces and the middle is let go as it comes, so that memory does not grow with the output.

#![deny(clippy::disallowed_methods)]

/// Spec §7. About 8,000 tokens: one result cannot fill a window.
pub const OUTPUT_CHARS_MAX: usize = 30_000;

/// A reason needs no more, and every later request carries it along.
pub const TOLD_CHARS_MAX: usize = 4_000;

/// Of the cap, what the line about the missing part may take.
const NOTICE_CHARS_MAX: usize = 600;

/// What is kept of each end.
const END_CHARS_MAX: usize = (OUTPUT_CHARS_MAX - NOTICE_CHARS_MAX) / 2;

/// Output as far as it will be shown.
#[derive(Debug, Default)]
pub struct Capped {
    head: String,
    head_chars: usize,
    tail: String,
    tail_chars: usize,
    chars: u64,
}

impl Capped {
    /// Takes clean text.
    pub fn push(&mut self, text: &str) {
        let mut rest = text;
        let count = text.chars().count();
        self.chars += count as u64;
        if self.head_chars < END_CHARS_MAX && self.tail.is_empty() {
            let free = END_CHARS_MAX - self.head_chars;
            let at = text.char_indices().nth(free).map_or(text.len(), |(at, _)| at);
            let (taken, left) = text.split_at(at);
            self.head.push_str(taken);
            self.head_chars += count.min(free);
            rest = left;
        }
        if !rest.is_empty() {
            self.tail.push_str(rest);
            self.tail_chars += rest.chars().count();
            // Twice as much is let in before the front is dropped, so that each character is moved once or twice.
            if self.tail_chars > 2 * END_CHARS_MAX {
                self.trim_tail();
            }
        }
    }

    /// So many characters came that nobody will see: at least the last of the tail's follow by [`Capped::push`].
    pub fn skip(&mut self, chars: u64) {
        self.chars += chars;
    }

    /// Whether something will be missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.chars > 2 * END_CHARS_MAX as u64
    }

    #[must_use]
    pub fn chars(&self) -> u64 {
        self.chars
    }

    /// All there is to show. `where_it_is` says how to get at what is missing, if something is.
    #[must_use]
    pub fn finish(mut self, where_it_is: &str) -> String {
        if !self.is_cut() {
            self.head.push_str(&self.tail);
            return self.head;
        }
        self.trim_tail();
        // Whole lines where there are lines: half of one at a seam would be taken for what the file says.
        if let Some(at) = self.head.rfind('\n') {
            self.head_chars -= self.head[at + 1..].chars().count();
            self.head.truncate(at + 1);
        } else {
            self.head.push('\n');
        }
        if let Some(at) = self.tail.find('\n').filter(|at| at + 1 < self.tail.len()) {
            self.tail_chars -= self.tail[..=at].chars().count();
            self.tail.drain(..=at);
        }
        let missing = self.chars.saturating_sub((self.head_chars + self.tail_chars) as u64);
        let where_it_is: String = where_it_is.chars().take(NOTICE_CHARS_MAX - 100).collect();
        format!("{}[{missing} of {} characters are left out here. {where_it_is}]\n{}", self.head, self.chars, self.tail)
    }

    fn trim_tail(&mut self) {
        let drop = self.tail_chars.saturating_sub(END_CHARS_MAX);
        let at = self.tail.char_indices().nth(drop).map_or(self.tail.len(), |(at, _)| at);
        self.tail.drain(..at);
        self.tail_chars -= drop;
    }
}

/// Bytes as text that neither a provider nor a terminal can stumble over. What is no text becomes U+FFFD, a control
/// character its picture (`␛` for escape): still to be seen, without effect. Tabs and line ends stay.
#[must_use]
pub fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().all(is_clean) { text.into_owned() } else { text.chars().map(picture).collect() }
}

fn is_clean(c: char) -> bool {
    !c.is_control() && !is_invisible_order(c) || matches!(c, '\n' | '\t')
}

/// Characters that turn the direction of the text around them: what is read would not be what is there.
fn is_invisible_order(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn picture(c: char) -> char {
    match c {
        c if is_clean(c) => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// What is told of a call that came to nothing. It may quote the call, and that may be megabytes of anything; the reason
/// stands before or behind it.
#[must_use]
pub fn told(why: &str) -> String {
    let why = clean(why.as_bytes());
    let missing = why.chars().count().saturating_sub(TOLD_CHARS_MAX);
    if missing == 0 {
        return why;
    }
    let half = TOLD_CHARS_MAX / 2;
    let cut = |at: usize| why.char_indices().nth(at).map_or(why.len(), |(at, _)| at);
    let (head, tail) = (&why[..cut(half)], &why[cut(half + missing)..]);
    format!("{head}… [{missing} characters are left out here] …{tail}")
}

/// A path on a line of its own: as it is, or quoted as git quotes it where it would break the line.
#[must_use]
pub fn quote_path(path: &[u8]) -> String {
    let text = std::str::from_utf8(path).ok();
    if let Some(text) = text
        && text.chars().all(|c| is_clean(c) && !matches!(c, '\n' | '\t' | '"' | '\\'))
    {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '"' | '\\' => out.extend(['\\', c]),
                c if is_clean(c) => out.push(c),
                c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| octal(&mut out, byte)),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut out, *byte));
    }
    out.push('"');
    out
}

fn octal(out: &mut String, byte: u8) {
    out.push('\\');
    for shift in [6, 3, 0] {
        out.push(char::from(b'0' + (byte >> shift & 7)));
    }
}

/// One line cut to `max` characters, saying how many are missing.
#[must_use]
pub fn cut_line(line: &str, max: usize) -> String {
    match line.char_indices().nth(max) {
        None => line.to_owned(),
        Some((at, _)) => {
            let (kept, rest) = line.split_at(at);
            format!("{kept}… [{} more characters in this line]", rest.chars().count())
        }
    }
}

/// `1 line`, `2 lines`.
#[must_use]
pub fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(pieces: &[&str]) -> String {
        let mut capped = Capped::default();
        pieces.iter().for_each(|piece| capped.push(piece));
        capped.finish("It is elsewhere.")
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(cap(&["a\n", "b\n"]), "a\nb\n");
        let all = "x".repeat(2 * END_CHARS_MAX);
        assert_eq!(cap(&[&all]), all);
    }

    #[test]
    fn head_and_tail_are_kept_and_the_gap_is_counted() {
        for width in [1, 7, 999, 40_000] {
            let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
            let text = lines.as_bytes().chunks(width).map(|chunk| std::str::from_utf8(chunk).expect("ascii"));
            let out = cap(&text.collect::<Vec<_>>());
            assert!(out.starts_with("line 0\nline 1\n"), "{width}");
            assert!(out.ends_with("line 19998\nline 19999\n"), "{width}");
            assert!(out.chars().count() <= OUTPUT_CHARS_MAX, "{width}");
            let notice = out.lines().find(|line| line.starts_with('[')).expect("a notice");
            let missing: usize = notice[1..].split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            assert_eq!(out.chars().count() - notice.chars().count() - 1 + missing, lines.chars().count(), "{width}");
        }
    }

    #[test]
    fn one_endless_line_of_wide_characters_is_cut_between_characters() {
        let out = cap(&[&"鵜".repeat(100_000)]);
        assert!(out.chars().count() <= OUTPUT_CHARS_MAX && out.ends_with('鵜'));
    }

    #[test]
    fn nothing_that_acts_is_left() {
        for (bytes, text) in [
            (&b"a\x1b[31mb\0c\r\n\td\x7f"[..], "a\u{241b}[31mb\u{2400}c\u{240d}\n\td\u{2421}"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{9b}31m\u{202e}x".as_bytes(), "\u{fffd}31m\u{fffd}x"),
            ("鵜飼 é".as_bytes(), "鵜飼 é"),
        ] {
            assert_eq!(clean(bytes), text);
        }
    }

    #[test]
    fn a_reason_is_short_whatever_it_quotes() {
        assert_eq!(told("it is\n\u{1b}[1m a folder"), "it is\n\u{241b}[1m a folder");
        let long = told(&format!("before {} behind", "鵜".repeat(1_000_000)));
        assert!(long.starts_with("before 鵜") && long.ends_with("鵜 behind"), "{long}");
        assert!(long.contains("996014 characters are left out") && long.chars().count() < TOLD_CHARS_MAX + 100);
    }

    #[test]
    fn a_path_never_breaks_its_line() {
        for (path, shown) in [
            (&b"a b/\xc3\xbc"[..], "a b/ü"),
            (b"a\nb", "\"a\\nb\""),
            (b"a\"\\", "\"a\\\"\\\\\""),
            (b"\xff\x1b", "\"\\377\\033\""),
        ] {
            assert_eq!(quote_path(path), shown);
        }
    }

    #[test]
    fn a_long_line_says_what_is_missing() {
        assert_eq!(cut_line("abcdef", 6), "abcdef");
        assert_eq!(cut_line("äbcdef", 2), "äb… [4 more characters in this line]");
    }
}
