//! The store over its messages: repeats, gaps, order, and disks that fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use nix::libc::ENOSPC;
use tokio::sync::{mpsc, oneshot};
use ukai_protocol::disk::fault::{self, Effect, Fault, Injected, Operation};
use ukai_protocol::event::Event;
use ukai_protocol::job::Limits;
use ukai_protocol::run_state::RunState;

use super::super::message::{Numbered, Piece, Position};
use super::super::snapshot::{self, Loaded, Snapshot};
use super::*;
use crate::store::testing::{
    Temp, aborted, attention, finished, fold, id, interrupted, run, spec, started, step, submitted,
};

/// What a stuck thread may take before a test says so; no test waits for it otherwise.
const STUCK: Duration = Duration::from_secs(20);

type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;

struct Running {
    temp: Temp,
    store: ActorRef<StoreMessage>,
    ended: JoinHandle<()>,
    published: mpsc::UnboundedReceiver<Arc<Appended>>,
}

async fn running(temp: Temp) -> Running {
    let (sender, published) = mpsc::unbounded_channel();
    let publish: Published = Box::new(move |appended| sender.send(Arc::clone(appended)).expect("a test listens"));
    let (store, ended) = start(temp.state.clone(), publish, None).await.expect("started");
    Running { temp, store, ended, published }
}

impl Running {
    fn ask<T: Send + 'static>(&self, message: impl FnOnce(Reply<T>) -> StoreMessage) -> Answered<T> {
        let (sender, receiver) = oneshot::channel();
        // A test may have stopped listening.
        let reply = Reply::new(move |answer| drop(sender.send(answer)));
        self.store.cast(message(reply)).expect("it runs");
        receiver
    }

    fn create(&self, number: u8) -> Answered<Arc<Appended>> {
        let (id, spec, submitted) = (id(number), Box::new(spec()), submitted());
        self.ask(|reply| StoreMessage::Create { id, spec, submitted, reply })
    }

    fn append(&self, number: u8, from: Option<u64>, events: Vec<Event>) -> Answered<Arc<Appended>> {
        let (job, from) = (id(number), from.map(|n| Numbered { attempt: 1, n }));
        self.ask(|reply| StoreMessage::Append { job, from, events, reply })
    }

    fn load(&self, number: u8) -> Answered<Box<RunState>> {
        self.ask(|reply| StoreMessage::Load { job: id(number), reply })
    }

    fn backlog(&self, number: u8, from: Position) -> Answered<Piece> {
        self.ask(|reply| StoreMessage::Backlog { job: id(number), from, limit: 100, reply })
    }

    async fn close(self) -> Temp {
        answer(self.ask(|reply| StoreMessage::Close { reply })).await.expect("closed");
        self.ended.await.expect("ended");
        self.temp
    }
}

async fn answer<T>(answered: Answered<T>) -> Result<T, StoreError> {
    tokio::time::timeout(STUCK, answered).await.expect("no answer").expect("a reply is never dropped")
}

fn fault(temp: &Temp, operation: Operation, times: u32, effect: Effect) -> Injected {
    fault::inject(Fault { under: temp.state.root().to_owned(), operation, skip: 0, times, effect })
}

/// Threads that come here wait until it is opened.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn effect(self: &Arc<Self>) -> Effect {
        let gate = Arc::clone(self);
        Effect::Call(Arc::new(move || {
            let mut state = gate.state.lock().expect("gate");
            state.0 += 1;
            gate.changed.notify_all();
            drop(gate.changed.wait_timeout_while(state, STUCK, |(_, open)| !*open).expect("gate"));
        }))
    }

    fn open(&self) {
        self.state.lock().expect("gate").1 = true;
        self.changed.notify_all();
    }

    /// Whether so many came.
    async fn came(self: &Arc<Self>, count: usize) -> bool {
        let gate = Arc::clone(self);
        let wait = move || {
            let state = gate.state.lock().expect("gate");
            gate.changed.wait_timeout_while(state, STUCK, |(came, _)| *came < count).expect("gate").0.0 >= count
        };
        tokio::task::spawn_blocking(wait).await.expect("waited")
    }
}

