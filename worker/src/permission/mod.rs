//! One decision per call: deny, then the roots, then ask, then allow, by the first list that matches (spec §8).
//!
//! Fail-closed throughout. A policy that does not load denies everything; what no list names is asked, and where nobody
//! can be asked it is denied with words that tell the model how to go on. The judge answers twice: for a
//! call as the model named it, and for every file that a tool comes upon (`read_allowed`), so that a walk through a
//! folder sees no more than reading file by file would.

#![deny(clippy::disallowed_methods)]

mod bash;
mod classifier;
pub mod closed;
pub mod command;
mod disk;
mod operand;
mod opinion;
mod options;
pub mod path;
pub mod places;
pub mod rule;
mod shell;

use std::path::Path;

use serde_json::Value;
use ukai_protocol::json::Json;
use ukai_protocol::policy::{self, Judgement, Policy, RuleList, Source};

pub use opinion::{Opinion, Question};

use crate::tool::registry;
use path::{Resolved, resolve};
use places::{Place, Places};
use rule::Rule;

/// A policy bound to the places of one job.
pub struct Permission {
    rules: Result<Lists, String>,
    disabled: Vec<String>,
    places: Places,
}

struct Lists {
    deny: Vec<Listed>,
    ask: Vec<Listed>,
    allow: Vec<Listed>,
}

/// A rule with the text it came from and the folder that `/x` in it starts from.
struct Listed {
    rule: Rule,
    text: String,
    base: Place,
    /// Where what a deny or ask rule names is really, if links lead there.
    elsewhere: Option<Place>,
}

/// What a rule is held against.
struct Subject<'a> {
    tool: &'a str,
    path: Option<&'a Resolved>,
}

impl Permission {
    /// `home` is the owner's home folder, `outputs` the folder of the job's spilled output.
    #[must_use]
    pub fn new(policy: &Policy, workdir: &Path, home: &Path, outputs: &Path) -> Self {
        let mut places = Places::new(workdir, home, outputs);
        places.open_to_commands(&policy.sandbox);
        let mut rules = match &policy.broken {
            Some(place) => Err(place.clone()),
            None => Lists::parse(policy),
        };
        if let Ok(lists) = &mut rules {
            for listed in lists.deny.iter_mut().chain(&mut lists.ask) {
                if let Rule::Path(rule) = &listed.rule {
                    listed.elsewhere = places.elsewhere(rule, &listed.base);
                }
            }
            for listed in &lists.allow {
                if let Rule::Path(rule) = &listed.rule {
                    places.name_root(rule);
                }
            }
        }
        let rules = rules.and_then(|lists| lists.check_examples(policy, &places).map(|()| lists));
        Permission { rules, disabled: policy.disabled_tools.clone(), places }
    }

    /// Keeps what is ukai's own from every call.
    #[must_use]
    pub fn keeping(mut self, private: &[std::path::PathBuf]) -> Self {
        self.places.keep(private);
        self
    }

