//! What is decided on one call before it runs: a verdict, a question for a person, or that there is nothing to permit.
//!
//! What is judged, shown, recorded and run is one and the same input.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ukai_protocol::json::Json;

use super::machine::Ruling;
use crate::deps::Deps;
use crate::permission::Opinion;
use crate::tool::{self, registry};

pub(super) fn on(deps: &Deps, tool: &str, input: Json) -> Ruling {
    if !registry::is_known(tool) {
        return Ruling::Invalid { why: tool::unknown(tool).output };
    }
    let read_only = registry::flags(tool, &input).is_some_and(|flags| flags.read_only);
    let judgement = match deps.permission().opinion(tool, &input) {
        Opinion::Final(judgement) => judgement,
        Opinion::Ask(question) => match deps.ask_timeout {
            Some(timeout) => {
                // Nobody is to be asked about what could not be run.
                if let Err(why) = registry::validate(tool, &input) {
                    return Ruling::Invalid { why };
                }
                let deadline_ms = since_1970(timeout);
                return Ruling::Ask { input, read_only, question, deadline_ms };
            }
            None => question.denied(),
        },
    };
    Ruling::Judged { input, read_only, judgement }
}

/// So long from now, by the clock on the wall: a person reads it.
fn since_1970(ahead: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from((now + ahead).as_millis()).unwrap_or(u64::MAX)
}
