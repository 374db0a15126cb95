//! KillShell: the end of a command in the background, with all that it started.

use ukai_protocol::json::Json;

use super::bash_output::how_it_stands;
use super::{Context, Stopped, text};

pub(super) fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let id = text(input, "shell_id").unwrap_or_default();
    let shell = context.shells.find(id).map_err(Stopped::Invalid)?;
    match shell.kill().map_err(Stopped::Failed)? {
        Some(over) => Ok(format!("{id}: {}.\n", how_it_stands(Some(&over)))),
        None => Err(Stopped::Failed(format!("{id} was told to end, and something of it still lives.\n"))),
    }
}
