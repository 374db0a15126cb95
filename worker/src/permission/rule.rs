//! What a rule says, read from its text: `Tool`, `Tool(path pattern)`, `Bash(command pattern)`, `mcp__server__tool`.
//!
//! Everything that is not understood is an error and never a rule that matches nothing: a misspelt deny rule that
//! silently protects nothing is worse than a policy that does not load.

#![deny(clippy::disallowed_methods)]

mod command;

use ukai_protocol::policy::split_rule;

use super::command::CommandRule;
use crate::tool::registry;
use crate::tool::wildmatch::Pattern;

/// A rule, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any call of this tool.
    Tool(String),
    /// `mcp__server` or `mcp__server__*`: any tool of that server.
    Server(String),
    Path(PathRule),
    Command(CommandRule),
}

/// `Read(p)` and its kin: which tools it governs, and which paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    pub tool: String,
    pub anchor: Anchor,
    /// As written, without the mark of its anchor.
    pub text: String,
    pub pattern: Pattern,
    /// The same, blind to case: what deny and ask use.
    pub folded: Pattern,
    /// Without a slash it matches at any depth.
    pub any_depth: bool,
}

/// What the pattern is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// `//abs`
    Root,
    /// `~/home`
    Home,
    /// `/x`: the folder of the file that holds the rule.
    Base,
    /// `x`, `./x`
    Workdir,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}` cannot be read: {why}")]
pub struct BadRule {
    pub rule: String,
    pub why: String,
}

/// Tools whose rules take a path.
const PATH_TOOLS: [&str; 5] = ["Read", "Glob", "Grep", "Edit", "Write"];

impl Rule {
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let bad = |why: String| BadRule { rule: text.to_owned(), why };
        let (name, spec) = split_rule(text).map_err(|why| bad(why.to_string()))?;
        if name.starts_with("mcp__") {
            return if spec.is_some() {
                Err(bad("rules on MCP tools take nothing in brackets".to_owned()))
            } else {
                mcp(name).ok_or_else(|| bad("write mcp__SERVER, mcp__SERVER__* or mcp__SERVER__TOOL".to_owned()))
            };
        }
        let known = registry::is_known(name);
        if !known && !is_declared(name) {
            let nearest = registry::nearest(name).first().copied().unwrap_or_default();
            return Err(bad(format!("there is no tool named `{name}`; did you mean `{nearest}`?")));
        }
        match spec {
            None => Ok(Rule::Tool(name.to_owned())),
            Some(spec) if spec.trim().is_empty() => Err(bad(format!("empty brackets; write `{name}` for every call"))),
            Some(spec) if PATH_TOOLS.contains(&name) => PathRule::parse(name, spec).map(Rule::Path).map_err(bad),
            Some(spec) if name == "Bash" => command::read(spec).map(Rule::Command).map_err(bad),
            Some(_) => Err(bad(format!("rules on `{name}` take nothing in brackets"))),
        }
    }
}

fn mcp(name: &str) -> Option<Rule> {
    let rest = name.strip_prefix("mcp__")?;
    let (server, tool) = match rest.split_once("__") {
        Some((server, tool)) => (server, Some(tool)),
        None => (rest, None),
    };
    let word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    match tool {
        _ if !word(server) => None,
        None | Some("*") => Some(Rule::Server(server.to_owned())),
        Some(tool) if word(tool) => Some(Rule::Tool(name.to_owned())),
        Some(_) => None,
    }
}

/// Spec §7: the names that declared tools may have.
fn is_declared(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl PathRule {
    fn parse(tool: &str, spec: &str) -> Result<Self, String> {
        let (anchor, text) = if let Some(rest) = spec.strip_prefix("//") {
            (Anchor::Root, format!("/{rest}"))
        } else if spec == "~" {
            return Err("name something in the home folder: ~/x".to_owned());
        } else if let Some(rest) = spec.strip_prefix("~/") {
            (Anchor::Home, format!("/{rest}"))
        } else if spec.starts_with('/') {
            (Anchor::Base, spec.to_owned())
        } else if let Some(rest) = spec.strip_prefix("./") {
            (Anchor::Workdir, format!("/{rest}"))
        } else {
            (Anchor::Workdir, spec.to_owned())
        };
        if text.starts_with('!') || text.starts_with('#') {
            return Err("a pattern may not begin with `!` or `#`; put a backslash before it".to_owned());
        }
        if text.split('/').any(|part| part == ".." || part == ".") {
            return Err("a pattern may not hold `..` or `.` as a folder".to_owned());
        }
        let parse = |fold| {
            let text = if fold { text.to_lowercase() } else { text.clone() };
            Pattern::parse(text.as_bytes(), fold).filter(|_| text != "/").ok_or("an empty pattern")
        };
        let any_depth = !text.trim_end_matches('/').contains('/');
        Ok(PathRule { tool: tool.to_owned(), anchor, pattern: parse(false)?, folded: parse(true)?, any_depth, text })
    }

    /// `Read(p)` governs Read, Glob and Grep, `Edit(p)` governs Edit and Write; a rule on another one only itself.
    #[must_use]
    pub fn governs(&self, tool: &str) -> bool {
        match self.tool.as_str() {
            "Read" => matches!(tool, "Read" | "Glob" | "Grep"),
            "Edit" => matches!(tool, "Edit" | "Write"),
            other => other == tool,
        }
    }

    /// The folder (or file) that the pattern names before its first wildcard, relative to its anchor.
    #[must_use]
    pub fn literal_prefix(&self) -> String {
        let literal = |part: &&str| !part.contains(['*', '?', '[', '\\']);
        self.text.split('/').filter(|part| !part.is_empty()).take_while(literal).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        for text in [
            "Read",
            "Glob",
            "Note",
            "Read(.env*)",
            "Read(~/.ssh/**)",
            "Read(//etc/x)",
            "Read(/x)",
            "Read(./x)",
            "Edit(.git/**)",
            "Bash(sudo:*)",
            "Bash(a (b) c)",
            "mcp__s__t",
            "mcp__s__*",
            "mcp__s",
            "my_tool",
            " Read ",
        ] {
            Rule::parse(text).unwrap_or_else(|bad| panic!("{bad}"));
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (text, why) in [
            ("Raed(.env)", "did you mean `Read`?"),
            ("Bahs", "did you mean `Bash`?"),
            ("Raed", "Read"),
            ("Read(", "without a `)`"),
            ("Read(x) ) y", "without a `)`"),
            ("Read()", "empty brackets"),
            ("Read(!x)", "begin with"),
            ("Read(../x)", "`..`"),
            ("Read(~)", "home"),
            ("Note(x)", "take nothing"),
            ("mcp__", "mcp__SERVER"),
            ("mcp__s__t(x)", "take nothing"),
            ("", "`Tool` is letters"),
        ] {
            let bad = Rule::parse(text).expect_err(text);
            assert!(bad.to_string().contains(why), "{text}: {bad}");
        }
    }
}
