//! The verdict on one command line: what its reading says, held against the rules and the roots (spec §8).
//!
//! Deny and ask need one command that matches, allow needs all. Where the reading is opaque, or a word that could make a
//! deny rule match is known only when it runs, nothing but a rule for every command may allow; and what is denied is
//! looked for among the words of the text too, so that nothing is allowed for being hard to read.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use ukai_protocol::policy::{Judgement, RuleList, Source};

use super::command::{CommandRule, Hit};
use super::operand::{self, Kind};
use super::path::{Resolved, resolve};
use super::places::Places;
use super::rule::Rule;
use super::shell::word::{Atom, Word};
use super::shell::{self, Reading, Simple};
use super::{Listed, Lists, NO_ONE, Permission, Subject, classifier, disk};

/// Words of an opaque text that are looked up on the disk; all are compared.
const WORDS_MAX: usize = 256;
/// How far a word of an opaque text is followed as the beginning of a command.
const WINDOW: usize = 64;

/// A command line, understood as far as it can be.
pub(super) struct Call {
    reading: Reading,
    commands: Vec<Command>,
    /// Commands that may stand in the words of an opaque text.
    suspects: Vec<Simple>,
}

struct Command {
    simple: Simple,
    files: Vec<File>,
    /// A file that it reads or writes is not known.
    unsure: bool,
}

struct File {
    kind: Kind,
    redirect: bool,
    tree: bool,
    /// As the model wrote it.
    shown: String,
    paths: Vec<Resolved>,
    unsure: bool,
    /// Why it cannot be followed to a place.
    lost: Option<String>,
}

impl Permission {
    pub(super) fn read_command(&self, text: &str) -> Call {
        let reading = shell::read(text, self.places.workdir(), self.places.home());
        let mut commands: Vec<Command> =
            reading.commands.iter().map(|simple| self.command(simple, operand::touches(simple))).collect();
        let mut suspects = Vec::new();
        if reading.opaque.is_some() {
            let segments = words_of(text);
            suspects = suspects_in(&segments);
            let mut touches = operand::Touches::default();
            for word in segments.into_iter().flatten().take(WORDS_MAX) {
                let touch = operand::Touch { kind: Kind::Any, redirect: false, tree: false, hidden: true, word };
                touches.list.push(touch);
            }
            let dirs = vec![self.places.workdir().to_owned()];
            commands.push(self.command(&Simple { dirs, ..Simple::default() }, touches));
        }
        Call { reading, commands, suspects }
    }

    fn command(&self, simple: &Simple, touches: operand::Touches) -> Command {
        let files: Vec<File> = touches.list.iter().map(|touch| self.file(touch, &simple.dirs)).collect();
        let unsure = touches.uncertain || files.iter().any(|file| file.unsure && file.kind != Kind::Any);
        Command { simple: simple.clone(), files, unsure }
    }

    fn file(&self, touch: &operand::Touch, dirs: &[PathBuf]) -> File {
        let word = &touch.word;
        let mut file = File {
            kind: touch.kind,
            redirect: touch.redirect,
            tree: touch.tree,
            shown: text_of(word),
            paths: Vec::new(),
            unsure: word.is_unknown(),
            lost: None,
        };
        let texts = if touch.kind == Kind::Any { parts_of(&file.shown) } else { vec![file.shown.clone()] };
        for dir in dirs {
            for text in texts.iter().filter(|text| !text.is_empty() && !text.contains('\n')) {
                match resolve(Path::new(text), dir, self.places.home()) {
                    Ok(resolved) => file.paths.push(resolved),
                    Err(error) => file.lost = Some(error.to_string()),
                }
            }
            if word.has_glob() {
                match disk::expand(word, dir) {
                    None => file.unsure = true,
                    Some(paths) => {
                        let found = paths.iter().map(|path| resolve(path, dir, self.places.home()));
                        file.paths.extend(found.flatten());
                    }
                }
            }
        }
        if touch.tree {
            for folder in file.paths.clone() {
                let known = disk::below(&folder.real, touch.hidden, |path, is_dir| {
                    let lexical = path.strip_prefix(&folder.real).map(|rest| folder.lexical.join(rest));
                    let lexical = lexical.unwrap_or_else(|_| path.to_owned());
                    file.paths.push(Resolved { lexical, real: path.to_owned(), is_dir });
                    false
                });
                file.unsure |= known.is_none();
            }
        }
        file
    }

