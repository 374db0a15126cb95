//! The branch of a job: what it may be called, in the order in which names are tried.
//!
//! A job's name may hold whatever a person types, and a ref may not (git-check-ref-format(1)). What does not fit becomes
//! `-`: a branch is to be recognised, not to be read back.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::id::JobId;

pub const PREFIX: &str = "ukai/";
const PREFIX_FLAT: &str = "ukai-";
/// The branch that is in the way of all of them.
pub const IN_THE_WAY: &str = "ukai";
/// A ref is a file name, and the suffix has to fit too.
const NAME_BYTES_MAX: usize = 100;
/// A resumed job whose first branches a person still has.
const AGAIN_MAX: u32 = 9;

/// The first that is free is taken. `flat`: a branch called `ukai` is there, so that none can be below it.
pub fn candidates(name: &str, id: &JobId, flat: bool) -> impl Iterator<Item = String> {
    let name = format!("{}{}", if flat { PREFIX_FLAT } else { PREFIX }, made_of(name));
    let own = format!("{name}-{id}");
    let again: Vec<_> = (2..=AGAIN_MAX).map(|number| format!("{own}-{number}")).collect();
    // So flat, a name alone could well be somebody's.
    (!flat).then_some(name).into_iter().chain([own]).chain(again)
}

/// As `refs/heads/…`.
#[must_use]
pub fn full(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn made_of(name: &str) -> String {
    let mut made = String::new();
    for c in name.chars() {
        let c = if c.is_alphanumeric() || c == '_' || c == '.' { c } else { '-' };
        // `..` is refused, and `--` tells nobody anything.
        if made.len() + c.len_utf8() > NAME_BYTES_MAX || made.ends_with(['-', '.']) && matches!(c, '-' | '.') {
            continue;
        }
        made.push(c);
    }
    let made = made.trim_matches(['-', '.']);
    match made {
        "" => "job".to_owned(),
        // Such a file is a lock to git.
        made if made.ends_with(".lock") => format!("{made}-"),
        made => made.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_ref_that_git_takes() {
        for (name, expected) in [
            ("fix-a", "fix-a"),
            ("look at item 7", "look-at-item-7"),
            ("Änderung 鵜飼", "Änderung-鵜飼"),
            ("a..b~c^d:e?f*g[h\\i@{j", "a.b-c-d-e-f-g-h-i-j"),
            ("..-.hidden.", "hidden"),
            ("x.lock", "x.lock-"),
            ("@", "job"),
            ("???", "job"),
            ("v1.2", "v1.2"),
        ] {
            assert_eq!(made_of(name), expected, "{name}");
        }
        assert!(made_of(&"鵜".repeat(64)).len() <= NAME_BYTES_MAX);
    }

    #[test]
    fn a_taken_name_is_told_apart_by_the_id() {
        let id = JobId::from_random([0; 5]);
        let names: Vec<_> = candidates("fix a", &id, false).take(3).collect();
        assert_eq!(names, ["ukai/fix-a", "ukai/fix-a-j-aaaaaaaa", "ukai/fix-a-j-aaaaaaaa-2"]);
        let names: Vec<_> = candidates("fix a", &id, true).take(2).collect();
        assert_eq!(names, ["ukai-fix-a-j-aaaaaaaa", "ukai-fix-a-j-aaaaaaaa-2"]);
    }
}
