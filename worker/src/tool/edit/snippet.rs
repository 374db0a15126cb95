//! What an edit left, as Read would show it: a few lines around each place.

#![deny(clippy::disallowed_methods)]

use std::ops::{Range, RangeInclusive};

use crate::tool::output::{clean, cut_line};

/// Lines shown before and after what was changed.
const AROUND_LINES: usize = 3;
/// Of one place at most so many lines are shown; who wrote more knows what it says.
const PLACE_LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 500;

/// The lines around `places` (in bytes, ascending), each after its number and a tab.
pub fn snippet(text: &str, places: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut shown_to = 0;
    let ranges = ranges(text, places);
    let mut lines = (1..).zip(text.lines()).peekable();
    for range in ranges {
        let skipped = PLACE_LINES_MAX / 2;
        let cut = range.clone().count() > PLACE_LINES_MAX;
        while let Some((number, line)) = lines.next_if(|(number, _)| number <= range.end()) {
            if number < *range.start() {
                continue;
            }
            if cut && number >= range.start() + skipped && number + skipped <= *range.end() {
                if number == range.start() + skipped {
                    out.push_str(&format!("[{} lines are not shown]\n", range.end() - range.start() + 1 - 2 * skipped));
                }
                continue;
            }
            if shown_to > 0 && number > shown_to + 1 && number == *range.start() {
                out.push_str("…\n");
            }
            let line = clean(line.strip_suffix('\r').unwrap_or(line).as_bytes());
            out.push_str(&format!("{number:>6}\t{}\n", cut_line(&line, LINE_CHARS_MAX)));
            shown_to = number;
        }
    }
    out
}

/// The numbers of the lines around each place; those that touch are one.
fn ranges(text: &str, places: &[Range<usize>]) -> Vec<RangeInclusive<usize>> {
    let (mut line, mut from) = (1, 0);
    let mut number = |at: usize| {
        line += text[from..at].matches('\n').count();
        from = at;
        line
    };
    let mut ranges: Vec<RangeInclusive<usize>> = Vec::new();
    for place in places {
        // A line end at the very end of a place begins no line that was changed.
        let end = if text[place.clone()].ends_with('\n') { place.end - 1 } else { place.end };
        let (first, last) = (number(place.start), number(end));
        let (first, last) = (first.saturating_sub(AROUND_LINES).max(1), last + AROUND_LINES);
        match ranges.last_mut() {
            Some(before) if first <= before.end() + 1 => *before = *before.start()..=last,
            _ => ranges.push(first..=last),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of 1 to 60 with `places` (line numbers, both inclusive) shown, blanks and tabs taken out.
    fn check(places: &[(usize, usize)], expected: &str) {
        let text: String = (1..=60).map(|number| format!("l{number:02}\n")).collect();
        let places: Vec<_> = places.iter().map(|(from, to)| (from - 1) * 4..to * 4).collect();
        let shown = snippet(&text, &places);
        let line = |line: &str| line.split_once('\t').map_or(line.to_owned(), |(number, _)| number.trim().to_owned());
        assert_eq!(shown.lines().map(line).collect::<Vec<_>>().join(" "), expected, "{shown}");
    }

    #[test]
    fn a_few_lines_around_each_place() {
        check(&[(1, 1)], "1 2 3 4");
        check(&[(10, 11)], "7 8 9 10 11 12 13 14");
        check(&[(60, 60)], "57 58 59 60");
        check(&[(10, 10), (12, 12)], "7 8 9 10 11 12 13 14 15");
        check(&[(10, 10), (30, 30)], "7 8 9 10 11 12 13 … 27 28 29 30 31 32 33");
        check(&[(10, 10), (17, 17)], "7 8 9 10 11 12 13 14 15 16 17 18 19 20");
        check(&[(10, 50)], "7 8 9 10 11 12 13 14 15 16 [27 lines are not shown] 44 45 46 47 48 49 50 51 52 53");
        check(&[], "");
    }

    #[test]
    fn it_looks_as_read_shows_it() {
        for (text, place, expected) in [
            ("a\r\nb\r\n", 0..1, "     1\ta\n     2\tb\n"),
            ("a\u{1b}b", 0..1, "     1\ta\u{241b}b\n"),
            ("", 0..0, ""),
            ("a\n", 2..2, "     1\ta\n"),
        ] {
            assert_eq!(snippet(text, &[place]), expected, "{text:?}");
        }
        let long = "x".repeat(1_000_000);
        assert!(snippet(&long, std::slice::from_ref(&(0..1))).len() < 1_000);
    }
}