    pub(super) fn judge_command(&self, lists: &Lists, call: &Call) -> Judgement {
        let mut unsure = None;
        for listed in &lists.deny {
            match self.speaks(listed, call, RuleList::Deny) {
                (Hit::Yes, shown) => {
                    let why = format!("the rule `{}` forbids it: {shown}. Go on without it.", listed.text);
                    return Judgement::deny(listed.source(RuleList::Deny), why);
                }
                (Hit::Maybe, _) => unsure = unsure.or(Some(listed)),
                (Hit::No, _) => {}
            }
        }
        if let Some(why) = self.outside(call) {
            return Judgement::deny(Source::Default, why);
        }
        for listed in &lists.ask {
            match self.speaks(listed, call, RuleList::Ask) {
                (Hit::Yes, shown) => {
                    let why = format!("the rule `{}` wants a person asked about {shown}, {NO_ONE}", listed.text);
                    return Judgement::deny(Source::NoOneToAsk, why);
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
            return Judgement::allow(listed.source(RuleList::Allow));
        }
        if let Some(why) = call.reading.opaque {
            let why = format!("this command line cannot be read for certain ({why}), {NO_ONE} {PLAINER}");
            return Judgement::deny(Source::NoOneToAsk, why);
        }
        if let Some(listed) = unsure {
            let why =
                format!("whether the rule `{}` matches is known only when it runs, {NO_ONE} {PLAINER}", listed.text);
            return Judgement::deny(Source::NoOneToAsk, why);
        }
        self.allowed(lists, call)
    }

    /// Whether rules and the read-only list together cover all of it.
    fn allowed(&self, lists: &Lists, call: &Call) -> Judgement {
        let mut by_rule = None;
        let mut any = false;
        for command in &call.commands {
            let simple = &command.simple;
            any |= !simple.words.is_empty() || !command.files.is_empty();
            if command.unsure {
                let why =
                    format!("which files {} touches is known only when it runs, {NO_ONE} {PLAINER}", named(simple));
                return Judgement::deny(Source::NoOneToAsk, why);
            }
            for file in command.files.iter().filter(|file| file.redirect && file.kind == Kind::Write) {
                if file.paths.iter().all(|path| is_device(&path.real)) {
                    continue;
                }
                match lists.allow.iter().find(|listed| self.opens(listed, file)) {
                    Some(listed) => by_rule = by_rule.or(Some(listed)),
                    None => {
                        let why = format!("no rule allows writing {}, {NO_ONE}", file.shown);
                        return Judgement::deny(Source::NoOneToAsk, why);
                    }
                }
            }
            let covers = |listed: &&Listed| matches!(&listed.rule, Rule::Command(rule) if rule.covers(simple));
            if let Some(listed) = lists.allow.iter().find(covers) {
                by_rule = by_rule.or(Some(listed));
                continue;
            }
            // What only passes on is what it passes on, and that stands in this list too.
            let passes = simple.wraps
                && simple.base().is_none_or(|base| base != "find")
                && simple.assigns.iter().all(|(name, _)| shell::environment::is_harmless(name));
            if !passes && !self.only_reads(command) {
                return Judgement::deny(
                    Source::NoOneToAsk,
                    format!("no rule allows {} for `Bash`, {NO_ONE}", named(simple)),
                );
            }
        }
        match by_rule {
            Some(listed) => Judgement::allow(listed.source(RuleList::Allow)),
            None if any => Judgement::allow(Source::Classifier),
            None => Judgement::deny(Source::NoOneToAsk, format!("there is no command in it, {NO_ONE}")),
        }
    }

    fn only_reads(&self, command: &Command) -> bool {
        let simple = &command.simple;
        if !classifier::is_read_only(simple) {
            return false;
        }
        let git = simple.program().is_some_and(|name| name == "git");
        let inside = command.files.iter().filter(|file| file.kind == Kind::Any).all(|file| {
            let far = file.shown.starts_with(['/', '~']) || file.shown.split('/').any(|part| part == "..");
            !far || file.paths.iter().all(|path| self.places.hold(&path.real, path.is_dir))
        });
        inside && (!git || simple.dirs.iter().all(|dir| disk::git_is_its_own(dir, self.places.workdir())))
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
                    let (inside, what) = match file.kind {
                        Kind::Write => (self.places.hold_write(&path.real, path.is_dir), "write"),
                        _ => (self.places.hold(&path.real, path.is_dir), "read"),
                    };
                    if !inside {
                        return Some(format!(
                            "{} leads outside of what this job may {what}. It may {what} below {}.",
                            file.shown,
                            self.places.shown().join(", ")
                        ));
                    }
                }
            }
        }
        None
    }
}

