//! What `Bash(…)` rules say of one simple command (spec §8).
//!
//! An allow rule has to match what is written, word for word. A deny or ask rule matches what is meant: by the program's
//! last name, with its flags in any order, bundled, abbreviated or long, and with other words in between. Where a word is
//! known only when it runs, such a rule answers `Maybe`, and then nothing less than a rule for every command may allow.

#![deny(clippy::disallowed_methods)]

use super::shell::Simple;
use super::shell::environment;
use super::shell::git;
use super::shell::word::{Atom, Word};

/// Stands for text that is not known; no command line may hold it (`shell::is_mark`).
const UNKNOWN: char = '\u{fdd0}';
/// Stands for a blank within a word, which is no boundary of words.
const BLANK: char = '\u{fdd1}';
const EMPTY: char = '\u{fdd2}';

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hit {
    No,
    Maybe,
    Yes,
}

/// `Bash(…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRule {
    pub text: String,
}

impl CommandRule {
    /// `Bash(*)` and its kin: any command at all.
    #[must_use]
    pub fn is_any(&self) -> bool {
        matches!(self.text.trim(), "*" | ":*")
    }

    /// What stands before a final `:*` or ` *`, and whether there is one.
    fn head(&self) -> (&str, bool) {
        let text = self.text.trim();
        match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(head) => (head.trim_end(), true),
            None => (text, false),
        }
    }

    /// A final ` *` or `:*` is the bare command or a word boundary, another `*` crosses blanks, else it is exact.
    #[must_use]
    pub fn matches(&self, command: &str) -> bool {
        let command = command.trim();
        let (head, tail) = self.head();
        if !tail {
            return starred(head, command);
        }
        let ends = command.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at);
        starred(head, command) || ends.into_iter().any(|at| starred(head, command.get(..at).unwrap_or_default()))
    }

    /// As an allow rule: whether it covers this command as written.
    #[must_use]
    pub fn covers(&self, command: &Simple) -> bool {
        let safe = |(name, _): &(String, Word)| environment::is_harmless(name);
        if command.words.is_empty() || !command.assigns.iter().all(safe) {
            return false;
        }
        if self.matches(&shown(&command.words)) {
            return true;
        }
        if !command.words[0].is("git") {
            return false;
        }
        let git = git::git(&command.words);
        match git.at {
            Some(at) if git.plain && git.doubt.is_none() => {
                self.matches(&format!("git {}", shown(&command.words[at..])))
            }
            _ => false,
        }
    }

    /// As a deny or ask rule.
    #[must_use]
    pub fn hits(&self, command: &Simple) -> Hit {
        let (head, tail) = self.head();
        let Some(base) = command.base() else { return Hit::No };
        if self.is_any() {
            return Hit::Yes;
        }
        let mut program = head.split_whitespace();
        let Some(first) = program.next() else { return Hit::No };
        let rest: Vec<&str> = program.collect();
        let fits = |name: &str| starred(first, name);
        let is_it = fits(&base) || command.program().is_some_and(|written| fits(&written));
        // A star in the first word of a rule may cross the blank behind it.
        if !is_it && !first.contains('*') {
            return Hit::No;
        }
        let mut named = command.words.clone();
        if let Some(first) = named.first_mut() {
            *first = Word::of(&base);
        }
        if self.matches(&shown(&command.words)) || self.matches(&shown(&named)) {
            return Hit::Yes;
        }
        if !is_it {
            return Hit::No;
        }
        let mut hit = by_words(&base, &rest, tail, &named[1..]);
        if base == "git" {
            // Without what stands before the subcommand.
            if let Some(at) = git::git(&named).at {
                let behind = std::iter::once(Word::of("git")).chain(named[at..].iter().cloned()).collect::<Vec<_>>();
                if self.matches(&shown(&behind)) {
                    return Hit::Yes;
                }
                hit = hit.max(by_words(&base, &rest, tail, &behind[1..]));
            }
        }
        let unknown = command.words.iter().any(|word| word.is_unknown() || word.may_split() && word.may_be_flag());
        if hit == Hit::No && unknown && head.contains('*') { Hit::Maybe } else { hit }
    }
}

/// The words with one blank between them.
fn shown(words: &[Word]) -> String {
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        if word.atoms.is_empty() {
            out.push(EMPTY);
        }
        out.extend(word.atoms.iter().map(|atom| match atom {
            Atom::Char(c) if c.is_whitespace() => BLANK,
            Atom::Char(c) | Atom::Brace(c) => *c,
            Atom::Glob(_) | Atom::Unknown | Atom::Split | Atom::Tilde | Atom::Var(..) => UNKNOWN,
        }));
    }
    out
}

