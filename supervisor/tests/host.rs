//! The supervisor with its store, pool and socket, and workers that are this test: the process that is started sleeps,
//! and the test speaks for it over the real socket.
#![allow(clippy::expect_used, clippy::unwrap_used)]
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use ukai_protocol::connection::{self, Reader, Writer};
use ukai_protocol::control::{Filter, JobRow, NewJob, Request, Response, Seen, Selection};
use ukai_protocol::event::{Event, ProcessMark, Why};
use ukai_protocol::frame::Role;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, ContextStrategy, JobSpec, JobStatus, Limits, Mode, Outcome};
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Grant, Report, Timeouts, Wire};
use ukai_protocol::message::{Stop, Usage};
use ukai_protocol::policy::Policy;
use ukai_protocol::process;
use ukai_protocol::run_state::RunState;
use ukai_protocol::secret::Secret;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker, Welcome};
use ukai_protocol::{codec, disk};
use ukai_supervisor::host::{Host, host_with};
use ukai_supervisor::pool::reaper::Family;
use ukai_supervisor::pool::spawn::token_hash;
use ukai_supervisor::route::account::Rates;
use ukai_supervisor::settings::{Notify, Provider, Settings};
use ukai_supervisor::store::{self, Numbered, Reply, StateDir, StoreMessage};

#[path = "host/pause.rs"]
mod pause;
#[path = "host/reset.rs"]
mod reset;

/// A cancel that takes longer breaks the promise (spec §11).
const CANCEL_MAX: Duration = Duration::from_millis(500);
/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);

struct Started {
    job: JobId,
    attempt: u32,
    token: Secret,
    pid: u32,
}

struct Bench {
    host: Host,
    settings: Settings,
    started: mpsc::UnboundedReceiver<Started>,
    folder: tempfile::TempDir,
}

fn settings(folder: &std::path::Path) -> Settings {
    Settings {
        state_dir: folder.join("state"),
        config: None,
        socket: folder.join("socket"),
        max_workers: 2,
        heartbeat: Duration::from_millis(100),
        hang: Duration::from_secs(30),
        term_grace: Duration::from_millis(200),
        orphan_grace: Duration::from_secs(1),
        providers: vec![Provider {
            id: "lab".into(),
            account: "lab".into(),
            wire: Wire::Openai,
            url: "http://lab".into(),
            model: "lab-1".into(),
            key: None,
            context_window: 32_000,
            max_output: 4_096,
            prices: None,
            timeouts: Timeouts::default(),
            max_concurrency: Some(1),
            supports_tools: None,
            rates: Rates::default(),
        }],
        park: false,
        asks: false,
        policy_file: None,
        key_files: Vec::new(),
        worker_program: PathBuf::from("/bin/sh"),
        home: None,
        notify: Notify::default(),
    }
}

fn spec(name: &str) -> JobSpec {
    JobSpec {
        name: name.into(),
        prompt: "count".into(),
        workdir: "/".into(),
        env: Vec::new(),
        mode: Mode::Loop,
        provider: None,
        model: None,
        context: ContextStrategy::KeepAll,
        window: None,
        priority: 5,
        needs_tools: false,
        limits: Limits::default(),
        worktree: false,
        hooks: Vec::new(),
        tools: Vec::new(),
        policy: Policy::default(),
        batch: None,
    }
}

impl Bench {
    async fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path());
        change(&mut settings);
        let (host, started) = start(&settings).await;
        Bench { host, settings, started, folder }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.settings).await
    }

    async fn next_start(&mut self) -> Started {
        within(self.started.recv()).await.expect("a worker is started")
    }

    /// The next worker that is started, let in.
    async fn worker(&mut self) -> Worker {
        let started = self.next_start().await;
        Worker::connect(&self.settings, started).await
    }

    async fn end(self) {
        within(self.host.drain()).await;
    }
}