    /// Where the policy is broken, if it is: everything is denied then.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.rules.as_ref().err().map(String::as_str)
    }

    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether the model is not even told of this tool: `[tools] disable`, or a deny rule without brackets.
    #[must_use]
    pub fn hides(&self, tool: &str) -> bool {
        let bare = |listed: &Listed| match &listed.rule {
            Rule::Tool(name) => name == tool,
            Rule::Server(server) => is_of_server(tool, server),
            Rule::Path(_) | Rule::Command(_) => false,
        };
        self.disabled.iter().any(|name| name == tool)
            || self.rules.as_ref().is_ok_and(|lists| lists.deny.iter().any(bare))
    }

    /// The verdict on one call, before it runs, where nobody can be asked.
    #[must_use]
    pub fn judge(&self, tool: &str, input: &Json) -> Judgement {
        self.opinion(tool, input).unasked()
    }

    /// What the rules say of one call, before it runs.
    #[must_use]
    pub fn opinion(&self, tool: &str, input: &Json) -> Opinion {
        let lists = match &self.rules {
            Ok(lists) => lists,
            Err(place) => return Opinion::Final(policy_error(place)),
        };
        if self.disabled.iter().any(|name| name == tool) {
            return Opinion::deny(Source::Default, format!("`{tool}` is switched off here. Go on without it."));
        }
        let named = match path_of(tool, input) {
            None => None,
            Some(named) => match resolve(Path::new(named), self.places.workdir(), self.places.home()) {
                Ok(resolved) => Some(resolved),
                Err(error) => {
                    let why = format!(
                        "{named} cannot be followed to a place that may be judged: {error}. Name another path."
                    );
                    return Opinion::deny(Source::Default, why);
                }
            },
        };
        let command = input.0.get("command").and_then(Value::as_str).filter(|_| tool == "Bash");
        if let Some(text) = command {
            return self.command_verdict(lists, text);
        }
        self.verdict(lists, &Subject { tool, path: named.as_ref() })
    }

    /// Whether `tool` may show what is in this regular file, of which both the name and the place are known.
    #[must_use]
    pub fn read_allowed(&self, tool: &str, lexical: &Path, real: &Path) -> bool {
        self.of_file(tool, lexical, real).is_some_and(|opinion| opinion.is_allow())
    }

    /// Whether a call that was allowed by the name of its file may still have it, now that its place is known. Where a person
    /// or a hook `consented` to it, no rule need allow it: but as it was named, so no link may lead it elsewhere by now.
    #[must_use]
    pub fn still_allowed(&self, tool: &str, lexical: &Path, real: &Path, consented: bool) -> bool {
        let Some(opinion) = self.of_file(tool, lexical, real) else { return false };
        let below = lexical.strip_prefix(self.places.workdir());
        let is_as_named = || below.is_ok_and(|below| self.places.real_workdir().join(below) == real);
        opinion.is_allow() || (consented && !opinion.is_deny() && is_as_named())
    }

    /// None: the policy did not load.
    fn of_file(&self, tool: &str, lexical: &Path, real: &Path) -> Option<Opinion> {
        let resolved = Resolved { lexical: lexical.to_owned(), real: real.to_owned(), is_dir: false };
        let lists = self.rules.as_ref().ok()?;
        Some(self.verdict(lists, &Subject { tool, path: Some(&resolved) }))
    }

    /// Whether a deny rule speaks against showing this file, wherever it lies; a policy that did not load forbids all.
    #[must_use]
    pub fn forbids(&self, tool: &str, lexical: &Path, real: &Path) -> bool {
        let resolved = Resolved { lexical: lexical.to_owned(), real: real.to_owned(), is_dir: false };
        let subject = Subject { tool, path: Some(&resolved) };
        let Ok(lists) = &self.rules else { return true };
        self.places.is_private(real) || lists.deny.iter().any(|listed| self.matches(listed, &subject, RuleList::Deny))
    }

    /// The verdict on a command line, as long as there is a tool that runs it.
    fn command_verdict(&self, lists: &Lists, text: &str) -> Opinion {
        let opinion = self.judge_text(lists, text);
        if opinion.is_allow() && !registry::is_built("Bash") {
            let why = format!("it would be allowed, but this version of ukai cannot carry out `Bash`. {INSTEAD}");
            return Opinion::deny(Source::Default, why);
        }
        opinion
    }

    fn judge_text(&self, lists: &Lists, text: &str) -> Opinion {
        if text.contains('\0') || text.len() > COMMAND_BYTES_MAX {
            let why = "the command line holds a NUL character, or is longer than a shell can be given. Put what is long \
                       into a file, and name the file.";
            return Opinion::deny(Source::Default, why);
        }
        self.judge_command(lists, &self.read_command(text))
    }

    /// The verdict on a command line, whether or not a tool is there to run it.
    #[cfg(test)]
    fn judge_bash(&self, text: &str) -> Judgement {
        match &self.rules {
            Ok(lists) => self.judge_text(lists, text).unasked(),
            Err(place) => policy_error(place),
        }
    }

    fn verdict(&self, lists: &Lists, subject: &Subject<'_>) -> Opinion {
        let tool = subject.tool;
        let first = |list: RuleList| {
            let rules = match list {
                RuleList::Deny => &lists.deny,
                RuleList::Ask => &lists.ask,
                RuleList::Allow => &lists.allow,
            };
            rules.iter().find(|listed| self.matches(listed, subject, list))
        };
        let shown = subject.path.map_or_else(|| format!("`{tool}`"), |path| path.lexical.display().to_string());
        if let Some(listed) = first(RuleList::Deny) {
            let why = format!("the rule `{}` forbids it: {shown}. Go on without it.", listed.text);
            return Opinion::deny(listed.source(RuleList::Deny), why);
        }
        if let Some(path) = subject.path.filter(|path| is_write(tool) && is_of_git(path)) {
            return Opinion::deny(Source::Default, format!("{} {OF_GIT}", path.lexical.display()));
        }
        if let Some(path) = subject.path
            && registry::is_built(tool)
            && !self.places.hold(tool, &path.real, path.is_dir)
        {
            let what = if is_write(tool) { "write" } else { "read" };
            let why = format!(
                "{shown} leads outside of what this job may {what}. It may {what} below {}.",
                self.places.shown(tool).join(", ")
            );
            return Opinion::deny(Source::Default, why);
        }
        if let Some(listed) = first(RuleList::Ask) {
            return Opinion::ask_by(listed, &shown);
        }
        match first(RuleList::Allow) {
            Some(listed) if registry::is_built(tool) || !registry::is_known(tool) => {
                Opinion::allow(listed.source(RuleList::Allow))
            }
            Some(_) => {
                let why = format!("a rule allows `{tool}`, but this version of ukai cannot carry it out. {INSTEAD}");
                Opinion::deny(Source::Default, why)
            }
            // What a tool spilled belongs to the job, and its result promises that it can be read.
            None if registry::is_built(tool)
                && !is_write(tool)
                && subject.path.is_some_and(|path| self.places.is_output(&path.real)) =>
            {
                Opinion::allow(Source::Default)
            }
            // They reach what the job itself has started, which was judged then, and nothing else.
            None if is_of_own_commands(tool) => Opinion::allow(Source::Default),
            None if subject.path.is_none() => Opinion::ask(format!("no rule allows {shown}")),
            None => Opinion::ask(format!("no rule allows {shown} for `{tool}`")),
        }
    }

    fn matches(&self, listed: &Listed, subject: &Subject<'_>, list: RuleList) -> bool {
        match &listed.rule {
            Rule::Tool(name) => name == subject.tool,
            Rule::Server(server) => is_of_server(subject.tool, server),
            // A command line is judged by what it runs (`bash`), never as text.
            Rule::Command(_) => false,
            Rule::Path(rule) => {
                rule.governs(subject.tool)
                    && subject.path.is_some_and(|path| {
                        let one = |named: &Path| self.places.matches(rule, &listed.base, named, path.is_dir, list);
                        let by_its_link = || {
                            let place = listed.elsewhere.as_ref()?;
                            Some(place.lexical.join(path.real.strip_prefix(&place.real).ok()?))
                        };
                        match list {
                            RuleList::Allow => one(&path.lexical) && one(&path.real),
                            RuleList::Ask | RuleList::Deny => {
                                one(&path.lexical) || one(&path.real) || by_its_link().is_some_and(|named| one(&named))
                            }
                        }
                    })
            }
        }
    }
}

