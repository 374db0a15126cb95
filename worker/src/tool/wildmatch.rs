//! Git's own pattern language: what a line of a `.gitignore`, a `.gitattributes` or a path rule matches.
//!
//! Written by hand because the counts of Grep must equal git's: glob crates read `{a,b}` as a choice, know no
//! `[[:alpha:]]` and want UTF-8. The pattern runs as a set of states, never by backtracking, so that a pattern out of
//! a hostile repository cannot stall a tool.

#![deny(clippy::disallowed_methods)]

/// One line of a `.gitignore`, or the path of a rule. Matched against a path relative to the folder it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub negated: bool,
    /// It ended with a slash.
    pub only_dir: bool,
    /// Without a slash inside it is matched against the last component alone.
    any_depth: bool,
    fold: bool,
    shape: Shape,
}

/// The two commonest shapes need no states.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Literal(Vec<u8>),
    Suffix(Vec<u8>),
    /// `None`: git lets such a pattern (an unclosed class, a lone final backslash) match nothing.
    Tokens(Option<Vec<Token>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `*`
    Star,
    /// `**/`: any number of folders, none included. [`Token::Inside`] follows it.
    Folders,
    /// Within those folders, up to a slash.
    Inside,
    /// `**` at the end: everything inside.
    Rest,
    Class(Box<[bool; 256]>),
}

impl Pattern {
    /// Reads one line. `None` for a blank line or a comment.
    #[must_use]
    pub fn parse(line: &[u8], fold: bool) -> Option<Self> {
        let mut text = trim_unescaped_blanks(line);
        if text.is_empty() || text[0] == b'#' {
            return None;
        }
        let negated = text[0] == b'!';
        if negated {
            text = &text[1..];
        }
        let only_dir = text.last() == Some(&b'/');
        if only_dir {
            text = &text[..text.len() - 1];
        }
        let any_depth = !text.contains(&b'/');
        if text.first() == Some(&b'/') {
            text = &text[1..];
        }
        let folded = if fold { text.to_ascii_lowercase() } else { text.to_vec() };
        let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let shape = match folded.as_slice() {
            text if !text.iter().any(special) => Shape::Literal(folded),
            [b'*', rest @ ..] if any_depth && !rest.iter().any(special) => Shape::Suffix(rest.to_vec()),
            text => Shape::Tokens(tokens(text, fold, !any_depth)),
        };
        Some(Pattern { negated, only_dir, any_depth, fold, shape })
    }

    /// Whether this very path matches (not whether a folder above it does).
    #[must_use]
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.only_dir && !is_dir {
            return false;
        }
        let text = if self.any_depth { path.rsplit(|byte| *byte == b'/').next().unwrap_or(path) } else { path };
        let lowered;
        let text = if self.fold {
            lowered = text.to_ascii_lowercase();
            &lowered
        } else {
            text
        };
        match &self.shape {
            Shape::Literal(literal) => !literal.is_empty() && literal == text,
            Shape::Suffix(suffix) => text.ends_with(suffix),
            Shape::Tokens(tokens) => tokens.as_ref().is_some_and(|tokens| run(tokens, text)),
        }
    }

    /// Whether the path or a folder above it matches: what a rule on a folder says of all that is in it.
    #[must_use]
    pub fn matches_or_contains(&self, path: &[u8], is_dir: bool) -> bool {
        self.matches(path, is_dir)
            || path.iter().enumerate().any(|(at, byte)| *byte == b'/' && at > 0 && self.matches(&path[..at], true))
    }
}

/// Blanks at the end do not count unless a backslash stands before them.
fn trim_unescaped_blanks(line: &[u8]) -> &[u8] {
    let mut keep = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at = (at + 2).min(line.len());
                keep = at;
            }
            _ => {
                at += 1;
                keep = at;
            }
        }
    }
    &line[..keep]
}

