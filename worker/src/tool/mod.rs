//! The built-in tools, each a plain function that is run on a thread of its own and polls its cancellation.
//!
//! A tool never trusts that it was judged: the verdict came before it ran and was about a name, so every file is judged
//! again as what it turned out to be once it is open.

// What a tool is, and how calls run together.
pub mod actor;
pub mod partition;
pub mod registry;

// The tools.
pub mod bash;
pub mod bash_output;
pub mod glob;
pub mod grep;
pub mod kill_shell;
pub mod read;

// What they share: doors to the disk, and the shape of what they return.
pub mod background;
pub mod git_attributes;
pub mod git_ignore;
pub mod git_repo;
pub mod open;
pub mod output;
pub mod said;
pub mod shells;
pub mod spill;
pub mod target;
pub mod walk;
pub mod wildmatch;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use ukai_protocol::event::ToolStatus;
use ukai_protocol::json::Json;
use ukai_protocol::secret::fingerprint::Mask;

use crate::permission::Permission;

pub use registry::Flags;
use shells::Shells;

/// What every tool gets.
#[derive(Clone)]
pub struct Context {
    pub permission: Arc<Permission>,
    pub cancel: CancellationToken,
    /// Where output goes that is too long to show. A root for reading.
    pub outputs: PathBuf,
    /// What no output may show.
    pub mask: Arc<Mask>,
    pub shells: Arc<Shells>,
}

/// What became of a call, and what the model is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    pub status: ToolStatus,
    pub output: String,
}

/// Why a tool stopped before its end. Every text is for the model.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Cancelled,
    /// The input says something that cannot be carried out.
    Invalid(String),
    Denied(String),
    Failed(String),
}

/// Runs one call to its end. Blocks; notices cancellation within a few milliseconds.
#[must_use]
pub fn run(tool: &str, input: &Json, context: &Context) -> ToolOutput {
    if !registry::is_built(tool) {
        return unknown(tool);
    }
    let done = registry::validate(tool, input).map_err(Stopped::Invalid).and_then(|()| match tool {
        "Read" => read::run(input, context),
        "Glob" => glob::run(input, context),
        "Bash" => bash::run(input, context),
        "BashOutput" => bash_output::run(input, context),
        "KillShell" => kill_shell::run(input, context),
        _ => grep::run(input, context),
    });
    let (status, mut output) = match done {
        Ok(output) => (ToolStatus::Ok, output),
        Err(Stopped::Cancelled) => (ToolStatus::Cancelled, "cancelled".to_owned()),
        Err(Stopped::Invalid(output)) => (ToolStatus::Invalid, output),
        Err(Stopped::Denied(output)) => (ToolStatus::Denied, output),
        Err(Stopped::Failed(output)) => (ToolStatus::Failed, output),
    };
    context.mask.mask(&mut output);
    ToolOutput { status, output }
}

/// The answer to a call of a tool that there is not.
#[must_use]
pub fn unknown(tool: &str) -> ToolOutput {
    let shown = output::cut_line(&output::clean(tool.as_bytes()).replace('\n', " "), 100);
    let nearest = registry::nearest(tool).join(", ");
    ToolOutput {
        status: ToolStatus::Invalid,
        output: format!("There is no tool named `{shown}`, so nothing was run. The nearest are {nearest}."),
    }
}

impl Context {
    fn check_cancelled(&self) -> Result<(), Stopped> {
        if self.cancel.is_cancelled() { Err(Stopped::Cancelled) } else { Ok(()) }
    }
}

/// A parameter that `registry::validate` has seen to be text, if it is there.
fn text<'a>(input: &'a Json, key: &str) -> Option<&'a str> {
    input.0.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
