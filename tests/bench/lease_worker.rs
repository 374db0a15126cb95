//! A worker that only leases: this program in the place of `ukai-worker`, on the real link of a real server.
//!
//! Its job's prompt says what it is: one that measures asks again as soon as it was granted; the others ask once a
//! second, as jobs with a model's latency do, so that the server is as busy as with so many of them.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ukai_protocol::connection::{self, Reader, Writer};
use ukai_protocol::frame::Role;
use ukai_protocol::lease::{Answer, AnswerClass, Ask, Report};
use ukai_protocol::message::Usage;
use ukai_protocol::secret::Secret;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker, Welcome};

/// The argument by which this program is that worker.
pub const MODE: &str = "lease-worker";
/// Prompts.
pub const ASKS_SLOWLY: &str = "asks once a second";
pub const ASKS_FAST: &str = "asks as fast as it is answered";
/// In the working folder: the nanoseconds of each round trip, one a line.
pub const TIMES: &str = "round-trips";
/// In the working folder: one file for each that was welcomed.
pub const WELCOMED: &str = "welcomed";
/// Round trips of one measurement.
pub const ROUND_TRIPS: u64 = 2_000;

const SLOWLY: Duration = Duration::from_secs(1);
/// An answer that takes longer is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// `job --socket PATH --id ID --attempt N`, as the server says it.
pub fn main(args: &[String]) -> ExitCode {
    let after = |flag: &str| args.iter().skip_while(|arg| *arg != flag).nth(1).expect("the server's arguments");
    let mut token = String::new();
    std::io::stdin().read_to_string(&mut token).expect("a token");
    let hello = Hello {
        job: after("--id").parse().expect("an id"),
        attempt: after("--attempt").parse().expect("a number"),
        token: Secret::new(token.trim().to_owned()),
        pid: std::process::id(),
        reconnect: false,
    };
    let socket = PathBuf::from(after("--socket"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (reader, writer) = connection::connect(&socket, Role::Worker).await.expect("the server listens");
        work(Link { reader, writer, call: 0 }, hello).await;
    });
    ExitCode::SUCCESS
}

struct Link {
    reader: Reader,
    writer: Writer,
    call: u64,
}

/// Until the server has had enough of it.
async fn work(mut link: Link, hello: Hello) {
    link.send(&ToSupervisor::Heartbeat { progress: 0 }, Some(hello)).await;
    let welcome = link.welcomed().await;
    let mark = welcome.spec.workdir.join(WELCOMED);
    std::fs::create_dir_all(&mark).expect("a folder");
    std::fs::write(mark.join(welcome.job.as_str()), "").expect("a mark");
    if welcome.spec.prompt == ASKS_FAST {
        let mut times = String::new();
        for _ in 0..ROUND_TRIPS {
            let Some(time) = link.round_trip().await else { return };
            times.push_str(&format!("{}\n", time.as_nanos()));
        }
        ukai_protocol::disk::write_atomic(&welcome.spec.workdir.join(TIMES), times.as_bytes()).expect("its times");
    }
    while link.round_trip().await.is_some() {
        tokio::time::sleep(SLOWLY).await;
    }
}

impl Link {
    async fn send(&mut self, message: &ToSupervisor, hello: Option<Hello>) {
        if let Some(hello) = hello {
            self.writer.send(&hello).await.expect("hello is sent");
        }
        self.writer.send(message).await.expect("a message is sent");
    }

    async fn welcomed(&mut self) -> Welcome {
        let Some(ToWorker::Welcome(welcome)) = self.next().await else { panic!("it is not welcome") };
        let mut left = welcome.state_bytes;
        while left > 0 {
            let Some(ToWorker::State { chunk }) = self.next().await else { panic!("the state was not sent whole") };
            left -= chunk.len() as u64;
        }
        *welcome
    }

    /// `None`: the server ends it.
    async fn round_trip(&mut self) -> Option<Duration> {
        self.call += 1;
        let (call, begun) = (self.call, Instant::now());
        let ask = Ask { call, attempt: 0, tools: true, window: 1_000, max_output: 0, priority: 5 };
        self.writer.send(&ToSupervisor::Ask(ask)).await.ok()?;
        let grant = loop {
            match self.next().await? {
                ToWorker::Answer { answer: Answer::Grant(grant), .. } => break grant,
                ToWorker::Answer { answer: Answer::Wait { .. }, .. } => {}
                _ => return None,
            }
        };
        let time = begun.elapsed();
        let report = Report {
            lease: grant.lease,
            generation: grant.generation,
            class: AnswerClass::Success,
            usage: Some(Usage { input: 100, output: 10, ..Usage::default() }),
            ..Report::default()
        };
        self.writer.send(&ToSupervisor::Report(report)).await.ok()?;
        Some(time)
    }

    async fn next(&mut self) -> Option<ToWorker> {
        let read = tokio::time::timeout(ANSWER_WITHIN, self.reader.next()).await.expect("the server answers");
        // A broken link is an ended one.
        read.ok().flatten()
    }
}
