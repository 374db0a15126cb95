//! Words as text: for messages, for paths, and for a text that could not be read.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use crate::permission::shell::Simple;
use crate::permission::shell::word::{Atom, Word};

/// How far a word of an opaque text is followed as the beginning of a command.
const WINDOW: usize = 64;

/// Files that are none.
pub(super) fn is_device(path: &Path) -> bool {
    let text = path.to_string_lossy();
    matches!(
        text.as_ref(),
        "/dev/null"
            | "/dev/zero"
            | "/dev/full"
            | "/dev/random"
            | "/dev/urandom"
            | "/dev/stdin"
            | "/dev/stdout"
            | "/dev/stderr"
            | "/dev/tty"
    ) || text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/")).is_some_and(|rest| {
        // `/dev/stdout` is a link that leads through `/proc/self/fd`.
        rest.bytes().all(|byte| byte.is_ascii_digit()) || rest.contains("/fd/")
    })
}

/// A word as text; what is not known is one character that no file has.
pub(super) fn text_of(word: &Word) -> String {
    let text = word.atoms.iter().map(|atom| match atom {
        Atom::Char(c) | Atom::Glob(c) | Atom::Brace(c) => *c,
        Atom::Unknown | Atom::Split | Atom::Tilde | Atom::Var(..) => '\u{fdd0}',
    });
    text.collect()
}

/// The texts in a word of an unknown program that may name a file.
pub(super) fn parts_of(text: &str) -> Vec<String> {
    const LENGTH_MAX: usize = 4096;
    if text.len() > LENGTH_MAX {
        return Vec::new();
    }
    let mut parts = vec![text.to_owned()];
    let mut add = |part: &str| {
        let part = part.trim_start_matches('@');
        if !part.is_empty() && !parts.iter().any(|known| known == part) {
            parts.push(part.to_owned());
        }
    };
    add(text);
    if text.starts_with('-') && !text.starts_with("--") {
        add(text.get(2..).unwrap_or_default());
    }
    if let Some((_, value)) = text.split_once('=') {
        add(value);
    }
    if text.contains([':', ',', '=']) && !text.contains("://") {
        text.split([':', ',', '=']).for_each(&mut add);
    }
    parts
}

pub(super) fn named(simple: &Simple) -> String {
    let name = simple.words.iter().take(3).map(text_of).collect::<Vec<_>>().join(" ");
    format!("`{}`", name.replace('\u{fdd0}', "…"))
}

/// The words of a text that could not be read, quotes taken away, line by line and command by command.
pub(super) fn words_of(text: &str) -> Vec<Vec<Word>> {
    let text = unescaped(&text.replace("\\\n", "").replace("$'", "").replace("$\"", ""));
    let plain: String = text.chars().filter(|c| !matches!(c, '\\' | '\'' | '"')).collect();
    let segments = plain.split([';', '|', '&', '\n', '\r']);
    let words = segments.map(|segment| {
        let words = segment.split(|c: char| c.is_whitespace() || "(){}<>`$,=!".contains(c));
        words.filter(|word| !word.is_empty()).map(Word::of).collect::<Vec<_>>()
    });
    words.filter(|words| !words.is_empty()).collect()
}

/// Every word as the beginning of a command.
pub(super) fn suspects_in(segments: &[Vec<Word>]) -> Vec<Simple> {
    let mut suspects = Vec::new();
    for words in segments {
        for at in 0..words.len() {
            let end = words.len().min(at + WINDOW);
            suspects.push(Simple { words: words[at..end].to_vec(), ..Simple::default() });
        }
    }
    suspects
}

/// The text with `\x72` and `\162` as the characters that they may stand for.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let code = behind.get(1..).unwrap_or_default();
        let (skip, radix, most) = if code.starts_with('x') { (2, 16, 2) } else { (1, 8, 3) };
        let digits: String = code.chars().skip(skip - 1).take(most).take_while(|c| c.is_digit(radix)).collect();
        match u8::from_str_radix(&digits, radix) {
            Ok(byte) if byte.is_ascii() && byte != 0 => {
                out.push(char::from(byte));
                rest = behind.get(skip + digits.len()..).unwrap_or_default();
            }
            _ => {
                out.push('\\');
                rest = code;
            }
        }
    }
    out + rest
}
