//! What of a command line no rule allows, and the rules with which it would be allowed.
//!
//! Each rule is held against what it is for before it is told: what cannot be typed so that it matches is not suggested, and
//! then nothing is, since a part of what is missing allows nothing.

#![deny(clippy::disallowed_methods)]

use super::call::File;
use super::words::{named, text_of};
use crate::permission::opinion::Opinion;
use crate::permission::rule::Rule;
use crate::permission::shell::{Input, Simple};

/// Of parts that a message names.
const NAMED_MAX: usize = 5;

#[derive(Default)]
pub(super) struct Missing {
    /// In words.
    parts: Vec<String>,
    rules: Vec<String>,
    /// There is a part for which no rule can be typed.
    beyond_rules: bool,
}

impl Missing {
    pub fn run(&mut self, simple: &Simple) {
        self.part(named(simple), rule_for(simple));
    }

    pub fn write(&mut self, file: &File) {
        self.part(format!("writing {}", file.shown), rule_to_write(file));
    }

    fn part(&mut self, part: String, rule: Option<String>) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
        match rule {
            Some(rule) if self.rules.contains(&rule) => {}
            Some(rule) => self.rules.push(rule),
            None => self.beyond_rules = true,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn ask(self) -> Opinion {
        let more = if self.parts.len() > NAMED_MAX { " …" } else { "" };
        let parts = self.parts.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(" and ");
        let rules = if self.beyond_rules { Vec::new() } else { self.rules };
        Opinion::ask_for(format!("no rule allows {parts}{more} for `Bash`"), rules)
    }
}

/// This command as it stands, and no other. None: a rule of its words would allow more, since what it does stands in its
/// input, or a word of it cannot stand in a rule.
fn rule_for(simple: &Simple) -> Option<String> {
    let words: Vec<String> = simple.words.iter().map(text_of).collect();
    let reads_program = words.len() == 1 && simple.base().is_some_and(|base| reads_its_program(&base));
    if simple.input != Input::Nothing || reads_program || !words.iter().all(|word| is_plain(word)) {
        return None;
    }
    let text = format!("Bash({})", words.join(" "));
    let fits = matches!(Rule::parse(&text), Ok(Rule::Command(rule)) if rule.covers(simple));
    fits.then_some(text)
}

/// What takes its program from stdin where no argument names one.
fn reads_its_program(base: &str) -> bool {
    const READERS: &[&str] = &[
        "sh", "bash", "dash", "zsh", "ksh", "fish", "perl", "ruby", "node", "deno", "bun", "php", "lua", "R", "tclsh",
        "psql", "mysql", "sqlite3", "ssh", "xargs", "make", "bc", "dc", "ed", "ex", "vi", "vim", "gdb", "m4",
    ];
    READERS.contains(&base) || base.starts_with("python")
}

/// One file by its place, whatever folder the rule is read in.
fn rule_to_write(file: &File) -> Option<String> {
    let [path] = &file.paths[..] else { return None };
    let place = path.lexical.to_str().filter(|place| place.split('/').skip(1).all(is_plain))?;
    Some(format!("Edit(/{place})"))
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "._-+@,=/:%^~".contains(c)) && !word.ends_with(':')
}
