//! `--always`: one more allow rule in the user's own policy file, everything else in it left as it was typed.
//!
//! A YAML writer would lose comments and order, so the rule is put into the text, and the text is read back: unless the
//! policy that it then says is the old one with exactly this rule more, nothing is written.

use std::fs;
use std::io;
use std::path::Path;

use ukai_protocol::disk;
use ukai_protocol::policy::{Policy, Rule};

use super::{RULES_MAX, SHIPPED, parse};

/// Adds allow rules, one writer at a time. `workdir`: of the job that asks, where nothing is kept. Blocks. The error says
/// what to do.
pub fn allow(file: &Path, rules: &[String], workdir: Option<&Path>) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    disk::create_dir(folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
    // A link is the user's own arrangement (dotfiles): what it leads to is replaced. Never a job's own file (spec §8).
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if workdir.and_then(|folder| fs::canonicalize(folder).ok()).is_some_and(|folder| real.starts_with(folder)) {
        return Err(format!("{} is in the job's folder, and no rule is kept there", real.display()));
    }
    // Another answer may keep its rule at the same time, here or in another server: the folder's lock is theirs too.
    let locked = fs::File::open(folder).and_then(|folder| {
        rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(folder)
    });
    let _locked = locked.map_err(|error| format!("locking {}: {error}", folder.display()))?;
    let old = match fs::read_to_string(file) {
        Ok(text) => text,
        // The user's own policy takes the place of the shipped one, so it begins as a copy of that.
        Err(error) if error.kind() == io::ErrorKind::NotFound => SHIPPED.to_owned(),
        Err(error) => return Err(format!("reading {}: {error}", file.display())),
    };
    let mut text = old.clone();
    for rule in rules {
        text = with(&text, rule, file)?.unwrap_or(text);
    }
    if text == old {
        return Ok(());
    }
    let modes = fs::metadata(&real).map(|found| found.permissions()).ok();
    if modes.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err(format!("{} is read-only; add the rules by hand: {}", real.display(), rules.join(", ")));
    }
    let write = || {
        disk::write_atomic(&real, text.as_bytes())?;
        modes.map_or(Ok(()), |modes| fs::set_permissions(&real, modes))
    };
    write().map_err(|error| format!("writing {}: {error}", real.display()))
}

/// The text with the rule in it; None: it is there already.
fn with(text: &str, rule: &str, file: &Path) -> Result<Option<String>, String> {
    let base = file.parent().unwrap_or(Path::new("/"));
    let read = |text: &str| parse(text, file, base).map(|traced| traced.policy);
    let old = read(text).map_err(|fault| format!("{fault}; mend that first"))?;
    if old.allow.iter().any(|known| known.text == rule) {
        return Ok(None);
    }
    if old.allow.len() + old.ask.len() + old.deny.len() >= RULES_MAX {
        return Err(format!("{} holds {RULES_MAX} rules already, as many as it may", file.display()));
    }
    let mut wanted = old.clone();
    wanted.allow.push(Rule::new(rule, base));
    let by_hand = || format!("add the line to `rules: allow:` in {} by hand: - {}", file.display(), quoted(rule));
    let added = places(text, rule).into_iter().find(|added| read(added).is_ok_and(|new| same(&new, &wanted)));
    added.map(Some).ok_or_else(by_hand)
}

/// Every place where the rule may be put, as the text that it makes. Which of them means what is wanted, reading tells.
fn places(text: &str, rule: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let put = |at: usize, line: String| [&lines[..at].concat(), &*line, &lines[at..].concat()].concat();
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut made = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let (indent, key) = (line.len() - line.trim_start().len(), line.trim_start());
        let blank = |width: usize| " ".repeat(width);
        if let Some(rest) = key.strip_prefix("allow:") {
            let after = rest.trim_start();
            // `allow: [a, b]`, on one line or more.
            if let Some(inside) = after.strip_prefix('[') {
                let comma = if inside.trim_start().starts_with(']') { "" } else { ", " };
                let start = line.len() - inside.len();
                made.push(put(at, String::new()).replacen(
                    line,
                    &format!("{}{}{comma}{inside}", &line[..start], quoted(rule)),
                    1,
                ));
            }
            // `allow:` and `- a` below, as far in as the first of them, or two more than the key.
            let first = lines[at + 1..].iter().find(|line| line.trim_start().starts_with("- "));
            let width = first.map_or(indent + 2, |line| line.len() - line.trim_start().len());
            let line_end = if line.ends_with('\n') { "" } else { end };
            made.push(put(at + 1, format!("{line_end}{}- {}{end}", blank(width), quoted(rule))));
        }
        if key.trim_end() == "rules:" && indent == 0 {
            let width = lines.get(at + 1).map_or(0, |next| next.len() - next.trim_start().len()).max(2);
            let line_end = if line.ends_with('\n') { "" } else { end };
            made.push(put(at + 1, format!("{line_end}{}allow: [{}]{end}", blank(width), quoted(rule))));
        }
    }
    let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { end };
    made.push(format!("{text}{line_end}rules:{end}  allow: [{}]{end}", quoted(rule)));
    made
}

