//! What git must be told so that it starts no program of anybody's: not in a repository, and above all not in a folder
//! where a model wrote what it liked.
//!
//! Hooks, the file system monitor and signing have a switch each. Filters have none: `.gitattributes`, which a job may
//! write, says which of those in the owner's configuration runs on which file, and one that is named by a relative path
//! would be a program of the job's. So each that is configured is emptied by name, at the checkout as at the commit: what
//! git keeps stands in the worktree as it is stored, and goes back so. A repository within the worktree has a configuration of
//! its own; git is never let into one (`nested`).

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeSet;

/// For every git.
pub const SWITCHES: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.askPass=",
    "credential.helper=",
    "protocol.allow=never",
];

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