/// What the kernel takes as one argument.
const COMMAND_BYTES_MAX: usize = 128 * 1024;

const INSTEAD: &str = "Go on with the tools that you were offered.";

/// Whether it lies in a `.git`, or is one: what is written there runs when its owner next looks (spec §2).
fn is_of_git(path: &Resolved) -> bool {
    let names = path.lexical.components().chain(path.real.components());
    names.into_iter().any(|name| name.as_os_str().eq_ignore_ascii_case(".git"))
}

const OF_GIT: &str = "belongs to git, and no tool writes there. Go on without it.";

fn is_write(tool: &str) -> bool {
    matches!(tool, "Write" | "Edit")
}

fn is_of_own_commands(tool: &str) -> bool {
    matches!(tool, "BashOutput" | "KillShell")
}

fn policy_error(place: &str) -> Judgement {
    let why = format!(
        "the tool policy of this job did not load, so every tool is denied: {place}. A person has to mend it; \
         say so in your answer."
    );
    Judgement::deny(Source::PolicyError, why)
}

fn is_of_server(tool: &str, server: &str) -> bool {
    tool.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(server)).is_some_and(|rest| rest.starts_with("__"))
}

/// The path that a call is about. Glob and Grep without one are about the workdir.
fn path_of<'a>(tool: &str, input: &'a Json) -> Option<&'a str> {
    let key = match tool {
        "Read" | "Write" | "Edit" => "file_path",
        "Glob" | "Grep" => "path",
        _ => return None,
    };
    match input.0.get(key) {
        None if key == "path" => Some("."),
        named => named.and_then(Value::as_str),
    }
}

