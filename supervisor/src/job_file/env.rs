//! `env` of a job: what its commands find in their environment besides the usual (spec §2).
//!
//! An entry is a `NAME` to pass on or `NAME=value`. Values are never quoted in an error: some are secrets.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeSet;

/// Nobody writes more by hand, and all of them are set before each command.
pub const ENV_ENTRIES_MAX: usize = 100;
/// All entries together: they travel with the job, and Linux takes no longer one (`MAX_ARG_STRLEN`).
pub const ENV_BYTES_MAX: usize = 128 * 1024;

/// Why these are no environment, and what to do.
pub fn check(entries: &[String]) -> Result<(), (String, String)> {
    if entries.len() > ENV_ENTRIES_MAX {
        return Err((format!("it has more than {ENV_ENTRIES_MAX} entries"), "take some out".to_owned()));
    }
    if entries.iter().map(String::len).sum::<usize>() > ENV_BYTES_MAX {
        let next = "put the values into a file that the commands read";
        return Err((format!("it is longer than {ENV_BYTES_MAX} bytes"), next.to_owned()));
    }
    let mut seen = BTreeSet::new();
    for (number, entry) in (1..).zip(entries) {
        let name = entry.split_once('=').map_or(&**entry, |(name, _)| name);
        if !is_name(name) {
            let next = "a NAME is letters, digits and `_`, and does not begin with a digit";
            return Err((format!("its entry {number} is neither NAME nor NAME=value"), next.to_owned()));
        }
        if entry.contains('\0') {
            return Err((format!("the value of {name} holds a NUL character"), "take it out".to_owned()));
        }
        if !seen.insert(name) {
            return Err((format!("{name} stands in it twice"), "take one out".to_owned()));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_or_a_name_with_a_value() {
        for entries in [&[][..], &["CI"], &["_x9=", "A=b=c", "MODE=fast and\nlong 鵜"]] {
            let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            assert_eq!(check(&entries), Ok(()), "{entries:?}");
        }
        let many: Vec<_> = (0..=ENV_ENTRIES_MAX).map(|number| format!("A{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let long = format!("A={}", "x".repeat(ENV_BYTES_MAX));
        for (entries, part) in [
            (&[""][..], "entry 1 is neither"),
            (&["CI", "=sk-1"], "entry 2 is neither"),
            (&["9A=sk-1"], "entry 1 is neither"),
            (&["A-B"], "entry 1 is neither"),
            (&["A B=sk-1"], "entry 1 is neither"),
            (&["É=sk-1"], "entry 1 is neither"),
            (&["{{line}}"], "entry 1 is neither"),
            (&["A=sk-1\0"], "the value of A holds a NUL"),
            (&["A", "A=sk-1"], "A stands in it twice"),
            (&many, "more than 100 entries"),
            (&[&long], "longer than 131072 bytes"),
        ] {
            let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let (why, _) = check(&entries).expect_err(part);
            assert!(why.contains(part) && !why.contains("sk-1"), "{why}");
        }
    }
}
