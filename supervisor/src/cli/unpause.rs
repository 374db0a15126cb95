//! `ukai unpause JOB…`: paused jobs go on. `--all` also ends the pause of all starts that follows many crashes.

use ukai_protocol::control::{Request, Response};

use super::client::unexpected;
use super::context::Context;
use super::failure::Failure;
use super::which::Which;
use super::{pause, print};

pub(crate) async fn unpause(context: &Context, which: Which) -> Result<u8, Failure> {
    let (rows, starts) = match pause::ask(context, |jobs| Request::Unpause { jobs }, which).await? {
        Response::Unpaused { rows, starts } => (rows, starts),
        other => return Err(unexpected(&other)),
    };
    pause::print_rows(context, &rows);
    if starts {
        print::note("ukai: jobs are started again; they were not, since too many had crashed at once");
    } else if rows.is_empty() {
        print::note("ukai: nothing was paused");
    }
    Ok(0)
}