impl Listed {
    fn source(&self, list: RuleList) -> Source {
        Source::Rule { list, rule: self.text.clone() }
    }
}

impl Lists {
    fn parse(policy: &Policy) -> Result<Self, String> {
        let list = |name: &str, rules: &[policy::Rule]| {
            let read = |rule: &policy::Rule| match Rule::parse(&rule.text) {
                Ok(parsed) => {
                    Ok(Listed { rule: parsed, text: rule.text.clone(), base: Place::new(&rule.base), elsewhere: None })
                }
                Err(bad) => Err(format!("among the {name} rules of {}: {bad}", rule.base.display())),
            };
            rules.iter().map(read).collect::<Result<Vec<_>, _>>()
        };
        let lists = Lists {
            deny: list("deny", &policy.deny)?,
            ask: list("ask", &policy.ask)?,
            allow: list("allow", &policy.allow)?,
        };
        Ok(lists)
    }

    /// Examples stand beside a rule so that a rule that says something else than was meant is found at once.
    fn check_examples(&self, policy: &Policy, places: &Places) -> Result<(), String> {
        for (name, list, written, read) in [
            ("deny", RuleList::Deny, &policy.deny, &self.deny),
            ("ask", RuleList::Ask, &policy.ask, &self.ask),
            ("allow", RuleList::Allow, &policy.allow, &self.allow),
        ] {
            for (written, listed) in written.iter().zip(read) {
                let place = || format!("the {name} rule `{}`", listed.text);
                let examples = written.match_examples.iter().map(|example| (example, true));
                let counter = written.not_match_examples.iter().map(|example| (example, false));
                for (example, wanted) in examples.chain(counter) {
                    if listed.example(example, list, places) != wanted {
                        let (is, should) =
                            if wanted { ("does not match", "should") } else { ("matches", "should not") };
                        return Err(format!("{}: it {is} the example `{example}`, and {should}", place()));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Listed {
    fn example(&self, example: &str, list: RuleList, places: &Places) -> bool {
        match &self.rule {
            Rule::Tool(_) | Rule::Server(_) => true,
            Rule::Path(rule) => {
                let named = match Path::new(example).strip_prefix("~") {
                    Ok(rest) => places.home().join(rest),
                    Err(_) => places.workdir().join(example),
                };
                places.matches(rule, &self.base, &path::normalize(&named), false, list)
            }
            Rule::Command(rule) => bash::example(rule, list, example, places),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