/// As a YAML string in double quotes; a rule holds no control characters.
fn quoted(rule: &str) -> String {
    format!("\"{}\"", rule.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether both say the same, the allow rules in whatever order: no rule of that list hides another.
fn same(new: &Policy, wanted: &Policy) -> bool {
    let sorted = |policy: &Policy| {
        let mut allow = policy.allow.clone();
        allow.sort_by(|one, other| one.text.cmp(&other.text));
        Policy { allow, ..policy.clone() }
    };
    sorted(new) == sorted(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(quirk: &str, text: &str, rule: &str, expected: Option<&str>) {
        let file = Path::new("/c/ukai/tool_policy.yaml");
        let added = with(text, rule, file);
        match expected {
            Some(expected) => assert_eq!(added.as_ref().map(Option::as_deref), Ok(Some(expected)), "{quirk}"),
            None => assert!(added.is_err() || added == Ok(None), "{quirk}: {added:?}"),
        }
    }

    #[test]
    fn a_rule_is_put_where_it_means_what_was_said_and_nothing_else_is_touched() {
        let rule = "Bash(echo \"a\")";
        check(
            "a list on one line",
            "version: 1 # mine\nrules:\n  deny: [Write]\n  allow: [Read, Glob] # these\n",
            rule,
            Some(
                "version: 1 # mine\nrules:\n  deny: [Write]\n  allow: [\"Bash(echo \\\"a\\\")\", Read, Glob] # these\n",
            ),
        );
        check(
            "an empty list",
            "version: 1\nrules:\n  allow: []\n",
            rule,
            Some("version: 1\nrules:\n  allow: [\"Bash(echo \\\"a\\\")\"]\n"),
        );
        check(
            "a list below",
            "version: 1\nrules:\n  allow:\n  - Read\n  deny: [Write]\n",
            rule,
            Some("version: 1\nrules:\n  allow:\n  - \"Bash(echo \\\"a\\\")\"\n  - Read\n  deny: [Write]\n"),
        );
        check(
            "no such list",
            "version: 1\nrules:\n  deny: [Write]\n",
            rule,
            Some("version: 1\nrules:\n  allow: [\"Bash(echo \\\"a\\\")\"]\n  deny: [Write]\n"),
        );
        check("no rules", "version: 1", rule, Some("version: 1\nrules:\n  allow: [\"Bash(echo \\\"a\\\")\"]\n"));
        check("there already", "version: 1\nrules:\n  allow: [Read]\n", "Read", None);
        check("no policy", "version: 1\nrules: [", rule, None);
        check("rules in braces", "version: 1\nrules: {allow: [Read]}\n", rule, None);
        check(
            "a comment that looks like the list",
            "version: 1\n# allow: [Read]\nrules:\n  # allow: [Write]\n  allow: [Read]\n",
            rule,
            Some(
                "version: 1\n# allow: [Read]\nrules:\n  # allow: [Write]\n  allow: [\"Bash(echo \\\"a\\\")\", Read]\n",
            ),
        );
    }

    #[test]
    fn many_who_keep_a_rule_at_once_lose_none_and_the_mode_stays() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tool_policy.yaml");
        fs::write(&file, "version: 1\nrules:\n  allow: [Read]\n").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
        std::thread::scope(|scope| {
            for number in 0..20 {
                let file = &file;
                scope.spawn(move || allow(file, &[format!("Bash(make {number})")], None).expect("it is kept"));
            }
        });
        let kept =
            parse(&fs::read_to_string(&file).expect("it is there"), &file, folder.path()).expect("it loads").policy;
        assert_eq!(kept.allow.len(), 21);
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
        let inside = allow(&file, &["Bash(make)".to_owned()], Some(folder.path()));
        assert!(inside.is_err_and(|why| why.contains("in the job's folder")));
    }

    #[test]
    fn the_first_rule_begins_a_copy_of_the_shipped_policy() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ukai/tool_policy.yaml");
        for rules in [&["Bash(cargo test)", "Edit(//w/src/**)"][..], &["Bash(cargo test)"]] {
            let rules: Vec<_> = rules.iter().map(|rule| (*rule).to_owned()).collect();
            allow(&file, &rules, None).expect("they are kept");
        }
        let kept =
            parse(&fs::read_to_string(&file).expect("it is there"), &file, folder.path()).expect("it loads").policy;
        let texts: Vec<_> = kept.allow.iter().map(|rule| &*rule.text).collect();
        assert_eq!(texts, ["Edit(//w/src/**)", "Bash(cargo test)", "Read", "Glob", "Grep", "Note"]);
        assert_eq!(kept.deny.len(), super::super::shipped().deny.len());
    }
}
