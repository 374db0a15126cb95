//! `{{field}}` in a text, and what a line puts there.
//!
//! A field is `{{`, a name without braces or line ends, and `}}`; blanks around the name do not count. Everything else
//! is text: `{{}}`, `{{ `, an opening without its end, single braces. In `{{{a}}}` the field is the inner one, so that
//! JSON around it keeps its braces. There is no escape: what is filled in is never looked at again, so a text that must
//! hold `{{x}}` gets it from a field.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfilled<'a> {
    /// The line has no field of this name.
    NoField(&'a str),
    TooLong,
}

/// `template` with the values of `fields` in place. At most `bytes_max` long: a value may be asked for any number of
/// times.
pub fn fill<'a>(
    template: &'a str,
    fields: &BTreeMap<String, String>,
    bytes_max: usize,
) -> Result<String, Unfilled<'a>> {
    let mut filled = String::new();
    for piece in pieces(template) {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Field(name) => fields.get(name).ok_or(Unfilled::NoField(name))?,
        };
        if filled.len() + text.len() > bytes_max {
            return Err(Unfilled::TooLong);
        }
        filled.push_str(text);
    }
    Ok(filled)
}

/// The names of the fields in a template, in its order.
pub fn fields(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).filter_map(|piece| match piece {
        Piece::Field(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Whether a text depends on the line that fills it.
#[must_use]
pub fn has_fields(template: &str) -> bool {
    fields(template).next().is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Field(&'a str),
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let found = first_field(rest);
        if let Some((0, name, length)) = found {
            rest = &rest[length..];
            return Some(Piece::Field(name));
        }
        let (text, behind) = rest.split_at(found.map_or(rest.len(), |(at, ..)| at));
        rest = behind;
        (!text.is_empty()).then_some(Piece::Text(text))
    })
}

/// Where the first field begins, its name, and how long it is with its braces.
fn first_field(text: &str) -> Option<(usize, &str, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let at = from + found;
        let inner = &text[at + 2..];
        let end = inner.find(['{', '}', '\n', '\r']).unwrap_or(inner.len());
        let name = inner[..end].trim();
        if !name.is_empty() && inner[end..].starts_with("}}") {
            return Some((at, name, 2 + end + 2));
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, expected: Result<&str, Unfilled<'_>>) {
        let fields = [("a", "1"), ("b c", "{{a}}"), ("鵜", "}}🐦{{"), ("d-e.f", ""), ("g", "0123456789")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(fill(template, &fields, 20), expected.map(str::to_owned), "{template}");
    }

    #[test]
    fn fields_are_filled_and_all_else_is_text() {
        for (template, text) in [
            ("", ""),
            ("no field", "no field"),
            ("{{a}}", "1"),
            ("{{ a }}{{\ta}}", "11"),
            ("x{{a}}y{{a}}z", "x1y1z"),
            ("{{{a}}}", "{1}"),
            ("{\"k\": {{a}}}", "{\"k\": 1}"),
            ("{{{{a}}}}", "{{1}}"),
            ("{{a}}}", "1}"),
            ("{{b c}}{{a}}", "{{a}}1"),
            ("{{{{a}}{{a}}}}", "{{11}}"),
            ("{{鵜}}a}}", "}}🐦{{a}}"),
            ("🐦{{d-e.f}}🐦", "🐦🐦"),
            ("{{}} {{ }} {{", "{{}} {{ }} {{"),
            ("{{a", "{{a"),
            ("{{a}", "{{a}"),
            ("{{a} }", "{{a} }"),
            ("{ {a}}", "{ {a}}"),
            ("{{a\n}}", "{{a\n}}"),
            ("{{x {{a}}", "{{x 1"),
        ] {
            check(template, Ok(text));
        }
    }

    #[test]
    fn what_cannot_be_filled_says_why() {
        check("{{a}} {{ x y }}", Err(Unfilled::NoField("x y")));
        check("${{ github.ref }}", Err(Unfilled::NoField("github.ref")));
        check("{{A}}", Err(Unfilled::NoField("A")));
        check("{{g}}{{g}}", Ok("01234567890123456789"));
        check("{{g}}{{g}}{{d-e.f}}.", Err(Unfilled::TooLong));
        check("{{g}}{{g}}{{g}}", Err(Unfilled::TooLong));
    }

    #[test]
    fn a_template_tells_its_fields() {
        assert_eq!(fields("{{a}} {{b}} {{}} {{ a }}").collect::<Vec<_>>(), ["a", "b", "a"]);
        for (template, has) in [("{{a}}", true), ("{{}}", false), ("{{a", false), ("", false)] {
            assert_eq!(has_fields(template), has, "{template}");
        }
    }

    #[test]
    fn a_long_text_of_braces_takes_no_long_time() {
        for text in ["{", "{{", "{{a", "}}", "{{a}", "a"].map(|part| part.repeat(300_000)) {
            assert_eq!(fields(&text).count(), 0);
            assert_eq!(fill(&text, &BTreeMap::new(), text.len()).as_ref(), Ok(&text));
        }
    }
}
