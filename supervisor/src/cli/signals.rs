//! Ctrl-C and SIGTERM, heard one by one.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A person at the terminal.
    Interrupt,
    /// The service manager.
    Terminate,
}

impl Signals {
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("listening to signals: {error}")));
        Ok(Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Safe to drop while it waits.
    pub async fn next(&mut self) -> Heard {
        tokio::select! {
            _ = self.interrupt.recv() => Heard::Interrupt,
            _ = self.terminate.recv() => Heard::Terminate,
        }
    }
}