const PLAINER: &str = "A plainer command line, one command at a time and without variables, may be allowed.";

/// Whether an example is one that the rule matches.
pub(super) fn example(rule: &CommandRule, list: RuleList, text: &str, places: &Places) -> bool {
    let reading = shell::read(text, places.workdir(), places.home());
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

/// Every word as the beginning of a command.
fn suspects_in(segments: &[Vec<Word>]) -> Vec<Simple> {
    let mut suspects = Vec::new();
    for words in segments {
        for at in 0..words.len() {
            let end = words.len().min(at + WINDOW);
            suspects.push(Simple { words: words[at..end].to_vec(), ..Simple::default() });
        }
    }
    suspects
}

/// Files that are none.
fn is_device(path: &Path) -> bool {
    let text = path.to_string_lossy();
    matches!(
        text.as_ref(),
        "/dev/null"
            | "/dev/zero"
            | "/dev/full"
            | "/dev/random"
            | "/dev/urandom"
            | "/dev/stdin"
            | "/dev/stdout"
            | "/dev/stderr"
            | "/dev/tty"
    ) || text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/")).is_some_and(|rest| {
        // `/dev/stdout` is a link that leads through `/proc/self/fd`.
        rest.bytes().all(|byte| byte.is_ascii_digit()) || rest.contains("/fd/")
    })
}

/// A word as text; what is not known is one character that no file has.
fn text_of(word: &Word) -> String {
    let text = word.atoms.iter().map(|atom| match atom {
        Atom::Char(c) | Atom::Glob(c) | Atom::Brace(c) => *c,
        Atom::Unknown | Atom::Split | Atom::Tilde => '\u{fdd0}',
    });
    text.collect()
}

/// The texts in a word of an unknown program that may name a file.
fn parts_of(text: &str) -> Vec<String> {
    const LENGTH_MAX: usize = 4096;
    if text.len() > LENGTH_MAX {
        return Vec::new();
    }
    let mut parts = vec![text.to_owned()];
    let mut add = |part: &str| {
        let part = part.trim_start_matches('@');
        if !part.is_empty() && !parts.iter().any(|known| known == part) {
            parts.push(part.to_owned());
        }
    };
    add(text);
    if text.starts_with('-') && !text.starts_with("--") {
        add(text.get(2..).unwrap_or_default());
    }
    if let Some((_, value)) = text.split_once('=') {
        add(value);
    }
    if text.contains([':', ',', '=']) && !text.contains("://") {
        text.split([':', ',', '=']).for_each(&mut add);
    }
    parts
}

fn named(simple: &Simple) -> String {
    let name = simple.words.iter().take(3).map(text_of).collect::<Vec<_>>().join(" ");
    format!("`{}`", name.replace('\u{fdd0}', "…"))
}

/// The words of a text that could not be read, quotes taken away, line by line and command by command.
fn words_of(text: &str) -> Vec<Vec<Word>> {
    let plain: String = text.replace("\\\n", " ").chars().filter(|c| !matches!(c, '\\' | '\'' | '"')).collect();
    let segments = plain.split([';', '|', '&', '\n', '\r']);
    let words = segments.map(|segment| {
        let words = segment.split(|c: char| c.is_whitespace() || "(){}<>`$,=!".contains(c));
        words.filter(|word| !word.is_empty()).map(Word::of).collect::<Vec<_>>()
    });
    words.filter(|words| !words.is_empty()).collect()
}