/// What a supervisor leaves that was killed while a worker ran; the worker's connections are gone.
async fn leave_behind(settings: &Settings, job: &JobId, process: ProcessMark, token: &Secret, paused: bool) {
    let state = StateDir::new(&settings.state_dir);
    state.create().expect("folders");
    let (store, ended) = store::start(state, Box::new(|_| {}), None).await.expect("a store");
    let submitted = Event::Submitted { name: "a".into(), prompt: "count".into(), priority: 5, batch: None };
    let created = |reply| StoreMessage::Create { id: job.clone(), spec: Box::new(spec("a")), submitted, reply };
    stored(&store, created).await;
    let started = Event::Started { attempt: 1, process, token_hash: token_hash(token) };
    let pause = paused.then_some((None, Event::Paused {}));
    for (from, event) in [(None, started), (Some(Numbered { attempt: 1, n: 0 }), injected())].into_iter().chain(pause) {
        let events = vec![event];
        stored(&store, |reply| StoreMessage::Append { job: job.clone(), from, events, reply }).await;
    }
    stored(&store, |reply| StoreMessage::Close { reply }).await;
    ended.await.expect("it ends");
}

async fn stored<T: Send + 'static>(
    store: &ractor::ActorRef<StoreMessage>,
    message: impl FnOnce(Reply<T>) -> StoreMessage,
) {
    let (answer, answered) = oneshot::channel();
    let reply = Reply::new(move |result: Result<T, _>| drop(answer.send(result.map(drop))));
    store.cast(message(reply)).expect("it lives");
    within(answered).await.expect("an answer").expect("stored");
}

/// Entered in the family: another test's supervisor shares this process, and sweeps.
fn sleeper() -> std::process::Child {
    let start = || {
        process::start(process::Start {
            program: "/bin/sleep".into(),
            args: vec!["300".into()],
            env: process::own_environment(),
            workdir: None,
            stdin: process::Stdin::Null,
            stdout: Stdio::null(),
            stderr: Stdio::null(),
        })
    };
    Family::found().start(start, std::process::Child::id).expect("it starts")
}

