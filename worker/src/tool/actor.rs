//! One tool call: runs it off the loop's thread and tells the query loop what came of it.
//!
//! The actor exists so that a call has a place in the actor tree, below its job's query loop: when the loop ends, so
//! does this, and dropping it cancels what the call is doing.

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::{CancellationToken, DropGuard};
use ukai_protocol::event::ToolStatus;
use ukai_protocol::json::Json;
use ukai_protocol::threads::Broke;

use super::{Context, ToolOutput};
use crate::query::actor::Message;
use crate::threads::THREADS;

pub struct ToolActor;

/// One call to carry out.
pub struct Job {
    pub call: String,
    pub tool: String,
    pub input: Json,
    pub context: Context,
    pub cancel: CancellationToken,
    pub asker: ActorRef<Message>,
}

/// The call has come to its end.
pub struct Done(ToolOutput);

pub struct State {
    call: String,
    asker: ActorRef<Message>,
    /// Dropped with the actor, however it ends.
    _cancel: DropGuard,
}

impl Actor for ToolActor {
    type Msg = Done;
    type State = State;
    type Arguments = Job;

    async fn pre_start(&self, myself: ActorRef<Done>, job: Job) -> Result<State, ActorProcessingErr> {
        let Job { call, tool, input, context, cancel, asker } = job;
        THREADS.run(
            move || super::run(&tool, &input, &context),
            move |done| {
                let failed = |output| ToolOutput::new(ToolStatus::Failed, output);
                let output = done.unwrap_or_else(|broke| match broke {
                    Broke::Panicked(_) => failed(format!("the tool broke down ({broke}); its work may be half done")),
                    Broke::Crowded { .. } | Broke::NoThread(_) => {
                        failed(format!("the tool was not run ({broke}); call it again"))
                    }
                });
                // The only failure is that the actor is gone, and with it the wish to know.
                let _ = myself.cast(Done(output));
            },
        );
        Ok(State { call, asker, _cancel: cancel.drop_guard() })
    }

    async fn handle(&self, myself: ActorRef<Done>, done: Done, state: &mut State) -> Result<(), ActorProcessingErr> {
        let Done(done) = done;
        state.asker.cast(Message::ToolDone { call: std::mem::take(&mut state.call), done })?;
        myself.stop(None);
        Ok(())
    }
}
