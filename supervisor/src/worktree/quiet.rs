//! What git must be told so that it starts no program of anybody's: not in a repository, and above all not in a folder
//! where a model wrote what it liked.
//!
//! Hooks, the file system monitor and signing have a switch each. Filters have none: `.gitattributes`, which a job may
//! write, says which of those in the owner's configuration runs on which file, and one that is named by a relative path
//! would be a program of the job's. So each that is configured is emptied by name, at the checkout as at the commit: what
//! git keeps stands in the worktree as it is stored, and goes back so. A repository within the worktree has a configuration of
//! its own; git is never let into one (`nested`). Attributes that are no filters are off for the same reason and in the same
//! places: they change and refuse files.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeSet;

/// For every git.
pub const SWITCHES: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.askPass=",
    "credential.helper=",
    "protocol.allow=never",
    // Whatever changed is seen: no part of the tree is left out, no look at a file is saved.
    "core.sparseCheckout=false",
    "index.sparse=false",
    "core.ignoreStat=false",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.untrackedCache=false",
    // What a file holds is neither changed nor refused.
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
];

/// With these, `.gitattributes` says nothing: a line there, which a job may write, could keep git from adding any file. A git
/// before 2.41 reads them all the same.
#[must_use]
pub fn no_attributes(commit: &str) -> &'static [(&'static str, &'static str)] {
    // The tree that holds nothing, which every git knows by heart; the length of a hash tells its kind.
    const SHA1: [(&str, &str); 1] = [("GIT_ATTR_SOURCE", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")];
    const SHA256: [(&str, &str); 1] =
        [("GIT_ATTR_SOURCE", "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321")];
    if commit.len() == 64 { &SHA256 } else { &SHA1 }
}

/// More than anybody has; a configuration of a thousand is no accident.
const DRIVERS_MAX: usize = 200;

/// What lists the names that [`emptied`] takes. Nothing found is exit status 1.
pub const LIST: [&str; 5] = ["config", "-z", "--name-only", "--get-regexp", r"^(filter|hook)\."];

/// Settings that leave no filter and no configured hook: one for each `-c`.
pub fn emptied(listed: &str) -> Result<Vec<String>, String> {
    let mut drivers = BTreeSet::new();
    for key in listed.split('\0').filter(|key| !key.is_empty()) {
        let Some((section, rest)) = key.split_once('.') else { continue };
        // `filter.clean` is of no driver.
        let Some((name, _)) = rest.rsplit_once('.') else { continue };
        if name.contains(['=', '\n']) {
            return Err(format!(
                "git's configuration has a {section} called `{}`, which cannot be switched off for a job; rename it",
                name.escape_debug()
            ));
        }
        drivers.insert((section, name));
    }
    if drivers.len() > DRIVERS_MAX {
        let count = drivers.len();
        return Err(format!(
            "git's configuration has {count} filters and hooks, and ukai switches off {DRIVERS_MAX} at most; take some out"
        ));
    }
    let settings = drivers.into_iter().flat_map(|(section, name)| match section {
        "filter" => {
            ["clean=", "smudge=", "process=", "required=false"].map(|end| format!("filter.{name}.{end}")).to_vec()
        }
        _ => vec![format!("hook.{name}.enabled=false"), format!("hook.{name}.command=true")],
    });
    Ok(settings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_is_emptied_whatever_its_name() {
        let listed = "filter.lfs.clean\0filter.lfs.smudge\0filter.a.b c.process\0filter.clean\0hook.lint.command\0";
        let expected = [
            "filter.a.b c.clean=",
            "filter.a.b c.smudge=",
            "filter.a.b c.process=",
            "filter.a.b c.required=false",
            "filter.lfs.clean=",
            "filter.lfs.smudge=",
            "filter.lfs.process=",
            "filter.lfs.required=false",
            "hook.lint.enabled=false",
            "hook.lint.command=true",
        ];
        assert_eq!(emptied(listed).expect("settings"), expected);
        assert_eq!(emptied("").expect("none"), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_switched_off_is_refused() {
        assert!(emptied("filter.a=b.clean\0").expect_err("refused").contains("a=b"));
        let many: String = (0..=DRIVERS_MAX).map(|number| format!("filter.f{number}.clean\0")).collect();
        assert!(emptied(&many).is_err());
    }
}
