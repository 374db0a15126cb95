//! What the query loop says, on its way to the connection: messages in their order, provisional text between them.
//!
//! A provider sends text in pieces of a few characters. A message for each would cost the supervisor more than all else
//! that a job says, and most of the time nobody listens. So text is gathered and becomes a message every now and then;
//! what has gathered goes before any other message, so that no text of a step comes after that step's record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use ukai_protocol::session::ToSupervisor;

use crate::provider::wire::draft::REPLY_BYTES_MAX;

/// Messages waiting to be sent. The loop has a handful of records under way, and a word about text for each.
const OUTBOX_MESSAGES_MAX: usize = 1024;
/// Provisional text leaves this much of the outbox to what must not be dropped.
const OUTBOX_RESERVED: usize = 256;
/// Text gathers for so long: twenty times a second reads as if it were typed, and a reply of 1,000 pieces within ten
/// seconds is 200 messages.
const DELTA_EVERY: Duration = Duration::from_millis(50);
/// Text that gathers while nothing can be sent: a whole reply. It fits a frame.
const GATHERED_BYTES_MAX: usize = REPLY_BYTES_MAX;

/// What the loop sends through.
#[derive(Clone)]
pub struct Outbox {
    sender: mpsc::Sender<Item>,
    gathered: Arc<Mutex<Gathered>>,
    progress: Arc<AtomicU64>,
}

/// The outbox is full of what must not be dropped: the supervisor has not read for very long.
#[derive(Debug, thiserror::Error)]
#[error("{OUTBOX_MESSAGES_MAX} messages to the supervisor are waiting")]
pub struct OutboxFull;

/// The other end of it, for the session.
pub(crate) struct Waiting {
    receiver: mpsc::Receiver<Item>,
    gathered: Arc<Mutex<Gathered>>,
    progress: Arc<AtomicU64>,
    /// Taken from the queue and not handed out yet: the text goes first.
    held: Option<Outgoing>,
    text_due: Option<Instant>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Outgoing {
    Message(ToSupervisor),
    /// Everything is said; there is nothing after it but itself.
    Close,
}

enum Item {
    Outgoing(Outgoing),
    /// Text has begun to gather.
    Text,
}

#[derive(Default)]
struct Gathered {
    step: u64,
    text: String,
}

pub(crate) fn outbox() -> (Outbox, Waiting) {
    let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
    let (gathered, progress) = (Arc::<Mutex<Gathered>>::default(), Arc::<AtomicU64>::default());
    let waiting =
        Waiting { receiver, gathered: gathered.clone(), progress: progress.clone(), held: None, text_due: None };
    (Outbox { sender, gathered, progress }, waiting)
}

impl Outbox {
    pub fn send(&self, message: ToSupervisor) -> Result<(), OutboxFull> {
        self.sender.try_send(Item::Outgoing(Outgoing::Message(message))).map_err(|_| OutboxFull)
    }

    /// Provisional text: dropped when the way is crowded, or when there is too much of it.
    pub fn delta(&self, step: u64, text: &str) {
        let mut gathered = lock(&self.gathered);
        if gathered.step != step {
            // What is left of an earlier step is in its record by now.
            *gathered = Gathered { step, text: String::new() };
        }
        if gathered.text.len() + text.len() > GATHERED_BYTES_MAX {
            return;
        }
        if gathered.text.is_empty() {
            let crowded = self.sender.capacity() <= OUTBOX_RESERVED;
            if crowded || self.sender.try_send(Item::Text).is_err() {
                return;
            }
        }
        gathered.text.push_str(text);
    }

    /// Something moved; the next heartbeat says so.
    pub fn progressed(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything is said. The session ends when it has been sent.
    pub fn close(&self) -> Result<(), OutboxFull> {
        self.sender.try_send(Item::Outgoing(Outgoing::Close)).map_err(|_| OutboxFull)
    }
}

impl Waiting {
    /// The next thing to say, when there is one. May be dropped while it waits: nothing is lost.
    pub async fn next(&mut self) -> Outgoing {
        loop {
            if let Some(outgoing) = self.next_now(Instant::now()) {
                return outgoing;
            }
            let item = match self.text_due {
                None => self.receiver.recv().await,
                Some(due) => match timeout_at(due, self.receiver.recv()).await {
                    Ok(item) => item,
                    Err(_) => continue,
                },
            };
            // Without a sender nothing more will be said.
            self.take_in(item.unwrap_or(Item::Outgoing(Outgoing::Close)), Instant::now());
        }
    }

    /// The next thing to say, if there is one now.
    pub fn next_now(&mut self, now: Instant) -> Option<Outgoing> {
        while self.held.is_none()
            && let Ok(item) = self.receiver.try_recv()
        {
            self.take_in(item, now);
        }
        if (self.held.is_some() || self.text_due.is_some_and(|due| due <= now))
            && let Some(text) = self.take_text()
        {
            return Some(text);
        }
        match self.held {
            // A connection that breaks before it is through wants to hear it again.
            Some(Outgoing::Close) => Some(Outgoing::Close),
            _ => self.held.take(),
        }
    }

