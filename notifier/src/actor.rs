//! Hands alerts to the sinks, in order.
//!
//! No handler waits for a sink: each has a queue and a task of its own (`push`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use ukai_protocol::command::quoted;
use ukai_protocol::control::{SinkRow, SinkState};
use ukai_protocol::job::Cause;
use ukai_protocol::threads::Panicked;

use crate::alert::{Alert, What};
use crate::cursors::Cursors;
use crate::filter::Filter;
use crate::gone::Gone;
use crate::message::Deliver;
use crate::push::{self, Asked, Push, QUEUE_MAX, TESTS_MAX, now};
use crate::redact::Redactor;
use crate::{Lost, log};

/// A test that has not arrived by then has not arrived.
const TEST_DEADLINE: Duration = Duration::from_secs(10);
/// Of this, so much is left to say what became of it.
const TEST_GRACE: Duration = Duration::from_millis(500);
/// What an earlier process left behind: more than a person reads, and the newest of it says most.
const OWED_MAX: usize = 4_096;
/// Of one text of an alert: Discord shows as much of one (an embed's description), the desktop less.
const TEXT_BYTES_MAX: usize = 4_096;

/// How a test of each sink went, or how each stands: the log first, then those that are told, then those that are not.
pub type Tested = Vec<SinkRow>;

/// By sink: why its last message did not arrive.
pub type Untold = Vec<(String, String)>;

pub enum Msg {
    /// `room` is given back when the alert is told.
    Alert {
        alert: Alert,
        room: OwnedSemaphorePermit,
    },
    Test {
        answer: oneshot::Sender<Tested>,
    },
    Sinks {
        answer: oneshot::Sender<Tested>,
    },
    /// Nothing comes after it. Answered when all sinks have ended, which they do by `until`: with those whose last message
    /// did not arrive, and why.
    Finish {
        until: Instant,
        answer: oneshot::Sender<Untold>,
    },
}

/// The sinks that are told of alerts, before the first one comes.
pub struct Sinks {
    cursors: Arc<Cursors>,
    redactor: Redactor,
    lost: Lost,
    owed: Vec<Alert>,
    /// Of these, so many are too old to be told, and stay owed.
    over: usize,
    pushes: Vec<Handle>,
    /// Those that nobody wants here, or that cannot be had: why.
    off: Vec<(&'static str, String)>,
    /// Alerts that found no room on their way to the actor.
    overflow: Arc<AtomicU64>,
    finish: watch::Sender<Option<Instant>>,
    /// Writes the cursors for as long as there are sinks.
    saving: JoinHandle<()>,
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.saving.abort();
    }
}

struct Handle {
    name: &'static str,
    alerts: mpsc::Sender<Alert>,
    tests: mpsc::Sender<Asked>,
    overflow: Arc<AtomicU64>,
    gone: Arc<Gone>,
    task: JoinHandle<()>,
}

impl Sinks {
    /// `owed`: in order. The log is told of it at once.
    pub(crate) fn new(
        cursors: Arc<Cursors>,
        redactor: Redactor,
        lost: Lost,
        owed: Vec<Alert>,
        overflow: Arc<AtomicU64>,
    ) -> Self {
        let (clock, over) = (SystemTime::now(), owed.len().saturating_sub(OWED_MAX));
        cursors.begin(log::NAME, clock);
        let saving = tokio::spawn(cursors.clone().keep_saving());
        let mut sinks = Sinks {
            cursors,
            redactor,
            lost,
            owed: Vec::new(),
            over,
            pushes: Vec::new(),
            off: Vec::new(),
            overflow,
            finish: watch::Sender::new(None),
            saving,
        };
        if over > 0 {
            tracing::error!(
                "{over} alerts of an earlier process are too many to tell; {} shows what they were about",
                quoted(&["ls"])
            );
            (sinks.lost)("every sink", over as u64, "");
        }
        sinks.owed = owed.into_iter().map(|alert| sinks.redacted(Alert { late: true, ..alert })).collect();
        for alert in &sinks.owed[over..] {
            sinks.tell_log(alert, clock);
        }
        sinks
    }

    /// Knows what no sink may tell, and no log.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// For how long an earlier process was asked to leave that sink alone, configured as it is now.
    #[must_use]
    pub fn left_to_wait(&self, sink: &str, identity: &str) -> Option<Duration> {
        self.cursors.left_to_wait(sink, identity, SystemTime::now())
    }

