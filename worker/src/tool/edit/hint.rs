//! What a text that is not in a file may have meant, so that the next try is the right one.

#![deny(clippy::disallowed_methods)]

use crate::tool::output::{clean, cut_line};

/// Lines that are compared, and characters of each: a hint is worth a moment, not a second.
const LINES_MAX: usize = 20_000;
const LINE_CHARS_MAX: usize = 200;

/// Below this (0 to 1) a line is no hint but a guess.
const ALIKE_MIN: f64 = 0.6;

/// One sentence on where to look, without its full stop.
pub fn hint(text: &str, old: &str, new: &str) -> Option<String> {
    if old.lines().all(is_numbered) {
        return Some("It has the line numbers that Read shows in front; give the text behind the tab alone".to_owned());
    }
    if let Some(line) = by_blanks(text, old) {
        let found = line_at(text, line);
        return Some(format!(
            "From line {line} on it is there with other blanks or line ends; that line is `{}`. Read shows the lines \
             as they are",
            shown(found)
        ));
    }
    if !new.trim().is_empty()
        && let Some(at) = text.find(new)
    {
        let line = text[..at].matches('\n').count() + 1;
        return Some(format!("new_string is there already, at line {line}: perhaps this was done before"));
    }
    let (line, alike) = nearest(text, old)?;
    Some(format!("The nearest to its first line is line {line}: `{}`", shown(alike)))
}

/// As Read prints a line: blanks, a number, a tab.
fn is_numbered(line: &str) -> bool {
    line.trim_start()
        .split_once('\t')
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The number of the first line from which on the lines are those of `old`, were it not for the blanks at both ends.
fn by_blanks(text: &str, old: &str) -> Option<usize> {
    let wanted: Vec<&str> = old.trim().lines().map(str::trim).collect();
    let (first, rest) = wanted.split_first().filter(|(first, _)| !first.is_empty())?;
    let lines: Vec<&str> = text.lines().take(LINES_MAX).map(str::trim).collect();
    let fits = |at: &usize| {
        let after = lines.get(at + 1..at + 1 + rest.len());
        lines[*at] == *first && after == Some(rest)
    };
    (0..lines.len()).find(fits).map(|at| at + 1)
}

fn nearest<'a>(text: &'a str, old: &str) -> Option<(usize, &'a str)> {
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    let wanted = head(wanted);
    let alike = |line: &str| strsim::sorensen_dice(head(line.trim()), wanted);
    let lines = (1..).zip(text.lines().take(LINES_MAX)).map(|(number, line)| (alike(line), number, line));
    // Of equals the first.
    let best = lines.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (best.0 >= ALIKE_MIN).then_some((best.1, best.2))
}

fn head(line: &str) -> &str {
    line.char_indices().nth(LINE_CHARS_MAX).map_or(line, |(at, _)| &line[..at])
}

fn line_at(text: &str, number: usize) -> &str {
    text.lines().nth(number - 1).unwrap_or_default()
}

fn shown(line: &str) -> String {
    cut_line(&clean(line.as_bytes()), LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_meant() {
        let code = "fn main() {\n    let answer = compute(41);\r\n\tprint(answer);\n}\n";
        for (quirk, old, new, expected) in [
            ("numbered", "     2\t    let answer = compute(41);\n     3\t\tprint(answer);", "x", Some("line numbers")),
            ("indented otherwise", "let answer = compute(41);\nprint(answer);", "x", Some("From line 2 on")),
            ("CRLF", "    let answer = compute(41);\n\tprint(answer);\n", "x", Some("From line 2 on")),
            ("done before", "let a = compute(40);", "let answer = compute(41);", Some("is there already, at line 2")),
            ("a letter", "    let answers = compute(41);", "x", Some("is line 2: `    let answer = compute(41);")),
            ("nothing like it", "SELECT * FROM birds", "x", None),
            ("blank", "\n\n  \n", "x", None),
            ("gone", "let answer = compute(41);\n}", "", Some("is line 2")),
        ] {
            let found = hint(code, old, new);
            match expected {
                None => assert_eq!(found, None, "{quirk}"),
                Some(part) => assert!(found.as_ref().is_some_and(|hint| hint.contains(part)), "{quirk}: {found:?}"),
            }
        }
        assert_eq!(hint("", "x", ""), None);
    }

    #[test]
    fn a_hint_is_short_and_quick_whatever_the_file() {
        let lines = "the same line again and again\n".repeat(500_000);
        assert_eq!(hint(&lines, "something else entirely", ""), None);
        let long = "needle ".repeat(1_000_000);
        assert!(hint(&long, "needle needle needles", "").is_none_or(|hint| hint.len() < 1_000));
    }
}
