//! The task of one sink that is sent messages: what waits for it, what is under way, how it ends.
//!
//! A delivery may take an hour (it was asked to wait). Meanwhile alerts are taken in all the same, and only what the
//! filter keeps takes memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use ukai_protocol::command::quoted;

use crate::Lost;
use crate::alert::{Alert, What};
use crate::cursors::Cursors;
use crate::cursors::ledger::DeadSink;
use crate::filter::Filter;
use crate::gone::Gone;
use crate::message::{Deliver, Entry, Message, Outcome, Trouble};

/// What one sink's task is behind in taking in; it takes in at once unless the machine stands still.
pub const QUEUE_MAX: usize = 1_024;
/// People who ask for a test at once.
pub const TESTS_MAX: usize = 8;

/// Somebody wants to see a message arrive, and waits.
#[derive(Debug)]
pub struct Asked {
    /// Not later than this.
    pub until: Instant,
    pub answer: oneshot::Sender<Result<(), String>>,
}

pub struct Push {
    pub name: &'static str,
    pub filter: Filter,
    pub alerts: mpsc::Receiver<Alert>,
    pub tests: mpsc::Receiver<Asked>,
    /// When the process gives up waiting, once it ends.
    pub finish: watch::Receiver<Option<Instant>>,
    pub cursors: Arc<Cursors>,
    pub lost: Lost,
    /// Alerts that found no room in `alerts`.
    pub overflow: Arc<AtomicU64>,
    /// Says so when it is dead.
    pub gone: Arc<Gone>,
    pub asked: VecDeque<Asked>,
    pub finishing: Option<Instant>,
}

/// Something of it happened.
enum Woken {
    Alert(Alert),
    Asked(Asked),
    Finish(Instant),
    /// The handle is gone, and with it whoever could ask for anything.
    Abandoned,
}

impl Push {
    /// Until the process ends. A dead sink is asked no more, unless a person has it try.
    pub async fn run(mut self, mut deliver: impl Deliver) {
        loop {
            self.catch_up();
            if let Some(asked) = self.next_asked() {
                self.test(asked, &mut deliver).await;
            } else if self.gone.why().is_some() {
                if self.finishing.is_some() {
                    return;
                }
                let woken = self.woken().await;
                self.take(woken);
            } else if let Some(message) = self.filter.poll_message(now()) {
                let trouble = deliver.trouble();
                let outcome = self.attend(deliver.deliver(&message), &trouble, None).await;
                if self.came_of(outcome, &deliver) {
                    return;
                }
            } else if self.finishing.is_some() {
                return self.remember(&deliver);
            } else {
                let timer = self.filter.poll_timeout();
                tokio::select! {
                    woken = self.woken() => self.take(woken),
                    () = at(timer), if timer.is_some() => self.filter.handle_timeout(now()),
                }
            }
        }
    }

    /// A person wants to see a message arrive: where it does, the sink is well, whatever was known of it.
    async fn test(&mut self, asked: Asked, deliver: &mut impl Deliver) {
        let trouble = deliver.trouble();
        let outcome = self.attend(deliver.deliver(&test()), &trouble, Some(asked.until)).await;
        self.remember(deliver);
        if outcome == Outcome::Delivered {
            self.filter.arrived(now());
            self.revive().await;
        }
        // Whoever asked may have gone.
        let _ = asked.answer.send(said(&outcome, trouble.why(), &deliver.cure()));
        if let Outcome::Dead(why) = outcome {
            self.catch_up();
            let lost = self.filter.die();
            self.die(why, lost, deliver);
        }
    }

    /// Waits for a delivery and takes in what comes meanwhile. Unsent: `until` came first, or is known to, or the end of
    /// the process.
    async fn attend(
        &mut self,
        delivery: impl Future<Output = Outcome>,
        trouble: &Trouble,
        until: Option<Instant>,
    ) -> Outcome {
        tokio::pin!(delivery);
        let wanted = until;
        loop {
            self.catch_up();
            let until = until.into_iter().chain(self.finishing).min();
            let test = self.asked.iter().map(|asked| asked.until).min();
            tokio::select! {
                biased;
                outcome = &mut delivery => return outcome,
                () = trouble.beyond(wanted) => return Outcome::Unsent,
                () = trouble.beyond(test) => self.give_tests_up(trouble),
                () = at(until), if until.is_some() => return Outcome::Unsent,
                () = at(test), if test.is_some() => self.give_tests_up(trouble),
                woken = self.woken(), if self.finishing.is_none() => self.take(woken),
            }
        }
    }

    async fn woken(&mut self) -> Woken {
        tokio::select! {
            biased;
            Some(alert) = self.alerts.recv() => Woken::Alert(alert),
            Some(asked) = self.tests.recv() => Woken::Asked(asked),
            finish = self.finish.wait_for(Option::is_some) => match finish.ok().and_then(|at| *at) {
                Some(at) => Woken::Finish(at),
                None => Woken::Abandoned,
            },
        }
    }

    fn take(&mut self, woken: Woken) {
        match woken {
            Woken::Alert(alert) => self.take_in(alert),
            Woken::Asked(asked) => self.asked.push_back(asked),
            Woken::Finish(at) => self.end(at),
            Woken::Abandoned => self.end(now()),
        }
    }

