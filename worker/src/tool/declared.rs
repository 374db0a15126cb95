//! Tools that an owner declared: a program that reads the arguments and says the result, or a server that is asked for it.

mod command;
pub mod http;
pub mod schema;

use ukai_protocol::declared::{Declared, Run};
use ukai_protocol::json::Json;

use super::{Context, Stopped};

pub(super) fn run(tool: &Declared, input: &Json, context: &Context) -> Result<String, Stopped> {
    match &tool.run {
        Run::Command(command) => command::run(tool, command, input, context),
        Run::Http(url) => http::run(tool, url, input, context),
    }
}
