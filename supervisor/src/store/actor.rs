//! The store as an actor: it hands runs to threads and answers when they come back. It never blocks and never awaits.
//!
//! - One thread per run at a time, so a log has a single writer; many runs at once, since one sync does not wait for
//!   another's (inline, 128 jobs cost 78 ms a step).
//! - A caller is answered exactly once, in the order in which its job's requests came; when the actor ends first, with
//!   [`StoreError::Stopped`].
//! - `published` is called before the caller is answered, after the sync, in the order of the log.
//! - The actor has no name (a process may host several) and no children. A thread that panics costs its run nothing: its
//!   callers get an error, and the log is opened and verified again for the next request. If the actor itself fails (only
//!   a panic in `published` or in a reply can do that) its parent hears of it; what was acknowledged is on disk.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, concurrency::JoinHandle};
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobStatus;
use ukai_protocol::threads::Threads;

use super::error::StoreError;
use super::lane::{Create, Done, LANE_PARKED_MAX, LANE_PENDING_MAX, Lane, LaneReport};
use super::loader;
use super::message::{Appended, Published, Reply, StoreMessage};
use super::paths::StateDir;
use super::reads::{Read, ReadReport, What};
use super::writer::{Append, Clock};

/// Threads that write at once: more than a disk syncs side by side.
const WRITERS_MAX: usize = 64;
/// Threads that read at once, so that a crowd of listeners leaves the disk to the writers.
const READERS_MAX: usize = 4;
/// Those of this process. Each store has only so many under way; in a process that hosts several, they share.
static THREADS: Threads = Threads::new("store", WRITERS_MAX + READERS_MAX, STORES_MAX * (WRITERS_MAX + READERS_MAX));
/// In one process; tests start some dozens.
const STORES_MAX: usize = 1_000;
/// Reads that wait: every worker's start and every listener's next piece, many times over.
const READS_PENDING_MAX: usize = 4_096;

/// Starts the store on a state directory that was created, locked and recovered. Give `parent` to be told of its end.
pub async fn start(
    state: StateDir,
    published: Published,
    parent: Option<ActorCell>,
) -> Result<(ActorRef<StoreMessage>, JoinHandle<()>), SpawnErr> {
    let arguments = Arguments { state, published, clock: loader::now };
    match parent {
        Some(parent) => Actor::spawn_linked(None, StoreActor, arguments, parent).await,
        None => Actor::spawn(None, StoreActor, arguments).await,
    }
}

struct StoreActor;

struct Arguments {
    state: StateDir,
    published: Published,
    clock: Clock,
}

impl Actor for StoreActor {
    type Msg = StoreMessage;
    type State = Store;
    type Arguments = Arguments;

    async fn pre_start(&self, myself: ActorRef<StoreMessage>, with: Arguments) -> Result<Store, ActorProcessingErr> {
        let Arguments { state, published, clock } = with;
        Ok(Store {
            myself,
            state,
            published,
            clock,
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            writing: 0,
            reads: VecDeque::new(),
            reading: 0,
            closing: Closing::Open,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<StoreMessage>,
        message: StoreMessage,
        store: &mut Store,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            StoreMessage::Create { id, spec, submitted, reply } => store.create(id, Create { spec, submitted, reply }),
            StoreMessage::Append { job, from, events, reply } => store.append(job, Append { from, events }, reply),
            StoreMessage::Load { job, reply } => store.read(Read { job, what: What::Load(reply) }),
            StoreMessage::Backlog { job, from, limit, reply } => {
                store.read(Read { job, what: What::Backlog { from, limit, reply } });
            }
            StoreMessage::Close { reply } => store.close(reply),
            StoreMessage::Written(report) => store.written(report),
            StoreMessage::Read(report) => store.read_done(report),
        }
        store.start_threads();
        store.end_if_closed();
        Ok(())
    }
}

struct Store {
    myself: ActorRef<StoreMessage>,
    state: StateDir,
    published: Published,
    clock: Clock,
    /// Runs that are queued or under way; one that has ended leaves.
    lanes: HashMap<JobId, Lane>,
    /// Lanes that wait for a thread; each stands here once at most.
    ready: VecDeque<JobId>,
    writing: usize,
    reads: VecDeque<(Read, u64)>,
    reading: usize,
    closing: Closing,
}

enum Closing {
    Open,
    /// What was asked before is being finished.
    Finishing(Reply<()>),
    /// The last snapshots are being written.
    Snapshots(Reply<()>),
    Closed,
}

impl Store {
    fn create(&mut self, id: JobId, create: Create) {
        if !matches!(self.closing, Closing::Open) {
            return create.reply.send(Err(StoreError::Stopped));
        }
        if self.lanes.contains_key(&id) {
            return create.reply.send(Err(StoreError::Exists(id)));
        }
        self.lanes.insert(id.clone(), Lane { create: Some(create), ..Lane::default() });
        self.wake(id);
    }

