//! Rules as text, and verdicts as data. The supervisor reads the YAML into these; the worker parses the rules and judges.

#![deny(clippy::disallowed_methods)]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one job may do. Read once, when the job is submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
    /// Provider ids in the order to try; empty = order of the configuration.
    pub provider_priority: Vec<String>,
    /// Tools hidden from the model (`[tools] disable`).
    pub disabled_tools: Vec<String>,
    pub ask_timeout_ms: u64,
    /// Jobs of before there were commands have none: theirs is the default.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// A policy that did not load: everything is denied, and this says where it is broken.
    pub broken: Option<String>,
}

/// What confines the commands that a job starts (spec §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Off: they may do what their owner may.
    pub on: bool,
    pub network: Network,
    /// Absolute; to read besides the usual, and to write.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Variables to pass on, by name.
    pub env: Vec<String>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox { on: true, network: Network::Off, read: Vec::new(), write: Vec::new(), env: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    #[default]
    Off,
    /// One of its own: what is started together can talk, to nobody else.
    Loopback,
    On,
}

/// One rule as written: `Tool` or `Tool(spec)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub text: String,
    /// What `/x` in the rule starts from: the folder of the file that holds it.
    pub base: PathBuf,
    /// Inputs that must match and must not; one that fails breaks the policy.
    pub match_examples: Vec<String>,
    pub not_match_examples: Vec<String>,
}

impl Rule {
    #[must_use]
    pub fn new(text: impl Into<String>, base: impl Into<PathBuf>) -> Self {
        Rule { text: text.into(), base: base.into(), match_examples: Vec::new(), not_match_examples: Vec::new() }
    }
}

/// Why a text is no rule, whatever it may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARule {
    #[error("a rule is `Tool` or `Tool(spec)`, and `Tool` is letters, digits and `_`")]
    Name,
    #[error("a `(` without a `)` at the end")]
    Bracket,
}

/// `Tool` or `Tool(spec)`, taken apart, so that both ends refuse the same texts. What the spec means, the worker knows.
pub fn split_rule(text: &str) -> Result<(&str, Option<&str>), NotARule> {
    let text = text.trim();
    let (name, spec) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or(NotARule::Bracket)?)),
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(letter) {
        true => Ok((name, spec)),
        false => Err(NotARule::Name),
    }
}

/// One verdict answers one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Deny,
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The rule as written, and the list that holds it.
    Rule {
        list: RuleList,
        rule: String,
    },
    /// No rule: what ukai does by itself (the roots, calls that cannot be run as asked).
    Default,
    /// It would have been asked, and nobody can be.
    NoOneToAsk,
    PolicyError,
    /// The built-in list of commands that only read.
    Classifier,
    /// A script of the owner's, by its command line.
    Hook {
        hook: String,
    },
    /// The supervisor itself, which an ask was handed to: the job ended, or its question could not be put.
    Coordinator,
    /// A person said yes.
    User(Consent),
    /// A person said no, with these words.
    UserReject {
        text: String,
    },
    /// A person ended the job instead of answering.
    UserAbort,
    /// Nobody answered in time.
    Timeout,
}

/// How far a person's yes reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// This call.
    Once,
    /// And its like, by a rule from now on.
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleList {
    Allow,
    Ask,
    Deny,
}

impl RuleList {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RuleList::Allow => "allow",
            RuleList::Ask => "ask",
            RuleList::Deny => "deny",
        }
    }
}

/// A verdict with its source and, where it denies, the words that the model is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    pub source: Source,
    pub why: String,
    /// Where nobody could be asked: rules with which it would be allowed.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Judgement {
    #[must_use]
    pub fn allow(source: Source) -> Self {
        Judgement { verdict: Verdict::Allow, source, why: String::new(), missing: Vec::new() }
    }

    #[must_use]
    pub fn deny(source: Source, why: impl Into<String>) -> Self {
        Judgement { verdict: Verdict::Deny, source, why: why.into(), missing: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_name_and_perhaps_a_spec() {
        for (text, split) in [
            ("Read", Ok(("Read", None))),
            (" Bash(git log:*) ", Ok(("Bash", Some("git log:*")))),
            ("Bash(echo (a))", Ok(("Bash", Some("echo (a)")))),
            ("mcp__files__*", Ok(("mcp__files__*", None))),
            ("Bash(", Err(NotARule::Bracket)),
            ("Nonsense(((", Err(NotARule::Bracket)),
            ("Read(a) b", Err(NotARule::Bracket)),
            ("", Err(NotARule::Name)),
            ("(x)", Err(NotARule::Name)),
            ("Re ad", Err(NotARule::Name)),
        ] {
            assert_eq!(split_rule(text), split, "{text}");
        }
    }
}