/// Whether the rule's words stand among the command's: operands in their order, flags anywhere.
fn by_words(program: &str, rule: &[&str], tail: bool, words: &[Word]) -> Hit {
    let (flags, operands): (Vec<&str>, Vec<&str>) =
        rule.iter().filter(|word| **word != "--").partition(|word| word.starts_with('-') && word.len() > 1);
    // Behind `--` a word is no flag to these; of others one never knows what they pass on.
    let ends = matches!(program, "rm" | "cp" | "mv" | "ln" | "chmod" | "chown" | "mkdir" | "rmdir" | "touch" | "git");
    let end = words.iter().position(|word| ends && word.is("--")).unwrap_or(words.len());
    let (before, _) = words.split_at(end);
    let mut hit = Hit::Yes;
    for flag in &flags {
        hit = hit.min(has_flag(program, flag, before));
    }
    hit = hit.min(has_operands(&operands, words));
    if !tail {
        let count = words.iter().filter(|word| !word.is("--") && !word.head().starts_with('-')).count();
        let bare = flags.is_empty() && words.iter().any(|word| word.head().starts_with('-'));
        if (count > operands.len() && !words.iter().any(Word::may_split)) || bare {
            hit = Hit::No;
        }
    }
    hit
}

fn has_operands(operands: &[&str], words: &[Word]) -> Hit {
    let mut operands = operands.iter().peekable();
    let (mut behind_flag, mut hit) = (false, Hit::Yes);
    for word in words {
        let Some(wanted) = operands.peek() else { break };
        if word.may_split() && word.is_unknown() {
            hit = Hit::Maybe;
            continue;
        }
        let head = word.head();
        if head.starts_with('-') {
            // Its value may be the next word.
            behind_flag = true;
            continue;
        }
        let fits = match word.literal() {
            Some(text) => starred(wanted, &text),
            None => {
                hit = hit.min(Hit::Maybe);
                true
            }
        };
        if fits {
            operands.next();
        } else if !behind_flag {
            return if hit == Hit::Maybe { hit } else { Hit::No };
        }
        behind_flag = false;
    }
    match operands.peek() {
        None => hit,
        Some(_) if hit == Hit::Maybe => Hit::Maybe,
        Some(_) => Hit::No,
    }
}

/// Letters and the long options that mean the same.
const SAME: [(char, &str); 14] = [
    ('r', "recursive"),
    ('R', "recursive"),
    ('f', "force"),
    ('a', "all"),
    ('d', "delete"),
    ('n', "dry-run"),
    ('i', "interactive"),
    ('v', "verbose"),
    ('q', "quiet"),
    ('y', "yes"),
    ('g', "global"),
    ('u', "set-upstream"),
    ('D', "delete"),
    ('o', "output"),
];

fn has_flag(program: &str, flag: &str, words: &[Word]) -> Hit {
    let found: Vec<String> =
        words.iter().map(Word::head).filter(|head| head.starts_with('-') && head.len() > 1).collect();
    let exact = |text: &str| found.iter().any(|head| head == text || head.starts_with(&format!("{text}=")));
    let long = |name: &str| {
        found.iter().filter_map(|head| head.strip_prefix("--")).any(|head| {
            let head = head.split('=').next().unwrap_or_default();
            !head.is_empty() && name.starts_with(head)
        })
    };
    let letter = |wanted: char| found.iter().any(|head| !head.starts_with("--") && head[1..].contains(wanted));
    let meaning = |letter: char| SAME.iter().find(|(short, _)| *short == letter).map(|(_, long)| *long);
    let shorts = |name: &str| SAME.iter().filter(|(_, long)| *long == name).any(|(short, _)| letter(*short));
    let pushes = program == "git" && words.first().is_some_and(|word| word.is("push"));
    let forced = pushes && words[1..].iter().any(|word| word.head().starts_with('+'));
    let yes = if let Some(name) = flag.strip_prefix("--") {
        let name = name.split('=').next().unwrap_or_default();
        exact(flag) || long(name) || shorts(name) || (forced && name == "force")
    } else {
        let letters: Vec<char> = flag.chars().skip(1).collect();
        // `-delete` is a word, `-rf` a bundle.
        let bundle = letters.len() <= 3 && letters.iter().all(char::is_ascii_alphanumeric);
        let each = |wanted: char| {
            letter(wanted)
                || meaning(wanted).is_some_and(|name| long(name) || shorts(name))
                || (forced && wanted == 'f')
        };
        exact(flag) || bundle && letters.iter().all(|wanted| each(*wanted))
    };
    if yes {
        Hit::Yes
    } else if words.iter().any(|word| word.literal().is_none() && word.may_be_flag()) {
        Hit::Maybe
    } else {
        Hit::No
    }
}