    fn append(&mut self, job: JobId, append: Append, reply: Reply<Arc<Appended>>) {
        if !matches!(self.closing, Closing::Open) {
            return reply.send(Err(StoreError::Stopped));
        }
        let lane = self.lanes.entry(job.clone()).or_default();
        if lane.pending.len() >= LANE_PENDING_MAX {
            return reply.send(Err(StoreError::Full { waiting: LANE_PENDING_MAX, what: "records of this job" }));
        }
        lane.pending.push_back((append, reply));
        self.wake(job);
    }

    /// A log that nobody has open yet is opened first: until then it is not known how much of it to believe.
    fn read(&mut self, read: Read) {
        if !matches!(self.closing, Closing::Open) {
            return read.refuse(StoreError::Stopped);
        }
        let job = read.job.clone();
        let lane = self.lanes.entry(job.clone()).or_default();
        match lane.acked {
            Some(_) if self.reads.len() >= READS_PENDING_MAX => {
                read.refuse(StoreError::Full { waiting: READS_PENDING_MAX, what: "reads" });
            }
            Some(acked) => self.reads.push_back((read, acked.bytes)),
            None if lane.parked.len() >= LANE_PARKED_MAX => {
                read.refuse(StoreError::Full { waiting: LANE_PARKED_MAX, what: "reads of this job" });
            }
            None => {
                lane.parked.push(read);
                self.wake(job);
            }
        }
    }

    fn close(&mut self, reply: Reply<()>) {
        match self.closing {
            Closing::Open => self.closing = Closing::Finishing(reply),
            _ => reply.send(Err(StoreError::Stopped)),
        }
    }

    fn wake(&mut self, job: JobId) {
        if let Some(lane) = self.lanes.get_mut(&job)
            && lane.wants_thread()
        {
            lane.queued = true;
            self.ready.push_back(job);
        }
    }

    fn written(&mut self, LaneReport { job, done }: LaneReport) {
        self.writing -= 1;
        let Some(lane) = self.lanes.get_mut(&job) else { return };
        lane.busy = false;
        let replies = std::mem::take(&mut lane.in_flight);
        let (writer, answers) = match done {
            Ok(Done { writer, answers }) => (writer, answers),
            Err(panic) => {
                let what = format!("recording for {job}");
                tracing::error!("{what}: {panic}");
                let error = StoreError::Io { what, why: panic, errno: 0 };
                (Err(error.clone()), vec![Err(error); replies.len()])
            }
        };
        match writer {
            Ok(writer) => {
                lane.keep(writer);
                let bytes = lane.acked.map_or(0, |acked| acked.bytes);
                self.reads.extend(lane.parked.drain(..).map(|read| (read, bytes)));
            }
            Err(error) => {
                // It is opened again, and verified, for whoever asks next.
                lane.acked = None;
                lane.parked.drain(..).for_each(|read| read.refuse(error.clone()));
            }
        }
        if let Some(due) = lane.snapshot_due() {
            lane.snapshot.seq = due.seq;
            lane.snapshot.under_way = true;
            self.reads.push_back((Read { job: job.clone(), what: What::Snapshot }, due.bytes));
        }
        for (reply, answer) in replies.into_iter().zip(answers) {
            if let Ok(appended) = &answer
                && !appended.records.is_empty()
            {
                (self.published)(appended);
            }
            reply.send(answer);
        }
        self.settle(job);
    }

