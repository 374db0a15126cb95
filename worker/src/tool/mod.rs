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
pub mod declared;
pub mod edit;
pub mod glob;
pub mod grep;
pub mod kill_shell;
pub mod read;
pub mod write;

// What they share: doors to the disk, and the shape of what they return.
pub mod background;
pub mod draft;
pub mod git_attributes;
pub mod git_ignore;
pub mod git_repo;
pub mod hear;
pub mod look;
pub mod open;
pub mod output;
pub mod put;
pub mod said;
pub mod seen;
pub mod shape;
pub mod shells;
pub mod spill;
pub mod target;
pub mod walk;
pub mod wildmatch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use ukai_protocol::declared::{Declared, Run};
use ukai_protocol::event::{FileChange, SeenFile, ToolStatus};
use ukai_protocol::json::Json;
use ukai_protocol::secret::fingerprint::Mask;

use crate::permission::Permission;

use declared::http::Posts;
pub use registry::{Flags, Registry};
use seen::{Look, Seen};
use shells::{Notice, Shells};
use spill::Sink;

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
    /// The tools of the job.
    pub tools: Registry,
    /// None: in a process that asks no servers for tools.
    pub posts: Option<Posts>,
    /// What the job knows of the files that it may overwrite.
    pub seen: Arc<Seen>,
    /// What this call came to know of them, for the record.
    pub looks: Arc<Mutex<Vec<SeenFile>>>,
    /// What one result may take of the model's window, in estimated tokens.
    pub result_tokens_max: u64,
    /// A person or a hook allowed this call, as it was named, where no rule may.
    pub consented: bool,
}

/// A result may fill half of a window, whatever it is written in: the rest is for what led to it.
const RESULTS_TO_A_WINDOW: u64 = 2;
/// Less says nothing, in whatever window.
const RESULT_TOKENS_MIN: u64 = 400;

/// What one result may take of a window of so many tokens.
#[must_use]
pub fn result_tokens_max(window: u64) -> u64 {
    (window / RESULTS_TO_A_WINDOW).max(RESULT_TOKENS_MIN)
}

/// What became of a call, and what the model is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    pub status: ToolStatus,
    pub output: String,
    pub files_changed: Vec<FileChange>,
    pub seen: Vec<SeenFile>,
    /// What who watches should know of how it was carried out.
    pub notices: Vec<Notice>,
}

/// Why a tool stopped before its end. Every text is for the model.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Cancelled,
    /// The input says something that cannot be carried out.
    Invalid(String),
    Denied(String),
    Failed(String),
    /// It was begun, and what came of it cannot be known.
    Unknown(String),
    /// Failed after something had been changed.
    HalfDone {
        why: String,
        files_changed: Vec<FileChange>,
    },
}

/// Runs one call to its end. Blocks; notices cancellation within a few milliseconds.
#[must_use]
pub fn run(tool: &str, input: &Json, context: &Context) -> ToolOutput {
    let declared = context.tools.declared(tool);
    if !registry::is_built(tool) && declared.is_none() {
        return unknown(tool, &context.tools);
    }
    let looked = |output| ToolOutput::new(ToolStatus::Ok, output);
    let done = context.tools.validate(tool, input).map_err(Stopped::Invalid).and_then(|()| match (declared, tool) {
        (Some(declared), _) => declared::run(declared, input, context).map(looked),
        (None, "Edit") => edit::run(input, context),
        (None, "Write") => write::run(input, context),
        (None, "Read") => read::run(input, context).map(looked),
        (None, "Glob") => glob::run(input, context).map(looked),
        (None, "Bash") => bash::run(input, context).map(looked),
        (None, "BashOutput") => bash_output::run(input, context).map(looked),
        (None, "KillShell") => kill_shell::run(input, context).map(looked),
        (None, _) => grep::run(input, context).map(looked),
    });
    let mut done = done.unwrap_or_else(|stopped| match stopped {
        Stopped::Cancelled => ToolOutput::new(ToolStatus::Cancelled, "cancelled".to_owned()),
        Stopped::Invalid(why) => ToolOutput::new(ToolStatus::Invalid, why),
        Stopped::Denied(why) => ToolOutput::new(ToolStatus::Denied, why),
        Stopped::Failed(why) => ToolOutput::new(ToolStatus::Failed, why),
        Stopped::Unknown(why) => ToolOutput::new(ToolStatus::Unknown, why),
        Stopped::HalfDone { why, files_changed } => {
            ToolOutput { files_changed, ..ToolOutput::new(ToolStatus::Failed, why) }
        }
    });
    done.seen = context.take_looks();
    let is_command = |declared: &Declared| matches!(declared.run, Run::Command(_));
    if declared.map_or_else(|| runs_commands(tool), is_command)
        && let Some(why) = context.shells.look_after()
    {
        done.output.push_str(&format!("[{why}]\n"));
    }
    context.mask.mask(&mut done.output);
    done.notices = context.shells.notices();
    done
}

/// After one of these, something may have come to be that no rule allows.
fn runs_commands(tool: &str) -> bool {
    matches!(tool, "Bash" | "BashOutput" | "KillShell")
}

/// The answer to a call of a tool that there is not.
#[must_use]
pub fn unknown(tool: &str, tools: &Registry) -> ToolOutput {
    let shown = output::cut_line(&output::clean(tool.as_bytes()).replace('\n', " "), 100);
    let nearest = tools.nearest(tool).join(", ");
    let why = format!("There is no tool named `{shown}`, so nothing was run. The nearest are {nearest}.");
    ToolOutput::new(ToolStatus::Invalid, why)
}

impl ToolOutput {
    /// Of a call that changed no file.
    #[must_use]
    pub fn new(status: ToolStatus, output: String) -> Self {
        ToolOutput { status, output, files_changed: Vec::new(), seen: Vec::new(), notices: Vec::new() }
    }
}

impl Context {
    /// For output of any length: what the model is not shown can be read in `outputs/`.
    fn sink<'a>(&'a self, tool: &'a str) -> Sink<'a> {
        Sink::new(tool, &self.outputs, &self.mask).within(self.result_tokens_max)
    }

    /// This is how the file is now: the job may overwrite it as long as it stays so, also in a later process.
    fn saw(&self, real: &Path, look: Look) {
        self.seen.note(real, look);
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).push(look.of(real));
    }

    fn take_looks(&self) -> Vec<SeenFile> {
        std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner))
    }

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
