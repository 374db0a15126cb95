//! What worker and tool host say to each other, each in one packet.
//!
//! The line between them carries orders one way. What becomes of an order comes back on a socket of its own, which
//! travels with it: so whoever waits for one call hears of that call alone, and whoever is gone is noticed.

#![deny(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sandbox::Held;

/// To the host. The answers' socket comes along with each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// The first: what holds for all that is started. An `Option<Confine>` comes along in a file, since what it names of a
    /// large project fits no packet. Answered by [`Word::Entered`] or [`Word::Refused`].
    Enter,
    /// A command. Before the answers' socket come its pipes: one for all that it says, or stdin, stdout and stderr. Answered
    /// by [`Word::Refused`] or [`Word::Exited`].
    Start(Start),
    /// The end of everything that was started, whatever became of it. Answered by [`Word::Ended`].
    EndAll(Kill),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub program: PathBuf,
    /// The first is the name it is given.
    pub args: Vec<String>,
    /// All of it: nothing is inherited.
    pub env: Vec<(String, String)>,
    pub workdir: PathBuf,
}

/// From the host, on the socket that came with an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    Entered(Held),
    Refused {
        why: String,
    },
    /// The process that was started has ended. What it left behind may still live.
    Exited(Exit),
    /// Nothing of it lives any more.
    Ended,
}

/// To the host, on the socket that came with [`Order::Start`]: end it, and all that came from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// From TERM to KILL.
    pub grace_ms: u32,
}

impl Kill {
    #[must_use]
    pub fn within(grace: Duration) -> Self {
        Kill { grace_ms: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX) }
    }

    #[must_use]
    pub fn grace(self) -> Duration {
        Duration::from_millis(self.grace_ms.into())
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}