async fn start(settings: &Settings) -> (Host, mpsc::UnboundedReceiver<Started>) {
    let (tell, started) = mpsc::unbounded_channel();
    let host = host_with(
        settings.clone(),
        Arc::new(move |_, order| {
            let child = process::start(process::Start {
                program: "/bin/sh".into(),
                args: vec!["-c".into(), "echo last words >&2; exec sleep 300".into()],
                env: process::own_environment(),
                workdir: None,
                stdin: process::Stdin::Null,
                stdout: Stdio::null(),
                stderr: Stdio::piped(),
            })?;
            let (job, attempt, token) = (order.job.clone(), order.attempt, order.token.clone());
            let _ = tell.send(Started { job, attempt, token, pid: child.id() });
            Ok(child)
        }),
    )
    .await
    .expect("a supervisor");
    (host, started)
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

struct Client {
    reader: Reader,
    writer: Writer,
}

impl Client {
    async fn connect(settings: &Settings) -> Self {
        let (reader, writer) = within(connection::connect(&settings.socket, Role::Client)).await.expect("connects");
        Client { reader, writer }
    }

    async fn ask(&mut self, request: Request) -> Response {
        self.writer.send(&request).await.expect("sent");
        self.next().await
    }

    async fn next(&mut self) -> Response {
        within(self.reader.next()).await.expect("readable").expect("an answer")
    }

    async fn submit(&mut self, names: &[&str]) -> Vec<JobId> {
        let jobs = names.iter().map(|name| NewJob { spec: spec(name), line: None }).collect();
        match self.ask(Request::Submit { jobs, batch: None, more: false }).await {
            Response::Submitted { ids, .. } => ids,
            other => panic!("{other:?}"),
        }
    }

    async fn row(&mut self, job: &JobId) -> JobRow {
        match self.ask(Request::Show { job: job.as_str().into() }).await {
            Response::Shown { row, .. } => *row,
            other => panic!("{other:?}"),
        }
    }

    async fn cancel(&mut self, job: &JobId) -> Duration {
        let began = Instant::now();
        match self.ask(Request::Cancel { jobs: Selection::These(vec![job.as_str().into()]) }).await {
            Response::Cancelled { ids } => assert_eq!(ids, std::slice::from_ref(job)),
            other => panic!("{other:?}"),
        }
        began.elapsed()
    }

    async fn subscribe(&mut self, jobs: Selection) {
        let filter = Filter { jobs, deltas: true };
        self.writer.send(&Request::Subscribe { filter, seen: Seen::default() }).await.expect("sent");
    }

    /// The names of events until one that `last` accepts; deltas in quotes.
    async fn events(&mut self, last: impl Fn(&Event) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        let mut seq = 0;
        loop {
            match self.next().await {
                Response::Happened(record) => {
                    assert_eq!(record.seq, seq + 1, "a gap or a repetition after {names:?}");
                    seq = record.seq;
                    names.push(record.event.name().to_owned());
                    if last(&record.event) {
                        return names;
                    }
                }
                Response::Delta { text, .. } => names.push(format!("'{text}'")),
                Response::Live => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Finished { .. })
}

/// The whole log of a job by now.
async fn log(settings: &Settings, job: &JobId) -> Vec<Event> {
    let mut client = Client::connect(settings).await;
    client.subscribe(Selection::These(vec![job.as_str().into()])).await;
    let mut events = Vec::new();
    loop {
        match client.next().await {
            Response::Happened(record) => events.push(record.event),
            Response::Live => return events,
            other => panic!("{other:?}"),
        }
    }
}

struct Worker {
    started: Started,
    reader: Reader,
    writer: Writer,
    welcome: Welcome,
    state: Option<RunState>,
    /// What it is told about pausing when it comes back.
    word: Option<ToWorker>,
    n: u64,
}

impl Worker {
    async fn connect(settings: &Settings, started: Started) -> Self {
        Self::hello(settings, started, false).await
    }

    async fn hello(settings: &Settings, started: Started, reconnect: bool) -> Self {
        let (reader, mut writer) = connection::connect(&settings.socket, Role::Worker).await.expect("connects");
        let Started { job, attempt, token, pid } = &started;
        let hello = Hello { job: job.clone(), attempt: *attempt, token: token.clone(), pid: *pid, reconnect };
        writer.send(&hello).await.expect("sent");
        let mut reader = reader;
        let ToWorker::Welcome(welcome) = next(&mut reader).await else { panic!("no welcome") };
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < welcome.state_bytes {
            let ToWorker::State { chunk } = next(&mut reader).await else { panic!("no state") };
            bytes.extend(chunk);
        }
        let state = (!bytes.is_empty()).then(|| codec::decode_unbounded(&bytes).expect("a state"));
        let word = if reconnect { Some(next(&mut reader).await) } else { None };
        let n = welcome.acked;
        Worker { started, reader, writer, welcome: *welcome, state, word, n }
    }

    async fn send(&mut self, message: ToSupervisor) {
        self.writer.send(&message).await.expect("sent");
    }

    /// Records one event and waits until it is on disk.
    async fn record(&mut self, event: Event) {
        let attempt = self.started.attempt;
        self.send(ToSupervisor::Record { attempt, n: self.n, events: vec![event] }).await;
        self.n += 1;
        loop {
            match next(&mut self.reader).await {
                ToWorker::Ack { n } if n == self.n => return,
                ToWorker::Ack { .. } | ToWorker::Cancel { .. } | ToWorker::Pause => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn lease(&mut self, call: u64) -> Grant {
        let ask = Ask { call, attempt: 0, tools: false, window: 100, max_output: 0, priority: 0 };
        self.send(ToSupervisor::Ask(ask)).await;
        loop {
            match next(&mut self.reader).await {
                ToWorker::Answer { answer: Answer::Grant(grant), .. } => return *grant,
                ToWorker::Answer { answer: Answer::Wait { .. }, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn report(&mut self, grant: &Grant) {
        let (lease, generation, class) = (grant.lease, grant.generation, AnswerClass::Success);
        let report = Report { lease, generation, class, ..Report::default() };
        self.send(ToSupervisor::Report(report)).await;
    }

    async fn finish(mut self) {
        let outcome = Outcome::Completed { attention: false };
        self.record(Event::Finished { outcome, text: "done".into() }).await;
        self.kill(Signal::SIGKILL);
    }

    /// Its connection breaks; the process lives.
    async fn disconnect(self) -> Started {
        let Worker { started, reader, mut writer, .. } = self;
        writer.close().await.expect("closed");
        drop((reader, writer));
        started
    }

    /// When it has said its last words, which on a busy machine may be long after it was started.
    fn kill(&self, signal: Signal) {
        let comm = format!("/proc/{}/comm", self.started.pid);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() != "sleep") {
            assert!(std::time::Instant::now() < deadline, "it has not come to its sleep");
            std::thread::yield_now();
        }
        signal_pid(self.started.pid, signal);
    }
}

fn signal_pid(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("it lives");
}

async fn next(reader: &mut Reader) -> ToWorker {
    within(reader.next()).await.expect("readable").expect("a message")
}

fn injected() -> Event {
    Event::Injected { why: Why::System, text: "be brief".into() }
}

fn replied(step: u64) -> Event {
    Event::Replied {
        step,
        text: format!("step {step}"),
        calls: Vec::new(),
        opaque: Vec::new(),
        stop: Stop::End,
        usage: Usage::default(),
        cost_usd: 0.0,
        run_time_ms: 1,
        wall_ms: 1,
    }
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.name() == name).count()
}

#[tokio::test(flavor = "current_thread")]
async fn a_job_goes_from_submission_to_its_end() {
    let mut bench = Bench::new(|_| {}).await;
    let mut listener = bench.client().await;
    listener.subscribe(Selection::All).await;
    assert_eq!(listener.next().await, Response::Live);
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    assert_eq!((&worker.welcome.job, &worker.welcome.spec), (&job, &spec("a")));
    assert_eq!(worker.state.as_ref().map(|state| state.messages.len()), Some(1));
    worker.record(injected()).await;
    let grant = worker.lease(1).await;
    assert_eq!((&*grant.provider, &*grant.model), ("lab", "lab-1"));
    worker.send(ToSupervisor::Delta { step: 1, text: "he".into() }).await;
    worker.report(&grant).await;
    worker.record(replied(1)).await;
    worker.finish().await;
    let events = listener.events(is_end).await;
    assert_eq!(events, ["Submitted", "Started", "Injected", "'he'", "Replied", "Finished"]);
    let idle = within(bench.host.idle()).await.expect("the supervisor lives");
    assert!(idle.queued.is_empty());
    assert_eq!(client.row(&job).await.status, JobStatus::Completed);
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_killed_worker_is_restarted_from_what_was_recorded() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    worker.lease(1).await;
    // The last record is in the socket when the process dies.
    let (attempt, n) = (worker.started.attempt, worker.n);
    worker.send(ToSupervisor::Record { attempt, n, events: vec![replied(1)] }).await;
    worker.kill(Signal::SIGKILL);
    drop(worker);
    let mut worker = bench.worker().await;
    assert_eq!(worker.started.attempt, 2);
    assert_eq!(worker.state.as_ref().map(|state| state.progress.used.steps), Some(1));
    // The only slot of the account came back with the dead worker.
    worker.lease(2).await;
    worker.finish().await;
    let events = log(&bench.settings, &job).await;
    let interrupted = events.iter().find_map(|event| match event {
        Event::Interrupted { attempt, how, stderr_tail, .. } => Some((*attempt, &**how, &**stderr_tail)),
        _ => None,
    });
    assert_eq!(interrupted, Some((1, "killed by signal 9", "last words\n")));
    assert_eq!((count(&events, "Replied"), count(&events, "Finished")), (1, 1));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_says_nothing_is_ended_and_started_again() {
    let mut bench = Bench::new(|settings| settings.hang = Duration::from_millis(300)).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let worker = bench.worker().await;
    worker.kill(Signal::SIGSTOP);
    let again = bench.next_start().await;
    assert_eq!(again.attempt, 2);
    let events = log(&bench.settings, &job).await;
    assert!(matches!(&events[2], Event::Interrupted { how, .. } if how.contains("hung")), "{events:?}");
    drop(worker);
    assert!(client.cancel(&job).await < CANCEL_MAX);
    bench.end().await;
}

/// Cancels and looks: in time, nobody left, one end.
async fn check_cancel(bench: &Bench, client: &mut Client, job: &JobId, pid: Option<u32>) {
    let took = client.cancel(job).await;
    assert!(took < CANCEL_MAX, "{took:?}");
    assert!(pid.is_none_or(|pid| process::mark(pid).is_none()), "its process lives");
    let events = log(&bench.settings, job).await;
    assert_eq!(count(&events, "Finished"), 1, "{events:?}");
    assert!(is_end(events.last().expect("events")), "{events:?}");
    assert_eq!(client.row(job).await.status, JobStatus::Cancelled);
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancel_ends_a_job_in_every_state() {
    let mut bench = Bench::new(|settings| settings.max_workers = 1).await;
    let mut client = bench.client().await;

    let jobs = client.submit(&["starting", "queued"]).await;
    let started = bench.next_start().await;
    check_cancel(&bench, &mut client, &jobs[1], None).await;
    check_cancel(&bench, &mut client, &jobs[0], Some(started.pid)).await;

    let running = client.submit(&["running"]).await.remove(0);
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    check_cancel(&bench, &mut client, &running, Some(worker.started.pid)).await;
    assert!(matches!(next(&mut worker.reader).await, ToWorker::Cancel { .. }));

    let hung = client.submit(&["hung"]).await.remove(0);
    let worker = bench.worker().await;
    worker.kill(Signal::SIGSTOP);
    check_cancel(&bench, &mut client, &hung, Some(worker.started.pid)).await;

    let backing_off = client.submit(&["backing off"]).await.remove(0);
    let started = bench.next_start().await;
    signal_pid(started.pid, Signal::SIGKILL);
    while client.row(&backing_off).await.note.is_empty() {
        tokio::task::yield_now().await;
    }
    check_cancel(&bench, &mut client, &backing_off, Some(started.pid)).await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_job_that_waits_for_a_lease_is_cancelled_and_holds_nobody_up() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["first", "second"]).await;
    let (mut first, mut second) = (bench.worker().await, bench.worker().await);
    let grant = first.lease(1).await;
    let ask = Ask { call: 1, attempt: 0, tools: false, window: 100, max_output: 0, priority: 0 };
    second.send(ToSupervisor::Ask(ask)).await;
    assert!(matches!(next(&mut second.reader).await, ToWorker::Answer { answer: Answer::Wait { .. }, .. }));
    let of_second = if second.started.job == jobs[1] { &jobs[1] } else { &jobs[0] };
    check_cancel(&bench, &mut client, of_second, Some(second.started.pid)).await;
    first.report(&grant).await;
    first.lease(2).await;
    first.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn an_end_that_the_worker_recorded_stands_against_a_cancel() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    let (attempt, n) = (worker.started.attempt, worker.n);
    let outcome = Outcome::Completed { attention: false };
    let finished = Event::Finished { outcome: outcome.clone(), text: String::new() };
    worker.send(ToSupervisor::Record { attempt, n, events: vec![finished] }).await;
    assert!(client.cancel(&job).await < CANCEL_MAX);
    let events = log(&bench.settings, &job).await;
    assert_eq!(count(&events, "Finished"), 1);
    assert_eq!(client.row(&job).await.outcome, Some(outcome));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_stranger_with_a_wrong_token_is_turned_away_and_the_worker_is_not() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    client.submit(&["a"]).await;
    let started = bench.next_start().await;
    let (mut reader, mut writer) = connection::connect(&bench.settings.socket, Role::Worker).await.expect("connects");
    let Started { job, attempt, pid, .. } = &started;
    let token = Secret::new("guessed".into());
    let hello = Hello { job: job.clone(), attempt: *attempt, token, pid: *pid, reconnect: false };
    writer.send(&hello).await.expect("sent");
    assert!(matches!(next(&mut reader).await, ToWorker::Reject { .. }));
    Worker::connect(&bench.settings, started).await.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_lost_connection_is_taken_up_where_it_broke() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    let mut worker = Worker::hello(&bench.settings, worker.disconnect().await, true).await;
    assert_eq!((worker.welcome.acked, worker.welcome.state_bytes), (1, 0));
    // Sent again although it is on disk, together with what is new.
    let attempt = worker.started.attempt;
    worker.send(ToSupervisor::Record { attempt, n: 0, events: vec![injected(), replied(1)] }).await;
    assert_eq!(next(&mut worker.reader).await, ToWorker::Ack { n: 2 });
    worker.n = 2;
    worker.finish().await;
    let events = log(&bench.settings, &job).await;
    assert_eq!((count(&events, "Injected"), count(&events, "Replied"), count(&events, "Finished")), (1, 1, 1));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drained_job_goes_on_at_the_next_start() {
    let mut bench = Bench::new(|settings| settings.max_workers = 1).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["running", "queued"]).await;
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    let Bench { host, settings, folder, .. } = bench;
    within(host.drain()).await;
    assert!(process::mark(worker.started.pid).is_none());

    let (host, started) = start(&settings).await;
    let mut bench = Bench { host, settings, started, folder };
    let worker = bench.worker().await;
    assert_eq!((&worker.started.job, worker.started.attempt), (&jobs[0], 2));
    assert_eq!(worker.state.as_ref().and_then(|state| state.system.as_deref()), Some("be brief"));
    worker.finish().await;
    let worker = bench.worker().await;
    assert_eq!((&worker.started.job, worker.started.attempt), (&jobs[1], 1));
    worker.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_outlived_its_supervisor_goes_on_with_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    let (job, token) = (JobId::from_random([1; 5]), Secret::new("its token".into()));
    let mut child = sleeper();
    let pid = child.id();
    leave_behind(&settings, &job, process::mark(pid).expect("it lives"), &token, false).await;

    let (host, started) = start(&settings).await;
    let bench = Bench { host, settings, started, folder };
    let left = Started { job: job.clone(), attempt: 1, token, pid };
    let mut worker = Worker::hello(&bench.settings, left, true).await;
    assert_eq!((worker.welcome.acked, worker.welcome.state_bytes), (1, 0));
    worker.lease(1).await;
    worker.record(replied(1)).await;
    worker.finish().await;
    child.wait().expect("it ends");
    let mut client = bench.client().await;
    let row = client.row(&job).await;
    assert_eq!((row.status, row.restarts, row.used.steps), (JobStatus::Completed, 0, 1));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_does_not_come_back_is_ended_and_its_job_started_again_at_once() {
    for alive in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path());
        settings.orphan_grace = Duration::from_millis(200);
        let (job, token) = (JobId::from_random([1; 5]), Secret::new("its token".into()));
        let mut child = sleeper();
        let mark = process::mark(child.id()).expect("it lives");
        leave_behind(&settings, &job, mark.clone(), &token, false).await;
        if !alive {
            child.kill().expect("it lives");
            child.wait().expect("it ends");
        }

        let (host, started) = start(&settings).await;
        let mut bench = Bench { host, settings, started, folder };
        let began = Instant::now();
        let again = bench.next_start().await;
        assert_eq!((&again.job, again.attempt), (&job, 2));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}: it is not backed off", began.elapsed());
        assert!(!process::is_alive(&mark));
        child.wait().expect("it ends");
        let events = log(&bench.settings, &job).await;
        let gone = |event: &Event| matches!(event, Event::Interrupted { how, .. } if how == "supervisor was gone");
        assert!(events.iter().any(gone), "{events:?}");
        bench.end().await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_record_that_cannot_be_written_ends_the_job_and_not_the_server() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    let fault = disk::fault::inject(disk::fault::Fault {
        under: bench.settings.state_dir.join("runs").join(job.as_str()),
        operation: disk::fault::Operation::Write,
        skip: 0,
        times: 1,
        effect: disk::fault::Effect::Fail(nix::libc::EIO),
    });
    let (attempt, n) = (worker.started.attempt, worker.n);
    worker.send(ToSupervisor::Record { attempt, n, events: vec![replied(1)] }).await;
    let cancelled = next(&mut worker.reader).await;
    assert!(matches!(cancelled, ToWorker::Cancel { kind: CauseKind::Io(nix::libc::EIO) }), "{cancelled:?}");
    while client.row(&job).await.outcome.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(fault);
    let row = client.row(&job).await;
    assert!(matches!(row.outcome, Some(Outcome::Ended(cause)) if cause.kind == CauseKind::Io(nix::libc::EIO)));
    assert!(process::mark(worker.started.pid).is_none());
    client.submit(&["b"]).await;
    bench.worker().await.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_second_supervisor_on_the_state_directory_is_refused_by_name() {
    let bench = Bench::new(|_| {}).await;
    let mut settings = bench.settings.clone();
    settings.socket = bench.folder.path().join("other");
    let refused = host_with(settings, Arc::new(|_, _| unreachable!("nothing is started"))).await;
    let why = refused.err().expect("refused").to_string();
    assert!(why.contains("in use by pid"), "{why}");
    bench.end().await;
}
