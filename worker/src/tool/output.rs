//! What of a tool's output the model gets to see: clean text up to a cap, its head and its tail, and what is missing.
//!
//! The tail is kept because the result of a long output stands at its end (totals, the last error). Text is fed in
//! pieces and the middle is let go as it comes, so that memory does not grow with the output.

#![deny(clippy::disallowed_methods)]

/// Spec §7. About 8,000 tokens of ASCII; of what is written with other characters a window may hold less, see
/// [`Capped::within`].
pub const OUTPUT_CHARS_MAX: usize = 30_000;

/// A reason needs no more, and every later request carries it along.
pub const TOLD_CHARS_MAX: usize = 4_000;

/// Of the cap, what the line about the missing part may take.
const NOTICE_CHARS_MAX: usize = 600;

/// What is kept of each end.
const END_CHARS_MAX: usize = (OUTPUT_CHARS_MAX - NOTICE_CHARS_MAX) / 2;

/// Output as far as it will be shown.
#[derive(Debug)]
pub struct Capped {
    /// What each end may weigh.
    end_weight_max: u64,
    head: String,
    head_size: Size,
    tail: String,
    tail_size: Size,
    all: Size,
}

/// How much text it is: for a reader, and for a model's window in quarters of an estimated token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    chars: u64,
    weight: u64,
}

impl Size {
    fn of(text: &str) -> Self {
        text.chars().fold(Size::default(), Size::and)
    }

    /// As `context/tokens` estimates.
    fn and(self, c: char) -> Self {
        Size { chars: self.chars + 1, weight: self.weight + if c.is_ascii() { 1 } else { WEIGHT_OF_TOKEN } }
    }

    fn plus(self, other: Size) -> Self {
        Size { chars: self.chars + other.chars, weight: self.weight.saturating_add(other.weight) }
    }

    fn minus(self, other: Size) -> Self {
        Size { chars: self.chars.saturating_sub(other.chars), weight: self.weight.saturating_sub(other.weight) }
    }

    fn exceeds(self, ends: u64, end_weight_max: u64) -> bool {
        self.chars > ends * END_CHARS_MAX as u64 || self.weight > end_weight_max.saturating_mul(ends)
    }
}

/// Four ASCII characters are a token, or one other character.
const WEIGHT_OF_TOKEN: u64 = 4;

impl Default for Capped {
    fn default() -> Self {
        Capped::within(u64::MAX)
    }
}

impl Capped {
    /// What is shown is estimated to be at most so many tokens.
    #[must_use]
    pub fn within(tokens_max: u64) -> Self {
        let shown = tokens_max.saturating_sub(NOTICE_CHARS_MAX as u64 / WEIGHT_OF_TOKEN);
        Capped {
            end_weight_max: shown.saturating_mul(WEIGHT_OF_TOKEN) / 2,
            head: String::new(),
            head_size: Size::default(),
            tail: String::new(),
            tail_size: Size::default(),
            all: Size::default(),
        }
    }

    /// Takes clean text.
    pub fn push(&mut self, text: &str) {
        let size = Size::of(text);
        self.all = self.all.plus(size);
        let (mut rest, mut rest_size) = (text, size);
        if self.tail.is_empty() {
            let (at, taken) = self.fitting(text, self.head_size);
            self.head.push_str(&text[..at]);
            self.head_size = self.head_size.plus(taken);
            (rest, rest_size) = (&text[at..], size.minus(taken));
        }
        if !rest.is_empty() {
            self.tail.push_str(rest);
            self.tail_size = self.tail_size.plus(rest_size);
            // Twice as much is let in before the front is dropped, so that each character is moved once or twice.
            if self.tail_size.exceeds(2, self.end_weight_max) {
                self.trim_tail();
            }
        }
    }

    /// How much of the text fits one end in which something is already.
    fn fitting(&self, text: &str, already: Size) -> (usize, Size) {
        let mut size = already;
        for (at, c) in text.char_indices() {
            let next = size.and(c);
            if next.exceeds(1, self.end_weight_max) {
                return (at, size.minus(already));
            }
            size = next;
        }
        (text.len(), size.minus(already))
    }

    /// So many characters came that nobody will see: at least the last of the tail's follow by [`Capped::push`].
    pub fn skip(&mut self, chars: u64) {
        self.all.chars += chars;
    }

    /// Whether something will be missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.all.exceeds(2, self.end_weight_max)
    }

    #[must_use]
    pub fn chars(&self) -> u64 {
        self.all.chars
    }

    /// All there is to show. `where_it_is` says how to get at what is missing, if something is.
    #[must_use]
    pub fn finish(mut self, where_it_is: &str) -> String {
        if !self.is_cut() {
            self.head.push_str(&self.tail);
            return self.head;
        }
        self.trim_tail();
        let mut shown = self.head_size.chars + self.tail_size.chars;
        // Whole lines where there are lines: half of one at a seam would be taken for what the file says.
        if let Some(at) = self.head.rfind('\n') {
            shown -= self.head[at + 1..].chars().count() as u64;
            self.head.truncate(at + 1);
        } else {
            self.head.push('\n');
        }
        if let Some(at) = self.tail.find('\n').filter(|at| at + 1 < self.tail.len()) {
            shown -= self.tail[..=at].chars().count() as u64;
            self.tail.drain(..=at);
        }
        let (all, missing) = (self.all.chars, self.all.chars.saturating_sub(shown));
        let where_it_is: String = where_it_is.chars().take(NOTICE_CHARS_MAX - 100).collect();
        format!("{}[{missing} of {all} characters are left out here. {where_it_is}]\n{}", self.head, self.tail)
    }

    fn trim_tail(&mut self) {
        let mut kept = Size::default();
        let mut from = self.tail.len();
        for (at, c) in self.tail.char_indices().rev() {
            let next = kept.and(c);
            if next.exceeds(1, self.end_weight_max) {
                break;
            }
            (kept, from) = (next, at);
        }
        self.tail.drain(..from);
        self.tail_size = kept;
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
    use crate::context::tokens::estimate_text;

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
    fn what_a_window_holds_is_counted_in_tokens_and_not_in_characters() {
        for (text, width) in [("鵜", 1), ("a", 7), ("飼い鵜 ", 997), ("é\n", 4_096)] {
            let whole = text.repeat(60_000);
            for tokens_max in [400, 4_000, 16_000] {
                let mut capped = Capped::within(tokens_max);
                let chars: Vec<char> = whole.chars().collect();
                chars.chunks(width).for_each(|chunk| capped.push(&chunk.iter().collect::<String>()));
                let out = capped.finish(&"x".repeat(1_000));
                assert!(estimate_text(&out) <= tokens_max, "{text}: {} of {tokens_max}", estimate_text(&out));
                assert!(estimate_text(&out) * 2 > tokens_max.min(7_000), "{text}: {}", estimate_text(&out));
                assert!(out.chars().count() <= OUTPUT_CHARS_MAX && out.contains("are left out here"), "{text}");
            }
        }
        // What fits is left alone to the last token.
        let all = "鵜".repeat(1_000);
        let mut capped = Capped::within(1_150);
        capped.push(&all);
        assert_eq!(capped.finish(""), all);
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
