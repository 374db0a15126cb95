//! The declared tools of a folder, and how those of several come together.

#![allow(clippy::disallowed_methods, reason = "this file is the shell of its folder")]

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::declared::{Declared, OWN};

use super::parse;
use crate::config::fault::Fault;
use crate::config::load;

/// They travel with every request of every job.
pub const TOOLS_MAX: usize = 64;
/// Of entries in a folder of tools; more belongs elsewhere.
const ENTRIES_MAX: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    #[error("a declared tool could not be used: {0}")]
    Fault(#[from] Fault),
    #[error("the declared tools in {} could not be read: {why}; mend it, or take it away", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("there are more than {TOOLS_MAX} declared tools, and each travels with every request; take some away")]
    TooMany,
}

/// A file of a tool: where it is, and what stands in it.
pub struct Text {
    pub file: PathBuf,
    pub text: String,
}

/// The `*.toml` of the config folder's `tools/`, sorted. A folder that is not there holds none.
pub fn in_folder(folder: &Path) -> Result<Vec<Text>, ToolsError> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| ToolsError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(folder, &error))?,
    };
    let mut files = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if is_tool(&path) {
            files.push(path);
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let text = load::read_text(&file).map_err(|error| unreadable(&file, &error))?;
        Ok(Text { file, text })
    };
    files.into_iter().map(read).collect()
}

/// What an editor leaves beside it is none.
#[must_use]
pub fn is_tool(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".toml") && !name.starts_with('.')
}

/// All of them, sorted by name. Of two of one name the earlier holds, and no declared tool stands for one of ukai's own;
/// `notes` say what is left out.
pub fn together(texts: &[&Text], notes: &mut Vec<String>) -> Result<Vec<Declared>, ToolsError> {
    let home = load::home();
    let mut names = BTreeSet::new();
    let mut tools: Vec<Declared> = Vec::new();
    for Text { file, text } in texts {
        let tool = parse(text, file, home.as_deref())?;
        let is_ours = OWN.iter().any(|name| name.eq_ignore_ascii_case(&tool.name));
        if is_ours || !names.insert(tool.name.clone()) {
            let whose = if is_ours { "ukai's own tool of that name" } else { "an earlier one of that name" };
            notes.push(format!("{}: the tool `{}` is left out, {whose} holds", file.display(), tool.name));
            continue;
        }
        tools.push(tool);
    }
    if tools.len() > TOOLS_MAX {
        return Err(ToolsError::TooMany);
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tools)
}
