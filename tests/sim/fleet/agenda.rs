//! What is under way, on the one clock that there is.

use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use ukai_protocol::event::Event;
use ukai_protocol::lease::{Answer, Ask, Grant, Report};
use ukai_worker::query::machine::Ruling;

use super::labs::Reply;

#[derive(Debug)]
pub enum Coming {
    /// To a worker, if it still lives this life.
    News {
        job: u32,
        life: u32,
        news: News,
    },
    /// From a worker to the supervisor, if that still reigns.
    Word {
        job: u32,
        life: u32,
        reign: u32,
        word: Word,
    },
    /// To the supervisor that reigns.
    Turn {
        reign: u32,
        turn: Turn,
    },
    /// A person, about a job.
    Wish {
        job: u32,
        wish: Wish,
    },
    /// A person looks at the providers.
    Visit,
    Submission,
    /// The supervisor ends; `clean`: it was told to, and could put everything in order.
    Stop {
        clean: bool,
    },
    /// The next one begins.
    Start {
        clean: bool,
    },
}

#[derive(Debug)]
pub enum News {
    Ruled(String, Ruling),
    Durable(Vec<Event>, u64),
    /// By whom, on which call.
    Told(u32, u64, Answer),
    Attempted(Box<Grant>, Box<Reply>),
    Tool(String),
    Wake,
    Dies,
    /// Its connection to the next supervisor stands.
    Back,
}

#[derive(Debug)]
pub enum Word {
    Ask(Ask),
    Withdraw(u64),
    Report(Report),
    Returned,
    /// Its process has ended, and all that it said has been heard; `stopped`: by itself, for a later attempt.
    Gone {
        stopped: bool,
    },
}

#[derive(Debug)]
pub enum Turn {
    Wake,
    Saved,
    Probed(u64, Option<Box<Report>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Pause,
    Unpause,
    Cancel,
}

struct Due {
    at: Instant,
    order: u64,
    what: Coming,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

pub struct Agenda {
    pub now: Instant,
    began: Instant,
    order: u64,
    due: BinaryHeap<Due>,
}

impl Agenda {
    pub fn new() -> Self {
        let now = Instant::now();
        Agenda { now, began: now, order: 0, due: BinaryHeap::new() }
    }

    pub fn push(&mut self, at: Instant, what: Coming) {
        self.order += 1;
        self.due.push(Due { at: at.max(self.now), order: self.order, what });
    }

    /// What comes next; now is then.
    pub fn next(&mut self) -> Option<Coming> {
        let Due { at, what, .. } = self.due.pop()?;
        self.now = at;
        Some(what)
    }

    pub fn passed(&self) -> Duration {
        self.now - self.began
    }
}
