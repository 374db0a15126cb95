//! Everything in the logs of some jobs so far, from the server or, where none listens, from the disk.

use ukai_protocol::command::quoted;
use ukai_protocol::control::{Filter, Happened, Request, Response, Seen, Selection};
use ukai_protocol::id::JobId;

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::offline;

/// Job by job, in the order given. `each` returns `false` when nobody wants more.
pub(crate) async fn records(
    context: &Context,
    ids: &[JobId],
    mut each: impl FnMut(&Happened) -> bool,
) -> Result<(), Failure> {
    for id in ids {
        let more = match Client::connect(context).await? {
            Some(client) => from_server(client, id, &mut each).await?,
            None => {
                let mut more = true;
                offline::records(&context.state, id, |happened| more = more && each(&happened))?;
                more
            }
        };
        if !more {
            break;
        }
    }
    Ok(())
}

async fn from_server(
    mut client: Client,
    id: &JobId,
    each: &mut impl FnMut(&Happened) -> bool,
) -> Result<bool, Failure> {
    let filter = Filter { jobs: Selection::These(vec![id.to_string()]), deltas: false };
    client.send(&Request::Subscribe { filter, seen: Seen::default() }).await?;
    let broken = |why: String| Failure::failed(format!("reading the records of {id}: {why}; try again"));
    let refused = |why: String| {
        let (show, quarantine) = (quoted(&["show", id.as_str()]), quoted(&["quarantine"]));
        Failure::failed(format!("{why}; see {show} and {quarantine}"))
    };
    loop {
        match client.next().await.map_err(|error| broken(error.to_string()))? {
            Some(Response::Happened(happened)) => {
                if !each(&happened) {
                    return Ok(false);
                }
            }
            Some(Response::Live) => return Ok(true),
            Some(Response::Missed { count }) => return Err(broken(format!("{count} were left out"))),
            Some(Response::Refused { why, .. }) => return Err(refused(why)),
            Some(other) => return Err(unexpected(&other)),
            None => return Err(broken("the server closed the connection".to_owned())),
        }
    }
}