    fn read_done(&mut self, ReadReport { snapshot }: ReadReport) {
        self.reading -= 1;
        let Some(job) = snapshot else { return };
        if let Some(lane) = self.lanes.get_mut(&job) {
            lane.snapshot.under_way = false;
            // Records came while it was made, perhaps the last.
            if let Some(due) = lane.snapshot_due() {
                lane.snapshot.seq = due.seq;
                lane.snapshot.under_way = true;
                self.reads.push_back((Read { job: job.clone(), what: What::Snapshot }, due.bytes));
            }
        }
        self.settle(job);
    }

    /// More to do, or nothing: an ended run leaves, and one that is only queued or paused holds no descriptor, since
    /// there may be thousands of them.
    fn settle(&mut self, job: JobId) {
        let Some(lane) = self.lanes.get_mut(&job) else { return };
        if !lane.is_idle() {
            return self.wake(job);
        }
        match lane.acked {
            Some(acked) if matches!(acked.status, JobStatus::Queued | JobStatus::Paused) => {
                lane.writer.iter_mut().for_each(|writer| writer.rest());
            }
            Some(acked) if !acked.status.is_ended() => {}
            _ => {
                self.lanes.remove(&job);
            }
        }
    }

    fn start_threads(&mut self) {
        while self.writing < WRITERS_MAX
            && let Some(job) = self.ready.pop_front()
        {
            let Some(lane) = self.lanes.get_mut(&job) else { continue };
            let work = lane.take_work(&job, &self.state, self.clock);
            let myself = self.myself.clone();
            self.writing += 1;
            THREADS.run(
                move || work.run(),
                move |done| {
                    let done = done.map_err(|broke| format!("its thread: {broke}"));
                    send(&myself, StoreMessage::Written(LaneReport { job, done }));
                },
            );
        }
        while self.reading < READERS_MAX
            && let Some((read, until)) = self.reads.pop_front()
        {
            let snapshot = matches!(read.what, What::Snapshot).then(|| read.job.clone());
            let (myself, state) = (self.myself.clone(), self.state.clone());
            self.reading += 1;
            THREADS.run(
                move || read.run(&state, until),
                move |read| {
                    if let Err(broke) = read {
                        tracing::error!("reading a log: its thread: {broke}");
                    }
                    send(&myself, StoreMessage::Read(ReadReport { snapshot }));
                },
            );
        }
    }

    fn end_if_closed(&mut self) {
        let busy = self.writing + self.reading > 0 || !self.ready.is_empty() || !self.reads.is_empty();
        if busy {
            return;
        }
        match std::mem::replace(&mut self.closing, Closing::Closed) {
            Closing::Open => self.closing = Closing::Open,
            Closing::Finishing(reply) => {
                self.closing = Closing::Snapshots(reply);
                for (job, lane) in &mut self.lanes {
                    if let Some(acked) = lane.acked
                        && acked.ran
                        && acked.seq > lane.snapshot.seq
                    {
                        lane.snapshot.seq = acked.seq;
                        lane.snapshot.under_way = true;
                        self.reads.push_back((Read { job: job.clone(), what: What::Snapshot }, acked.bytes));
                    }
                }
                self.start_threads();
                self.end_if_closed();
            }
            Closing::Snapshots(reply) => {
                reply.send(Ok(()));
                self.myself.stop(None);
            }
            Closing::Closed => {}
        }
    }
}

/// The actor has ended when this fails; its callers have been answered by then.
fn send(myself: &ActorRef<StoreMessage>, message: StoreMessage) {
    if myself.cast(message).is_err() {
        tracing::debug!("the store ended while a thread was at work");
    }
}

#[cfg(test)]
mod tests;