    /// Begins a sink, with what it owes. One that died and is configured as it was then takes nothing but a test.
    pub fn add(&mut self, deliver: impl Deliver + 'static) {
        let (name, begun, clock) = (deliver.name(), now(), SystemTime::now());
        let kept = self.cursors.begin(name, clock);
        let mut filter = Filter::new(kept.filter, begun, clock);
        let gone = Arc::new(Gone::default());
        if let Some(dead) = kept.dead {
            if deliver.identity().as_ref() == Some(&dead.identity) {
                let why = push::is_dead(&dead.why, &deliver.cure());
                tracing::error!(sink = name, "the sink is not used: {why}");
                gone.say(why);
                filter.die();
                self.cursors.stop(name, Some(dead));
            } else {
                self.cursors.forgive(name);
            }
        }
        for (alert, number) in self.owed.iter().zip(0..) {
            if self.cursors.take_in(name, alert, clock) && number >= self.over {
                filter.handle_alert(alert.clone(), begun);
            }
        }
        let (alerts, alerts_of) = mpsc::channel(QUEUE_MAX);
        let (tests, tests_of) = mpsc::channel(TESTS_MAX);
        let overflow = Arc::new(AtomicU64::new(0));
        let push = Push {
            name,
            filter,
            alerts: alerts_of,
            tests: tests_of,
            finish: self.finish.subscribe(),
            cursors: self.cursors.clone(),
            lost: self.lost.clone(),
            overflow: overflow.clone(),
            gone: gone.clone(),
            asked: VecDeque::new(),
            finishing: None,
        };
        let running = tokio::spawn(push.run(deliver));
        let (cursors, of_task, lost, finish) =
            (self.cursors.clone(), gone.clone(), self.lost.clone(), self.finish.subscribe());
        let task = tokio::spawn(async move {
            let ended = async {
                if let Err(error) = running.await {
                    tracing::error!(sink = name, %error, "the sink's task failed; it tells nothing more until the next start");
                    cursors.stop(name, None);
                    let why = "its task failed, and it takes no more messages until the next start";
                    of_task.say(format!("{why}: stop the server and start it again"));
                }
            };
            tokio::join!(ended, of_task.report(name, &lost, finish));
            // What came while it ended.
            of_task.say_missed(name, &lost);
        });
        self.pushes.push(Handle { name, alerts, tests, overflow, gone, task });
    }

    /// A sink that the owner wants, and that cannot be used: a test says why, and what it does not tell is counted.
    pub fn refuse(&mut self, name: &'static str, why: String) {
        tracing::error!(sink = name, "{why}");
        let gone = Arc::new(Gone::default());
        gone.say(why);
        let (of_task, lost, finish) = (gone.clone(), self.lost.clone(), self.finish.subscribe());
        let task = tokio::spawn(async move { of_task.report(name, &lost, finish).await });
        // Nobody is at the other end.
        let (alerts, tests) = (mpsc::channel(1).0, mpsc::channel(1).0);
        self.pushes.push(Handle { name, alerts, tests, overflow: Arc::default(), gone, task });
    }

    /// A sink that is not told anything, which is as it should be: a test says why.
    pub fn leave_off(&mut self, name: &'static str, why: String) {
        self.off.push((name, why));
    }

