//! A provider of the owner's configuration in the player's place.

use std::path::Path;

use ukai_protocol::command::quoted_apart;
use ukai_protocol::control::BreakerState;

use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::{providers, table};
use crate::config::load::{self, Loaded};
use crate::store::StateDir;

/// The configuration that names it. What it asked the owner's own jobs to wait for binds the demo too, whose state directory
/// knows nothing of it.
pub(super) fn configuration(context: &Context, config: Option<&Path>, id: &str) -> Result<Loaded, Failure> {
    let [state_home, home] = ["XDG_STATE_HOME", "HOME"].map(std::env::var_os);
    let owners = Context {
        loaded: load::load(config)?,
        state: StateDir::from_environment(state_home.as_deref(), home.as_deref())?,
        output: context.output,
        current_folder: context.current_folder.clone(),
    };
    let rows = providers::remembered(&owners)?;
    let Some(row) = rows.iter().find(|row| row.id == id) else {
        let known: Vec<_> = rows.iter().map(|row| &*row.id).collect();
        return Err(Failure::usage(format!("no provider `{id}` is configured; there are {}", known.join(", "))));
    };
    let ask = quoted_apart(&["providers"]);
    if let Some(ms) = row.not_before_ms {
        let time = table::time(ms);
        return Err(Failure::usage(format!("{id} asked not to be asked for {time}; wait that long, or see {ask}")));
    }
    if row.breaker != BreakerState::Closed {
        let how = providers::state(row);
        return Err(Failure::usage(format!("{id} is not asked now ({how}); see {ask}, and name it again when it is")));
    }
    Ok(owners.loaded)
}
