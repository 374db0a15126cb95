//! `ukai script serve FILE …`: the scripted provider lives in the worker's program; this becomes it.

use std::ffi::OsString;

use clap::Subcommand;
use ukai_protocol::process;

use super::context::worker_program;
use super::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve a script over HTTP in the wire of a provider; `ukai script serve --help` lists what it takes
    // The worker's own program tells its own options.
    #[command(disable_help_flag = true)]
    Serve {
        /// The script, and what else `ukai-worker script serve` takes
        #[arg(value_name = "FILE", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// Returns only if it could not. No child is started: signals and the exit code are the provider's own, and the
/// environment is reduced as for any process of ours.
pub(crate) fn script(verb: Verb) -> Result<u8, Failure> {
    let Verb::Serve { args } = verb;
    let program = worker_program()?;
    let args: Vec<OsString> = ["script", "serve"].map(OsString::from).into_iter().chain(args).collect();
    let error = process::become_program(&program, &args);
    Err(Failure::failed(format!("starting {}: {error}; build it again", program.display())))
}
