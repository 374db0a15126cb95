//! A supervisor in this process: what `serve`, `run` and `demo` start and end.
//!
//! In this order: the lock (nobody else writes here), the subreaper (no orphan escapes), recovery (what is there), the
//! socket (workers that outlived the last supervisor knock at once), the actors.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use ractor::{Actor as _, ActorRef, SpawnErr};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use ukai_notifier::{Alert, DESKTOP, Lost, Notifier, Setup, Untold};
use ukai_protocol::connection::Listener;
use ukai_protocol::control::SinkRow;
use ukai_protocol::disk;
use ukai_protocol::process_tree;

use crate::actor::{Arguments, Idle, Msg, Supervisor};
use crate::batch;
use crate::control::Doors;
use crate::listener;
use crate::pool::actor::Pool;
use crate::pool::commands_env::CommandsEnv;
use crate::pool::reaper::Family;
use crate::pool::{spawn, stray, temp};
use crate::publish::Publisher;
use crate::settings::{Notify, Provider, Settings};
use crate::store::batch_file::{self, BatchFile};
use crate::store::capabilities::{self, Capabilities};
use crate::store::lock::LockError;
use crate::store::owed;
use crate::store::paths::PathError;
use crate::store::routes::{self, Found};
use crate::store::server_log::{self, ServerLog};
use crate::store::told::{self, Told};
use crate::store::{self, Appended, Lock, Recovered, Reply, StateDir, StoreError, StoreMessage};
use crate::worktree::Worktrees;

