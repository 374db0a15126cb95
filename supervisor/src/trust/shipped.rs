//! What a folder ships, for the person who is to say yes to it: each thing with its file and line.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use super::look::Look;
use super::{CONFIG, POLICY, SETTINGS, TOOLS};
use crate::policy_file;
use crate::tools_file::{self, read::is_tool};
use ukai_protocol::declared::Run;

/// Keys of `ukai.toml` that count only where it is trusted.
pub const WIDENING: [&str; 3] = ["hooks", "mcp", "provider"];
/// Of a command line, a rule, a name: enough to know it by.
const SHOWN_CHARS_MAX: usize = 200;

/// One thing that a folder ships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// `FILE, line N`, below the folder.
    pub place: String,
    pub kind: &'static str,
    pub what: String,
}

/// In the order of the files, and in their order.
#[must_use]
pub fn items(look: &Look, home: Option<&Path>) -> Vec<Item> {
    let mut items = Vec::new();
    for (path, said) in look.entries() {
        let shown = path.display().to_string();
        let mut push = |line: Option<usize>, kind, what: String| {
            let place = line.map_or_else(|| shown.clone(), |line| format!("{shown}, line {line}"));
            let what: String = what.chars().take(SHOWN_CHARS_MAX).collect();
            items.push(Item { place, kind, what });
        };
        if let Some(said) = said {
            push(None, "file", said);
            continue;
        }
        let Some(text) = look.text(path) else {
            push(None, "file", "no text".to_owned());
            continue;
        };
        if path == Path::new(POLICY) {
            of_policy(text, &look.folder().join(path), &mut push);
        } else if path == Path::new(CONFIG) {
            of_config(text, &mut push);
        } else if path == Path::new(SETTINGS) {
            of_settings(text, &mut push);
        } else if path.parent() == Some(Path::new(TOOLS)) && is_tool(path) {
            match tools_file::parse(text, &look.folder().join(path), home) {
                Ok(tool) => {
                    let how = match &tool.run {
                        Run::Command(command) => command.join(" "),
                        Run::Http(url) => url.clone(),
                    };
                    push(None, "tool", format!("{}: {how}", tool.name));
                }
                Err(fault) => push(fault.line, "broken tool", fault.to_string()),
            }
        } else {
            push(None, "file", format!("{} bytes", text.len()));
        }
    }
    items
}

fn of_policy(text: &str, file: &Path, push: &mut impl FnMut(Option<usize>, &'static str, String)) {
    match policy_file::parse(text, file, file.parent().unwrap_or(Path::new("/"))) {
        Ok(traced) => {
            for (rule, origin) in traced.policy.allow.iter().zip(&traced.origins.allow) {
                push(origin.line, "allow rule", rule.text.clone());
            }
        }
        Err(fault) => push(fault.line, "broken policy", fault.why),
    }
}

fn of_config(text: &str, push: &mut impl FnMut(Option<usize>, &'static str, String)) {
    let Ok(all) = text.parse::<toml::Table>() else {
        return push(None, "broken configuration", "it is no TOML".to_owned());
    };
    for key in WIDENING.into_iter().filter(|key| all.contains_key(*key)) {
        let tables = all[key].as_array().map_or_else(|| vec![&all[key]], |tables| tables.iter().collect());
        let kind = match key {
            "provider" => "provider",
            "mcp" => "MCP server",
            _ => "hooks",
        };
        let mut lines =
            text.lines().enumerate().filter(|(_, line)| line.trim_start().trim_start_matches('[').starts_with(key));
        for table in tables {
            let line = lines.next().map(|(at, _)| at + 1);
            push(line, kind, table.to_string().replace('\n', " "));
        }
    }
}

fn of_settings(text: &str, push: &mut impl FnMut(Option<usize>, &'static str, String)) {
    let commands = text.lines().enumerate().filter(|(_, line)| line.contains("\"command\""));
    let mut any = false;
    for (at, line) in commands {
        any = true;
        push(Some(at + 1), "hook", line.trim().to_owned());
    }
    if !any {
        push(None, "file", format!("{} bytes", text.len()));
    }
}
