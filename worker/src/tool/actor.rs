//! One tool call: runs it off the loop's thread and tells the query loop what came of it.
//!
//! The actor exists so that a call has a place in the actor tree, below its job's query loop: when the loop ends, so
//! does this, and dropping it cancels what the call is doing.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::{CancellationToken, DropGuard};
use ukai_protocol::event::{Event, ToolStatus};
use ukai_protocol::json::Json;
use ukai_protocol::threads::Broke;

use super::{Context, ToolOutput};
use crate::hook::{Hooks, Subject};
use crate::query::actor::Message;
use crate::threads::THREADS;

pub struct ToolActor;

/// One call to carry out.
pub struct Job {
    pub call: String,
    pub tool: String,
    pub input: Json,
    pub context: Context,
    pub hooks: Arc<Hooks>,
    pub cancel: CancellationToken,
    pub asker: ActorRef<Message>,
}

/// The call has come to its end.
pub struct Done {
    done: ToolOutput,
    /// Of the hooks that were asked about it.
    ran: Vec<Event>,
}

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
        let Job { call, tool, input, context, hooks, cancel, asker } = job;
        let (of, cancelled) = (Subject { call: call.clone(), tool, input }, cancel.clone());
        THREADS.run(
            move || {
                let done = super::run(&of.tool, &of.input, &context);
                hooks.after(of, done, &cancelled)
            },
            move |done| {
                let failed = |output| ToolOutput::new(ToolStatus::Failed, output);
                let (done, ran) = done.unwrap_or_else(|broke| match broke {
                    Broke::Panicked(_) => {
                        (failed(format!("the tool broke down ({broke}); its work may be half done")), Vec::new())
                    }
                    Broke::Crowded { .. } | Broke::NoThread(_) => {
                        (failed(format!("the tool was not run ({broke}); call it again")), Vec::new())
                    }
                });
                // The only failure is that the actor is gone, and with it the wish to know.
                let _ = myself.cast(Done { done, ran });
            },
        );
        Ok(State { call, asker, _cancel: cancel.drop_guard() })
    }

    async fn handle(&self, myself: ActorRef<Done>, done: Done, state: &mut State) -> Result<(), ActorProcessingErr> {
        let Done { done, ran } = done;
        state.asker.cast(Message::ToolDone { call: std::mem::take(&mut state.call), done, ran })?;
        myself.stop(None);
        Ok(())
    }
}
