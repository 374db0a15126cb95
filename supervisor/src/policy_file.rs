//! `tool_policy.yaml` into [`Policy`]: who wrote each rule, and where `/x` in it starts.
//!
//! Fail-closed: a file that does not load becomes a policy that denies everything and says where it is broken, never
//! one with fewer rules. The rules themselves are parsed by the worker, which judges by them.

pub mod keep;
pub mod origin;
pub mod sandbox;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_saphyr::Spanned;
use ukai_protocol::policy::{Policy, Rule, Sandbox, split_rule};

use crate::config::duration::Millis;
use crate::config::fault::{Fault, Format, Source};
use crate::config::load;
use origin::{Origin, Origins};
use sandbox::SandboxEntry;

/// What holds when nobody has written one.
pub const SHIPPED: &str = include_str!("tool_policy.yaml");
const VERSION: u32 = 1;
const ASK_TIMEOUT_MS: u64 = 600_000;
/// Rules are tried one by one at every call, and travel with each job.
pub const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Option<u32>,
    #[serde(default)]
    provider_priority: Vec<String>,
    ask_timeout: Option<Millis>,
    #[serde(default)]
    sandbox: SandboxEntry,
    #[serde(default)]
    rules: Rules,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(default)]
    allow: Vec<Spanned<RuleEntry>>,
    #[serde(default)]
    ask: Vec<Spanned<RuleEntry>>,
    #[serde(default)]
    deny: Vec<Spanned<RuleEntry>>,
}

/// `"Tool(spec)"`, or the same with examples.
struct RuleEntry {
    rule: String,
    r#match: Vec<String>,
    not_match: Vec<String>,
}

/// A policy with where it comes from.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    pub policy: Policy,
    /// None: the shipped one.
    pub file: Option<PathBuf>,
    pub origins: Origins,
}

/// Reads a policy; `/x` in its rules starts at `base`.
pub fn parse(text: &str, file: &Path, base: &Path) -> Result<Traced, Fault> {
    let source = Source { file, text, format: Format::Yaml };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let next = format!("write `version: {VERSION}` and rules, or remove the file: then the shipped one holds");
        return Err(source.at_key("version", "there is nothing in it", next));
    }
    let read: File = source.read()?;
    match read.version {
        Some(VERSION) => {}
        Some(other) => {
            let why = format!("{other} is not known here, {VERSION} is");
            return Err(source.at_key("version", why, "use the ukai that wrote it, or write version: 1"));
        }
        None => {
            let next = format!("write `version: {VERSION}` on its first line");
            return Err(source.at_key("version", "it is missing", next));
        }
    }
    let count = read.rules.allow.len() + read.rules.ask.len() + read.rules.deny.len();
    if count > RULES_MAX {
        return Err(source.at_key("rules", format!("there are {count}, at most {RULES_MAX} may be"), "merge some"));
    }
    let said_by = file.display().to_string();
    let rules = |entries: Vec<Spanned<RuleEntry>>| -> (Vec<Rule>, Vec<Origin>) {
        let one = |entry: Spanned<RuleEntry>| {
            let line = usize::try_from(entry.referenced.line()).ok().filter(|line| *line > 0);
            (entry.value.at(base), Origin { said_by: said_by.clone(), line })
        };
        entries.into_iter().map(one).unzip()
    };
    let ((allow, allowed_by), (ask, asked_by)) = (rules(read.rules.allow), rules(read.rules.ask));
    let (deny, denied_by) = rules(read.rules.deny);
    let sandbox = read.sandbox.at(base).map_err(|(why, next)| source.at_key("sandbox", why, next))?;
    let policy = Policy {
        allow,
        ask,
        deny,
        provider_priority: read.provider_priority,
        disabled_tools: Vec::new(),
        ask_timeout_ms: read.ask_timeout.map_or(ASK_TIMEOUT_MS, |time| time.0),
        sandbox,
        broken: None,
    };
    let origins = Origins { allow: allowed_by, ask: asked_by, deny: denied_by };
    Ok(Traced { policy, file: Some(file.to_owned()), origins })
}