#[tokio::test]
async fn a_job_from_its_creation_to_its_end() {
    let running = running(Temp::new()).await;
    let appended = answer(running.create(1)).await.expect("created");
    assert_eq!((appended.records.len(), &appended.progress), (1, &fold(&[submitted()]).progress));
    answer(running.append(1, None, vec![started(1)])).await.expect("recorded");
    answer(running.append(1, Some(0), run(2).split_off(2))).await.expect("recorded");
    assert_eq!(*answer(running.load(1)).await.expect("a state"), fold(&run(2)));
    let appended = answer(running.append(1, Some(11), vec![finished()])).await.expect("recorded");
    let all: Vec<_> = run(2).into_iter().chain([finished()]).collect();
    assert_eq!(appended.progress, fold(&all).progress);
    assert_eq!(*answer(running.load(1)).await.expect("a state"), fold(&all));
    let temp = running.close().await;
    assert_eq!(temp.events(), all);
    let Ok(Loaded::Sound(Snapshot { state, log_bytes })) = snapshot::load(&temp.run().snapshot()) else {
        panic!("no snapshot at the end")
    };
    assert_eq!((state, log_bytes), (fold(&all), temp.log().len() as u64));
}

#[tokio::test]
async fn answers_and_publications_come_in_the_order_of_the_log() {
    let mut running = running(Temp::with(&[submitted(), started(1)])).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let events: Vec<_> = (1..=6).flat_map(step).collect();
    for (n, event) in events.iter().enumerate() {
        let (order, events) = (Arc::clone(&order), vec![event.clone()]);
        let reply = Reply::new(move |answer: Result<Arc<Appended>, StoreError>| {
            order.lock().expect("order").push(answer.expect("recorded").records[0].seq);
        });
        let from = Some(Numbered { attempt: 1, n: n as u64 });
        running.store.cast(StoreMessage::Append { job: id(1), from, events, reply }).expect("it runs");
    }
    let (mut published, expected) = (Vec::new(), (3..=32).collect::<Vec<u64>>());
    while published.len() < events.len() {
        let next = tokio::time::timeout(STUCK, running.published.recv()).await.expect("stuck").expect("runs");
        published.extend(next.records.iter().map(|record| record.seq));
    }
    assert_eq!(published, expected);
    running.close().await;
    assert_eq!(*order.lock().expect("order"), expected);
}

#[tokio::test]
async fn nothing_is_published_or_answered_before_it_is_synced() {
    let mut running = running(Temp::with(&[submitted(), started(1)])).await;
    let gate = Arc::new(Gate::default());
    let _held = running.temp.fault(Operation::Sync, 0, 1, gate.effect());
    let mut first = running.append(1, Some(0), step(1));
    assert!(gate.came(1).await);
    let state = answer(running.load(2)).await;
    assert_eq!(state.err(), Some(StoreError::Unknown(id(2))), "the actor itself waits for no disk");
    assert!(first.try_recv().is_err() && running.published.try_recv().is_err());
    gate.open();
    answer(first).await.expect("recorded");
    assert_eq!(running.published.recv().await.expect("published").records.len(), 5);
    running.close().await;
}

#[tokio::test]
async fn a_reader_sees_only_what_is_acknowledged() {
    let running = running(Temp::with(&[submitted(), started(1)])).await;
    answer(running.append(1, Some(0), step(1))).await.expect("recorded");
    let gate = Arc::new(Gate::default());
    let _held = running.temp.fault(Operation::Sync, 0, 1, gate.effect());
    let second = running.append(1, Some(5), step(2));
    assert!(gate.came(1).await);
    let acked = fold(&[vec![submitted(), started(1)], step(1)].concat());
    assert_eq!(*answer(running.load(1)).await.expect("a state"), acked);
    assert_eq!(answer(running.backlog(1, Position::after(2))).await.expect("a piece").records.len(), 5);
    gate.open();
    answer(second).await.expect("recorded");
    let piece = answer(running.backlog(1, Position::after(7))).await.expect("a piece");
    assert_eq!(piece.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [8, 9, 10, 11, 12]);
    running.close().await;
}

#[tokio::test]
async fn two_runs_sync_at_the_same_time_and_one_never_twice() {
    let running = running(Temp::new()).await;
    for number in [1, 2] {
        answer(running.create(number)).await.expect("created");
    }
    let gate = Arc::new(Gate::default());
    let _held = fault(&running.temp, Operation::Sync, u32::MAX, gate.effect());
    let waiting: Vec<_> = [1, 1, 2].map(|number| running.append(number, None, vec![attention()])).into();
    assert!(gate.came(2).await, "the second run waited for the first");
    assert_eq!(gate.state.lock().expect("gate").0, 2);
    gate.open();
    for answered in waiting {
        answer(answered).await.expect("recorded");
    }
    running.close().await;
}

