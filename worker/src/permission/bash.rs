//! The verdict on one command line: what its reading says, held against the rules and the roots (spec §8).
//!
//! Deny and ask need one command that matches, allow needs all. Where the reading is opaque, or a word that could make a
//! deny rule match is known only when it runs, nothing but a rule for every command may allow; and what is denied is
//! looked for among the words of the text too, so that nothing is allowed for being hard to read.

#![deny(clippy::disallowed_methods)]

mod call;
mod missing;
mod words;

use ukai_protocol::policy::{RuleList, Source};

use call::{Call, Command, File};
use missing::Missing;
use words::{is_device, named, suspects_in, words_of};

use super::command::{CommandRule, Hit};
use super::operand::Kind;
use super::path::Resolved;
use super::places::Places;
use super::rule::Rule;
use super::{Listed, Lists, OF_GIT, Opinion, Permission, Subject, classifier, is_of_git, shell};

impl Permission {
    pub(super) fn judge_command(&self, lists: &Lists, call: &Call) -> Opinion {
        let mut unsure = None;
        for listed in &lists.deny {
            match self.speaks(listed, call, RuleList::Deny) {
                (Hit::Yes, shown) => {
                    let why = format!("the rule `{}` forbids it: {shown}. Go on without it.", listed.text);
                    return Opinion::deny(listed.source(RuleList::Deny), why);
                }
                (Hit::Maybe, _) => unsure = unsure.or(Some(listed)),
                (Hit::No, _) => {}
            }
        }
        if let Some(why) = self.outside(call) {
            return Opinion::deny(Source::Default, why);
        }
        for listed in &lists.ask {
            match self.speaks(listed, call, RuleList::Ask) {
                (Hit::Yes, shown) => {
                    return Opinion::ask_by(listed, &shown);
                }
                (Hit::Maybe, _) => unsure = unsure.or(Some(listed)),
                (Hit::No, _) => {}
            }
        }
        let every = |listed: &&Listed| match &listed.rule {
            Rule::Tool(name) => name == "Bash",
            Rule::Command(rule) => rule.is_any(),
            _ => false,
        };
        if let Some(listed) = lists.allow.iter().find(every) {
            return Opinion::allow(listed.source(RuleList::Allow));
        }
        if let Some(why) = call.reading.opaque {
            return Opinion::ask_plainer(format!("this command line cannot be read for certain ({why})"));
        }
        if let Some(listed) = unsure {
            return Opinion::ask_plainer(format!(
                "whether the rule `{}` matches is known only when it runs",
                listed.text
            ));
        }
        self.allowed(lists, call)
    }

    /// Whether rules cover all of it, or all of it only reads. One for some of its commands and the other for the rest is
    /// neither (spec §8: an allow needs every simple command, and so does the classifier).
    fn allowed(&self, lists: &Lists, call: &Call) -> Opinion {
        let mut by_rule = None;
        let mut any = false;
        let mut missing = Missing::default();
        let mut not_only_read = None;
        for command in &call.commands {
            let simple = &command.simple;
            any |= !simple.words.is_empty() || !command.files.is_empty();
            if command.unsure {
                let why = format!("which files {} touches is known only when it runs", named(simple));
                return Opinion::ask_plainer(why);
            }
            for file in command.files.iter().filter(|file| file.redirect && file.kind == Kind::Write) {
                if file.paths.iter().all(|path| is_device(&path.real) || self.places.is_temp(&path.real)) {
                    continue;
                }
                match lists.allow.iter().find(|listed| self.opens(listed, file)) {
                    Some(listed) => {
                        by_rule = by_rule.or(Some(listed));
                        not_only_read = not_only_read.or(Some(simple));
                    }
                    None => {
                        missing.write(file);
                        not_only_read = not_only_read.or(Some(simple));
                    }
                }
            }
            let covers = |listed: &&Listed| matches!(&listed.rule, Rule::Command(rule) if rule.covers(simple));
            // What only passes on is what it passes on, and that stands in this list too.
            let passes = simple.wraps
                && simple.base().is_none_or(|base| base != "find")
                && simple.assigns.iter().all(|(name, _)| shell::environment::is_harmless(name));
            let of_shell = simple.assigns.iter().all(|(name, _)| self.places.is_of_shell(name));
            match lists.allow.iter().find(covers) {
                Some(listed) => by_rule = by_rule.or(Some(listed)),
                None if passes || simple.words.is_empty() && of_shell => {}
                None => missing.run(simple),
            }
            if !passes && !self.only_reads(command) {
                not_only_read = not_only_read.or(Some(simple));
            }
        }
        match (by_rule, not_only_read) {
            (Some(listed), _) if missing.is_empty() => Opinion::allow(listed.source(RuleList::Allow)),
            (_, None) if any => Opinion::allow(Source::Classifier),
            _ if !any => Opinion::ask("there is no command in it".to_owned()),
            // A rule covers what nothing else needs: a line of assignments alone, say.
            _ => missing.ask(),
        }
    }

    fn only_reads(&self, command: &Command) -> bool {
        let simple = &command.simple;
        if !classifier::is_read_only(simple) {
            return false;
        }
        command.files.iter().filter(|file| file.kind == Kind::Any).all(|file| {
            let far = file.shown.starts_with(['/', '~']) || file.shown.split('/').any(|part| part == "..");
            !far || file.paths.iter().all(|path| self.places.hold_for_command(false, &path.real, path.is_dir))
        })
    }

