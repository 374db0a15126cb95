//! Hands alerts to the sinks, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::OwnedSemaphorePermit;

use crate::{Alert, log};

pub enum Msg {
    /// `room` is given back when the alert is told.
    Alert { alert: Alert, room: OwnedSemaphorePermit },
}

pub struct Sinks;

impl Actor for Sinks {
    type Msg = Msg;
    /// Alerts that found no room.
    type State = Arc<AtomicU64>;
    type Arguments = Arc<AtomicU64>;

    async fn pre_start(&self, _: ActorRef<Msg>, lost: Arc<AtomicU64>) -> Result<Self::State, ActorProcessingErr> {
        Ok(lost)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, lost: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let Msg::Alert { alert, room } = message;
        log::tell(&alert);
        drop(room);
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => log::tell_lost(lost),
        }
        Ok(())
    }
}