/// Whether `text` is `pattern`, in which each `*` stands for anything.
fn starred(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell;

    #[test]
    fn text_matches_at_word_boundaries() {
        for (rule, command, matches) in [
            ("sudo:*", "sudo", true),
            ("sudo:*", "sudo rm x", true),
            ("sudo:*", "sudoedit", false),
            ("git log *", "git log", true),
            ("git log *", "git logx", false),
            ("ls*", "lsof", true),
            ("ls", "ls -l", false),
            ("git * main", "git push origin main", true),
            ("git * main", "git push origin mainx", false),
        ] {
            let rule = CommandRule { text: rule.to_owned() };
            assert_eq!(rule.matches(command), matches, "{rule:?} {command}");
        }
    }

    #[test]
    fn flags_count_in_any_form() {
        for (rule, command, expected) in [
            ("rm -rf:*", "rm -rf x", Hit::Yes),
            ("rm -rf:*", "rm -fr x", Hit::Yes),
            ("rm -rf:*", "rm -r -f x", Hit::Yes),
            ("rm -rf:*", "rm x -f y -R", Hit::Yes),
            ("rm -rf:*", "rm -rvf x", Hit::Yes),
            ("rm -rf:*", "rm --recursive --force x", Hit::Yes),
            ("rm -rf:*", "rm --rec --fo x", Hit::Yes),
            ("rm -rf:*", "rm -r --force -- x", Hit::Yes),
            ("rm -rf:*", "/bin/rm -rf x", Hit::Yes),
            ("rm -rf:*", "r\\m '-r'f x", Hit::Yes),
            ("rm -rf:*", "rm -r x", Hit::No),
            ("rm -rf:*", "rm -- -rf", Hit::No),
            ("rm -rf:*", "rm -r $x", Hit::Maybe),
            ("rm -rf:*", "rm *.o", Hit::No),
            ("rm -rf:*", "rm *", Hit::Maybe),
            ("rm -rf:*", "echo rm -rf x", Hit::No),
            ("git push --force:*", "git push origin --force", Hit::Yes),
            ("git push --force:*", "git -C x push --force", Hit::Yes),
            ("git push --force:*", "git -c a.b=c push origin main -f", Hit::Yes),
            ("git push --force:*", "git push --forc", Hit::Yes),
            ("git push --force:*", "git push origin +main", Hit::Yes),
            ("git push --force:*", "git push --force-with-lease", Hit::No),
            ("git push --force:*", "git push $x", Hit::Maybe),
            ("git push --force:*", "git stash push --force", Hit::No),
            ("git push --force:*", "git log --force push", Hit::No),
            ("git push:*", "git --no-pager push", Hit::Yes),
            ("find:*", "find . -delete", Hit::Yes),
            ("find -delete:*", "find . -name x -delete", Hit::Yes),
            ("find -delete:*", "find . -depth -type l", Hit::No),
            ("docker run --privileged:*", "docker --debug run -it --privileged x", Hit::Yes),
            ("ls", "ls -l", Hit::No),
            ("rm -rf /", "rm -f -r /", Hit::Yes),
            ("rm -rf /", "rm -f -r /x", Hit::No),
            ("npm * --global:*", "npm i -g x", Hit::Yes),
            ("curl:*", "./curl x", Hit::Yes),
        ] {
            let rule = CommandRule { text: rule.to_owned() };
            let reading = shell::read(command, &shell::Job::example());
            assert_eq!(rule.hits(&reading.commands[0]), expected, "{rule:?} {command}");
        }
    }

    #[test]
    fn an_allow_rule_wants_what_is_written() {
        for (rule, command, expected) in [
            ("git log:*", "git log -3", true),
            ("git log:*", "git --no-pager log", true),
            ("git log:*", "git -C x log", false),
            ("git log:*", "git -c core.pager=x log", false),
            ("git log:*", "'git log' x", false),
            ("rm:*", "/bin/rm x", false),
            ("cargo test:*", "CI=1 cargo test", true),
            ("cargo test:*", "RUSTC_WRAPPER=x cargo test", false),
            ("cargo test:*", "cargo $x test", false),
            ("cargo test:*", "cargo test $x", true),
            ("make a b", "make 'a b'", false),
            ("ls*", "lsof", true),
        ] {
            let rule = CommandRule { text: rule.to_owned() };
            let reading = shell::read(command, &shell::Job::example());
            assert_eq!(rule.covers(&reading.commands[0]), expected, "{rule:?} {command}");
        }
    }
}