/// `anchored`: git compares what stands before the first special character by itself and matches the rest as if it began
/// there, so that in `b**/x` the stars stand alone.
fn tokens(text: &[u8], fold: bool, anchored: bool) -> Option<Vec<Token>> {
    let first_special = text.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).filter(|_| anchored);
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => {
                tokens.push(Token::Byte(*text.get(at + 1)?));
                at += 2;
            }
            b'?' => {
                tokens.push(Token::One);
                at += 1;
            }
            b'*' => {
                let end = at + text[at..].iter().take_while(|byte| **byte == b'*').count();
                let alone_before = at == 0 || Some(at) == first_special || text[at - 1] == b'/';
                if end - at >= 2 && alone_before && end == text.len() {
                    tokens.push(Token::Rest);
                    at = end;
                } else if end - at >= 2 && alone_before && text[end] == b'/' {
                    tokens.extend([Token::Folders, Token::Inside]);
                    at = end + 1;
                } else {
                    tokens.push(Token::Star);
                    at = end;
                }
            }
            b'[' => {
                let (class, end) = class(text, at + 1, fold)?;
                tokens.push(Token::Class(class));
                at = end;
            }
            byte => {
                tokens.push(Token::Byte(byte));
                at += 1;
            }
        }
    }
    Some(tokens)
}

/// The set of bytes between brackets, and where the pattern goes on. A slash is in no set.
fn class(text: &[u8], mut at: usize, fold: bool) -> Option<(Box<[bool; 256]>, usize)> {
    let negated = matches!(text.get(at)?, b'!' | b'^');
    at += usize::from(negated);
    let mut set = Box::new([false; 256]);
    let mut last: Option<u8> = None;
    let mut first = true;
    loop {
        let byte = *text.get(at)?;
        match byte {
            b']' if !first => break,
            b'-' if last.is_some() && text.get(at + 1).is_some_and(|next| *next != b']') => {
                let mut high = text[at + 1];
                at += 2;
                if high == b'\\' {
                    high = *text.get(at)?;
                    at += 1;
                }
                for member in last.unwrap_or(high)..=high {
                    set[usize::from(member)] = true;
                }
                last = None;
            }
            b'[' if text.get(at + 1) == Some(&b':') => {
                let start = at + 2;
                let end = start + text[start..].iter().position(|byte| *byte == b']')?;
                if end > start && text[end - 1] == b':' {
                    let name = text.get(start..end - 1)?;
                    let member = posix(name)?;
                    for byte in 0..=255_u8 {
                        set[usize::from(byte)] |= member(&byte);
                    }
                    at = end + 1;
                    last = None;
                } else {
                    set[usize::from(b'[')] = true;
                    last = Some(b'[');
                    at += 1;
                }
            }
            b'\\' => {
                let escaped = *text.get(at + 1)?;
                set[usize::from(escaped)] = true;
                last = Some(escaped);
                at += 2;
            }
            _ => {
                set[usize::from(byte)] = true;
                last = Some(byte);
                at += 1;
            }
        }
        first = false;
    }
    if fold {
        for lower in b'a'..=b'z' {
            set[usize::from(lower)] |= set[usize::from(lower.to_ascii_uppercase())];
        }
    }
    if negated {
        for member in set.iter_mut() {
            *member = !*member;
        }
    }
    set[usize::from(b'/')] = false;
    Some((set, at + 1))
}

fn posix(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, 0x20..=0x7e),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | 0x09..=0x0d),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

/// All states at once: `states[n]` says that the first n tokens have matched what was read so far.
fn run(tokens: &[Token], text: &[u8]) -> bool {
    let mut states = vec![false; tokens.len() + 1];
    let mut next = states.clone();
    states[0] = true;
    skip(tokens, &mut states);
    for &byte in text {
        next.fill(false);
        for (at, token) in tokens.iter().enumerate() {
            if !states[at] {
                continue;
            }
            match token {
                Token::Byte(wanted) => next[at + 1] |= *wanted == byte,
                Token::One => next[at + 1] |= byte != b'/',
                Token::Class(set) => next[at + 1] |= set[usize::from(byte)],
                Token::Star => next[at] |= byte != b'/',
                Token::Rest => next[at] = true,
                Token::Folders => {}
                Token::Inside => {
                    next[at] = true;
                    next[at + 1] |= byte == b'/';
                }
            }
        }
        skip(tokens, &mut next);
        std::mem::swap(&mut states, &mut next);
    }
    states[tokens.len()]
}

