//! `tool_policy.yaml` into [`Policy`]: who wrote each rule, and where `/x` in it starts.
//!
//! Fail-closed: a file that does not load becomes a policy that denies everything and says where it is broken, never
//! one with fewer rules. The rules themselves are parsed by the worker, which judges by them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use ukai_protocol::policy::{Network, Policy, Rule, Sandbox, split_rule};

use crate::config::duration::Millis;
use crate::config::fault::{Fault, Format, Source};
use crate::config::load;

/// What holds when nobody has written one.
pub const SHIPPED: &str = include_str!("tool_policy.yaml");
const VERSION: u32 = 1;
const ASK_TIMEOUT_MS: u64 = 600_000;
/// Rules are tried one by one at every call, and travel with each job.
pub const RULES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
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
    allow: Vec<RuleEntry>,
    #[serde(default)]
    ask: Vec<RuleEntry>,
    #[serde(default)]
    deny: Vec<RuleEntry>,
}

/// `"Tool(spec)"`, or the same with examples.
struct RuleEntry {
    rule: String,
    r#match: Vec<String>,
    not_match: Vec<String>,
}

/// `on`, `off`, or what is opened besides the usual.
#[derive(Default)]
struct SandboxEntry(Sandbox);

/// Reads a policy; `/x` in its rules starts at `base`.
pub fn parse(text: &str, file: &Path, base: &Path) -> Result<Policy, Fault> {
    let source = Source { file, text, format: Format::Yaml };
    let read: File = source.read()?;
    if read.version != VERSION {
        let why = format!("{} is not known here, {VERSION} is", read.version);
        return Err(source.at_key("version", why, "use the ukai that wrote it, or write version: 1"));
    }
    let count = read.rules.allow.len() + read.rules.ask.len() + read.rules.deny.len();
    if count > RULES_MAX {
        return Err(source.at_key("rules", format!("there are {count}, at most {RULES_MAX} may be"), "merge some"));
    }
    let rules = |entries: Vec<RuleEntry>| entries.into_iter().map(|entry| entry.at(base)).collect();
    Ok(Policy {
        allow: rules(read.rules.allow),
        ask: rules(read.rules.ask),
        deny: rules(read.rules.deny),
        provider_priority: read.provider_priority,
        disabled_tools: Vec::new(),
        ask_timeout_ms: read.ask_timeout.map_or(ASK_TIMEOUT_MS, |time| time.0),
        sandbox: read.sandbox.at(base),
        broken: None,
    })
}

/// A policy under which everything is denied, because of `why`.
#[must_use]
pub fn broken(why: String) -> Policy {
    Policy { ask_timeout_ms: ASK_TIMEOUT_MS, broken: Some(why), ..Policy::default() }
}

/// Which policy holds for a job: the named one (flag or job key), else the user's, else the shipped one. What is wrong
/// with it is added to `notes`, for stderr.
#[must_use]
pub fn load(named: Option<&Path>, notes: &mut Vec<String>) -> (Policy, Option<PathBuf>) {
    let users = load::config_dir().map(|folder| folder.join("tool_policy.yaml"));
    let path = match (named, users) {
        (Some(path), _) => path.to_owned(),
        (None, Some(path)) if path.symlink_metadata().is_ok() => path,
        _ => return (shipped(), None),
    };
    let policy = read(&path).unwrap_or_else(|why| {
        notes.push(format!("every tool call is denied: {why}"));
        broken(why)
    });
    (policy, Some(path))
}

#[must_use]
pub fn shipped() -> Policy {
    // Its base matters to no rule in it: none starts with a single `/`. That it loads is tested.
    parse(SHIPPED, Path::new("the shipped tool_policy.yaml"), Path::new("/"))
        .unwrap_or_else(|fault| broken(fault.to_string()))
}

/// Adds the ask and deny rules of the `tool_policy.yaml` found in these folders; what else they say is ignored, with a
/// line in `notes`.
pub fn narrow(policy: &mut Policy, folders: &[&Path], in_force: Option<&Path>, notes: &mut Vec<String>) {
    for path in load::found_files(folders, "tool_policy.yaml", in_force) {
        let found = match read(&path) {
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
    }
}

fn read(path: &Path) -> Result<Policy, String> {
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

impl SandboxEntry {
    /// Paths from the home folder or from where the policy stands become absolute.
    fn at(self, base: &Path) -> Sandbox {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let absolute = |path: PathBuf| match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        };
        let Sandbox { on, network, read, write, env } = self.0;
        let [read, write] = [read, write].map(|paths| paths.into_iter().map(absolute).collect());
        Sandbox { on, network, read, write, env }
    }
}

impl<'de> Deserialize<'de> for SandboxEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            #[serde(default)]
            network: NetworkWord,
            #[serde(default)]
            read: Vec<PathBuf>,
            #[serde(default)]
            write: Vec<PathBuf>,
            #[serde(default)]
            env: Vec<String>,
        }
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = SandboxEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("on, off or {network, read, write, env}")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<SandboxEntry, E> {
                Ok(SandboxEntry(Sandbox { on, ..Sandbox::default() }))
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<SandboxEntry, E> {
                match word {
                    "on" => self.visit_bool(true),
                    "off" => self.visit_bool(false),
                    _ => Err(E::custom("it is neither on nor off")),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxEntry, A::Error> {
                let Long { network, read, write, env } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SandboxEntry(Sandbox { on: true, network: network.0, read, write, env }))
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

/// `off`, `loopback` or `on`; YAML readers may take the outer two for booleans.
#[derive(Default)]
struct NetworkWord(Network);

impl<'de> Deserialize<'de> for NetworkWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = NetworkWord;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("off, loopback or on")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<NetworkWord, E> {
                Ok(NetworkWord(if on { Network::On } else { Network::Off }))
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<NetworkWord, E> {
                match word {
                    "off" => Ok(NetworkWord(Network::Off)),
                    "loopback" => Ok(NetworkWord(Network::Loopback)),
                    "on" => Ok(NetworkWord(Network::On)),
                    _ => Err(E::custom("it is none of off, loopback and on")),
                }
            }
        }
        deserializer.deserialize_any(Word)
    }
}

#[cfg(test)]
#[path = "policy_file/tests.rs"]
mod tests;