    pub fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn take_in(&mut self, item: Item, now: Instant) {
        match item {
            Item::Outgoing(outgoing) => self.held = Some(outgoing),
            Item::Text => self.text_due = Some(now + DELTA_EVERY),
        }
    }

    fn take_text(&mut self) -> Option<Outgoing> {
        self.text_due = None;
        let mut gathered = lock(&self.gathered);
        let text = std::mem::take(&mut gathered.text);
        let step = gathered.step;
        (!text.is_empty()).then_some(Outgoing::Message(ToSupervisor::Delta { step, text }))
    }
}

/// A panic while it is held can only cost provisional text.
fn lock(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(waiting: &mut Waiting, now: Instant) -> String {
        let mut said = String::new();
        while let Some(outgoing) = waiting.next_now(now) {
            match outgoing {
                Outgoing::Message(ToSupervisor::Delta { step, text }) => said += &format!("{step}:{text} "),
                Outgoing::Message(ToSupervisor::Withdraw { call }) => said += &format!("w{call} "),
                Outgoing::Message(other) => panic!("nobody said {other:?}"),
                Outgoing::Close => return said + "close",
            }
        }
        said
    }

    #[derive(Clone, Copy)]
    enum Do {
        Text(u64, &'static str),
        Say(u64),
        Wait(Duration),
        Hear(&'static str),
        Close,
    }

    #[test]
    fn text_gathers_and_goes_before_what_is_said_after_it() {
        use Do::{Close, Hear, Say, Text, Wait};
        let cases: [(&str, &[Do]); 8] = [
            ("nothing", &[Hear("")]),
            ("text waits for its time", &[Text(1, "a"), Hear(""), Text(1, "b"), Wait(DELTA_EVERY), Hear("1:ab ")]),
            (
                "each time anew",
                &[
                    Text(1, "a"),
                    Hear(""),
                    Wait(DELTA_EVERY),
                    Hear("1:a "),
                    Text(1, "b"),
                    Hear(""),
                    Wait(DELTA_EVERY),
                    Hear("1:b "),
                ],
            ),
            ("a message does not wait", &[Say(1), Hear("w1 "), Say(2), Say(3), Hear("w2 w3 ")]),
            ("text first", &[Text(1, "a"), Text(1, "b"), Say(1), Hear("1:ab w1 ")]),
            ("and not twice", &[Text(1, "a"), Say(1), Wait(DELTA_EVERY), Hear("1:a w1 "), Wait(DELTA_EVERY), Hear("")]),
            ("what is left of an earlier step is not said", &[Text(1, "a"), Text(2, "b"), Say(1), Hear("2:b w1 ")]),
            ("the end, again and again", &[Text(1, "a"), Close, Hear("1:a close"), Say(1), Hear("close")]),
        ];
        for (quirk, steps) in cases {
            let (outbox, mut waiting) = outbox();
            let mut now = Instant::now();
            for step in steps {
                match *step {
                    Text(step, text) => outbox.delta(step, text),
                    Say(call) => outbox.send(ToSupervisor::Withdraw { call }).expect("room"),
                    Wait(time) => now += time,
                    Hear(expected) => assert_eq!(all(&mut waiting, now), expected, "{quirk}"),
                    Close => outbox.close().expect("room"),
                }
            }
        }
    }

    #[test]
    fn text_is_dropped_where_the_way_is_crowded_and_messages_are_not() {
        let (outbox, mut waiting) = outbox();
        for call in 0..(OUTBOX_MESSAGES_MAX - OUTBOX_RESERVED) as u64 {
            outbox.send(ToSupervisor::Withdraw { call }).expect("room");
        }
        outbox.delta(1, "dropped");
        for call in 0..OUTBOX_RESERVED as u64 {
            outbox.send(ToSupervisor::Withdraw { call }).expect("reserved");
        }
        assert!(outbox.send(ToSupervisor::Withdraw { call: 0 }).is_err(), "it has a bound");
        assert!(!all(&mut waiting, Instant::now()).contains("dropped"));
    }

    #[test]
    fn text_that_nobody_fetches_has_a_bound() {
        let (outbox, mut waiting) = outbox();
        let mebibyte = "x".repeat(1024 * 1024);
        for _ in 0..=GATHERED_BYTES_MAX / mebibyte.len() {
            outbox.delta(1, &mebibyte);
        }
        outbox.send(ToSupervisor::Withdraw { call: 1 }).expect("room");
        assert_eq!(all(&mut waiting, Instant::now()).len(), "1: w1 ".len() + GATHERED_BYTES_MAX);
    }

    #[tokio::test]
    async fn text_comes_in_its_time_and_the_end_when_all_have_left() {
        let (outbox, mut waiting) = outbox();
        outbox.delta(1, "a");
        let begun = Instant::now();
        assert_eq!(waiting.next().await, Outgoing::Message(ToSupervisor::Delta { step: 1, text: "a".to_owned() }));
        assert!(begun.elapsed() >= DELTA_EVERY);
        drop(outbox);
        assert_eq!(waiting.next().await, Outgoing::Close);
    }
}