    fn take_in(&mut self, alert: Alert) {
        match self.gone.why() {
            Some(_) => self.gone.miss(&alert),
            None => self.filter.handle_alert(alert, now()),
        }
    }

    fn end(&mut self, at: Instant) {
        self.finishing = Some(at);
        self.catch_up();
        self.filter.flush();
    }

    /// Takes in what is there, hands out what is settled, says what was lost.
    fn catch_up(&mut self) {
        while let Ok(alert) = self.alerts.try_recv() {
            self.take_in(alert);
        }
        let filter = &mut self.filter;
        self.cursors.settle(self.name, std::iter::from_fn(|| filter.poll_settled()), SystemTime::now());
        let overflow = self.overflow.swap(0, Ordering::Relaxed);
        if overflow > 0 {
            tracing::error!(sink = self.name, "{overflow} alerts found no room; they are told after the next start");
            (self.lost)(self.name, overflow, "");
        }
    }

    /// Whoever waits for a test no longer hears how it goes with the message before it.
    fn give_tests_up(&mut self, trouble: &Trouble) {
        let (over, left) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|asked| asked.until <= now() || trouble.is_beyond(asked.until));
        self.asked = left;
        let over: VecDeque<Asked> = over;
        for asked in over {
            let why = trouble.why().map(|why| format!("another message is under way, and fails: {why}"));
            let why = why.unwrap_or_else(|| "it has not answered in time; another message is under way".to_owned());
            // Whoever asked may have gone.
            let _ = asked.answer.send(Err(format!("{why}; {}", later())));
        }
    }

    fn next_asked(&mut self) -> Option<Asked> {
        while let Some(asked) = self.asked.pop_front() {
            if !asked.answer.is_closed() {
                return Some(asked);
            }
        }
        None
    }

    /// Whether this was its last message.
    fn came_of(&mut self, outcome: Outcome, deliver: &impl Deliver) -> bool {
        let sink = self.name;
        self.gone.ended(said(&outcome, deliver.trouble().why(), &deliver.cure()).err());
        let lost = self.filter.handle_outcome(&outcome, now());
        let why = match outcome {
            Outcome::Delivered => String::new(),
            Outcome::Failed(why) => {
                tracing::error!(sink, why, "alerts could not be delivered; they go along with the next message");
                why
            }
            Outcome::Dropped(why) => {
                tracing::error!(sink, why, "alerts were refused");
                why
            }
            Outcome::Unsent => {
                tracing::warn!(sink, "alerts were left behind; they are told after the next start");
                String::new()
            }
            Outcome::Dead(why) => {
                self.die(why, lost, deliver);
                return false;
            }
        };
        if lost > 0 {
            (self.lost)(sink, lost, &why);
        }
        self.catch_up();
        self.remember(deliver);
        self.finishing.is_some_and(|until| until <= now())
    }

    /// It is dead for as long as it is configured as it is, or until a test arrives.
    fn die(&mut self, why: String, lost: u64, deliver: &impl Deliver) {
        let said = is_dead(&why, &deliver.cure());
        tracing::error!(sink = self.name, "the sink takes no more alerts: {said}");
        if lost > 0 {
            (self.lost)(self.name, lost, &said);
        }
        self.gone.say(said);
        // What has come meanwhile is not told any more.
        self.catch_up();
        self.remember(deliver);
        self.cursors.stop(self.name, deliver.identity().map(|identity| DeadSink { identity, why }));
        self.cursors.save_soon();
    }

    /// On disk before anybody is told: who starts next must not find it dead.
    async fn revive(&mut self) {
        if self.gone.why().is_some() {
            tracing::info!(sink = self.name, "the sink takes alerts again; what it missed stays untold");
            self.gone.revive();
            self.filter.revive();
            self.cursors.revive(self.name);
            self.cursors.save().await;
        }
    }

    fn remember(&mut self, deliver: &impl Deliver) {
        let clock = SystemTime::now();
        let memory = self.filter.memory(now(), clock);
        self.cursors.remember(self.name, memory);
        self.cursors.wait(self.name, deliver.left_to_wait(), deliver.identity(), clock);
        self.cursors.save_soon();
    }
}

/// By the runtime's clock, which a test can move.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// For ever, where there is nothing to wait for.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

fn test() -> Message {
    let entry = Entry { what: What::Test, times: 1, at: SystemTime::now(), late: false };
    Message { entries: vec![entry], more: Vec::new() }
}

/// Why a sink is dead, and what a person does.
pub fn is_dead(why: &str, cure: &str) -> String {
    format!("it is dead: {why}; {cure}")
}

/// What to do where a later try may fare better.
pub fn later() -> String {
    format!("{} tries again", quoted(&["notify", "test"]))
}

/// How it went and, where it did not arrive, what to do. `trouble`: what the last try came to.
fn said(outcome: &Outcome, trouble: Option<String>, cure: &str) -> Result<(), String> {
    let why = match outcome {
        Outcome::Delivered => return Ok(()),
        Outcome::Failed(why) => why.clone(),
        Outcome::Dropped(why) => {
            return Err(format!("it refused the message: {why}; see what is set up there, then {}", later()));
        }
        Outcome::Dead(why) => return Err(is_dead(why, cure)),
        Outcome::Unsent => trouble.unwrap_or_else(|| "it has not answered in time".to_owned()),
    };
    Err(format!("{why}; when that is over, {}", later()))
}
