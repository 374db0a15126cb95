//! Who wrote each rule of a policy, so that a person can find it. It stays here: a job carries the rules alone.

#![deny(clippy::disallowed_methods)]

use std::fmt;

use ukai_protocol::policy::RuleList;

/// What the shipped policy is called where a file would stand.
pub const SHIPPED: &str = "the shipped tool_policy.yaml";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// A file, or a flag.
    pub said_by: String,
    /// From 1.
    pub line: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.said_by),
            None => write!(f, "{}", self.said_by),
        }
    }
}

/// One for each rule, list by list, in the order of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    pub allow: Vec<Origin>,
    pub ask: Vec<Origin>,
    pub deny: Vec<Origin>,
}

impl Origins {
    /// Of a rule, by its list and its place there from 0.
    #[must_use]
    pub fn of(&self, list: RuleList, at: usize) -> Option<&Origin> {
        match list {
            RuleList::Allow => &self.allow,
            RuleList::Ask => &self.ask,
            RuleList::Deny => &self.deny,
        }
        .get(at)
    }
}
