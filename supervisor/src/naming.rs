//! Which job is meant by what was typed: the same answer from a server and without one.
//!
//! An id is meant before a name, and a name before a prefix. A prefix is one of ids only (spec §2): a name that merely
//! begins like what was typed may be another job, and the verb may be `cancel`.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::id::JobId;

/// How many candidates an ambiguous text is answered with.
const CANDIDATES_SHOWN_MAX: usize = 10;
/// Of each candidate's name.
const NAME_CHARS_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    #[error("there is no job `{typed}`; `ukai ls` lists those that there are")]
    Nobody { typed: String },
    #[error("`{typed}` could be any of {shown}; type the id of the one that you mean")]
    Several { typed: String, shown: String },
}

/// The one job, of all (id, name), that `typed` means.
pub fn meant<'a>(jobs: impl Iterator<Item = (&'a JobId, &'a str)>, typed: &str) -> Result<&'a JobId, NotOne> {
    let (mut named, mut begun) = (Vec::new(), Vec::new());
    for (id, name) in jobs {
        if id.as_str() == typed {
            return Ok(id);
        }
        if name == typed {
            named.push((id, name));
        } else if id.as_str().starts_with(typed) {
            begun.push((id, name));
        }
    }
    let found = if named.is_empty() { begun } else { named };
    match found[..] {
        _ if typed.is_empty() => Err(NotOne::Nobody { typed: String::new() }),
        [] => Err(NotOne::Nobody { typed: typed.to_owned() }),
        [(id, _)] => Ok(id),
        _ => Err(NotOne::Several { typed: typed.to_owned(), shown: shown(&found) }),
    }
}

fn shown(found: &[(&JobId, &str)]) -> String {
    let one = |(id, name): &(&JobId, &str)| match name.chars().take(NAME_CHARS_MAX).collect::<String>() {
        name if name.is_empty() => id.to_string(),
        name => format!("{id} ({name})"),
    };
    let some: Vec<_> = found.iter().take(CANDIDATES_SHOWN_MAX).map(one).collect();
    match found.len().saturating_sub(CANDIDATES_SHOWN_MAX) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_before_a_name_before_a_prefix_of_an_id() {
        let jobs = [("j-aaaaaaaa", "one"), ("j-aaaaaaab", "two"), ("j-bbbbbbbb", "two"), ("j-cccccccc", "j-aaaaaaaa")];
        let jobs = jobs.map(|(id, name)| (id.parse::<JobId>().expect("an id"), name));
        for (typed, expected) in [
            ("j-aaaaaaaa", Ok("j-aaaaaaaa")),
            ("one", Ok("j-aaaaaaaa")),
            ("j-b", Ok("j-bbbbbbbb")),
            ("j-aaaa", Err("any of j-aaaaaaaa (one), j-aaaaaaab (two);")),
            ("two", Err("any of j-aaaaaaab (two), j-bbbbbbbb (two);")),
            ("tw", Err("no job `tw`")),
            ("x", Err("no job `x`")),
            ("", Err("no job ``")),
        ] {
            match (meant(jobs.iter().map(|(id, name)| (id, *name)), typed), expected) {
                (Ok(id), Ok(expected)) => assert_eq!(id.as_str(), expected, "{typed}"),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{typed}: {why}"),
                (found, _) => panic!("{typed}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_crowd_of_candidates_is_cut_and_counted() {
        let ids: Vec<JobId> = (0..13).map(|number| JobId::from_random([0, 0, 0, 0, number])).collect();
        let why = meant(ids.iter().map(|id| (id, "")), "j-").expect_err("thirteen");
        assert!(why.to_string().contains(" and 3 more;"), "{why}");
    }
}