    fn handle(&mut self, message: Msg) {
        match message {
            Msg::Alert { alert, room } => {
                self.alert(alert);
                drop(room);
            }
            Msg::Test { answer } => self.test(answer),
            // Whoever asked may have gone.
            Msg::Sinks { answer } => drop(answer.send(self.stand())),
            Msg::Finish { until, answer } => self.finish(until, answer),
        }
        match self.overflow.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => {
                log::tell_lost(lost);
                (self.lost)("every sink", lost, "");
            }
        }
    }

    fn redacted(&self, Alert { what, source, at, late }: Alert) -> Alert {
        Alert { what: redacted(what, &|text| shortened(self.redactor.redacted(&text))), source, at, late }
    }

    fn tell_log(&self, alert: &Alert, clock: SystemTime) {
        if self.cursors.take_in(log::NAME, alert, clock) {
            log::tell(alert);
            self.cursors.settle(log::NAME, alert.source.clone(), clock);
        }
    }

    fn alert(&self, alert: Alert) {
        let clock = SystemTime::now();
        let alert = self.redacted(alert);
        self.tell_log(&alert, clock);
        for Handle { name, alerts, overflow, gone, .. } in &self.pushes {
            // What could not be delivered there is not told there.
            if matches!(&alert.what, What::Lost { sink, .. } if sink == name) {
                continue;
            }
            // Its cursors stand still.
            if gone.why().is_some() {
                gone.miss(&alert);
                continue;
            }
            if !self.cursors.take_in(name, &alert, clock) {
                continue;
            }
            match alerts.try_send(alert.clone()) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => drop(overflow.fetch_add(1, Ordering::Relaxed)),
                // It dies just now.
                Err(TrySendError::Closed(_)) => gone.miss(&alert),
            }
        }
    }

    fn stand(&self) -> Tested {
        let mut rows = vec![row(log::NAME, SinkState::On)];
        rows.extend(
            self.pushes.iter().map(|push| row(push.name, push.gone.why().map_or(SinkState::On, SinkState::Dead))),
        );
        rows.extend(self.left_off());
        rows
    }

    fn left_off(&self) -> Vec<SinkRow> {
        self.off.iter().map(|(name, why)| row(name, SinkState::Off(why.clone()))).collect()
    }

    /// The log is told at once; the others say it in their time.
    fn test(&self, answer: oneshot::Sender<Tested>) {
        log::tell(&Alert { what: What::Test, source: None, at: SystemTime::now(), late: false });
        let until = now() + TEST_DEADLINE;
        let asked = self.pushes.iter().map(|push| {
            let (answer, answered) = oneshot::channel();
            let asked = Asked { until: until - TEST_GRACE, answer };
            let taken = push.tests.try_send(asked).map_err(|error| match (error, push.gone.why()) {
                (TrySendError::Full(_), _) => {
                    format!("{TESTS_MAX} tests wait for it already; try again when they are over")
                }
                (TrySendError::Closed(_), Some(why)) => why,
                (TrySendError::Closed(_), None) => {
                    "it takes no more messages; the log says why; stop the server and start it again".to_owned()
                }
            });
            (push.name, taken.map(|()| answered))
        });
        let (asked, left_off): (Vec<_>, _) = (asked.collect(), self.left_off());
        tokio::spawn(async move {
            let mut tested = vec![row(log::NAME, SinkState::On)];
            for (name, asked) in asked {
                let went = match asked {
                    Err(why) => Err(why),
                    Ok(answered) => match tokio::time::timeout_at(until.into(), answered).await {
                        Ok(Ok(went)) => went,
                        Ok(Err(_)) => Err("it ended before it was asked; start the server again".to_owned()),
                        Err(_) => Err(format!(
                            "it has not answered in time; another message may be under way; {}",
                            push::later()
                        )),
                    },
                };
                tested.push(row(name, went.map_or_else(SinkState::Failed, |()| SinkState::On)));
            }
            tested.extend(left_off);
            // Whoever asked may have gone.
            let _ = answer.send(tested);
        });
    }

    fn finish(&mut self, until: Instant, answer: oneshot::Sender<Untold>) {
        self.finish.send_replace(Some(until));
        let ending: Vec<_> = self.pushes.drain(..).map(|push| (push.name, push.gone, push.task)).collect();
        let cursors = self.cursors.clone();
        tokio::spawn(async move {
            let mut untold = Vec::new();
            for (name, gone, task) in ending {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a sink's task could not be waited for");
                }
                untold.extend(gone.why().or_else(|| gone.untold()).map(|why| (name.to_owned(), why)));
            }
            cursors.save().await;
            // Whoever waited may have gone.
            let _ = answer.send(untold);
        });
    }
}

pub struct Hands;

impl Actor for Hands {
    type Msg = Msg;
    type State = Sinks;
    type Arguments = Sinks;

    async fn pre_start(&self, _: ActorRef<Msg>, sinks: Sinks) -> Result<Sinks, ActorProcessingErr> {
        Ok(sinks)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, sinks: &mut Sinks) -> Result<(), ActorProcessingErr> {
        // What it touches is counters, queues and a mutex that is taken poisoned or not.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| sinks.handle(message))) {
            tracing::error!("an alert was not handed to every sink: {}", Panicked::from(panic));
        }
        Ok(())
    }
}

fn row(sink: &str, state: SinkState) -> SinkRow {
    SinkRow { sink: sink.to_owned(), state }
}

/// Every text in it that somebody else wrote.
fn redacted(what: What, text: &dyn Fn(String) -> String) -> What {
    match what {
        What::JobAborted { job, name, account, cause: Cause { kind, detail }, raise } => {
            let cause = Cause { kind, detail: text(detail) };
            What::JobAborted { job, name: text(name), account: account.map(text), cause, raise }
        }
        What::Attention { job, name, account, why } => {
            What::Attention { job, name: text(name), account: account.map(text), why: text(why) }
        }
        What::AskWaiting { job, name, call, tool, argument } => {
            What::AskWaiting { job, name: text(name), call, tool: text(tool), argument: text(argument) }
        }
        What::LimitNear { job, name, account, limit, used, max } => {
            What::LimitNear { job, name: text(name), account: account.map(text), limit, used, max }
        }
        What::BreakerOpened { account, why, until } => {
            What::BreakerOpened { account: text(account), why: text(why), until }
        }
        What::BreakerClosed { account, by_person } => What::BreakerClosed { account: text(account), by_person },
        What::Quarantined { subject, why } => What::Quarantined { subject: text(subject), why: text(why) },
        What::BatchDone { batch, name, completed, other } => {
            What::BatchDone { batch, name: text(name), completed, other }
        }
        What::Lost { sink, count } => What::Lost { sink: text(sink), count },
        What::StartsPaused { .. } | What::Test => what,
    }
}

/// After redaction: a key that is cut is no longer known.
fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}