    /// Whether an allow rule lets a redirect write its target.
    fn opens(&self, listed: &Listed, file: &File) -> bool {
        match &listed.rule {
            Rule::Tool(name) => matches!(name.as_str(), "Edit" | "Write"),
            Rule::Path(rule) => {
                let tool = if rule.governs("Edit") { "Edit" } else { "Write" };
                !file.paths.is_empty()
                    && file
                        .paths
                        .iter()
                        .all(|path| self.matches(listed, &Subject { tool, path: Some(path) }, RuleList::Allow))
            }
            Rule::Server(_) | Rule::Command(_) => false,
        }
    }

    /// What a deny or ask rule says of a call, and about which part of it.
    fn speaks(&self, listed: &Listed, call: &Call, list: RuleList) -> (Hit, String) {
        let mut maybe = (Hit::No, String::new());
        match &listed.rule {
            Rule::Server(_) => {}
            Rule::Tool(name) if name == "Bash" => return (Hit::Yes, "`Bash`".to_owned()),
            Rule::Command(rule) => {
                let read = call.commands.iter().map(|command| &command.simple);
                for simple in read.filter(|simple| !simple.words.is_empty()) {
                    match rule.hits(simple) {
                        Hit::Yes => return (Hit::Yes, named(simple)),
                        Hit::Maybe => maybe.0 = Hit::Maybe,
                        Hit::No => {}
                    }
                }
                if let Some(suspect) = call.suspects.iter().find(|suspect| rule.hits(suspect) == Hit::Yes) {
                    return (Hit::Yes, named(suspect));
                }
            }
            Rule::Tool(_) | Rule::Path(_) => {
                for file in call.commands.iter().flat_map(|command| &command.files) {
                    if self.touches(listed, file, list) {
                        return (Hit::Yes, file.shown.clone());
                    }
                }
            }
        }
        maybe
    }

    fn touches(&self, listed: &Listed, file: &File, list: RuleList) -> bool {
        let tools: &[&str] = match file.kind {
            Kind::Read => &["Read"],
            Kind::Write => &["Edit", "Write"],
            Kind::Any => &["Read", "Edit", "Write"],
        };
        let device = |path: &Resolved| is_device(&path.real);
        match &listed.rule {
            // Of a word that may be no file at all, a rule about all files says nothing.
            Rule::Tool(name) => {
                file.kind != Kind::Any && tools.contains(&name.as_str()) && !file.paths.iter().all(device)
            }
            Rule::Path(rule) => {
                let governed = tools.iter().filter(|tool| rule.governs(tool));
                governed.into_iter().any(|tool| {
                    file.paths.iter().any(|path| {
                        self.matches(listed, &Subject { tool, path: Some(path) }, list)
                            || file.tree && self.covers_rule(listed, path)
                    })
                })
            }
            Rule::Server(_) | Rule::Command(_) => false,
        }
    }

    /// Whether a folder that is touched as a whole holds what the rule names.
    fn covers_rule(&self, listed: &Listed, path: &Resolved) -> bool {
        let Rule::Path(rule) = &listed.rule else { return false };
        [&path.lexical, &path.real].into_iter().any(|folder| self.places.rule_is_below(rule, &listed.base, folder))
    }

    /// Words about a file that a known command reads or writes outside of the roots.
    fn outside(&self, call: &Call) -> Option<String> {
        for command in &call.commands {
            // What cannot be followed is no file that a word of an unknown command names.
            for file in command.files.iter().filter(|file| file.kind != Kind::Any) {
                if let Some(error) = &file.lost {
                    return Some(format!(
                        "{} cannot be followed to a place that may be judged: {error}. Name another path.",
                        file.shown
                    ));
                }
                for path in file.paths.iter().filter(|path| !is_device(&path.real)) {
                    if file.kind == Kind::Write && is_of_git(path) {
                        return Some(format!("{} {OF_GIT}", file.shown));
                    }
                    let (inside, what) = match file.kind {
                        Kind::Write => (self.places.hold_for_command(true, &path.real, path.is_dir), "write"),
                        _ => (self.places.hold_for_command(false, &path.real, path.is_dir), "read"),
                    };
                    // Of a folder that is only read, the sandbox hides it.
                    let is_moved = file.kind == Kind::Write && file.tree;
                    if is_moved && self.places.private_in(&path.real).next().is_some() {
                        let why = "holds what ukai itself keeps: its configuration, its state or a key";
                        return Some(format!("{} {why}. Name what you need of it.", file.shown));
                    }
                    if !inside {
                        return Some(format!(
                            "{} leads outside of what this job may {what}. It may {what} below {}.",
                            file.shown,
                            self.places.shown(if what == "write" { "Edit" } else { "Read" }).join(", ")
                        ));
                    }
                }
            }
        }
        None
    }
}

/// Whether an example is one that the rule matches.
pub(super) fn example(rule: &CommandRule, list: RuleList, text: &str, places: &Places) -> bool {
    let reading = shell::read(text, &places.job());
    let mut commands = reading.commands.iter().filter(|command| !command.words.is_empty()).peekable();
    match list {
        RuleList::Allow if rule.is_any() => true,
        RuleList::Allow if reading.opaque.is_some() || commands.peek().is_none() => false,
        RuleList::Allow => commands.all(|command| command.wraps || rule.covers(command)),
        RuleList::Ask | RuleList::Deny => {
            let suspects = if reading.opaque.is_some() { suspects_in(&words_of(text)) } else { Vec::new() };
            commands.chain(&suspects).any(|command| rule.hits(command) == Hit::Yes)
        }
    }
}
