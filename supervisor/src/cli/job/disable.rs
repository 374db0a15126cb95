//! Which tools `[tools] disable` may name: those that are there, and those of MCP servers. A slip of the finger in it would
//! leave a tool on.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use ukai_protocol::declared::{Declared, OWN};

use crate::config::fault::nearest;
use crate::tools_file;

/// Tools of MCP servers.
const MCP: &str = "mcp__";

/// `file`: the one that switches them off.
pub fn check<'a>(
    file: Option<&Path>,
    names: impl Iterator<Item = &'a String>,
    declared: &[Declared],
) -> Result<(), String> {
    let own = || OWN.into_iter().chain(declared.iter().map(|tool| tool.name.as_str()));
    let place = file.map_or_else(|| "ukai.toml".into(), |file| file.to_string_lossy());
    for name in names {
        if name.starts_with(MCP) || own().any(|known| known == name) {
            continue;
        }
        let next = match nearest(name, own()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", own().collect::<Vec<_>>().join(", ")),
        };
        return Err(format!("{place}, [tools], key `disable`: there is no tool `{name}`; {next}"));
    }
    Ok(())
}

/// Whether somebody could declare a tool of this name.
#[must_use]
pub fn may_be_declared(name: &str) -> bool {
    tools_file::is_name(name) && OWN.iter().all(|tool| !tool.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_tool_has_is_named_with_the_nearest() {
        let said = |name: &str| check(Some(Path::new("/c/ukai.toml")), [name.to_owned()].iter(), &[]);
        for name in ["Grep", "Agent", "mcp__files__put", "mcp__files__*"] {
            assert_eq!(said(name), Ok(()), "{name}");
        }
        for (name, part) in [
            ("Grpe", "/c/ukai.toml, [tools], key `disable`: there is no tool `Grpe`; did you mean `Grep`?"),
            ("grep", "did you mean"),
            ("deploy", "known here: "),
        ] {
            assert!(said(name).is_err_and(|why| why.contains(part)), "{name}: {:?}", said(name));
        }
        assert!(may_be_declared("deploy") && !may_be_declared("grep") && !may_be_declared("Deploy"));
    }
}
