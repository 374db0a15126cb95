//! What stands in the brackets of `Bash(…)`, read: a rule that could never match what it was written for is none.
//!
//! A rule is held against one command at a time, as words without quotes and without the variables before them
//! (`permission/command`). Whoever writes a whole line of shell into a rule would be protected by nothing, or allow nothing.

#![deny(clippy::disallowed_methods)]

use super::super::command::CommandRule;

/// What joins commands or sends their output elsewhere: no command has them as words of its own.
const JOINS: [&str; 5] = ["&&", "||", "|", "|&", "&"];
const REDIRECTS: [&str; 9] = ["<", ">", ">>", ">|", "&>", "&>>", "<<", "<<<", "2>&1"];

/// Blanks count once, and not at all at the ends. The error says what to write.
pub(super) fn read(spec: &str) -> Result<CommandRule, String> {
    let words: Vec<&str> = spec.split_whitespace().collect();
    let text = words.join(" ");
    if text == "*" || text == ":*" {
        return Ok(CommandRule { text });
    }
    let first = words.first().copied().unwrap_or_default();
    if let Some((program, rest)) =
        text.split_once(":*").filter(|(program, rest)| !rest.is_empty() && !program.contains(' '))
    {
        let rest = rest.trim_start();
        return Err(format!("`:*` counts only at the end; for whatever stands in between write `{program} * {rest}`"));
    }
    if let Some((name, _)) = first.split_once('=').filter(|(name, _)| is_variable(name)) {
        let command = text.split_once(' ').map_or("…", |(_, command)| command);
        return Err(format!("the variable {name} is no part of a command; write `{command}`"));
    }
    for (at, word) in words.iter().enumerate() {
        let ends = word.len() > 1 && word.ends_with(';') && *word != "\\;" && at + 1 < words.len();
        if JOINS.contains(word) || ends {
            return Err(format!(
                "each command of a line is judged by itself, so no rule sees the `{}` between two; write a rule for each",
                if ends { ";" } else { word }
            ));
        }
        if REDIRECTS.contains(word) {
            return Err(format!(
                "`{word}` is a redirect, and those are for `Read(…)` and `Edit(…)` rules; leave it out"
            ));
        }
    }
    match quoted(&text) {
        Some(mark) => Err(format!(
            "words are compared without their quotes, so this would match no command; leave out the {mark}, and write `*` for \
             a word with blanks"
        )),
        None => Ok(CommandRule { text }),
    }
}

/// The mark of a word, or of several, that stands in quotes.
fn quoted(text: &str) -> Option<char> {
    ['"', '\''].into_iter().find(|mark| {
        let begins = text.find(&format!(" {mark}")).or_else(|| text.starts_with(*mark).then_some(0));
        begins.and_then(|at| text.get(at + 2..)).is_some_and(|rest| rest.contains(*mark))
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_at_the_ends_and_twice_mean_nothing() {
        for (spec, text) in [
            (" ls", "ls"),
            ("rm -rf :*", "rm -rf :*"),
            ("git  log\t-3 ", "git log -3"),
            ("*", "*"),
            (":*", ":*"),
            ("ls*", "ls*"),
            ("npm * --global:*", "npm * --global:*"),
            ("docker pull image:*-alpine", "docker pull image:*-alpine"),
            ("find * -exec grep x {} ;", "find * -exec grep x {} ;"),
            ("echo it's", "echo it's"),
            ("make CC=gcc", "make CC=gcc"),
            ("test a=b", "test a=b"),
        ] {
            assert_eq!(read(spec).map(|rule| rule.text).as_deref(), Ok(text), "{spec}");
        }
    }

    #[test]
    fn what_can_never_match_says_what_to_write() {
        for (spec, part) in [
            ("a:*b", "write `a * b`"),
            ("git:* push", "write `git * push`"),
            ("RUSTFLAGS=-g cargo test:*", "write `cargo test:*`"),
            ("cd x && make", "the `&&` between two"),
            ("cat a | wc:*", "the `|` between two"),
            ("cd x; make", "the `;` between two"),
            ("echo x > y", "`>` is a redirect"),
            ("git commit -m \"x y\"", "leave out the \""),
            ("echo 'a'", "leave out the '"),
            ("\"ls\" -l", "without their quotes"),
        ] {
            let why = read(spec).expect_err(spec);
            assert!(why.contains(part), "{spec}: {why}");
        }
    }
}
