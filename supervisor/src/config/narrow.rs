//! What a `ukai.toml` that was merely found (in the workdir or the current folder) may do: lower limits and hide tools
//! (spec §8). A checked-out repository must not be able to redirect requests or widen anything; the rest is ignored.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use serde::Deserialize;

use super::fault::{Fault, Format, Source};
use super::file::ToolsTable;
use super::limits::LimitSet;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrowing {
    pub limits: LimitSet,
    pub disabled_tools: Vec<String>,
    /// Top-level keys that have no say here.
    pub ignored: Vec<String>,
}

#[derive(Deserialize)]
struct Allowed {
    #[serde(default)]
    limits: LimitSet,
    #[serde(default)]
    tools: ToolsTable,
}

pub fn parse(text: &str, file: &Path) -> Result<Narrowing, Fault> {
    let source = Source { file, text, format: Format::Toml };
    let all: toml::Table = source.read()?;
    let Allowed { limits, tools } = source.read()?;
    let ignored = all.keys().filter(|key| !matches!(key.as_str(), "limits" | "tools")).cloned().collect();
    Ok(Narrowing { limits, disabled_tools: tools.disable, ignored })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_hidden_tools_count_and_the_rest_is_named() {
        let text = "max_workers = 1\n[limits]\nsteps = 3\n[tools]\ndisable = [\"Grep\"]\n[[provider]]\nid = \"evil\"\n";
        let narrowing = parse(text, Path::new("/w/ukai.toml")).expect("it loads");
        assert_eq!(narrowing.limits.steps, Some(3));
        assert_eq!(narrowing.disabled_tools, ["Grep"]);
        assert_eq!(narrowing.ignored, ["max_workers", "provider"]);
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_not_ignored() {
        let fault = parse("[limits]\nstpes = 3\n", Path::new("/w/ukai.toml")).expect_err("a typo").to_string();
        assert!(fault.contains("line 2") && fault.contains("did you mean `steps`"), "{fault}");
    }
}