/// Between two looks for orphans that came to us while nothing else made us look.
const REAP_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Locked(#[from] LockError),
    #[error(transparent)]
    Paths(#[from] PathError),
    #[error("reading the runs of the state directory: {0}")]
    Recovery(#[from] StoreError),
    #[error("becoming the subreaper of what workers leave behind: {0}; without it orphans could escape")]
    Subreaper(io::Error),
    #[error("listening at {}: {error}; remove what stands there, or set XDG_RUNTIME_DIR to a folder of your own", path.display())]
    Socket { path: PathBuf, error: io::Error },
    #[error("starting the supervisor's actors: {0}")]
    Actors(#[from] SpawnErr),
    #[error("starting the supervisor: a thread of it failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

pub struct Host {
    supervisor: ActorRef<Msg>,
    supervising: JoinHandle<()>,
    store: ActorRef<StoreMessage>,
    notifier: Notifier,
    listening: JoinHandle<()>,
    reaping: JoinHandle<()>,
    socket: PathBuf,
    _lock: Lock,
}

/// Starts a supervisor on a state directory. From then on every child of this process that was not there before, and
/// that its pool did not start, is taken for the orphan of a worker and ended.
pub async fn host(settings: Settings) -> Result<Host, StartError> {
    host_with(settings, Arc::new(spawn::worker)).await
}

/// With another way of starting workers.
pub async fn host_with(settings: Settings, start: spawn::Start) -> Result<Host, StartError> {
    let state = StateDir::new(&settings.state_dir);
    let held = tokio::task::spawn_blocking({
        let (state, providers) = (state.clone(), settings.providers.clone());
        move || take_hold(&state, &providers)
    });
    let Held { lock, recovered, batches, routes, told, capabilities, server_log, owed } = held.await??;
    process_tree::adopt_orphans().map_err(StartError::Subreaper)?;
    let jobs = recovered.iter().map(|run| run.id.clone()).collect();
    let workers: Vec<_> = recovered.iter().filter_map(|run| run.progress.process.clone()).collect();
    let of = state.clone();
    let ended = recovered.iter().filter(|run| run.progress.outcome.is_some());
    let ended: Vec<_> = ended.map(|run| run.id.clone()).collect();
    tokio::task::spawn_blocking(move || {
        stray::end_strays(&jobs, &workers);
        ended.iter().for_each(|job| temp::remove(&of, job));
    })
    .await?;
    let family = Family::found();
    let socket = settings.socket.clone();
    let listener = Listener::bind(&socket).map_err(|error| StartError::Socket { path: socket.clone(), error })?;
    note_socket(&state, &socket).await?;

    let publisher = Publisher::default();
    let address = Arc::new(OnceLock::<ActorRef<Msg>>::new());
    let published = {
        let (publisher, address) = (publisher.clone(), address.clone());
        Box::new(move |appended: &Arc<Appended>| {
            publisher.happened(&appended.records);
            // Nothing is appended before the supervisor lives; after it has ended nobody folds.
            if let Some(supervisor) = address.get() {
                let _ = supervisor.cast(Msg::Recorded(appended.clone()));
            }
        })
    };
    let lost = {
        let address = address.clone();
        Arc::new(move |sink: &str, count, why: &str| {
            // A desktop that shows nothing has said so in the log, and the others tell.
            if sink == DESKTOP {
                return;
            }
            // Of what an earlier process left behind it is said in the log alone: nobody lives yet who could record it.
            if let Some(supervisor) = address.get() {
                let _ = supervisor.cast(Msg::AlertsLost { sink: sink.to_owned(), count, why: why.to_owned() });
            }
        })
    };
    let notifier = Notifier::start(setup(&settings, &state, owed, lost)).await?;
    let worktrees = Worktrees::new(state.clone(), family);
    let (store, _) = store::start(state, published, None).await?;
    let secrets = Arc::new(settings.fingerprints());
    let keys = settings.providers.iter().filter_map(|provider| provider.key.clone());
    let commands_env = Arc::new(CommandsEnv::new(keys.chain(settings.notify.discord.clone()).collect()));
    let (settings, publisher_of) = (Arc::new(settings), publisher.clone());
    let store_of = store.clone();
    let pool =
        Pool { settings, store: store_of, publisher: publisher_of, family, start, secrets, commands_env, worktrees };
    let notifier_of = notifier.clone();
    let arguments =
        Arguments { pool, notifier: notifier_of, recovered, batches, routes, told, capabilities, server_log, address };
    let (supervisor, supervising) = Supervisor::spawn(None, Supervisor, arguments).await?;
    store.link(supervisor.get_cell());

    let listeners = Arc::new(Semaphore::new(listener::LISTENERS_MAX));
    let (supervisor_of, store_of, notifier_of) = (supervisor.clone(), store.clone(), notifier.clone());
    let doors = Doors { supervisor: supervisor_of, store: store_of, notifier: notifier_of, publisher, listeners };
    let listening = tokio::spawn(listener::serve(listener, doors));
    let reaping = tokio::spawn(async move {
        loop {
            tokio::time::sleep(REAP_EVERY).await;
            if let Err(error) = tokio::task::spawn_blocking(move || family.sweep()).await {
                tracing::error!(%error, "the sweep for orphans failed");
            }
        }
    });
    Ok(Host { supervisor, supervising, store, notifier, listening, reaping, socket, _lock: lock })
}

/// A state directory, held and read.
struct Held {
    lock: Lock,
    /// In the order of submission.
    recovered: Vec<Recovered>,
    batches: Vec<BatchFile>,
    routes: Found,
    /// What providers named, as only logs tell.
    told: Vec<Told>,
    capabilities: Capabilities,
    server_log: ServerLog,
    /// What the owner may not have been told.
    owed: Vec<Alert>,
}

fn take_hold(state: &StateDir, providers: &[Provider]) -> Result<Held, StartError> {
    let lock = Lock::take(state)?;
    state.create()?;
    let routes = routes::recover(state)?;
    let capabilities = capabilities::load(state)?;
    let batches = batch_file::recover_all(state)?;
    let mut recovered = store::recover_all(state)?;
    let clock = SystemTime::now();
    let under_way = recovered.iter().filter(|run| run.progress.outcome.is_none());
    let told = under_way.flat_map(|run| told::waits(state, &run.id, clock)).collect();
    // Ids are random; `job.json` is written once, at submission.
    recovered.sort_by_cached_key(|run| submitted_at(&state.run(&run.id).spec()));
    batch::in_line_order(&mut recovered, |run| run.progress.batch.as_ref());
    let since = clock.checked_sub(owed::OWED_FOR).unwrap_or(SystemTime::UNIX_EPOCH);
    let server = server_log::open(state, since, store::loader::now)?;
    let account_of = |id: &str| {
        let configured = providers.iter().find(|provider| provider.id == id);
        configured.map_or(id, |provider| &provider.account).to_owned()
    };
    let owed = owed::alerts(state, &recovered, &server.recent, account_of, since);
    Ok(Held { lock, recovered, batches, routes, told, capabilities, server_log: server.log, owed })
}

fn setup(settings: &Settings, state: &StateDir, owed: Vec<Alert>, lost: Lost) -> Setup {
    let keys = settings.providers.iter().filter_map(|provider| provider.key.clone());
    let notify = settings.notify.clone();
    Setup {
        cursors: state.cursors(),
        secrets: keys.chain(notify.secrets).collect(),
        discord: notify.discord,
        desktop: notify.desktop,
        demo: notify.demo,
        owed,
        lost,
    }
}

/// Has each sink tell something, where no supervisor runs. Under the lock: the cursors have one writer.
pub async fn test_notify(state: &StateDir, notify: Notify) -> Result<Vec<SinkRow>, StartError> {
    let held = tokio::task::spawn_blocking({
        let state = state.clone();
        move || {
            let lock = Lock::take(&state)?;
            state.create()?;
            Ok::<_, StartError>(lock)
        }
    });
    let lock = held.await??;
    let Notify { demo, desktop, discord, secrets } = notify;
    let setup = Setup { cursors: state.cursors(), secrets, discord, desktop, demo, ..Setup::default() };
    let notifier = Notifier::start(setup).await?;
    let sinks = notifier.test().await;
    notifier.finish().await;
    drop(lock);
    Ok(sinks)
}

/// A service, cron and a terminal have different runtime directories or none: without the note they would not find the
/// supervisor of their common state directory, and `cancel --all` would stop nothing.
async fn note_socket(state: &StateDir, socket: &Path) -> Result<(), StartError> {
    let (path, bytes) = (state.socket_note(), socket.as_os_str().as_bytes().to_vec());
    let written = tokio::task::spawn_blocking(move || {
        disk::write_atomic(&path, &bytes).map_err(|error| StoreError::io("writing", &path, &error))
    });
    // Who shares our environment finds us without it: a full disk is no reason not to serve.
    if let Err(error) = written.await? {
        tracing::warn!("{error}: clients with another XDG_RUNTIME_DIR will not find this server");
    }
    Ok(())
}

/// One whose time cannot be read goes first, rather than never.
fn submitted_at(spec: &Path) -> SystemTime {
    fs::metadata(spec).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Host {
    /// Where clients connect.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Nothing runs, and nothing can start within a minute. None if the supervisor has ended.
    pub async fn idle(&self) -> Option<Idle> {
        let (answer, answered) = oneshot::channel();
        self.supervisor.cast(Msg::Idle { answer }).ok()?;
        answered.await.ok()
    }

    /// Returns only if the supervisor fails: what is durable is safe, and the next start goes on.
    pub async fn failed(&mut self) {
        if let Err(error) = (&mut self.supervising).await {
            tracing::error!(%error, "the supervisor's task failed");
        }
    }

    /// Stops: no new starts, workers end when what they sent is on disk, their jobs go on at the next start. Answers with
    /// the sinks of alerts whose last message did not arrive.
    pub async fn drain(self) -> Untold {
        self.listening.abort();
        self.reaping.abort();
        let (answer, answered) = oneshot::channel();
        if self.supervisor.cast(Msg::Drain { answer }).is_ok() && answered.await.is_err() {
            tracing::error!("the supervisor ended before its workers had been stopped");
        }
        let (answer, closed) = oneshot::channel();
        let reply = Reply::new(move |result| drop(answer.send(result)));
        let asked = self.store.cast(StoreMessage::Close { reply });
        if asked.is_err() || !matches!(closed.await, Ok(Ok(()))) {
            tracing::error!("the store had ended before it was closed");
        }
        let untold = self.notifier.finish().await;
        self.supervisor.stop(None);
        if let Err(error) = self.supervising.await {
            tracing::error!(%error, "the supervisor's task failed");
        }
        untold
    }
}