#[tokio::test]
async fn what_gathers_during_a_sync_shares_the_next_and_is_bounded() {
    let running = running(Temp::with(&[submitted()])).await;
    let (gate, syncs) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
    let _held = running.temp.fault(Operation::Sync, 0, 1, gate.effect());
    let counter = Arc::clone(&syncs);
    let count = Effect::Call(Arc::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let _counted = running.temp.fault(Operation::Sync, 0, u32::MAX, count);
    let first = running.append(1, None, vec![attention()]);
    assert!(gate.came(1).await);
    let gathered: Vec<_> = (0..LANE_PENDING_MAX).map(|_| running.append(1, None, vec![attention()])).collect();
    let full = answer(running.append(1, None, vec![attention()])).await;
    assert!(matches!(full, Err(StoreError::Full { waiting: LANE_PENDING_MAX, .. })), "{full:?}");
    gate.open();
    answer(first).await.expect("recorded");
    for answered in gathered {
        answer(answered).await.expect("recorded");
    }
    assert_eq!(syncs.load(Ordering::SeqCst), 1);
    answer(running.append(1, None, vec![attention()])).await.expect("there is room again");
    let temp = running.close().await;
    assert_eq!(temp.events().len(), 1 + 1 + LANE_PENDING_MAX + 1);
}

#[tokio::test]
async fn a_full_disk_costs_one_run_its_record_and_the_store_lives() {
    let running = running(Temp::new()).await;
    for number in [1, 2] {
        answer(running.create(number)).await.expect("created");
        answer(running.append(number, None, vec![started(1)])).await.expect("recorded");
    }
    let full = running.temp.fault(Operation::Write, 0, 2, Effect::Fail(ENOSPC));
    let refused = answer(running.append(1, Some(0), step(1))).await;
    assert!(matches!(&refused, Err(StoreError::Io { errno: ENOSPC, .. })), "{refused:?}");
    assert_eq!(answer(running.load(1)).await.expect("intact").progress.recorded, 0);
    answer(running.append(2, Some(0), step(1))).await.expect("the other run goes on");
    answer(running.append(1, None, vec![aborted(ENOSPC)])).await.expect("from the reserve");
    drop(full);
    let temp = running.close().await;
    assert_eq!(temp.events(), [submitted(), started(1), aborted(ENOSPC)]);
}

#[tokio::test]
async fn a_thread_that_panics_is_answered_for_and_the_log_is_opened_anew() {
    let running = running(Temp::with(&[submitted(), started(1)])).await;
    let _fault = running.temp.fault(Operation::Sync, 0, 1, Effect::Call(Arc::new(|| panic!("as planned"))));
    let refused = answer(running.append(1, Some(0), step(1))).await;
    assert!(matches!(&refused, Err(StoreError::Io { errno: 0, .. })), "{refused:?}");
    // It had been written; sent again, it is recorded once.
    answer(running.append(1, Some(0), [step(1), step(2)].concat())).await.expect("recorded");
    let temp = running.close().await;
    assert_eq!(temp.events(), [vec![submitted(), started(1)], step(1), step(2)].concat());
}

#[tokio::test]
async fn a_store_that_is_ended_answers_everyone() {
    let running = running(Temp::with(&[submitted()])).await;
    let gate = Arc::new(Gate::default());
    let _held = running.temp.fault(Operation::Sync, 0, 1, gate.effect());
    let (first, second) = (running.append(1, None, vec![attention()]), running.append(1, None, vec![attention()]));
    assert!(gate.came(1).await);
    running.store.stop(None);
    for answered in [first, second] {
        assert_eq!(answer(answered).await.err(), Some(StoreError::Stopped));
    }
    gate.open();
}

#[tokio::test]
async fn closing_finishes_what_was_asked_snapshots_and_refuses_the_rest() {
    let running = running(Temp::with(&[submitted(), started(1)])).await;
    let gate = Arc::new(Gate::default());
    let _held = running.temp.fault(Operation::Sync, 0, 1, gate.effect());
    let (first, second) = (running.append(1, Some(0), step(1)), running.append(1, Some(5), step(2)));
    assert!(gate.came(1).await);
    let closed = running.ask(|reply| StoreMessage::Close { reply });
    let late = running.append(1, Some(10), step(3));
    assert_eq!(answer(late).await.err(), Some(StoreError::Stopped));
    gate.open();
    for answered in [first, second] {
        answer(answered).await.expect("asked before the end");
    }
    answer(closed).await.expect("closed");
    running.ended.await.expect("ended");
    let all = [vec![submitted(), started(1)], step(1), step(2)].concat();
    assert_eq!(running.temp.events(), all);
    let snapshot = snapshot::load::<RunState>(&running.temp.run().snapshot());
    assert!(matches!(snapshot, Ok(Loaded::Sound(Snapshot { state, .. })) if state == fold(&all)));
}

#[tokio::test]
async fn a_long_run_is_snapshot_on_the_way() {
    let running = running(Temp::with(&[submitted(), started(1)])).await;
    let gate = Arc::new(Gate::default());
    let _held = fault(&running.temp, Operation::Replace, 1, gate.effect());
    let steps = loader::SNAPSHOT_EVERY / 5 + 1;
    for number in 1..=steps {
        let from = Some((number - 1) * 5);
        answer(running.append(1, from, step(number))).await.expect("no append waits for a snapshot");
    }
    assert!(gate.came(1).await);
    gate.open();
    running.close().await;
}

#[tokio::test]
async fn a_quarantined_and_an_unknown_run_are_told_apart() {
    let temp = Temp::with(&run(1));
    std::fs::write(temp.run().log(), "junk\n").expect("junk");
    let running = running(temp).await;
    for _ in 0..2 {
        let found = answer(running.append(1, None, vec![interrupted(1)])).await;
        assert!(matches!(&found, Err(StoreError::Quarantined { .. })), "{found:?}");
        let found = answer(running.load(1)).await;
        assert!(matches!(&found, Err(StoreError::Quarantined { .. })), "{found:?}");
    }
    let found = answer(running.append(2, None, vec![interrupted(1)])).await;
    assert_eq!(found.err(), Some(StoreError::Unknown(id(2))));
    assert_eq!(answer(running.create(1)).await.err(), Some(StoreError::Exists(id(1))));
    running.close().await;
}

/// With a snapshot of its end, as a start makes one, and a bit of its first reply flipped since.
fn ended_and_damaged() -> Temp {
    let events = [run(2), vec![aborted(ENOSPC)]].concat();
    let temp = Temp::with(&events);
    let mut bytes = temp.log();
    let snapshot = Snapshot { log_bytes: bytes.len() as u64, state: fold(&events) };
    snapshot::save(&temp.run().snapshot(), &snapshot).expect("a snapshot");
    let reply = String::from_utf8_lossy(&bytes).find("step 1").expect("its first reply");
    bytes[reply] ^= 1;
    std::fs::write(temp.run().log(), bytes).expect("damaged");
    temp
}

#[tokio::test]
async fn nothing_is_added_to_an_ended_run_whose_log_does_not_verify_from_its_beginning() {
    let resumed = || Event::Resumed { limits: Limits { steps: 50, ..Limits::default() } };
    for (quirk, read_first, event) in [
        ("acked", false, Event::Acked {}),
        ("resumed", false, resumed()),
        ("resumed while somebody reads", true, resumed()),
    ] {
        let temp = ended_and_damaged();
        let damaged = temp.log();
        let found = crate::store::recover_all(&temp.state).expect("it starts");
        assert_eq!(found[0].problem, None, "{quirk}: a start reads no log of a run that has ended");
        let running = running(temp).await;
        let read = read_first.then(|| running.backlog(1, Position::after(8)));
        let refused = answer(running.append(1, None, vec![event])).await;
        assert!(
            matches!(&refused, Err(StoreError::Quarantined { why, .. }) if why.contains("line 5 does not verify")),
            "{quirk}: {refused:?}"
        );
        if let Some(read) = read {
            // What of it was sound could be shown, unless it was put aside first.
            drop(answer(read).await);
        }
        let temp = running.close().await;
        assert!(!temp.run().log().exists(), "{quirk}");
        let kept = temp.state.quarantine_of(&id(1)).join("events.jsonl");
        assert_eq!(std::fs::read(kept).expect("kept"), damaged, "{quirk}: nothing was added");
        let found = crate::store::recover_all(&temp.state).expect("it starts");
        assert!(matches!(&found[0].problem, Some(crate::store::Problem::Quarantined { .. })), "{quirk}");
    }
}