/// Tokens that may match nothing are passed over.
fn skip(tokens: &[Token], states: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if !states[at] {
            continue;
        }
        match token {
            Token::Star | Token::Rest => states[at + 1] = true,
            Token::Folders => {
                states[at + 1] = true;
                states[at + 2] = true;
            }
            Token::Byte(_) | Token::One | Token::Class(_) | Token::Inside => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, is_dir: bool, fold: bool) -> bool {
        Pattern::parse(pattern.as_bytes(), fold).is_some_and(|pattern| pattern.matches(path.as_bytes(), is_dir))
    }

    #[test]
    fn matches_as_git_does() {
        for (pattern, yes, no) in [
            ("foo", &["foo", "a/foo"][..], &["foob", "foo/a", "FOO"][..]),
            ("/foo", &["foo"], &["a/foo"]),
            ("a/foo", &["a/foo"], &["b/a/foo", "foo"]),
            ("*.rs", &["a.rs", ".rs", "x/y.rs"], &["a.rst"]),
            ("/*.rs", &["a.rs"], &["x/y.rs"]),
            ("**/foo", &["foo", "a/foo", "a/b/foo"], &["afoo", "a/bfoo"]),
            ("foo/**", &["foo/a", "foo/a/b"], &["foo", "a/foo/b"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a/x/yb"]),
            ("a**b/c", &["aXb/c", "ab/c"], &["a/b/c"]),
            ("b**/**", &["b.o", "bx/y"], &["a.o"]),
            ("bx?**/**", &["bxy/z"], &["bx", "bxy"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]-]x", &["]x", "-x"], &["ax"]),
            ("[[:digit:]]x", &["1x"], &["ax", ":x"]),
            ("a?c", &["abc"], &["a/c", "ac"]),
            ("a[/]c/x", &[], &["a/c/x"]),
            ("[a", &[], &["[a", "a"]),
            ("\\*x", &["*x"], &["ax"]),
            ("\\!x", &["!x"], &["x"]),
            ("\\#x", &["#x"], &["x"]),
            ("x\\ ", &["x "], &["x"]),
            ("x  ", &["x"], &["x  "]),
            ("#x", &[], &["#x"]),
            ("", &[], &["", "a"]),
            ("/", &[], &["", "a"]),
            ("**", &["a", "a/b"], &[]),
            ("*", &["a", "a/b"], &[]),
        ] {
            for path in yes {
                assert!(check(pattern, path, false, false), "{pattern} must match {path}");
            }
            for path in no {
                assert!(!check(pattern, path, false, false), "{pattern} must not match {path}");
            }
        }
    }

    #[test]
    fn a_final_slash_wants_a_folder() {
        assert!(check("x/", "a/x", true, false));
        assert!(!check("x/", "a/x", false, false));
    }

    #[test]
    fn folding_ignores_case_also_in_classes() {
        assert!(check(".env*", "a/.ENV.local", false, true));
        assert!(check("[A-C]x", "bX", false, true));
        assert!(!check(".env*", ".ENV", false, false));
    }

    #[test]
    fn a_folder_that_matches_holds_all_below_it() {
        let pattern = Pattern::parse(b".env*", false).expect("a pattern");
        assert!(pattern.matches_or_contains(b"a/.environ/b/c", false));
        assert!(!pattern.matches_or_contains(b"a/b.env/c", false));
    }

    #[test]
    fn a_pattern_that_would_explode_by_backtracking_is_quick() {
        let pattern = Pattern::parse("*a".repeat(60).as_bytes(), false).expect("a pattern");
        assert!(
            !pattern.matches(
                "a".repeat(5000)
                    .as_bytes()
                    .split_last()
                    .map_or(&[][..], |(_, rest)| rest)
                    .iter()
                    .copied()
                    .chain([b'b'])
                    .collect::<Vec<_>>()
                    .as_slice(),
                false
            )
        );
    }
}
