//! The real thing: `ukai serve` in a home of its own, its workers, the scripted provider, and jobs sent by its socket.
//!
//! The end of a job is seen in its log, where it is durable, and not by asking or listening: both would be work for the
//! server that is measured.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::runtime::Runtime;
use ukai_protocol::connection::{self, Reader, Writer};
use ukai_protocol::control::{NewJob, Request, Response, SUBMIT_JOBS_MAX, Selection};
use ukai_protocol::frame::Role;
use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;
use ukai_tests::home::{Home, Server};
use ukai_tests::script::Script;

use crate::lab::{self, Job};
use crate::patience::{self, PATIENCE};
use crate::procfs::{self, Cpu};

/// Between two looks at a log: 0.3 ms in a job of 40 are below what its spread is.
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// A server that drains kills what does not end long before this.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A server with its provider; ended with all its workers when dropped.
pub struct Fleet {
    server: Server,
    pub script: Option<Script>,
    socket: PathBuf,
    runtime: Runtime,
    pub home: Home,
}

/// A job that has run to its end.
pub struct Ran {
    /// From the request to its last record on the disk.
    pub wall: Duration,
    pub id: JobId,
}

impl Fleet {
    /// With the scripted provider and a folder for its tools.
    #[must_use]
    pub fn new(max_workers: usize, tree_files: usize) -> Fleet {
        let home = Home::new();
        let script = Script::serve(home.path(), &lab::script());
        lab::furnish(&home, tree_files);
        let url = script.url.clone();
        Fleet::in_home(home, Some(script), &url, max_workers)
    }

    /// With whatever answers at `url`.
    #[must_use]
    pub fn in_home(home: Home, script: Option<Script>, url: &str, max_workers: usize) -> Fleet {
        home.configure(&lab::configuration(url, max_workers));
        let server = home.serve();
        let mut sockets = fs::read_dir(home.path().join("run/ukai")).expect("the folder of its socket").flatten();
        let socket = sockets.next().expect("its socket").path();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Fleet { server, script, socket, runtime, home }
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.script.as_ref().expect("a script").url
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// The server's own time, and that of the workers that it has seen off.
    #[must_use]
    pub fn cpu(&self) -> Cpu {
        Cpu::of(self.pid())
    }

    /// One job, from its submission to its end.
    #[must_use]
    pub fn run(&self, job: Job) -> Ran {
        let mut door = self.door();
        let begun = Instant::now();
        let id = self.submit_by(&mut door, vec![lab::spec(&self.home.work(), job)]).remove(0);
        self.until_finished(std::slice::from_ref(&id), LOOK_EVERY);
        Ran { wall: begun.elapsed(), id }
    }

    /// So many at once: how long until the last has ended.
    #[must_use]
    pub fn crowd(&self, job: Job, count: usize) -> Duration {
        let mut door = self.door();
        let begun = Instant::now();
        let ids = self.submit_by(&mut door, vec![lab::spec(&self.home.work(), job); count]);
        self.until_finished(&ids, 10 * LOOK_EVERY);
        begun.elapsed()
    }

    pub fn submit(&self, specs: Vec<JobSpec>) -> Vec<JobId> {
        self.submit_by(&mut self.door(), specs)
    }

    /// A connection for the next request.
    #[must_use]
    pub fn door(&self) -> Door {
        let connected =
            patience::within("the server to open", PATIENCE, connection::connect(&self.socket, Role::Client));
        let (reader, writer) = self.runtime.block_on(connected).expect("a connection to the server");
        Door { reader, writer }
    }

    /// In parts, as a long list is sent.
    pub fn submit_by(&self, door: &mut Door, specs: Vec<JobSpec>) -> Vec<JobId> {
        let mut left = specs.into_iter().map(|spec| NewJob { spec, line: None }).peekable();
        loop {
            let jobs = left.by_ref().take(SUBMIT_JOBS_MAX).collect();
            let more = left.peek().is_some();
            match self.ask(door, &Request::Submit { jobs, batch: None, more }) {
                Response::Taken if more => {}
                Response::Submitted { ids, .. } => return ids,
                other => panic!("the server answered a submission with {other:?}"),
            }
        }
    }

    /// Ends all jobs and waits for their processes.
    pub fn cancel_all(&self) {
        match self.ask(&mut self.door(), &Request::Cancel { jobs: Selection::All }) {
            Response::Cancelled { .. } => self.until_reaped(),
            other => panic!("the server answered a cancel with {other:?}"),
        }
    }

    fn ask(&self, door: &mut Door, request: &Request) -> Response {
        let asked = async {
            door.writer.send(request).await.expect("the request is sent");
            door.reader.next().await.expect("an answer").expect("an answer before the end")
        };
        self.runtime.block_on(patience::within("an answer of the server", PATIENCE, asked))
    }

    /// Until no worker is left: what they used is counted with the server's children from then on.
    pub fn until_reaped(&self) {
        patience::until("the workers to end", PATIENCE, Duration::from_millis(2), || {
            procfs::workers(self.pid()).is_empty().then_some(())
        });
    }

    /// The workers, when there are as many as that.
    pub fn until_workers(&self, count: usize, at_most: Duration) -> Vec<u32> {
        patience::until(&format!("{count} workers"), at_most, Duration::from_millis(50), || {
            let workers = procfs::workers(self.pid());
            (workers.len() == count).then_some(workers)
        })
    }

    /// The records of a job's log.
    #[must_use]
    pub fn events(&self, id: &JobId) -> Vec<Value> {
        self.home.events(id.as_str())
    }

    fn until_finished(&self, ids: &[JobId], every: Duration) {
        let runs = self.home.state_dir().join("runs");
        let mut open: HashMap<&JobId, (PathBuf, u64)> =
            ids.iter().map(|id| (id, (runs.join(id.as_str()).join("events.jsonl"), 0))).collect();
        patience::until("the jobs to end", 10 * PATIENCE, every, || {
            open.retain(|id, (log, seen)| !has_finished(id, log, seen));
            open.is_empty().then_some(())
        });
    }
}

/// One connection to the server.
pub struct Door {
    reader: Reader,
    writer: Writer,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // What fails here is that it has gone already.
        let _ = kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM);
        let begun = Instant::now();
        while self.server.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > END_WITHIN {
                let _ = self.server.child.kill();
                let _ = self.server.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that was just being started may have missed the end of its server, and would look for the next one.
        for worker in self.home.processes() {
            let _ = kill(Pid::from_raw(worker.cast_signed()), Signal::SIGKILL);
        }
    }
}

/// Reads what the log has grown by. A job that did not complete has measured nothing.
fn has_finished(id: &JobId, log: &Path, seen: &mut u64) -> bool {
    let Ok(length) = fs::metadata(log).map(|log| log.len()) else { return false };
    if length == *seen {
        return false;
    }
    let mut file = File::open(log).expect("the log of a job");
    file.seek(SeekFrom::Start(*seen)).expect("its end");
    let mut grown = Vec::new();
    file.take(length - *seen).read_to_end(&mut grown).expect("its end");
    // What is written of a line may be but its beginning.
    let whole = grown.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    *seen += whole as u64;
    let grown = String::from_utf8_lossy(&grown[..whole]);
    let Some(last) = grown.lines().find(|line| line.contains("\"event\":\"Finished\"")) else { return false };
    assert!(last.contains("\"outcome\":{\"completed\""), "{id} did not complete: {last}");
    true
}