/// A policy under which everything is denied, because of `why`.
#[must_use]
pub fn broken(why: String) -> Policy {
    Policy { ask_timeout_ms: ASK_TIMEOUT_MS, broken: Some(why), ..Policy::default() }
}

/// The user's own, whether it is there or not.
#[must_use]
pub fn users() -> Option<PathBuf> {
    load::config_dir().map(|folder| folder.join("tool_policy.yaml"))
}

/// Which policy holds for a job: the named one (flag or job key), else the user's, else the shipped one. What is wrong
/// with it is added to `notes`, for stderr.
#[must_use]
pub fn load(named: Option<&Path>, notes: &mut Vec<String>) -> Traced {
    let path = match (named, users()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(path)) if path.symlink_metadata().is_ok() => path,
        _ => return traced_shipped(),
    };
    read(&path).unwrap_or_else(|why| {
        notes.push(format!("every tool call is denied: {why}"));
        Traced { policy: broken(why), file: Some(path), ..Traced::default() }
    })
}

#[must_use]
pub fn shipped() -> Policy {
    traced_shipped().policy
}

fn traced_shipped() -> Traced {
    // Its base matters to no rule in it: none starts with a single `/`. That it loads is tested.
    match parse(SHIPPED, Path::new(origin::SHIPPED), Path::new("/")) {
        Ok(traced) => Traced { file: None, ..traced },
        Err(fault) => Traced { policy: broken(fault.to_string()), ..Traced::default() },
    }
}

/// Adds the ask and deny rules of the `tool_policy.yaml` found in these folders; what else they say is ignored, with a
/// line in `notes`.
pub fn narrow(traced: &mut Traced, folders: &[&Path], notes: &mut Vec<String>) {
    let Traced { policy, file, origins } = traced;
    for path in load::found_files(folders, "tool_policy.yaml", file.as_deref()) {
        let Traced { policy: found, origins: by, .. } = match read(&path) {
            Ok(found) => found,
            Err(why) => {
                notes.push(format!("every tool call is denied: {why}"));
                policy.broken.get_or_insert(why);
                continue;
            }
        };
        if !found.allow.is_empty() || !found.provider_priority.is_empty() || found.sandbox != Sandbox::default() {
            notes.push(format!(
                "{}: allow rules, provider_priority and sandbox are ignored there; its ask and deny rules count",
                path.display()
            ));
        }
        policy.ask.extend(found.ask);
        policy.deny.extend(found.deny);
        origins.ask.extend(by.ask);
        origins.deny.extend(by.deny);
    }
}

fn read(path: &Path) -> Result<Traced, String> {
    let text = load::read_text(path).map_err(|error| {
        format!("the tool policy {} could not be read: {error}; write it, or name another", path.display())
    })?;
    // The real folder: rules start where the file is, not where a link to it is.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let base = real.parent().unwrap_or(Path::new("/"));
    parse(&text, path, base).map_err(|fault| format!("the tool policy could not be used: {fault}"))
}

impl RuleEntry {
    fn at(self, base: &Path) -> Rule {
        Rule { match_examples: self.r#match, not_match_examples: self.not_match, ..Rule::new(self.rule, base) }
    }
}

impl<'de> Deserialize<'de> for RuleEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            rule: String,
            #[serde(default)]
            r#match: Vec<String>,
            #[serde(default)]
            not_match: Vec<String>,
        }
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = RuleEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule like \"Tool(spec)\" or {rule, match, not_match}")
            }
            fn visit_str<E: Error>(self, rule: &str) -> Result<RuleEntry, E> {
                checked(RuleEntry { rule: rule.to_owned(), r#match: Vec::new(), not_match: Vec::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RuleEntry, A::Error> {
                let Long { rule, r#match, not_match } = Long::deserialize(MapAccessDeserializer::new(map))?;
                checked(RuleEntry { rule, r#match, not_match })
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

fn checked<E: Error>(entry: RuleEntry) -> Result<RuleEntry, E> {
    match split_rule(&entry.rule) {
        Ok(_) => Ok(entry),
        Err(why) => Err(E::custom(format!("`{}` is no rule: {why}", entry.rule))),
    }
}

#[cfg(test)]
#[path = "policy_file/tests.rs"]
mod tests;
