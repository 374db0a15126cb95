//! From the path in a call to what may be opened: followed, held against the roots, told apart.

use std::path::Path;

use super::{Context, Stopped};
use crate::permission::path::{Resolved, resolve};

/// The place that a call names, inside the roots. Files found there are judged one by one.
pub fn target(tool: &str, named: &str, context: &Context) -> Result<Resolved, Stopped> {
    let places = context.permission.places();
    let resolved = resolve(Path::new(named), places.workdir(), places.home())
        .map_err(|error| Stopped::Failed(format!("{tool} {named}: the path cannot be followed: {error}")))?;
    if places.hold(tool, &resolved.real, resolved.is_dir) {
        Ok(resolved)
    } else {
        let roots = places.shown(tool).join(", ");
        Err(Stopped::Denied(format!("{tool} {named}: it leads outside of what {tool} may be used on here ({roots})")))
    }
}
