//! Which names a rule of a flag may be about.
//!
//! A rule about a tool that nobody has matches no call: a slip of the finger in it would allow, or deny, nothing.

#![deny(clippy::disallowed_methods)]

use crate::config::fault::nearest;

const KNOWN: [&str; 10] = ["Read", "Glob", "Grep", "Write", "Edit", "Bash", "BashOutput", "KillShell", "Note", "Agent"];
/// Tools of MCP servers.
const MCP: &str = "mcp__";
/// Of a tool that a configuration declares.
const DECLARED_BYTES_MAX: usize = 48;

/// `name`: what stands before the bracket of a rule, where `*` stands for anything.
pub fn check(name: &str) -> Result<(), String> {
    let declared = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '*');
    let is_declared = name.len() <= DECLARED_BYTES_MAX && name.chars().all(declared);
    let begins = name.split_once('*').map(|(begins, _)| begins);
    let is_known =
        KNOWN.contains(&name) || begins.is_some_and(|begins| KNOWN.iter().any(|tool| tool.starts_with(begins)));
    if is_known || is_declared || name.starts_with(MCP) {
        return Ok(());
    }
    let next = match nearest(name, KNOWN.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}, mcp__…, and tools that you declare yourself (small letters)", KNOWN.join(", ")),
    };
    Err(format!("there is no tool `{name}`; {next}"))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_rule_is_about_a_tool_that_can_be() {
        for name in ["Edit", "BashOutput", "Bash*", "mcp__files__read-all", "mcp__*", "run_tests", "my_tools_*"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for (name, part) in [
            ("Edt", "did you mean `Edit`?"),
            ("edit_File", "there is no tool `edit_File`"),
            ("READ", "there is no tool `READ`"),
            ("Frobnicate", "known: Read, "),
            ("Edt*", "there is no tool `Edt*`"),
        ] {
            assert!(check(name).is_err_and(|why| why.contains(part)), "{name}: {:?}", check(name));
        }
    }
}
